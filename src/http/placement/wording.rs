//! The words for a violation of a schema: which of several is told, and how.
//!
//! Clients read these texts, so they are those of Python's jsonschema, which the reference uses:
//! message, keyword and place in the schema, the schema there, place in the value, the value there.

use std::cmp::Ordering;
use std::fmt::Write;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::{Location, LocationSegment};
use serde_json::Value;

use crate::http::python::{pretty, repr, text_repr};

/// The violation that is told, of all there are.
pub(super) fn violation<'e>(
    schema: &Value,
    value: &Value,
    errors: impl Iterator<Item = ValidationError<'e>>,
) -> String {
    let errors: Vec<_> = errors.collect();
    let all =
        errors.iter().filter_map(|error| Violation::of(error, schema, value, &Base::default()));
    // The first of those that weigh most.
    let worst = all.reduce(|worst, next| {
        let order = weigh(&next, &worst);
        let earlier = next.keyword_rank() < worst.keyword_rank();
        if order.is_gt() || order.is_eq() && earlier { next } else { worst }
    });
    worst.map_or_else(|| "it is not valid".to_owned(), |worst| worst.inmost().text())
}

/// A step of a path: a member's name or an item's number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Item(usize),
    Member(String),
}

/// Where a violation stands that is one of the reasons for another: paths are told from there.
#[derive(Clone, Copy, Default)]
struct Base {
    schema: usize,
    value: usize,
}

/// A violation, found in its schema and its value.
struct Violation<'a> {
    error: &'a ValidationError<'a>,
    keyword: String,
    /// The schema that has the keyword, and the way to it.
    schema: &'a Value,
    schema_path: Vec<Step>,
    /// The part of the value that violates it, and the way to it.
    value: &'a Value,
    value_path: Vec<Step>,
    whole_schema: &'a Value,
    whole_value: &'a Value,
}

impl<'a> Violation<'a> {
    fn of(
        error: &'a ValidationError<'a>,
        whole_schema: &'a Value,
        whole_value: &'a Value,
        base: &Base,
    ) -> Option<Self> {
        let keyword = error.kind().keyword().to_owned();
        let mut schema_path = steps(error.schema_path());
        let at_keyword =
            schema_path.iter().rposition(|step| *step == Step::Member(keyword.clone()))?;
        schema_path.truncate(at_keyword);
        let value_path = steps(error.instance_path());
        let schema = follow(whole_schema, &schema_path)?;
        let value = follow(whole_value, &value_path)?;
        let schema_path = schema_path.split_off(base.schema.min(at_keyword));
        let value_path = value_path.get(base.value..).unwrap_or_default().to_vec();
        let violation = Self {
            error,
            keyword,
            schema,
            schema_path,
            value,
            value_path,
            whole_schema,
            whole_value,
        };
        Some(violation)
    }

    /// Where the keyword stands among those of its schema, which are checked in that order.
    fn keyword_rank(&self) -> Option<usize> {
        self.schema.as_object()?.keys().position(|keyword| *keyword == self.keyword)
    }

