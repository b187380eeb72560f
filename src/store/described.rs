//! The JSON form of effects, for the history and the audit log.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::effects::{Content, Effect, Kind, ObjectState};
use crate::model::Inventory;

/// Maximum number of inventories, allocations or names shown of one effect. Further ones are only counted.
const SHOWN_MAX: usize = 100;

/// Returns the states before and after an effect; of lists, only the differences. `None`: there was nothing, or nothing
/// is left.
pub fn states(effect: &Effect) -> (Option<Value>, Option<Value>) {
    let (before, after) = (effect.before.as_ref(), effect.after.as_ref());
    let described =
        |state: Option<&ObjectState>, other| state.map(|state| shown(state, other, effect.kind));
    (described(before, after), described(after, before))
}

/// Describes a state, without the parts that the other one has as well.
fn shown(state: &ObjectState, other: Option<&ObjectState>, kind: Kind) -> Value {
    let ObjectState { generation, content } = state;
    let other = other.map(|other| &other.content);
    let mut shown = Map::new();
    if let Some(generation) = generation {
        shown.insert("generation".to_owned(), json!(generation));
    }
    match content {
        Content::Nothing => {}
        Content::Named(name) => drop(shown.insert("name".to_owned(), json!(name))),
        Content::Described(text) => drop(shown.insert("description".to_owned(), json!(text))),
        Content::Instance(instance) => drop(shown.insert("instance".to_owned(), json!(instance))),
        Content::Provider { name, parent } => {
            shown.insert("name".to_owned(), json!(name));
            shown.insert("parent".to_owned(), json!(parent));
        }
        Content::Inventories(all) => {
            let other = match other {
                Some(Content::Inventories(other)) => Some(other),
                _ => None,
            };
            inventories(&mut shown, all, other);
        }
        Content::Names(all) => {
            let other = match other {
                Some(Content::Names(other)) => Some(other),
                _ => None,
            };
            names(&mut shown, kind.name(), all, other);
        }
        Content::Allocations(all) => {
            let other = match other {
                Some(Content::Allocations(other)) => Some(other),
                _ => None,
            };
            allocations(&mut shown, all, other);
        }
    }
    Value::Object(shown)
}

fn inventories(
    shown: &mut Map<String, Value>,
    all: &BTreeMap<String, Inventory>,
    other: Option<&BTreeMap<String, Inventory>>,
) {
    let same = |class: &String, terms| other.and_then(|other| other.get(class)) == Some(terms);
    let differing = all.iter().filter(|(class, terms)| !same(class, *terms));
    let (few, omitted) = few(differing);
    let few: Map<String, Value> = few
        .into_iter()
        .map(|(class, terms)| {
            let terms = json!({
                "total": terms.total,
                "reserved": terms.reserved,
                "min_unit": terms.min_unit,
                "max_unit": terms.max_unit,
                "step_size": terms.step_size,
                "allocation_ratio": terms.allocation_ratio,
            });
            (class.clone(), terms)
        })
        .collect();
    shown.insert("inventories".to_owned(), Value::Object(few));
    add_omitted(shown, omitted);
}

fn names(
    shown: &mut Map<String, Value>,
    key: &str,
    all: &BTreeSet<String>,
    other: Option<&BTreeSet<String>>,
) {
    let (few, omitted) = few(all.iter().filter(|name| other.is_none_or(|it| !it.contains(*name))));
    shown.insert(key.to_owned(), json!(few));
    add_omitted(shown, omitted);
}

fn allocations(
    shown: &mut Map<String, Value>,
    all: &BTreeMap<(Uuid, String), i64>,
    other: Option<&BTreeMap<(Uuid, String), i64>>,
) {
    let same = |place, amount| other.and_then(|other| other.get(place)) == Some(amount);
    let (few, omitted) = few(all.iter().filter(|(place, amount)| !same(*place, *amount)));
    let mut by_provider = BTreeMap::<Uuid, BTreeMap<&str, i64>>::new();
    for ((provider, class), amount) in few {
        by_provider.entry(*provider).or_default().insert(class, *amount);
    }
    shown.insert("allocations".to_owned(), json!(by_provider));
    add_omitted(shown, omitted);
}

/// Returns the first items, and the number of further ones.
fn few<T>(all: impl Iterator<Item = T>) -> (Vec<T>, usize) {
    let mut all = all;
    let few: Vec<T> = all.by_ref().take(SHOWN_MAX).collect();
    (few, all.count())
}

fn add_omitted(shown: &mut Map<String, Value>, omitted: usize) {
    if omitted > 0 {
        shown.insert("omitted".to_owned(), json!(omitted));
    }
}
