//! The parser of oslo.policy's language.
//!
//! Words are separated by white space; parentheses may be attached to words. `not` binds before
//! `and`, `and` before `or`. Text that oslo.policy cannot parse, and therefore treats as "never",
//! is an error here.

use super::check::{Check, Left, Piece, Template};

/// Maximum nesting of parentheses and `not`.
const DEPTH_MAX: usize = 100;

/// Parses an expression. An empty one is always true.
///
/// # Errors
/// The expression is malformed; the message says where.
pub(super) fn parse(text: &str) -> Result<Check, String> {
    if text.is_empty() {
        return Ok(Check::Always);
    }
    let mut words = Words { words: tokens(text)?, next: 0 };
    let check = words.any(0)?;
    match words.peek() {
        None => Ok(check),
        Some(word) => Err(format!("{word} is not expected here")),
    }
}

/// Parses the older form, a list of lists: one of the inner lists must pass, with all of its parts.
/// An empty list is always true.
///
/// # Errors
/// A part is malformed; the message says where.
pub(super) fn parse_list(list: &[Vec<String>]) -> Result<Check, String> {
    if list.is_empty() {
        return Ok(Check::Always);
    }
    let mut any = Vec::new();
    for parts in list.iter().filter(|parts| !parts.is_empty()) {
        let all = parts.iter().map(|part| leaf(part)).collect::<Result<Vec<_>, _>>()?;
        any.push(one_or(all, Check::All));
    }
    Ok(if any.is_empty() { Check::Never } else { one_or(any, Check::Any) })
}

