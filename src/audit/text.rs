//! Entries in Berth's own form.

use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::contents::{EntryContents, Outcome};
use crate::auth::policy::Caller;
use crate::store::described;
use crate::store::effects::Effect;

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

/// Describes an effect by the states before and after; of lists, only the differences.
fn change(effect: &Effect) -> Value {
    let (before, after) = described::states(effect);
    json!({"type": effect.kind.name(), "id": effect.id, "before": before, "after": after})
}
