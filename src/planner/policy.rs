//! Placement policies in requests and in stored plans.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Goal, Level, PlacementPolicy};

/// The stored policy of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Names", into = "Names")]
pub(crate) struct StoredPolicy(pub(crate) PlacementPolicy);

/// The stored level of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct StoredLevel(pub(crate) Level);

impl From<StoredLevel> for String {
    fn from(StoredLevel(level): StoredLevel) -> Self {
        level.name().to_owned()
    }
}

impl TryFrom<String> for StoredLevel {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        level(&name).map(Self)
    }
}

/// The names in a policy.
#[derive(Deserialize, Serialize)]
struct Names {
    name: String,
    level: StoredLevel,
}

impl From<StoredPolicy> for Names {
    fn from(StoredPolicy(policy): StoredPolicy) -> Self {
        Self { name: policy.goal.name().to_owned(), level: StoredLevel(policy.level) }
    }
}

impl TryFrom<Names> for StoredPolicy {
    type Error = String;

    fn try_from(names: Names) -> Result<Self, String> {
        let goal = goal(&names.name)?;
        Ok(Self(PlacementPolicy { goal, level: names.level.0 }))
    }
}

/// Reads a policy of a request: its name, or an object with `name` and, unless it is `host`, `level`.
///
/// # Errors
/// The fault of the policy.
pub(crate) fn read(value: &Value) -> Result<PlacementPolicy, String> {
    if let Some(name) = value.as_str() {
        return Ok(PlacementPolicy::of_hosts(goal(name)?));
    }
    let object = value.as_object().ok_or("not of type string or dictionary")?;
    if let Some(key) = object.keys().find(|key| !["name", "level"].contains(&key.as_str())) {
        return Err(format!("must have no keys but name and level (got '{key}')"));
    }
    let text = |key: &str| {
        let value = object.get(key).map(|value| value.as_str());
        value.map(|text| text.ok_or_else(|| format!("{key}: not of type string"))).transpose()
    };
    let name = text("name")?.ok_or("has no name")?;
    let policy = PlacementPolicy::of_hosts(goal(name)?);
    match text("level")? {
        None => Ok(policy),
        Some(name) => Ok(PlacementPolicy { level: level(name)?, ..policy }),
    }
}

fn goal(name: &str) -> Result<Goal, String> {
    Goal::named(name).ok_or_else(|| "name: must be pack, spread or balance".to_owned())
}

fn level(name: &str) -> Result<Level, String> {
    Level::named(name).ok_or_else(|| "level: must be host, rack or cluster".to_owned())
}

/// Formats a policy for a sentence.
pub(crate) fn words(policy: PlacementPolicy) -> String {
    format!("{} at level {}", policy.goal.name(), policy.level.name())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_are_read_as_names_and_as_objects() {
        let policy = |goal, level| Ok(PlacementPolicy { goal, level });
        for (value, expected) in [
            (json!("pack"), policy(Goal::Pack, Level::Host)),
            (json!({"name": "spread"}), policy(Goal::Spread, Level::Host)),
            (json!({"name": "balance", "level": "cluster"}), policy(Goal::Balance, Level::Cluster)),
            (json!("even"), Err("name: must be pack, spread or balance".to_owned())),
            (
                json!({"name": "pack", "level": "row"}),
                Err("level: must be host, rack or cluster".to_owned()),
            ),
            (json!({"level": "rack"}), Err("has no name".to_owned())),
            (json!({"name": 1}), Err("name: not of type string".to_owned())),
            (
                json!({"name": "pack", "of": 1}),
                Err("must have no keys but name and level (got 'of')".to_owned()),
            ),
            (json!(null), Err("not of type string or dictionary".to_owned())),
        ] {
            assert_eq!(read(&value), expected, "{value}");
        }
    }

    #[test]
    fn a_stored_policy_is_read_as_it_was_written() {
        for goal in Goal::ALL {
            let stored = StoredPolicy(PlacementPolicy { goal, level: Level::Rack });
            let text = serde_json::to_string(&stored).unwrap();
            assert_eq!(serde_json::from_str::<StoredPolicy>(&text).unwrap(), stored);
        }
        assert!(serde_json::from_str::<StoredPolicy>(r#"{"name":"x","level":"host"}"#).is_err());
    }
}
