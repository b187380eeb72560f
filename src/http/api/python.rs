//! Values in Python's notation, as the texts of errors show them.

use serde_json::{Number, Value};

/// Maximum length of a value in a text, in bytes. A client may have sent a megabyte.
const SHOWN_MAX: usize = 16 * 1024;
/// Maximum length of a character, in bytes.
const CHARACTER_MAX: usize = 4;

/// A text of limited length. Three dots replace what is cut.
#[derive(Debug, Default)]
pub(in crate::http) struct Shown {
    text: String,
    is_cut: bool,
}

impl Shown {
    /// Returns whether the text was cut. Nothing more can be added then.
    pub(in crate::http) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the text, with the dots if it was cut.
    pub(in crate::http) fn into_text(mut self) -> String {
        if self.is_cut {
            self.text.push_str("...");
        }
        self.text
    }

    /// Adds as much of a text as fits.
    pub(in crate::http) fn push(&mut self, text: &str) {
        if self.is_cut {
            return;
        }
        let room = SHOWN_MAX.saturating_sub(self.text.len());
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::repr;

    #[test]
    fn a_value_on_one_line() {
        for (value, expected) in [
            (json!(null), "None"),
            (json!(true), "True"),
            (json!(-5), "-5"),
            (json!(1.0), "1.0"),
            (json!(0.1), "0.1"),
            (json!(1e15), "1000000000000000.0"),
            (json!(1e16), "1e+16"),
            (json!(1.234_567_890_123_456_8e17), "1.2345678901234568e+17"),
            (json!(0.0001), "0.0001"),
            (json!(0.00001), "1e-05"),
            (json!(1.5e-7), "1.5e-07"),
            (json!(9_223_372_036_854_775_808_u64), "9223372036854775808"),
            (json!("a"), "'a'"),
            (json!("it's"), "\"it's\""),
            (json!("it's \"x\""), "'it\\'s \"x\"'"),
            (
                json!("a\\b\n\t\u{1}\u{7f}\u{a0}\u{2028}\u{e0001}é😀"),
                "'a\\\\b\\n\\t\\x01\\x7f\\xa0\\u2028\\U000e0001é😀'",
            ),
            (json!({"a": [1, {"b": null}], "c": {}}), "{'a': [1, {'b': None}], 'c': {}}"),
        ] {
            assert_eq!(repr(&value), expected);
        }
    }
}
