//! Events: `GET /-/v1/events`, and as the database has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::consumers::Held;
use crate::model;
use crate::store::effects::Origin;
use crate::store::events as store;

/// A line of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number. Later events have greater numbers, but not the next ones.
    pub number: i64,
    /// When the change was made, as RFC 3339 writes it; `None` for what is no change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What it is.
    #[serde(flatten)]
    pub change: Change,
    /// Who has made the change.
    #[serde(flatten)]
    pub made_by: MadeBy,
}

/// What has changed, and how it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// A provider, apart from the use of its inventories.
    Provider {
        /// The provider.
        uuid: Uuid,
        /// The provider as it is now; `None`: it was deleted.
        provider: Option<Provider>,
    },
    /// A consumer.
    Consumer {
        /// The consumer.
        uuid: Uuid,
        /// Its project.
        project_id: String,
        /// Its user.
        user_id: String,
        /// Its type; `unknown` if it was never said.
        consumer_type: String,
        /// Its generation; `None`: it holds nothing any more, and so does not exist.
        consumer_generation: Option<i64>,
        /// What it holds, by provider, with the generation of the provider.
        allocations: BTreeMap<Uuid, Held>,
        /// The generations of the providers on which it held something before, and does not now.
        left: BTreeMap<Uuid, i64>,
    },
    /// A trait.
    Trait {
        /// Its name before; `None`: it did not exist.
        before: Option<String>,
        /// Its name now; `None`: it does not exist.
        after: Option<String>,
    },
    /// A resource class.
    ResourceClass {
        /// Its name before; `None`: it did not exist.
        before: Option<String>,
        /// Its name now; `None`: it does not exist.
        after: Option<String>,
    },
    /// No change: all changes up to the number have been sent.
    Position {},
    /// No change: events are missing, and this is the end.
    Gap {
        /// Why, and what to do.
        detail: String,
    },
    /// No change: this is the end. The client can go on from the number.
    End {
        /// Why.
        detail: String,
    },
}

/// Who has made a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeBy {
    /// The id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The id that the client sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_request_id: Option<String>,
    /// The caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Caller>,
}

/// A caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The id of the user.
    pub user_id: Option<String>,
    /// The id of the user's project.
    pub project_id: Option<String>,
}

/// A provider as it is, without the use of its inventories.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provider {
    /// The provider.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// Its generation.
    pub generation: i64,
    /// Its parent.
    pub parent_provider_uuid: Option<Uuid>,
    /// The root of its tree.
    pub root_provider_uuid: Uuid,
    /// Its inventories by class.
    pub inventories: BTreeMap<String, Inventory>,
    /// Its traits.
    pub traits: Vec<String>,
    /// Its aggregates.
    pub aggregates: Vec<String>,
}

/// An inventory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Units in all.
    pub total: i32,
    /// Units that are kept back.
    pub reserved: i32,
    /// The least amount of one allocation.
    pub min_unit: i32,
    /// The greatest amount of one allocation.
    pub max_unit: i32,
    /// What each amount is a multiple of.
    pub step_size: i32,
    /// By how much more is given out than there is.
    pub allocation_ratio: f64,
}

/// An event as the database has it: without number and time, which are known later.
#[derive(Serialize)]
struct Stored {
    #[serde(flatten)]
    change: Change,
    #[serde(flatten)]
    made_by: MadeBy,
}

/// Events as the database has them: a JSON list.
pub fn written(events: &[store::Event<'_>]) -> String {
    let stored: Vec<Stored> = events
        .iter()
        .map(|event| Stored {
            change: change(event.change),
            made_by: event.origin.map_or_else(MadeBy::default, made_by),
        })
        .collect();
    serde_json::to_string(&stored)
        .unwrap_or_else(|error| model::Bug::raise(format!("events cannot be written: {error}")))
}

fn made_by(origin: &Origin) -> MadeBy {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let (user_id, project_id) = (text(origin.user()), text(origin.project()));
    let is_known = user_id.is_some() || project_id.is_some();
    MadeBy {
        request_id: Some(origin.request_id.clone()),
        global_request_id: origin.global_request_id.clone(),
        caller: is_known.then_some(Caller { user_id, project_id }),
    }
}

fn change(change: &store::Change) -> Change {
    match change {
        store::Change::Provider(uuid, state) => Change::Provider {
            uuid: *uuid,
            provider: state.as_ref().map(|state| provider(*uuid, state)),
        },
        store::Change::Consumer(state) => consumer(state),
        store::Change::Trait(before, after) => {
            Change::Trait { before: before.clone(), after: after.clone() }
        }
        store::Change::Class(before, after) => {
            Change::ResourceClass { before: before.clone(), after: after.clone() }
        }
    }
}

fn provider(uuid: Uuid, state: &store::ProviderState) -> Provider {
    let inventories = state.inventories.iter();
    Provider {
        uuid,
        name: state.name.clone(),
        generation: state.generation,
        parent_provider_uuid: state.parent,
        root_provider_uuid: state.root,
        inventories: inventories.map(|(class, terms)| (class.clone(), (*terms).into())).collect(),
        traits: state.traits.clone(),
        aggregates: state.aggregates.clone(),
    }
}

impl From<model::Inventory> for Inventory {
    fn from(terms: model::Inventory) -> Self {
        let model::Inventory { total, reserved, min_unit, max_unit, step_size, allocation_ratio } =
            terms;
        Self { total, reserved, min_unit, max_unit, step_size, allocation_ratio }
    }
}

fn consumer(state: &store::ConsumerState) -> Change {
    let mut left = state.providers.clone();
    let allocations = state.allocations.iter().filter_map(|(provider, resources)| {
        let generation = left.remove(provider)?;
        Some((*provider, Held { generation, resources: resources.clone() }))
    });
    let allocations = allocations.collect();
    Change::Consumer {
        uuid: state.uuid,
        project_id: state.project.clone(),
        user_id: state.user.clone(),
        consumer_type: state.consumer_type.clone().unwrap_or_else(|| "unknown".to_owned()),
        consumer_generation: state.generation,
        allocations,
        left,
    }
}
