//! Schema validation: one walk over the value finds the violation to report.
//!
//! Each part of the value is visited once for each schema that applies to it, and only the most
//! relevant violation is kept. There is no list of violations: a body of a megabyte can have half a
//! million of them, each at the end of a path as long as the client's keys.

use std::cmp::Ordering;
use std::collections::HashSet;

use regex::Regex;
use serde_json::{Map, Value};

use crate::model::effort::steps;

/// Number of members up to which a linear search is faster.
const FEW: usize = 8;

/// Returns whether a text is a UUID.
pub(super) type IsUuid = fn(&str) -> bool;

/// A step of a path: a member or an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step<'a> {
    /// The index of an item.
    Item(usize),
    /// The name of a member.
    Member(&'a str),
}

/// A compiled schema.
#[derive(Debug)]
pub(super) struct Node {
    shape: Value,
    /// The checks of its keywords, in order.
    checks: Vec<(String, Check)>,
}

/// The check of a keyword.
#[derive(Debug)]
enum Check {
    Types(Vec<String>),
    Members(Vec<(String, Node)>),
    /// Schemas of members whose names match; and the names of the other members, unless any are
    /// allowed.
    Patterns(Vec<(Regex, Node)>, Option<Vec<String>>),
    /// Only members with these names, or matching these patterns.
    Closed(Vec<String>, Vec<Regex>),
    Required(Vec<String>),
    MinMembers(usize),
    Items(Box<Node>),
    MinItems(usize),
    UniqueItems,
    AnyOf(Vec<Node>),
    Enum(Vec<Value>),
    Maximum(f64),
    Minimum(f64),
    MinLength(usize),
    MaxLength(usize),
    Pattern(Regex),
    Uuid(IsUuid),
}

/// A violation of a keyword.
#[derive(Debug)]
pub(super) struct Violation<'a> {
    pub(super) keyword: &'a str,
    /// The schema that has it.
    pub(super) schema: &'a Value,
    /// The part of the value that violates it.
    pub(super) value: &'a Value,
    /// The unexpected members, or the missing one.
    pub(super) names: Vec<&'a str>,
    /// For `anyOf`: the violations of each branch.
    reasons: Vec<Violation<'a>>,
    /// The paths to the schema and to the value, last step first.
    schema_path: Vec<Step<'a>>,
    value_path: Vec<Step<'a>>,
}

impl Node {
    /// Compiles a schema. The error names an unsupported keyword.
    pub(super) fn new(shape: &Value, is_uuid: IsUuid) -> Result<Self, String> {
        let keywords = shape.as_object().ok_or("a schema is an object")?;
        let check = |(keyword, bound): (&String, &Value)| {
            Ok((keyword.clone(), Check::new(keyword, bound, keywords, is_uuid)?))
        };
        let checks = keywords.iter().map(check).collect::<Result<_, String>>()?;
        Ok(Self { shape: shape.clone(), checks })
    }

    /// Returns the violation to report.
    pub(super) fn violation<'a>(&'a self, value: &'a Value) -> Option<Violation<'a>> {
        if self.accepts(value) {
            debug_assert!(self.heaviest(value).is_none(), "the two walks differ");
            return None;
        }
        self.heaviest(value).map(Violation::inmost)
    }

    /// Returns whether there is no violation. This is faster than finding the most relevant one,
    /// and nearly all values are valid.
    fn accepts(&self, value: &Value) -> bool {
        self.checks.iter().all(|(_, check)| {
            steps(1);
            check.accepts(value)
        })
    }

    fn heaviest<'a>(&'a self, value: &'a Value) -> Option<Violation<'a>> {
        self.checks.iter().fold(None, |heaviest, (keyword, check)| {
            steps(1);
            let found = match (check, value) {
                (Check::Members(members), Value::Object(object)) => {
                    heaviest_member(members, object).map(|it| it.of(Step::Member(keyword)))
                }
                (Check::Patterns(patterns, _), Value::Object(object)) => {
                    heaviest_matching(patterns, object).map(|it| it.of(Step::Member(keyword)))
                }
                (Check::Items(node), Value::Array(items)) => {
                    heaviest_item(node, items).map(|it| it.of(Step::Member(keyword)))
                }
                _ if check.holds(value) => None,
                _ => Some(self.broken(keyword, check, value)),
            };
            heavier(heaviest, found)
        })
    }

