//! Values in Python's notation, one line or laid out in lines, as the texts of errors show them.

use std::fmt::Write;

use serde_json::{Number, Value};

/// The width that laid out values keep to, where they can.
const WIDTH: usize = 72;

/// A value on one line.
pub(super) fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number_repr(number),
        Value::String(text) => text_repr(text),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(repr))),
        Value::Object(members) => {
            let member =
                |(key, value): (&String, &Value)| format!("{}: {}", text_repr(key), repr(value));
            format!("{{{}}}", joined(members.iter().map(member)))
        }
    }
}

/// A text in quotes: single ones, unless it has such and no double ones.
pub(super) fn text_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut repr = String::with_capacity(text.len() + 2);
    repr.push(quote);
    for character in text.chars() {
        match character {
            '\n' => repr.push_str("\\n"),
            '\r' => repr.push_str("\\r"),
            '\t' => repr.push_str("\\t"),
            '\\' => repr.push_str("\\\\"),
            same if same == quote => repr.extend(['\\', same]),
            printable if is_printable(printable) => repr.push(printable),
            other => push_escaped(&mut repr, other),
        }
    }
    repr.push(quote);
    repr
}

/// A value in lines no wider than [`WIDTH`], where it can be broken.
pub(super) fn pretty(value: &Value) -> String {
    let mut page = Page(String::new());
    page.write(value, Place { indent: 0, allowance: 0, level: 0 });
    page.0
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

fn number_repr(number: &Number) -> String {
    if !number.is_f64() {
        return number.to_string();
    }
    let value = number.as_f64().unwrap_or_default();
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        let fixed = value.to_string();
        return if fixed.contains('.') { fixed } else { fixed + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn is_printable(character: char) -> bool {
    let hidden = matches!(
        character,
        '\u{a0}' | '\u{ad}' | '\u{1680}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
            | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}'
            | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{10ffff}'
    );
    !character.is_control() && !hidden
}

fn push_escaped(repr: &mut String, character: char) {
    let code = u32::from(character);
    // Writing to a string cannot fail.
    let _ = match code {
        0..=0xff => write!(repr, "\\x{code:02x}"),
        0x100..=0xffff => write!(repr, "\\u{code:04x}"),
        _ => write!(repr, "\\U{code:08x}"),
    };
}

/// Where on the page a value stands.
#[derive(Clone, Copy)]
struct Place {
    /// The column it begins in.
    indent: usize,
    /// Columns to leave free after its last line for what closes around it.
    allowance: usize,
    /// How deep it stands in others.
    level: usize,
}

/// A value being laid out.
struct Page(String);

impl Page {
    fn write(&mut self, value: &Value, place: Place) {
        let line = repr(value);
        if width(&line) <= WIDTH.saturating_sub(place.indent + place.allowance) {
            return self.0.push_str(&line);
        }
        let inside = Place { allowance: place.allowance + 1, level: place.level + 1, ..place };
        match value {
            Value::Array(items) => {
                self.0.push('[');
                self.write_items(items.iter().map(|item| (String::new(), item)), inside);
                self.0.push(']');
            }
            Value::Object(members) => {
                self.0.push('{');
                let members = members.iter();
                self.write_items(
                    members.map(|(key, value)| (text_repr(key) + ": ", value)),
                    inside,
                );
                self.0.push('}');
            }
            Value::String(text) => self.write_text(text, place),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.0.push_str(&line),
        }
    }

    /// Items, each with what is written before it, one below the other.
    fn write_items<'a>(
        &mut self,
        items: impl ExactSizeIterator<Item = (String, &'a Value)>,
        place: Place,
    ) {
        let indent = place.indent + 1;
        let last = items.len().saturating_sub(1);
        for (number, (lead, value)) in items.enumerate() {
            if number > 0 {
                self.break_line(",\n", indent);
            }
            self.0.push_str(&lead);
            let allowance = if number == last { place.allowance } else { 1 };
            self.write(value, Place { indent: indent + width(&lead), allowance, ..place });
        }
    }

    /// A text in several quoted pieces, broken after line ends and blanks.
    fn write_text(&mut self, text: &str, place: Place) {
        let outermost = usize::from(place.level == 0);
        let indent = place.indent + outermost;
        let room = WIDTH.saturating_sub(indent);
        let pieces = pieces(text, room, room.saturating_sub(place.allowance + outermost));
        if let [whole] = &pieces[..] {
            return self.0.push_str(whole);
        }
        if outermost == 1 {
            self.0.push('(');
        }
        for (number, piece) in pieces.iter().enumerate() {
            if number > 0 {
                self.break_line("\n", indent);
            }
            self.0.push_str(piece);
        }
        if outermost == 1 {
            self.0.push(')');
        }
    }

    fn break_line(&mut self, end: &str, indent: usize) {
        self.0.push_str(end);
        self.0.extend(std::iter::repeat_n(' ', indent));
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// A text in quoted pieces that fit into `room`, the last into `last_room`, where blanks allow.
fn pieces(text: &str, room: usize, last_room: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut lines = lines(text).into_iter().peekable();
    while let Some(line) = lines.next() {
        let is_last_line = lines.peek().is_none();
        let quoted = text_repr(line);
        if width(&quoted) <= if is_last_line { last_room } else { room } {
            pieces.push(quoted);
            continue;
        }
        let mut current = String::new();
        let mut words = words(line).into_iter().peekable();
        while let Some(word) = words.next() {
            let at_the_end = is_last_line && words.peek().is_none();
            let candidate = format!("{current}{word}");
            if width(&text_repr(&candidate)) <= if at_the_end { last_room } else { room } {
                current = candidate;
                continue;
            }
            if !current.is_empty() {
                pieces.push(text_repr(&current));
            }
            word.clone_into(&mut current);
        }
        if !current.is_empty() {
            pieces.push(text_repr(&current));
        }
    }
    pieces
}

/// The lines of a text with their ends.
fn lines(text: &str) -> Vec<&str> {
    let ends = [
        '\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}',
        '\u{2029}',
    ];
    let mut lines: Vec<&str> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(ends).map_or(rest.len(), |at| match rest[at..].strip_prefix("\r\n") {
            Some(_) => at + 2,
            None => at + rest[at..].chars().next().map_or(0, char::len_utf8),
        });
        let (line, after) = rest.split_at(end);
        lines.push(line);
        rest = after;
    }
    lines
}

/// The words of a line with the blanks that follow them.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (_, from_blank) = rest.split_at(word);
        let blank = from_blank.find(|it: char| !it.is_whitespace()).unwrap_or(from_blank.len());
        let (word, after) = rest.split_at(word + blank);
        words.push(word);
        rest = after;
    }
    words
}

#[cfg(test)]
mod tests;
