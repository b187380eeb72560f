//! Entries of the history, in the form in which they are stored.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::store::described::{self, DescribedState};
use crate::store::effects::{Content, Effect, Kind, ObjectState, Recorder};

/// A change.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HistoryEntry {
    /// The number of its row. Of two rows with changes of one object, the later one has the higher number.
    #[serde(skip)]
    pub id: i64,
    /// The time of the change, as RFC 3339.
    #[serde(skip)]
    pub at: String,
    /// The time of the change, in seconds since 1970.
    #[serde(skip)]
    pub at_seconds: f64,
    /// The id of the request; `None` if there was none.
    pub request_id: Option<String>,
    /// The id that the client sent.
    pub global_request_id: Option<String>,
    /// The id of the caller.
    pub user: Option<String>,
    /// The id of the caller's project.
    pub project: Option<String>,
    /// The kind of the object.
    pub kind: String,
    /// The object's identity.
    pub object: String,
    /// The name of a provider.
    pub name: Option<String>,
    /// The generation after the change, or the last one.
    pub generation: Option<i64>,
    /// The state before.
    pub before: Option<Value>,
    /// The state after.
    pub after: Option<Value>,
    /// The UUIDs of the objects that it is about.
    pub subjects: BTreeSet<Uuid>,
}

/// A change to be stored. Its fields are those of [`HistoryEntry`].
#[derive(Serialize)]
pub(super) struct NewEntry<'e> {
    kind: &'static str,
    object: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<DescribedState<'e>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<DescribedState<'e>>,
    subjects: BTreeSet<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    global_request_id: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<&'e str>,
}

impl<'e> NewEntry<'e> {
    /// Describes an effect.
    pub(super) fn of(recorder: &'e Recorder, effect: &'e Effect) -> Self {
        let origin = recorder.origin();
        let state = effect.after.as_ref().or(effect.before.as_ref());
        let (before, after) = described::states(effect);
        Self {
            kind: effect.kind.name(),
            object: &effect.id,
            name: state.and_then(provider_name),
            generation: state.and_then(|state| state.generation),
            before,
            after,
            subjects: subjects(effect),
            request_id: origin.map(|origin| origin.request_id.as_str()),
            global_request_id: origin.and_then(|origin| origin.global_request_id.as_deref()),
            user: origin.and_then(|origin| origin.user.as_deref()),
            project: origin.and_then(|origin| origin.project.as_deref()),
        }
    }
}

fn provider_name(state: &ObjectState) -> Option<&str> {
    match &state.content {
        Content::Provider { name, .. } => Some(name),
        Content::Nothing
        | Content::Named(_)
        | Content::Inventories(_)
        | Content::Names(_)
        | Content::Allocations(_)
        | Content::Described(_)
        | Content::Instance(_) => None,
    }
}

/// Returns the objects that an effect is about: the changed one, and the providers and the instance that it names.
/// Classes and traits have no UUID.
fn subjects(effect: &Effect) -> BTreeSet<Uuid> {
    let mut subjects = BTreeSet::new();
    if !matches!(effect.kind, Kind::Class | Kind::Trait) {
        subjects.extend(Uuid::parse_str(&effect.id).ok());
    }
    for state in [&effect.before, &effect.after].into_iter().flatten() {
        match &state.content {
            Content::Allocations(amounts) => {
                subjects.extend(amounts.keys().map(|(provider, _)| *provider));
            }
            Content::Instance(instance) => {
                subjects.extend(instance.as_deref().and_then(|it| Uuid::parse_str(it).ok()));
            }
            Content::Nothing
            | Content::Named(_)
            | Content::Provider { .. }
            | Content::Inventories(_)
            | Content::Names(_)
            | Content::Described(_) => {}
        }
    }
    subjects
}