    /// Returns the violation of a keyword that the value itself does not satisfy.
    fn broken<'a>(&'a self, keyword: &'a str, check: &'a Check, value: &'a Value) -> Violation<'a> {
        let (mut names, mut reasons) = (Vec::new(), Vec::new());
        match check {
            Check::Closed(known, patterns) => names.extend(unexpected(value, known, patterns)),
            Check::Required(required) => names.extend(missing(value, required)),
            Check::AnyOf(branches) => reasons = why_none_fits(branches, value),
            _ => {}
        }
        let (schema, schema_path, value_path) = (&self.shape, Vec::new(), Vec::new());
        Violation { keyword, schema, value, names, reasons, schema_path, value_path }
    }
}

/// Returns the violations of each branch. Branches concern the value itself, not its parts.
fn why_none_fits<'a>(branches: &'a [Node], value: &'a Value) -> Vec<Violation<'a>> {
    let of_branch = |(number, branch): (usize, &'a Node)| {
        let broken = branch.checks.iter();
        let broken = broken.filter(|(_, check)| !check.holds(value));
        broken.map(move |(keyword, check)| {
            branch.broken(keyword, check, value).of(Step::Item(number))
        })
    };
    branches.iter().enumerate().flat_map(of_branch).collect()
}

fn heaviest_member<'a>(
    members: &'a [(String, Node)],
    object: &'a Map<String, Value>,
) -> Option<Violation<'a>> {
    members.iter().fold(None, |heaviest, (name, node)| {
        let step = Step::Member(name);
        let found = member(object, name).and_then(|value| node.heaviest(value));
        heavier(heaviest, found.map(|it| it.of(step).at(step)))
    })
}

fn heaviest_matching<'a>(
    patterns: &'a [(Regex, Node)],
    object: &'a Map<String, Value>,
) -> Option<Violation<'a>> {
    patterns.iter().fold(None, |heaviest, (pattern, node)| {
        steps(object.len());
        let matching = object.iter().filter(|(name, _)| pattern.is_match(name));
        matching.fold(heaviest, |heaviest, (name, value)| {
            let found = node.heaviest(value);
            let found = found.map(|it| it.of(Step::Member(pattern.as_str())));
            heavier(heaviest, found.map(|it| it.at(Step::Member(name))))
        })
    })
}

fn heaviest_item<'a>(node: &'a Node, items: &'a [Value]) -> Option<Violation<'a>> {
    items.iter().enumerate().fold(None, |heaviest, (number, value)| {
        heavier(heaviest, node.heaviest(value).map(|it| it.at(Step::Item(number))))
    })
}

/// Returns the more relevant violation, the first if they are equal.
fn heavier<'a>(one: Option<Violation<'a>>, next: Option<Violation<'a>>) -> Option<Violation<'a>> {
    match (one, next) {
        (Some(one), Some(next)) if next.weigh(&one).is_gt() => Some(next),
        (Some(one), _) => Some(one),
        (None, next) => next,
    }
}

impl<'a> Violation<'a> {
    /// Prepends a step to the schema path.
    fn of(mut self, step: Step<'a>) -> Self {
        self.schema_path.push(step);
        self
    }

    /// Prepends a step to the value path.
    fn at(mut self, step: Step<'a>) -> Self {
        self.value_path.push(step);
        self
    }

