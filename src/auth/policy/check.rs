//! The expressions of the policy language.

use std::borrow::Cow;
use std::fmt;

use super::caller::{Attribute, Caller};

/// A parsed expression of the policy language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// `@`
    Always,
    /// `!`
    Never,
    /// `not A`
    Not(Box<Check>),
    /// `A and B`
    All(Vec<Check>),
    /// `A or B`
    Any(Vec<Check>),
    /// `rule:NAME`
    Rule(String),
    /// `role:NAME`
    Role(Template),
    /// `LEFT:RIGHT`
    Equal(Left, Template),
}

/// The left side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// A literal: its value, and its spelling.
    Literal(String, String),
    /// An attribute of the caller.
    Attribute(String),
}

/// Text in which `%(name)s` is replaced by an attribute of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(pub(super) Vec<Piece>);

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Literal text.
    Text(String),
    /// The name of an attribute.
    Attribute(String),
}

/// The target of a request, by attribute. An attribute without a value counts as the text `None`.
pub type Target<'t> = [(&'t str, Option<&'t str>)];

/// The input of an evaluation.
pub(super) struct EvaluationInput<'f> {
    /// The caller.
    pub(super) caller: &'f Caller,
    /// The target of the request.
    pub(super) target: &'f Target<'f>,
    /// Returns whether the caller passes a rule.
    pub(super) verdict: &'f dyn Fn(&str) -> bool,
}

impl Check {
    /// Returns whether the caller passes.
    pub(super) fn passes(&self, input: &EvaluationInput<'_>) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Not(check) => !check.passes(input),
            Self::All(checks) => checks.iter().all(|check| check.passes(input)),
            Self::Any(checks) => checks.iter().any(|check| check.passes(input)),
            Self::Rule(name) => (input.verdict)(name),
            Self::Role(role) => {
                let role = role.fill(input.target);
                role.is_some_and(|role| input.caller.has_role(&role))
            }
            Self::Equal(left, right) => {
                let right = right.fill(input.target);
                right.is_some_and(|right| left.is(&right, input.caller))
            }
        }
    }

    /// Returns the rules to which the expression refers.
    pub(super) fn rules(&self) -> Vec<&str> {
        match self {
            Self::Not(check) => check.rules(),
            Self::All(checks) | Self::Any(checks) => checks.iter().flat_map(Self::rules).collect(),
            Self::Rule(name) => vec![name],
            Self::Always | Self::Never | Self::Role(_) | Self::Equal(..) => Vec::new(),
        }
    }
}

impl Left {
    fn is(&self, right: &str, caller: &Caller) -> bool {
        match self {
            Self::Literal(value, _) => value == right,
            Self::Attribute(name) => match caller.attribute(name) {
                None => false,
                Some(Attribute::One(value)) => value.unwrap_or("None") == right,
                Some(Attribute::Several(values)) => values.iter().any(|value| value == right),
            },
        }
    }
}

impl Template {
    /// Returns the text with the values of the attributes; `None` if one of them does not exist.
    fn fill(&self, target: &Target<'_>) -> Option<Cow<'_, str>> {
        if let [Piece::Text(text)] = self.0.as_slice() {
            return Some(Cow::Borrowed(text));
        }
        let mut filled = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Attribute(name) => {
                    let (_, value) = target.iter().find(|(known, _)| known == name)?;
                    filled.push_str(value.unwrap_or("None"));
                }
            }
        }
        Some(Cow::Owned(filled))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |checks: &[Self], word: &str| {
            checks.iter().map(ToString::to_string).collect::<Vec<_>>().join(word)
        };
        match self {
            Self::Always => to.write_str("@"),
            Self::Never => to.write_str("!"),
            Self::Not(check) => write!(to, "not {check}"),
            Self::All(checks) => write!(to, "({})", joined(checks, " and ")),
            Self::Any(checks) => write!(to, "({})", joined(checks, " or ")),
            Self::Rule(name) => write!(to, "rule:{name}"),
            Self::Role(role) => write!(to, "role:{role}"),
            Self::Equal(Left::Literal(_, text) | Left::Attribute(text), right) => {
                write!(to, "{text}:{right}")
            }
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => to.write_str(&text.replace('%', "%%"))?,
                Piece::Attribute(name) => write!(to, "%({name})s")?,
            }
        }
        Ok(())
    }
}
