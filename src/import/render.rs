//! What was found, as a file of TOML.

use std::fmt::Write as _;

use super::conversion::Outcome;
use super::sources::Sources;
use super::values::Value;

/// How long lines of comments get.
const WIDTH: usize = 98;

/// Berth's configuration file.
pub(super) fn toml(sources: &Sources, outcome: &Outcome) -> String {
    let mut text = String::new();
    let files: Vec<&str> = sources.files.iter().map(|(name, _)| name.as_str()).collect();
    comment(&mut text, &format!("Made by `berth config import` of: {}", files.join(", ")));
    comment(&mut text, "It holds secrets: let only Berth's user read it.");
    text.push_str("#\n");
    comment(
        &mut text,
        "Where to listen does not stand in placement.conf: it is the web server's business there. \
         Unless it is said here, Berth listens on:",
    );
    text.push_str("# listen = \"127.0.0.1:8778\"\n");
    for carried in &outcome.carried {
        text.push('\n');
        comment(&mut text, &carried.origin);
        let _ = writeln!(text, "{} = {}", carried.key, literal(&carried.value));
    }
    if !outcome.remarks.is_empty() {
        text.push('\n');
        comment(&mut text, "To look at:");
        for remark in &outcome.remarks {
            text.push_str("#\n");
            comment(&mut text, &remark.sentence());
        }
    }
    text
}

/// A value as `berth serve` reads it: lists have commas.
fn literal(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Boolean(yes) => yes.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::List(items) => quoted(&items.join(",")),
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Words behind `# `. Anything but printable characters of names becomes a question mark, so that
/// no name can end the comment.
fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH && line.len() > 1 {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.extend(word.chars().map(|c| if c.is_control() { '?' } else { c }));
    }
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_as_they_were() {
        for text in ["", "a\"b\\c", "line\nline\ttab", "\u{7f}\u{0}\u{85}é$", "'"] {
            let table: toml::Table = format!("k = {}", quoted(text)).parse().unwrap();
            assert_eq!(table["k"].as_str(), Some(text));
        }
    }

    #[test]
    fn comments_stay_comments() {
        let mut text = String::new();
        comment(&mut text, &format!("a\nauth = 1\u{7} {}", "word ".repeat(40)));
        assert!(text.lines().all(|line| line.starts_with("# ") && line.len() <= WIDTH), "{text}");
        assert!(text.parse::<toml::Table>().unwrap().is_empty());
    }
}