    /// Whether the value is at least of the type that the schema says.
    fn has_the_type(&self) -> bool {
        match self.schema.get("type") {
            Some(Value::String(name)) => is_of_type(self.value, name),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).any(|name| is_of_type(self.value, name))
            }
            _ => false,
        }
    }

    /// Of the reasons why none of several schemas fits, the one that says most, if one does.
    fn inmost(self) -> Self {
        let ValidationErrorKind::AnyOf { context } = self.error.kind() else { return self };
        let base = Base { schema: self.schema_path.len() + 1, value: self.value_path.len() };
        let reasons = context.iter().flatten();
        let mut reasons: Vec<_> = reasons
            .filter_map(|error| Violation::of(error, self.whole_schema, self.whole_value, &base))
            .collect();
        reasons.sort_by(weigh);
        let mut reasons = reasons.into_iter();
        match (reasons.next(), reasons.next()) {
            (Some(first), Some(second)) if weigh(&first, &second) == Ordering::Equal => self,
            (Some(first), _) => first.inmost(),
            (None, _) => self,
        }
    }

    fn text(&self) -> String {
        format!(
            "{}\n\nFailed validating {} in {}:\n    {}\n\nOn {}:\n    {}",
            self.message(),
            text_repr(&self.keyword),
            indexed("schema", &self.schema_path),
            indented(&pretty(self.schema)),
            indexed("instance", &self.value_path),
            indented(&pretty(self.value)),
        )
    }

    fn message(&self) -> String {
        let value = repr(self.value);
        let bound = &self.schema[self.keyword.as_str()];
        let said = |one: &'static str, other: &'static str| if *bound == 1 { one } else { other };
        match self.keyword.as_str() {
            "additionalProperties" => self.unexpected_message(),
            "anyOf" => format!("{value} is not valid under any of the given schemas"),
            "enum" => format!("{value} is not one of {}", repr(bound)),
            "format" => format!("{value} is not a {}", repr(bound)),
            "maximum" => format!("{value} is greater than the maximum of {}", repr(bound)),
            "maxLength" => format!("{value} is too long"),
            "minimum" => format!("{value} is less than the minimum of {}", repr(bound)),
            "minItems" | "minLength" => {
                format!("{value} {}", said("should be non-empty", "is too short"))
            }
            "minProperties" => {
                format!(
                    "{value} {}",
                    said("should be non-empty", "does not have enough properties")
                )
            }
            "pattern" => format!("{value} does not match {}", repr(bound)),
            "required" => match self.error.kind() {
                ValidationErrorKind::Required { property } => {
                    format!("{} is a required property", repr(property))
                }
                _ => format!("{value} lacks a required property"),
            },
            "type" => format!("{value} is not of type {}", listed(bound)),
            "uniqueItems" => format!("{value} has non-unique elements"),
            _ => format!("{value} is not valid"),
        }
    }

    fn unexpected_message(&self) -> String {
        let mut names = match self.error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => unexpected.clone(),
            _ => Vec::new(),
        };
        names.sort();
        let listed = names.iter().map(|name| text_repr(name)).collect::<Vec<_>>().join(", ");
        let one = names.len() == 1;
        let Some(patterns) = self.schema["patternProperties"].as_object() else {
            let verb = if one { "was" } else { "were" };
            return format!("Additional properties are not allowed ({listed} {verb} unexpected)");
        };
        let mut patterns: Vec<_> = patterns.keys().map(|pattern| text_repr(pattern)).collect();
        patterns.sort();
        let verb = if one { "does" } else { "do" };
        format!("{listed} {verb} not match any of the regexes: {}", patterns.join(", "))
    }
}

/// Which of two violations says more: the one higher up; then the later one; then any other than
/// that no schema fits; then one of a value that is not even of the type.
fn weigh(one: &Violation<'_>, other: &Violation<'_>) -> Ordering {
    let strong = |it: &Violation<'_>| it.keyword != "anyOf";
    let depth = other.value_path.len().cmp(&one.value_path.len());
    depth
        .then_with(|| one.value_path.cmp(&other.value_path))
        .then_with(|| strong(one).cmp(&strong(other)))
        .then_with(|| other.has_the_type().cmp(&one.has_the_type()))
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
        Value::Number(number) => {
            let whole = number.as_f64().is_some_and(|value| value.fract() == 0.0);
            name == "number" || name == "integer" && whole
        }
    }
}

fn steps(location: &Location) -> Vec<Step> {
    let step = |segment| match segment {
        LocationSegment::Property(name) => Step::Member(name.into_owned()),
        LocationSegment::Index(number) => Step::Item(number),
    };
    location.iter().map(step).collect()
}

fn follow<'a>(value: &'a Value, path: &[Step]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Member(name) => value.get(name),
        Step::Item(number) => value.get(number),
    })
}

fn indexed(container: &str, path: &[Step]) -> String {
    path.iter().fold(container.to_owned(), |mut text, step| {
        // Writing to a string cannot fail.
        let _ = match step {
            Step::Member(name) => write!(text, "[{}]", text_repr(name)),
            Step::Item(number) => write!(text, "[{number}]"),
        };
        text
    })
}

fn indented(lines: &str) -> String {
    lines.replace('\n', "\n    ")
}

/// One name or several, as a list without brackets.
fn listed(names: &Value) -> String {
    match names {
        Value::Array(names) => names.iter().map(repr).collect::<Vec<_>>().join(", "),
        one => repr(one),
    }
}

#[cfg(test)]
mod tests;
