//! Metadata of host aggregates, and the demands that flavors make on it (`aggregate_instance_extra_specs:KEY=...`),
//! in the grammar of Nova's filter of that name.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use crate::world::Provider;

/// The metadata of aggregates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AggregateMetadata(HashMap<Uuid, BTreeMap<String, String>>);

impl FromIterator<(Uuid, String, String)> for AggregateMetadata {
    /// Collects aggregates, keys and values.
    fn from_iter<T: IntoIterator<Item = (Uuid, String, String)>>(rows: T) -> Self {
        let mut all: HashMap<Uuid, BTreeMap<String, String>> = HashMap::new();
        for (aggregate, key, value) in rows {
            all.entry(aggregate).or_default().insert(key, value);
        }
        Self(all)
    }
}

impl AggregateMetadata {
    /// Returns whether a host, given by the root of its tree, meets all demands, by key. Each aggregate of the host
    /// may have several values for a key, separated by commas; one of all these must match the demand.
    pub fn meets(&self, root: &Provider<'_>, demands: &BTreeMap<String, String>) -> bool {
        demands.iter().all(|(key, demand)| {
            let aggregates = root.aggregates().iter().filter_map(|uuid| self.0.get(uuid));
            let values = aggregates.filter_map(|metadata| metadata.get(key));
            values.flat_map(|value| value.split(',')).any(|value| matches(value.trim(), demand))
        })
    }
}

/// Whether a value is what a demand asks for. A demand begins with an operator; without one, the value has
/// to be the same text.
///
/// | operator | the value |
/// |---|---|
/// | `=`, `>=` | is a number that is at least the operand |
/// | `==`, `!=`, `<=` | compares with the operand as a number |
/// | `s==`, `s!=`, `s<`, `s<=`, `s>`, `s>=` | compares with the operand as a text |
/// | `<in>` | contains the operand |
/// | `<all-in>` | contains each of the operands |
/// | `<or> A <or> B` | is one of the operands |
fn matches(value: &str, demand: &str) -> bool {
    let mut words = demand.split_whitespace();
    let Some(operator) = words.next() else { return value == demand };
    let operands: Vec<&str> = words.collect();
    let first = operands.first().copied();
    let number = |compare: fn(f64, f64) -> bool| {
        let numbers = value.parse().ok().zip(first.and_then(|operand| operand.parse().ok()));
        numbers.is_some_and(|(value, operand)| compare(value, operand))
    };
    let text =
        |compare: fn(&str, &str) -> bool| first.is_some_and(|operand| compare(value, operand));
    match operator {
        "=" | ">=" => number(|value, operand| value >= operand),
        "<=" => number(|value, operand| value <= operand),
        #[expect(clippy::float_cmp, reason = "the demand is of exactly this number")]
        "==" => number(|value, operand| value == operand),
        #[expect(clippy::float_cmp, reason = "the demand is of any number but this one")]
        "!=" => number(|value, operand| value != operand),
        "s==" => text(|value, operand| value == operand),
        "s!=" => text(|value, operand| value != operand),
        "s<" => text(|value, operand| value < operand),
        "s<=" => text(|value, operand| value <= operand),
        "s>" => text(|value, operand| value > operand),
        "s>=" => text(|value, operand| value >= operand),
        "<in>" => text(|value, operand| value.contains(operand)),
        "<all-in>" => !operands.is_empty() && operands.iter().all(|it| value.contains(it)),
        "<or>" => operands.iter().step_by(2).any(|operand| *operand == value),
        _ => value == demand,
    }
}

/// Checks a demand: an operator without an operand can never be met.
///
/// # Errors
/// A clause for the operator of the cloud.
pub(super) fn check(demand: &str) -> Result<(), String> {
    const NUMERIC: [&str; 5] = ["=", ">=", "<=", "==", "!="];
    const TEXTS: [&str; 9] = ["s==", "s!=", "s<", "s<=", "s>", "s>=", "<in>", "<all-in>", "<or>"];
    let mut words = demand.split_whitespace();
    let is_known = |operator: &&str| NUMERIC.contains(operator) || TEXTS.contains(operator);
    let Some(operator) = words.next().filter(is_known) else { return Ok(()) };
    let operands: Vec<&str> = words.collect();
    let Some(first) = operands.first() else {
        return Err("the operator has no operand".to_owned());
    };
    if NUMERIC.contains(&operator) && first.parse::<f64>().is_err() {
        return Err(format!("{first:?} is not a number"));
    }
    let misplaced = operands.iter().skip(1).step_by(2).any(|word| *word != "<or>");
    if operator == "<or>" && (operands.len().is_multiple_of(2) || misplaced) {
        return Err("the form is <or> A <or> B".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{check, matches};

    #[test]
    fn demands_are_read_as_nova_reads_them() {
        for (value, demand, expected) in [
            ("ssd", "ssd", true),
            ("hdd", "ssd", false),
            ("10", "= 8", true),
            ("8", "= 8.0", true),
            ("7", "= 8", false),
            ("fast", "= 8", false),
            ("8", "== 8.0", true),
            ("8", "!= 8", false),
            ("9", ">= 8", true),
            ("9", "<= 8", false),
            ("abc", "s== abc", true),
            ("abc", "s!= abc", false),
            ("b", "s> a", true),
            ("b", "s< a", false),
            ("b", "s>= b", true),
            ("b", "s<= b", true),
            ("abc", "<in> b", true),
            ("abc", "<in> d", false),
            ("aes mmx", "<all-in> aes mmx", true),
            ("aes", "<all-in> aes mmx", false),
            ("b", "<or> a <or> b", true),
            ("<or>", "<or> a <or> b", false),
            ("c", "<or> a <or> b", false),
            ("a b", "a b", true),
            ("", "=", false),
        ] {
            assert_eq!(matches(value, demand), expected, "{value:?} {demand:?}");
        }
    }

    #[test]
    fn demands_that_nothing_meets_are_refused() {
        for good in ["ssd", "= 8", "s== a b", "<or> a", "<or> a <or> b", "<all-in> a b", ""] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["=", "= x", "<or>", "<or> a b", "<or> a <or>", "<in>", "<all-in>"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
