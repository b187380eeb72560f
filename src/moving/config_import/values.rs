//! Texts as typed values, read as oslo.config reads them.

use std::fmt::Write as _;

use super::ini::strip;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// One of these.
    Choice(&'static [&'static str]),
    /// true, on, yes, 1 or false, off, no, 0.
    Boolean,
    /// An integer.
    Integer,
    /// Texts, separated by commas.
    List,
    /// A list with a text for each time the option is set.
    Many,
}

/// A value that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Boolean(bool),
    Integer(i64),
    List(Vec<String>),
}

impl Value {
    /// The value as items of a list.
    pub(super) fn in_list(self) -> Vec<String> {
        match self {
            Self::List(items) => items,
            Self::Text(_) | Self::Boolean(_) | Self::Integer(_) => vec![self.in_python()],
        }
    }

    /// The value as Python formats it into a text that refers to it.
    pub(super) fn in_python(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Boolean(true) => "True".to_owned(),
            Self::Boolean(false) => "False".to_owned(),
            Self::Integer(number) => number.to_string(),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }
}

fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' | '\n' | '\r' | '\t' => quoted.extend(c.escape_default()),
            c if c == quote => quoted.extend(['\\', c]),
            c if c != ' ' && (c.is_control() || c.is_whitespace()) => {
                let code = u32::from(c);
                let (letter, width) = if code < 0x100 { ('x', 2) } else { ('u', 4) };
                let _ = write!(quoted, "\\{letter}{code:0width$x}");
            }
            c => quoted.push(c),
        }
    }
    quoted.push(quote);
    quoted
}

/// Parses a value. A number without digits counts as unset.
///
/// # Errors
/// A description of valid values, without the value, which may be a secret.
pub(super) fn read(kind: Kind, text: &str) -> Result<Option<Value>, String> {
    let value = match kind {
        Kind::Text => Value::Text(text.to_owned()),
        Kind::Choice(choices) if choices.contains(&text) => Value::Text(text.to_owned()),
        Kind::Choice(choices) => return Err(format!("must be one of {}", choices.join(", "))),
        Kind::Boolean => Value::Boolean(boolean(text).ok_or("must be true or false")?),
        Kind::Integer if strip(text).is_empty() => return Ok(None),
        Kind::Integer => Value::Integer(integer(text).ok_or("must be an integer")?),
        Kind::List => Value::List(list(text)),
        Kind::Many => Value::List(vec![text.to_owned()]),
    };
    Ok(Some(value))
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Some(true),
        "false" | "0" | "off" | "no" => Some(false),
        _ => None,
    }
}

/// A number as Python's `int` reads it, with single underscores between digits.
fn integer(text: &str) -> Option<i64> {
    let text = strip(text);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let grouped = digits
        .split('_')
        .all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()));
    if grouped { text.replace('_', "").parse().ok() } else { None }
}

fn list(text: &str) -> Vec<String> {
    let text = strip(text).trim_end_matches(',');
    if text.is_empty() {
        return Vec::new();
    }
    text.split(',').map(|item| strip(item).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_pythons() {
        let table = [
            ("5", Some(5)),
            (" +5 ", Some(5)),
            ("-1", Some(-1)),
            ("1_000", Some(1000)),
            ("007", Some(7)),
            ("1__0", None),
            ("_1", None),
            ("+-1", None),
            ("5.0", None),
            ("0x10", None),
            ("99999999999999999999", None),
        ];
        for (text, wanted) in table {
            assert_eq!(integer(text), wanted, "{text}");
        }
        assert_eq!(read(Kind::Integer, " ").unwrap(), None);
    }

    #[test]
    fn truth_has_four_names() {
        for text in ["True", "1", "ON", "yes"] {
            assert_eq!(boolean(text), Some(true), "{text}");
        }
        for text in ["FALSE", "0", "off", "No"] {
            assert_eq!(boolean(text), Some(false), "{text}");
        }
        for text in ["", "t", " true", "2"] {
            assert_eq!(boolean(text), None, "{text}");
        }
    }

    #[test]
    fn lists_are_split_at_commas() {
        assert_eq!(list("a,, b ,"), ["a", "", "b"]);
        assert_eq!(list("a,\nb"), ["a", "b"]);
        assert_eq!(list(" , a"), ["", "a"]);
        assert!(list(" ,, ").is_empty());
        let items = ["a", "it's", "\"'", "\\\u{a0}\n"].map(str::to_owned);
        let result = Value::List(items.to_vec()).in_python();
        assert_eq!(result, r#"['a', "it's", '"\'', '\\\xa0\n']"#);
    }
}