    /// Returns the path to the schema.
    pub(super) fn schema_path(&self) -> impl Iterator<Item = Step<'a>> {
        self.schema_path.iter().rev().copied()
    }

    /// Returns the path to the value.
    pub(super) fn value_path(&self) -> impl Iterator<Item = Step<'a>> {
        self.value_path.iter().rev().copied()
    }

    /// Compares the relevance of violations: higher up in the value; then later; then any other
    /// keyword than `anyOf`; then a value of the wrong type.
    fn weigh(&self, other: &Self) -> Ordering {
        let strong = |it: &Self| it.keyword != "anyOf";
        let height = other.value_path.len().cmp(&self.value_path.len());
        height
            .then_with(|| self.value_path().cmp(other.value_path()))
            .then_with(|| strong(self).cmp(&strong(other)))
            .then_with(|| other.has_the_type().cmp(&self.has_the_type()))
    }

    /// Returns whether the value has the type of the schema.
    fn has_the_type(&self) -> bool {
        let mut types = self.schema.get("type").map(texts).into_iter().flatten();
        types.any(|name| is_of_type(self.value, name))
    }

    /// For `anyOf`: returns the most relevant of its branches' violations, if one stands out.
    fn inmost(mut self) -> Self {
        let mut reasons = std::mem::take(&mut self.reasons);
        reasons.sort_by(Self::weigh);
        let mut reasons = reasons.into_iter();
        match (reasons.next(), reasons.next()) {
            (Some(first), Some(second)) if first.weigh(&second).is_eq() => self,
            (Some(first), _) => first.inmost(),
            (None, _) => self,
        }
    }
}

impl Check {
    fn new(
        keyword: &str,
        bound: &Value,
        keywords: &Map<String, Value>,
        is_uuid: IsUuid,
    ) -> Result<Self, String> {
        let node = |shape: &Value| Node::new(shape, is_uuid);
        let pattern = |text: &str| Regex::new(text).map_err(|error| error.to_string());
        let wrong = || format!("{keyword} cannot be {bound}");
        let count = || bound.as_u64().and_then(|it| usize::try_from(it).ok()).ok_or_else(wrong);
        let known = || {
            members(keywords.get("properties")).map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let number = || bound.as_f64().ok_or_else(wrong);
        Ok(match keyword {
            "type" => Self::Types(texts(bound).into_iter().map(str::to_owned).collect()),
            "properties" => Self::Members(
                members(Some(bound))
                    .map(|(name, shape)| Ok((name.clone(), node(shape)?)))
                    .collect::<Result<_, String>>()?,
            ),
            "patternProperties" => Self::Patterns(
                members(Some(bound))
                    .map(|(text, shape)| Ok((pattern(text)?, node(shape)?)))
                    .collect::<Result<_, String>>()?,
                keywords.get("additionalProperties").filter(|it| **it == false).map(|_| known()),
            ),
            "additionalProperties" if *bound == false => Self::Closed(
                known(),
                members(keywords.get("patternProperties"))
                    .map(|(text, _)| pattern(text))
                    .collect::<Result<_, String>>()?,
            ),
            "required" => Self::Required(texts(bound).into_iter().map(str::to_owned).collect()),
            "minProperties" => Self::MinMembers(count()?),
            "items" => Self::Items(Box::new(node(bound)?)),
            "minItems" => Self::MinItems(count()?),
            "uniqueItems" if *bound == true => Self::UniqueItems,
            "anyOf" => {
                let branches = bound.as_array().ok_or_else(wrong)?;
                Self::AnyOf(branches.iter().map(node).collect::<Result<_, String>>()?)
            }
            "enum" => Self::Enum(bound.as_array().ok_or_else(wrong)?.clone()),
            "maximum" => Self::Maximum(number()?),
            "minimum" => Self::Minimum(number()?),
            "minLength" => Self::MinLength(count()?),
            "maxLength" => Self::MaxLength(count()?),
            "pattern" => Self::Pattern(pattern(bound.as_str().ok_or_else(wrong)?)?),
            "format" if *bound == "uuid" => Self::Uuid(is_uuid),
            _ => return Err(wrong()),
        })
    }

    /// Returns whether the value and its parts satisfy the keyword.
    fn accepts(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Members(members), Value::Object(object)) => members
                .iter()
                .all(|(name, node)| member(object, name).is_none_or(|value| node.accepts(value))),
            (Self::Patterns(patterns, others), Value::Object(object)) => {
                object.iter().all(|(name, value)| {
                    steps(1 + patterns.len());
                    let mut is_known = others.as_ref().is_none_or(|others| others.contains(name));
                    let all_fit = patterns.iter().all(|(pattern, node)| {
                        let matches = pattern.is_match(name);
                        is_known |= matches;
                        !matches || node.accepts(value)
                    });
                    is_known && all_fit
                })
            }
            // `Patterns` has checked the patterns.
            (Self::Closed(_, patterns), _) if !patterns.is_empty() => true,
            (Self::Items(node), Value::Array(items)) => items.iter().all(|item| node.accepts(item)),
            _ => self.holds(value),
        }
    }

    /// Returns whether the value itself satisfies the keyword. Keywords of other types are
    /// satisfied.
    fn holds(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Types(names), _) => names.iter().any(|name| is_of_type(value, name)),
            (Self::Closed(known, patterns), _) => {
                unexpected(value, known, patterns).next().is_none()
            }
            (Self::Required(required), _) => missing(value, required).is_none(),
            (Self::AnyOf(branches), _) => branches.iter().any(|branch| branch.accepts(value)),
            (Self::Enum(values), _) => values.contains(value),
            (Self::MinMembers(least), Value::Object(object)) => object.len() >= *least,
            (Self::MinItems(least), Value::Array(items)) => items.len() >= *least,
            (Self::UniqueItems, Value::Array(items)) => are_unique(items),
            (Self::Maximum(most), Value::Number(number)) => {
                number.as_f64().is_some_and(|number| number <= *most)
            }
            (Self::Minimum(least), Value::Number(number)) => {
                number.as_f64().is_some_and(|number| number >= *least)
            }
            (Self::MinLength(least), Value::String(text)) => {
                text.chars().take(*least).count() == *least
            }
            (Self::MaxLength(most), Value::String(text)) => text.chars().nth(*most).is_none(),
            (Self::Pattern(pattern), Value::String(text)) => pattern.is_match(text),
            (Self::Uuid(is_uuid), Value::String(text)) => is_uuid(text),
            _ => true,
        }
    }
}

