//! Which characters may be shown as they are. A name that a client chose can have characters that no one sees but that
//! do something to a terminal, a log or its reader: they end a line, move the cursor, or change the direction of
//! writing. Whatever Berth writes for people or for files has them escaped; the answers of the APIs have not.

use std::borrow::Cow;
use std::fmt::{self, Write};

use serde::Serialize;

/// What begins a colour of ours, and what it consists of up to its last letter.
const COLOUR: &str = "\u{1b}[";
const COLOUR_END: char = 'm';

/// Returns whether a character does something instead of being shown: controls, ends of lines and paragraphs, marks of
/// the direction of writing, and other formatting that cannot be seen.
pub fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Returns whether a text has none but printable characters of ASCII: nearly every one, and quickly seen, because no
/// character is looked at apart from the others.
pub fn is_plain(text: &str) -> bool {
    text.bytes().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'))
}

/// A text on one line: `\n` for the end of a line, `\u{9b}`, and so on.
pub fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    // Writing to a string cannot fail.
    let _infallible = write_escaped(&mut plain, text);
    plain
}

/// Writes a text on one line, as [`escaped`] has it.
pub fn write_escaped(writer: &mut impl Write, text: &str) -> fmt::Result {
    if is_plain(text) {
        return writer.write_str(text);
    }
    for character in text.chars() {
        if acts(character) {
            write!(writer, "{}", character.escape_default())?;
        } else {
            writer.write_char(character)?;
        }
    }
    Ok(())
}

/// JSON of the same value without characters that act, except for ends of lines between values. JSON has such
/// characters within texts only, where an escape means the same.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    replaced(json, |character, _| character != '\n' && acts(character))
}

/// What a command prints, without characters that act, except for ends of lines, tabs, and the colours that the command
/// chose. Names in it have been escaped before, where it is known how; nothing that was forgotten gets to a terminal.
pub fn output(text: &str) -> Cow<'_, str> {
    replaced(text, |character, rest| match character {
        '\n' | '\t' => false,
        '\u{1b}' => !is_colour(rest),
        other => acts(other),
    })
}

/// A value as indented JSON without characters that act.
pub fn json(value: &impl Serialize) -> String {
    // Reports are of texts and finite numbers, which always have a form in JSON.
    let json = serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string());
    escaped_json(&json).into_owned()
}

/// Returns whether a text begins with the sequence of a colour.
fn is_colour(text: &str) -> bool {
    text.strip_prefix(COLOUR).is_some_and(|rest| {
        let is_number = |it: char| it.is_ascii_digit() || it == ';';
        rest.trim_start_matches(is_number).starts_with(COLOUR_END)
    })
}

/// A text with `\u001b` and the like in the place of some characters. `is_replaced` is asked with a character and the
/// text from there on.
fn replaced(text: &str, is_replaced: impl Fn(char, &str) -> bool) -> Cow<'_, str> {
    // Each character, and the text from there on.
    let mut ahead = text.chars();
    let each = std::iter::from_fn(move || {
        let rest = ahead.as_str();
        ahead.next().map(|character| (character, rest))
    });
    if is_plain(text) || !each.clone().any(|(character, rest)| is_replaced(character, rest)) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for (character, rest) in each {
        if is_replaced(character, rest) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _infallible = write!(plain, "\\u{unit:04x}");
            }
        } else {
            plain.push(character);
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::{acts, escaped, escaped_json, is_plain, json, output};

    /// One of each kind of character that acts.
    const EVIL: &str = "\u{1b}]0;x\u{7}\r\n\t\0\u{7f}\u{85}\u{9b}31m\u{ad}\u{61c}\u{180e}\u{200b}\u{200d}\u{200f}\
                        \u{2028}\u{2029}\u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}\u{fff9}\u{e0001}\u{e0041}";

    #[test]
    fn what_acts_is_not_plain() {
        assert!(is_plain("PUT /allocations 204 ~") && is_plain(""));
        for character in ('\0'..=char::MAX).filter(|it| acts(*it)) {
            assert!(!is_plain(&format!("a{character}b")), "{character:?}");
        }
        for character in " ~éßſ\u{301}日अ👍🏽\u{fe0f}\u{a0}".chars() {
            assert!(!acts(character), "{character:?}");
        }
    }

    #[test]
    fn an_escaped_text_is_one_line_that_does_nothing() {
        assert!(EVIL.chars().filter(|it| !acts(*it)).eq("]0;x31m".chars()));
        assert!(!escaped(EVIL).contains(acts));
        assert_eq!(escaped("a\n\u{9b}\u{202e}é"), r"a\n\u{9b}\u{202e}é");
    }

    #[test]
    fn json_means_the_same_when_it_is_escaped() {
        let value = serde_json::json!({ EVIL: [EVIL, "é"] });
        for text in [value.to_string(), json(&value)] {
            let text = escaped_json(&text);
            assert!(!text.contains(|it| acts(it) && it != '\n'), "{text:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        }
        assert!(escaped_json("\"\u{e0041}\u{9b}\"") == "\"\\udb40\\udc41\\u009b\"");
    }

    #[test]
    fn commands_print_lines_and_colours_and_nothing_else_that_acts() {
        let coloured = "\u{1b}[1;31mred\u{1b}[0m\tand\nmore\u{1b}[m";
        assert_eq!(output(coloured), coloured);
        for (text, printed) in [
            ("\u{1b}[2J", "\\u001b[2J"),
            ("\u{1b}[31", "\\u001b[31"),
            ("\u{1b}]0;x\u{7}", "\\u001b]0;x\\u0007"),
            ("a\rb\u{9b}m\u{202e}", "a\\u000db\\u009bm\\u202e"),
        ] {
            assert_eq!(output(text), printed);
        }
    }
}
