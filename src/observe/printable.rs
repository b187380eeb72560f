//! Escapes characters that act instead of being shown. A name chosen by a client can contain invisible characters
//! that affect a terminal, a log or its reader: they end a line, move the cursor, or change the direction of
//! writing. Berth escapes them in everything that it writes for people or to files, but not in API responses.

use std::borrow::Cow;
use std::fmt::{self, Write};

use serde::Serialize;

/// Start of Berth's own colour sequences.
const COLOUR: &str = "\u{1b}[";
const COLOUR_END: char = 'm';

/// Returns whether a character acts instead of being shown: controls, ends of lines and paragraphs, marks of
/// the direction of writing, and other invisible formatting.
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

/// Returns whether a text has only printable characters of ASCII. Most texts do, and this check is fast because it
/// does not decode characters.
pub fn is_plain(text: &str) -> bool {
    text.bytes().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'))
}

/// Returns a text on one line: `\n` for the end of a line, `\u{9b}`, and so on.
pub fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    // Writing to a string cannot fail.
    let _infallible = write_escaped(&mut plain, text);
    plain
}

/// Writes a text on one line, as [`escaped`] does.
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

/// Returns JSON of the same value without characters that act, except for ends of lines between values. JSON has such
/// characters only within strings, where an escape means the same.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    replaced(json, |character, _| character != '\n' && acts(character))
}

/// Escapes the output of a command, except for ends of lines, tabs, and the command's own colours. Names in it have
/// been escaped before, where they are known to be names; this catches the rest.
pub fn output(text: &str) -> Cow<'_, str> {
    replaced(text, |character, rest| match character {
        '\n' | '\t' => false,
        '\u{1b}' => !is_colour(rest),
        other => acts(other),
    })
}

/// Formats a value as indented JSON without characters that act.
pub fn json(value: &impl Serialize) -> String {
    // Reports contain text and finite numbers, which JSON can always represent.
    let json = serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string());
    escaped_json(&json).into_owned()
}

/// Returns whether a text begins with a colour sequence.
fn is_colour(text: &str) -> bool {
    text.strip_prefix(COLOUR).is_some_and(|rest| {
        let is_number = |it: char| it.is_ascii_digit() || it == ';';
        rest.trim_start_matches(is_number).starts_with(COLOUR_END)
    })
}

/// Replaces some characters by `\u001b` and the like. `is_replaced` takes a character and the text that
/// starts with it.
fn replaced(text: &str, is_replaced: impl Fn(char, &str) -> bool) -> Cow<'_, str> {
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
    fn control_characters_are_not_plain() {
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
    fn commands_print_no_control_sequences_but_colours() {
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
