//! Values in Python's notation, one line or laid out in lines, as the texts of errors show them.

use serde_json::{Number, Value};

/// The width that laid out values keep to, where they can.
const WIDTH: usize = 72;
/// How much of a value is shown, in bytes. What a client sent may be a megabyte, and laid out in
/// lines it may be that much for each of its items.
const SHOWN_MAX: usize = 16 * 1024;
/// The bytes of a character at the most.
const CHARACTER_MAX: usize = 4;

/// A text that ends at a bound, and then says so.
#[derive(Debug)]
pub(in crate::http) struct Shown {
    text: String,
    most: usize,
    is_cut: bool,
}

impl Default for Shown {
    fn default() -> Self {
        Self::up_to(SHOWN_MAX)
    }
}

impl Shown {
    fn up_to(most: usize) -> Self {
        Self { text: String::new(), most, is_cut: false }
    }

    /// Whether there was more than it may hold. Nothing more can be added then.
    pub(in crate::http) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What it came to.
    pub(in crate::http) fn into_text(mut self) -> String {
        if self.is_cut {
            self.text.push_str("...");
        }
        self.text
    }

    /// Adds what is left room for.
    pub(in crate::http) fn push(&mut self, text: &str) {
        if self.is_cut {
            return;
        }
        let room = self.most.saturating_sub(self.text.len());
        self.is_cut = text.len() > room;
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
    }

    /// Adds a text in quotes: single ones, unless it has such and no double ones.
    pub(in crate::http) fn push_text(&mut self, text: &str) {
        let quote = if text.contains('\'') && !text.contains('"') { "\"" } else { "'" };
        self.push(quote);
        for character in text.chars() {
            if self.is_cut {
                return;
            }
            match character {
                '\n' => self.push("\\n"),
                '\r' => self.push("\\r"),
                '\t' => self.push("\\t"),
                '\\' => self.push("\\\\"),
                same if quote.starts_with(same) => {
                    self.push("\\");
                    self.push(quote);
                }
                printable if is_printable(printable) => {
                    self.push(printable.encode_utf8(&mut [0; CHARACTER_MAX]));
                }
                other => self.push(&escaped(other)),
            }
        }
        self.push(quote);
    }

    /// Adds a value on one line.
    fn push_value(&mut self, value: &Value) {
        match value {
            Value::Null => self.push("None"),
            Value::Bool(true) => self.push("True"),
            Value::Bool(false) => self.push("False"),
            Value::Number(number) => self.push(&number_repr(number)),
            Value::String(text) => self.push_text(text),
            Value::Array(items) => {
                self.push("[");
                self.push_joined(items, Self::push_value);
                self.push("]");
            }
            Value::Object(members) => {
                self.push("{");
                self.push_joined(members, |to, (key, value)| {
                    to.push_text(key);
                    to.push(": ");
                    to.push_value(value);
                });
                self.push("}");
            }
        }
    }

    fn push_joined<T>(&mut self, items: impl IntoIterator<Item = T>, push: fn(&mut Self, T)) {
        for (number, item) in items.into_iter().enumerate() {
            if self.is_cut {
                return;
            }
            if number > 0 {
                self.push(", ");
            }
            push(self, item);
        }
    }
}

/// A value on one line.
pub(in crate::http) fn repr(value: &Value) -> String {
    let mut shown = Shown::default();
    shown.push_value(value);
    shown.into_text()
}

/// A text in quotes.
pub(in crate::http) fn text_repr(text: &str) -> String {
    let mut shown = Shown::default();
    shown.push_text(text);
    shown.into_text()
}

/// A value in lines no wider than [`WIDTH`], where it can be broken.
pub(in crate::http) fn pretty(value: &Value) -> String {
    let mut page = Page(Shown::default());
    page.write(value, Place { indent: 0, allowance: 0, level: 0 });
    page.0.into_text()
}

/// The value on one line, if it fits into so many columns.
fn on_a_line(value: &Value, columns: usize) -> Option<String> {
    let mut line = Shown::up_to(columns * CHARACTER_MAX);
    line.push_value(value);
    (!line.is_cut && width(&line.text) <= columns).then_some(line.text)
}

fn number_repr(number: &Number) -> String {
    let Some(value) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    let scientific = format!("{value:e}");
    let Some((digits, Ok(exponent))) =
        scientific.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>()))
    else {
        // Neither infinity nor what is no number comes in JSON.
        return scientific;
    };
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

fn escaped(character: char) -> String {
    let code = u32::from(character);
    match code {
        0..=0xff => format!("\\x{code:02x}"),
        0x100..=0xffff => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    }
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
struct Page(Shown);

impl Page {
    fn write(&mut self, value: &Value, place: Place) {
        let room = WIDTH.saturating_sub(place.indent + place.allowance);
        if let Some(line) = on_a_line(value, room) {
            return self.0.push(&line);
        }
        let inside = Place { allowance: place.allowance + 1, level: place.level + 1, ..place };
        match value {
            Value::Array(items) => {
                self.0.push("[");
                self.write_items(items.iter().map(|item| (String::new(), item)), inside);
                self.0.push("]");
            }
            Value::Object(members) => {
                self.0.push("{");
                let members = members.iter();
                self.write_items(
                    members.map(|(key, value)| (text_repr(key) + ": ", value)),
                    inside,
                );
                self.0.push("}");
            }
            Value::String(text) => self.write_text(text, place),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.0.push(&repr(value)),
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
            if self.0.is_cut() {
                return;
            }
            if number > 0 {
                self.break_line(",\n", indent);
            }
            self.0.push(&lead);
            let allowance = if number == last { place.allowance } else { 1 };
            self.write(value, Place { indent: indent + width(&lead), allowance, ..place });
        }
    }

    /// A text in several quoted pieces, broken after line ends and blanks.
    fn write_text(&mut self, text: &str, place: Place) {
        // What is longer is cut in any case.
        let text = &text[..text.floor_char_boundary(SHOWN_MAX + CHARACTER_MAX)];
        let outermost = usize::from(place.level == 0);
        let indent = place.indent + outermost;
        let room = WIDTH.saturating_sub(indent);
        let pieces = pieces(text, room, room.saturating_sub(place.allowance + outermost));
        match &pieces[..] {
            [] => return self.0.push(&text_repr(text)),
            [whole] => return self.0.push(whole),
            _ => {}
        }
        if outermost == 1 {
            self.0.push("(");
        }
        for (number, piece) in pieces.iter().enumerate() {
            if number > 0 {
                self.break_line("\n", indent);
            }
            self.0.push(piece);
        }
        if outermost == 1 {
            self.0.push(")");
        }
    }

    fn break_line(&mut self, end: &str, indent: usize) {
        self.0.push(end);
        self.0.push(&" ".repeat(indent.min(SHOWN_MAX)));
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
