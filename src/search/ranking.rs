//! The ranking of trees when candidates are ordered.

use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

/// The score of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranking {
    /// The fullest first: by the mean used share of the requested classes of which the tree has inventory.
    Pack,
    /// The emptiest first.
    Spread,
    /// By the sum of these weights.
    Weights(Arc<[Weight]>),
}

/// A contribution to the score of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// The property that is weighted.
    pub subject: Subject,
    /// The weight, in thousandths.
    pub thousandths: i32,
}

/// The property that a weight is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A resource class: the weight is multiplied by the share that is free in the tree.
    Class(String),
    /// A trait: the weight counts if a provider of the tree has it.
    Trait(String),
    /// An aggregate: the weight counts if a provider of the tree is in it.
    Aggregate(Uuid),
}

/// Maximum absolute value of a weight.
const WEIGHT_MAX: f64 = 1000.0;

impl FromStr for Weight {
    type Err = String;

    /// `CLASS=WEIGHT`, `trait:NAME=WEIGHT` or `aggregate:UUID=WEIGHT`
    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            format!(
                "{text:?} must be CLASS=WEIGHT, trait:NAME=WEIGHT or aggregate:UUID=WEIGHT, such as \
                 MEMORY_MB=1 or trait:CUSTOM_OLD=-0.5"
            )
        };
        let (subject, weight) = text.trim().rsplit_once('=').ok_or_else(form)?;
        let is_name = |name: &str| {
            let fits =
                |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
            !name.is_empty() && name.bytes().all(fits)
        };
        let subject = match subject.trim().split_once(':') {
            Some(("trait", name)) if is_name(name) => Subject::Trait(name.to_owned()),
            Some(("aggregate", uuid)) => {
                let not_one = |_| format!("{text:?}: {uuid:?} is not a UUID");
                Subject::Aggregate(uuid.parse().map_err(not_one)?)
            }
            None if is_name(subject.trim()) => Subject::Class(subject.trim().to_owned()),
            _ => return Err(form()),
        };
        let weight: Option<f64> = weight.trim().parse().ok();
        let weight = weight.filter(|weight| weight.abs() <= WEIGHT_MAX);
        let weight = weight.ok_or_else(|| {
            format!("{text:?}: the weight must be a number from -{WEIGHT_MAX} to {WEIGHT_MAX}")
        })?;
        #[expect(clippy::cast_possible_truncation, reason = "at most a million")]
        Ok(Self { subject, thousandths: (weight * 1000.0).round() as i32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_names_what_counts() {
        let weight = |subject, thousandths| Ok(Weight { subject, thousandths });
        let aggregate = Uuid::from_u128(7);
        for (text, expected) in [
            ("MEMORY_MB=1", weight(Subject::Class("MEMORY_MB".to_owned()), 1000)),
            (" VCPU = -0.25", weight(Subject::Class("VCPU".to_owned()), -250)),
            ("trait:CUSTOM_OLD=-1000", weight(Subject::Trait("CUSTOM_OLD".to_owned()), -1_000_000)),
            (
                "aggregate:00000000-0000-0000-0000-000000000007=2",
                weight(Subject::Aggregate(aggregate), 2000),
            ),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
        for (text, wrong) in [
            ("VCPU", "must be CLASS=WEIGHT"),
            ("vcpu=1", "must be CLASS=WEIGHT"),
            ("host:a=1", "must be CLASS=WEIGHT"),
            ("aggregate:7=1", "is not a UUID"),
            ("VCPU=much", "must be a number"),
            ("VCPU=NaN", "must be a number"),
            ("VCPU=1001", "from -1000 to 1000"),
        ] {
            let error = text.parse::<Weight>().unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }
}