fn one_or(mut checks: Vec<Check>, several: fn(Vec<Check>) -> Check) -> Check {
    match (checks.pop(), checks.is_empty()) {
        (Some(only), true) => only,
        (Some(last), false) => {
            checks.push(last);
            several(checks)
        }
        (None, _) => several(checks),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Open,
    Close,
    And,
    Or,
    Not,
    Leaf(Check),
}

impl std::fmt::Display for Word {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open => to.write_str("\"(\""),
            Self::Close => to.write_str("\")\""),
            Self::And => to.write_str("\"and\""),
            Self::Or => to.write_str("\"or\""),
            Self::Not => to.write_str("\"not\""),
            Self::Leaf(check) => write!(to, "\"{check}\""),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    for word in text.split(is_space).filter(|word| !word.is_empty()) {
        let inner = word.trim_start_matches('(');
        words.extend(std::iter::repeat_n(Word::Open, word.len() - inner.len()));
        let clean = inner.trim_end_matches(')');
        match clean.to_lowercase().as_str() {
            "" => {}
            "and" => words.push(Word::And),
            "or" => words.push(Word::Or),
            "not" => words.push(Word::Not),
            _ if is_quoted(inner) => {
                return Err(format!("{inner} is a text without anything to compare it with"));
            }
            _ => words.push(Word::Leaf(leaf(clean)?)),
        }
        words.extend(std::iter::repeat_n(Word::Close, inner.len() - clean.len()));
    }
    Ok(words)
}

/// Returns whether Python's regular expressions count a character as white space.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

fn is_quoted(word: &str) -> bool {
    word.len() >= 2
        && ['"', '\''].iter().any(|quote| word.starts_with(*quote) && word.ends_with(*quote))
}

/// The words of an expression, read from left to right.
struct Words {
    words: Vec<Word>,
    next: usize,
}

impl Words {
    fn peek(&self) -> Option<&Word> {
        self.words.get(self.next)
    }

    fn take(&mut self, expected: &Word) -> bool {
        let found = self.peek() == Some(expected);
        self.next += usize::from(found);
        found
    }

    fn any(&mut self, depth: usize) -> Result<Check, String> {
        let mut checks = vec![self.all(depth)?];
        while self.take(&Word::Or) {
            checks.push(self.all(depth)?);
        }
        Ok(one_or(checks, Check::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Check, String> {
        let mut checks = vec![self.not(depth)?];
        while self.take(&Word::And) {
            checks.push(self.not(depth)?);
        }
        Ok(one_or(checks, Check::All))
    }

    fn not(&mut self, depth: usize) -> Result<Check, String> {
        if depth > DEPTH_MAX {
            return Err(format!("it is nested more than {DEPTH_MAX} deep"));
        }
        if self.take(&Word::Not) {
            return Ok(Check::Not(Box::new(self.not(depth + 1)?)));
        }
        if self.take(&Word::Open) {
            let check = self.any(depth + 1)?;
            return if self.take(&Word::Close) {
                Ok(check)
            } else {
                Err("a \")\" is missing".to_owned())
            };
        }
        let word = self.peek().cloned();
        self.next += 1;
        match word {
            Some(Word::Leaf(check)) => Ok(check),
            Some(other) => Err(format!("{other} is not expected here")),
            None => Err("the expression ends too early".to_owned()),
        }
    }
}

/// Reads one comparison.
fn leaf(text: &str) -> Result<Check, String> {
    match text {
        "!" => return Ok(Check::Never),
        "@" => return Ok(Check::Always),
        _ => {}
    }
    let (kind, value) = text.split_once(':').ok_or_else(|| {
        format!("\"{text}\" is not a check: expected KIND:VALUE, such as role:admin")
    })?;
    match kind {
        "http" | "https" => Err(format!(
            "\"{text}\" would query another server for every request, which Berth does not support"
        )),
        "rule" => Ok(Check::Rule(value.to_owned())),
        "role" => Ok(Check::Role(template(value)?)),
        _ => Ok(Check::Equal(left(kind)?, template(value)?)),
    }
}

/// Reads the left side: a literal of Python's, or an attribute of the caller.
fn left(text: &str) -> Result<Left, String> {
    let literal = |value: &str| Ok(Left::Literal(value.to_owned(), text.to_owned()));
    if matches!(text, "True" | "False" | "None") {
        return literal(text);
    }
    if is_quoted(text) {
        let inner = text.get(1..text.len() - 1).unwrap_or_default();
        if inner.contains(['\\', '"', '\'']) {
            return Err(format!("{text} has a quote or a backslash in it"));
        }
        return literal(inner);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty() {
        let plain = !digits.starts_with('0') || digits == "0" && text == "0";
        return if plain { literal(text) } else { Err(format!("{text} is not a plain number")) };
    }
    let named = |part: &str| {
        let letter = |character: char| character == '_' || character.is_alphanumeric();
        part.chars().all(letter) && part.chars().next().is_some_and(|it| !it.is_numeric())
    };
    if text.split(['.', '-']).all(named) {
        return Ok(Left::Attribute(text.to_owned()));
    }
    Err(format!("\"{text}\" is neither the name of an attribute nor a text, number or constant"))
}

/// Reads the right side.
fn template(text: &str) -> Result<Template, String> {
    let unclear = || format!("in \"{text}\", only %(NAME)s and %% may begin with a percent sign");
    let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find('%') {
        let (before, after) = rest.split_at(at);
        literal.push_str(before);
        if let Some(after) = after.strip_prefix("%%") {
            literal.push('%');
            rest = after;
            continue;
        }
        let after = after.strip_prefix("%(").ok_or_else(unclear)?;
        let (name, after) = after.split_once(")s").ok_or_else(unclear)?;
        if name.contains(['(', ')']) {
            return Err(unclear());
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Attribute(name.to_owned()));
        rest = after;
    }
    literal.push_str(rest);
    if !literal.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    Ok(Template(pieces))
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_list};

    #[test]
    fn expressions_are_read_with_the_usual_precedence() {
        for (text, read) in [
            ("", "@"),
            ("@", "@"),
            ("!", "!"),
            ("role:admin", "role:admin"),
            ("rule:a or role:b and not role:c", "(rule:a or (role:b and not role:c))"),
            ("role:a and role:b or role:c", "((role:a and role:b) or role:c)"),
            ("(role:a or role:b) AND role:c", "((role:a or role:b) and role:c)"),
            ("not (role:a  or\n\trole:b)", "not (role:a or role:b)"),
            ("not not role:a", "not not role:a"),
            ("((role:a))", "role:a"),
            ("( role:a )", "role:a"),
            ("project_id:%(project_id)s", "project_id:%(project_id)s"),
            ("'Member':%(role.name)s", "'Member':%(role.name)s"),
            ("True:%(user.enabled)s", "True:%(user.enabled)s"),
            ("role:a:b", "role:a:b"),
            ("user.name:a%%b", "user.name:a%%b"),
            ("-1:x", "-1:x"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), read, "{text}");
        }
    }

    #[test]
    fn an_unparsable_part_is_named() {
        for (text, named) in [
            ("admin", "\"admin\" is not a check"),
            (" ", "ends too early"),
            ("role:a and", "ends too early"),
            ("role:a role:b", "\"role:b\" is not expected"),
            ("and role:a", "\"and\" is not expected"),
            ("(role:a", "\")\" is missing"),
            ("role:a)", "\")\" is not expected"),
            ("'admin'", "'admin' is a text without"),
            ("http://x/y", "query another server"),
            ("https://x/y", "query another server"),
            ("project_id:%(project_id)d", "%(NAME)s"),
            ("role:50%", "%(NAME)s"),
            ("01:x", "not a plain number"),
            (":x", "neither the name"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(named), "{text}: {why}");
        }
        assert!(parse(&"(".repeat(100_000)).unwrap_err().contains("nested"));
        assert!(parse(&"not ".repeat(100_000)).unwrap_err().contains("nested"));
    }

    #[test]
    fn lists_mean_any_of_all() {
        let list = |lists: &[&[&str]]| {
            let lists: Vec<Vec<String>> =
                lists.iter().map(|it| it.iter().map(ToString::to_string).collect()).collect();
            parse_list(&lists).unwrap().to_string()
        };
        assert_eq!(list(&[]), "@");
        assert_eq!(list(&[&[]]), "!");
        assert_eq!(list(&[&["role:a"]]), "role:a");
        assert_eq!(list(&[&["role:a", "role:b"], &[], &["@"]]), "((role:a and role:b) or @)");
    }
}
