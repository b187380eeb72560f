//! Entries in Berth's own form.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::contents::{EntryContents, Outcome};
use crate::auth::policy::Caller;
use crate::model::Inventory;
use crate::store::effects::{Content, Effect, Kind, ObjectState};
use crate::store::history::Summary;

/// Maximum number of inventories, allocations or names shown of one effect. Further ones are only counted.
const SHOWN_MAX: usize = 100;

/// Returns the entry of a request.
pub(super) fn entry(contents: &EntryContents<'_>) -> Value {
    let EntryContents { request, response, .. } = contents;
    let mut entry = Map::new();
    entry.insert("time".to_owned(), instant(contents.began));
    entry.insert("request_id".to_owned(), json!(request.request_id));
    put(&mut entry, "global_request_id", request.global_request_id.as_ref());
    entry.insert("remote".to_owned(), json!(request.remote));
    if let Some(caller) = response.and_then(|response| response.caller.as_deref()) {
        entry.insert("caller".to_owned(), who(caller));
    }
    entry.insert("api".to_owned(), json!(request.api));
    entry.insert("method".to_owned(), json!(request.method));
    entry.insert("path".to_owned(), json!(request.path));
    put(&mut entry, "status", response.map(|response| response.status).as_ref());
    entry.insert("outcome".to_owned(), json!(Outcome::of(*response).name()));
    entry.insert("changes".to_owned(), changes(contents));
    if contents.omitted > 0 {
        entry.insert("changes_omitted".to_owned(), json!(contents.omitted));
    }
    Value::Object(entry)
}

/// Returns a line for the number of entries missing before it.
pub(super) fn dropped(count: u64, now: OffsetDateTime) -> Value {
    json!({"time": instant(now), "dropped": count})
}

/// Formats a moment as RFC 3339.
pub(super) fn instant(moment: OffsetDateTime) -> Value {
    // Any time of a running system can be formatted; if not, the entry has none.
    moment.format(&Rfc3339).map_or(Value::Null, Value::from)
}

fn who(caller: &Caller) -> Value {
    let mut who = Map::new();
    put(&mut who, "user", caller.user.as_ref());
    put(&mut who, "user_domain", caller.user_domain.as_ref());
    put(&mut who, "project", caller.project.as_ref());
    put(&mut who, "project_domain", caller.project_domain.as_ref());
    put(&mut who, "domain", caller.domain.as_ref());
    put(&mut who, "system", caller.system.as_ref());
    who.insert("roles".to_owned(), json!(caller.roles));
    put(&mut who, "service_user", caller.service_user.as_ref());
    put(&mut who, "service_project", caller.service_project.as_ref());
    Value::Object(who)
}

fn put(object: &mut Map<String, Value>, key: &str, value: Option<&impl serde::Serialize>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), json!(value));
    }
}

/// Returns all effects.
pub(super) fn changes(contents: &EntryContents<'_>) -> Value {
    contents.effects.iter().map(change).collect()
}

/// Returns the name of a kind of resource.
pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Provider => "resource_provider",
        Kind::Inventories => "inventories",
        Kind::ProviderTraits => "traits",
        Kind::ProviderAggregates => "aggregates",
        Kind::Consumer => "allocations",
        Kind::Trait => "trait",
        Kind::Class => "resource_class",
        Kind::Group => "group",
        Kind::GroupMembers => "members",
        Kind::Plan => "plan",
        Kind::Placement => "placement",
    }
}

/// Describes an effect in words, for the history of changes.
pub fn summary(effect: &Effect) -> Summary {
    let (before, after) = (effect.before.as_ref(), effect.after.as_ref());
    let words = |state: Option<&ObjectState>, other| {
        state.map(|state| shown(Some(state), other, effect.kind).to_string())
    };
    Summary { kind: kind(effect.kind), before: words(before, after), after: words(after, before) }
}

/// Describes an effect by the states before and after; of lists, only the differences.
fn change(effect: &Effect) -> Value {
    let mut change = Map::new();
    change.insert("type".to_owned(), json!(kind(effect.kind)));
    change.insert("id".to_owned(), json!(effect.id));
    let (before, after) = (effect.before.as_ref(), effect.after.as_ref());
    change.insert("before".to_owned(), shown(before, after, effect.kind));
    change.insert("after".to_owned(), shown(after, before, effect.kind));
    Value::Object(change)
}

/// Describes a state, without the parts that the other one has as well.
fn shown(state: Option<&ObjectState>, other: Option<&ObjectState>, kind_of: Kind) -> Value {
    let Some(ObjectState { generation, content }) = state else { return Value::Null };
    let other = other.map(|other| &other.content);
    let mut shown = Map::new();
    put(&mut shown, "generation", generation.as_ref());
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
            names(&mut shown, kind(kind_of), all, other);
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
