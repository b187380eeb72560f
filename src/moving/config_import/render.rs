//! The converted options as a TOML file.

use std::fmt::Write as _;

use super::conversion::Converted;
use super::diagnostic::Diagnostic;
use super::sources::Sources;
use super::values::Value;

/// The maximum width of comments.
const WIDTH: usize = 98;

/// Berth's configuration file.
pub(super) fn toml(
    sources: &Sources,
    converted: &[Converted],
    diagnostics: &[Diagnostic],
) -> String {
    let mut text = String::new();
    let files: Vec<&str> = sources.files.iter().map(|(name, _)| name.as_str()).collect();
    comment(&mut text, &format!("Converted by `berth config convert` from: {}", files.join(", ")));
    comment(&mut text, "Contains secrets: only Berth's user should be able to read this file.");
    text.push_str("#\n");
    comment(
        &mut text,
        "placement.conf does not contain the address to listen on, because it belongs to the web \
         server. By default, Berth listens on:",
    );
    text.push_str("# listen = \"127.0.0.1:8778\"\n");
    for Converted { key, value, origin } in converted {
        text.push('\n');
        comment(&mut text, origin);
        let _ = writeln!(text, "{key} = {}", literal(value));
    }
    if !diagnostics.is_empty() {
        text.push('\n');
        comment(&mut text, "Please check:");
        for diagnostic in diagnostics {
            text.push_str("#\n");
            comment(&mut text, &diagnostic.sentence());
        }
    }
    text
}

/// A value as `berth serve` reads it: a list is a text with commas.
fn literal(value: &Value) -> String {
    let value = match value {
        Value::Text(text) => toml::Value::from(text.as_str()),
        Value::Boolean(yes) => toml::Value::from(*yes),
        Value::Integer(number) => toml::Value::from(*number),
        Value::List(items) => toml::Value::from(items.join(",")),
    };
    value.to_string()
}

/// A comment, wrapped. Control characters become question marks, so that no file name can end the
/// comment.
fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH && line.len() > 1 {
            text.extend([&line, "\n"]);
            line = String::from("#");
        }
        line.push(' ');
        line.extend(word.chars().map(|c| if c.is_control() { '?' } else { c }));
    }
    text.extend([&line, "\n"]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_as_they_were() {
        for text in ["", "a\"b\\c", "line\nline\ttab", "\u{7f}\u{0}\u{85}é$", "'"] {
            let value = literal(&Value::Text(text.to_owned()));
            let table: toml::Table = format!("k = {value}").parse().unwrap();
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