/// Returns the names of members that the schema does not know.
fn unexpected<'a>(
    value: &'a Value,
    known: &[String],
    patterns: &[Regex],
) -> impl Iterator<Item = &'a str> {
    let names = members(Some(value)).map(|(name, _)| name.as_str());
    names.filter(|name| {
        steps(1 + patterns.len());
        !known.iter().any(|known| known == name)
            && !patterns.iter().any(|pattern| pattern.is_match(name))
    })
}

/// Returns the first required member that is missing.
fn missing<'a>(value: &Value, required: &'a [String]) -> Option<&'a str> {
    let object = value.as_object()?;
    required.iter().map(String::as_str).find(|name| member(object, name).is_none())
}

/// Returns the member with a name. If there are few, comparing each is faster than hashing the
/// name.
fn member<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if object.len() > FEW {
        return object.get(name);
    }
    object.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn members(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// Returns one text or several.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
        Value::Number(number) => {
            let is_integral = number.as_f64().is_some_and(|value| value.fract() == 0.0);
            name == "number" || name == "integer" && is_integral
        }
    }
}

/// Returns whether all items are different. Numbers are equal if their values are.
fn are_unique(items: &[Value]) -> bool {
    let mut known = HashSet::with_capacity(items.len());
    items.iter().all(|item| {
        let mut text = String::new();
        canonical(item, &mut text);
        known.insert(text)
    })
}

/// Appends a text that is equal for equal values only.
fn canonical(value: &Value, text: &mut String) {
    steps(1);
    match value {
        Value::Number(number) => {
            let integral = number.as_f64().filter(|it| number.is_f64() && it.fract() == 0.0);
            text.push_str(&integral.map_or_else(|| number.to_string(), |it| format!("{it:.0}")));
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, member) in members {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                canonical(member, text);
                text.push(',');
            }
            text.push('}');
        }
        other => text.push_str(&other.to_string()),
    }
}
