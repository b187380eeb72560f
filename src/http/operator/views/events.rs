//! Events: the lines of `GET /-/v1/events`, and their form in the database.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::consumers::ProviderAllocations;
use crate::model;
use crate::store::effects::Origin;
use crate::store::events as store;

/// A line of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number. Numbers increase, but are not consecutive.
    pub number: i64,
    /// Time of the change in RFC 3339 form; `None` for other messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The change or message.
    #[serde(flatten)]
    pub change: Change,
    /// The author of the change.
    #[serde(flatten)]
    pub made_by: MadeBy,
}

/// A change and the new state, or another message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// A provider, apart from the usage of its inventories.
    Provider {
        /// The provider.
        uuid: Uuid,
        /// The new state; `None`: it was deleted.
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
        /// Its type; `unknown` if it was never set.
        consumer_type: String,
        /// Its generation; `None`: it has no allocations any more, and so does not exist.
        consumer_generation: Option<i64>,
        /// Its allocations by provider, with the generation of the provider.
        allocations: BTreeMap<Uuid, ProviderAllocations>,
        /// The generations of providers on which it had allocations before, and has none now.
        left: BTreeMap<Uuid, i64>,
    },
    /// A trait.
    Trait {
        /// The old name; `None`: it did not exist.
        before: Option<String>,
        /// The new name; `None`: it was deleted.
        after: Option<String>,
    },
    /// A resource class.
    ResourceClass {
        /// The old name; `None`: it did not exist.
        before: Option<String>,
        /// The new name; `None`: it was deleted.
        after: Option<String>,
    },
    /// All changes up to the number have been sent.
    Position {},
    /// The stream ends, and events are missing.
    Gap {
        /// The reason, and what to do.
        detail: String,
    },
    /// The stream ends. The client can continue from the number.
    End {
        /// The reason.
        detail: String,
    },
}

/// The author of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeBy {
    /// The request id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The id of the client's own request.
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

/// A provider, without the usage of its inventories.
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
    /// The total.
    pub total: i32,
    /// The reserved part of the total.
    pub reserved: i32,
    /// Minimum amount of an allocation.
    pub min_unit: i32,
    /// Maximum amount of an allocation.
    pub max_unit: i32,
    /// Step of the amounts.
    pub step_size: i32,
    /// The factor of overcommitment.
    pub allocation_ratio: f64,
}

/// An event in the database: without number and time, which are assigned later.
#[derive(Serialize)]
struct Stored {
    #[serde(flatten)]
    change: Change,
    #[serde(flatten)]
    made_by: MadeBy,
}

/// Serializes events for the database: a JSON list.
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
        Some((*provider, ProviderAllocations { generation, resources: resources.clone() }))
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
