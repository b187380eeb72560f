//! Events, and the changes that a transaction notes for them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::model::claim::{LockedState, Owner};
use crate::model::{self, ClassId, Generation, ProviderId};
use crate::store::effects::{ConsumerChange, Kind, Origin, PlaceNames, Recorder};
use crate::store::owners::OwnerNames;

/// An event in the database: a change and its author. Its number and time are assigned later.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct StoredEvent<'e> {
    #[serde(flatten)]
    pub(super) change: &'e Change,
    #[serde(flatten)]
    pub(super) made_by: MadeBy,
}

/// A change and the new state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// A provider, apart from the usage of its inventories.
    Provider {
        /// The provider.
        uuid: Uuid,
        /// The new state; `None`: it was deleted.
        provider: Option<ProviderState>,
    },
    /// A consumer.
    Consumer(ConsumerState),
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
}

/// The author of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Caller {
    /// The id of the user.
    pub user_id: Option<String>,
    /// The id of the user's project.
    pub project_id: Option<String>,
}

/// A provider, without the usage of its inventories.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderState {
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EventInventory")]
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

impl From<&model::Inventory> for Inventory {
    fn from(terms: &model::Inventory) -> Self {
        let model::Inventory { total, reserved, min_unit, max_unit, step_size, allocation_ratio } =
            *terms;
        Self { total, reserved, min_unit, max_unit, step_size, allocation_ratio }
    }
}

/// A consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConsumerState {
    /// The consumer.
    pub uuid: Uuid,
    /// Its project.
    pub project_id: String,
    /// Its user.
    pub user_id: String,
    /// Its type; `unknown` if it was never set.
    pub consumer_type: String,
    /// Its generation; `None`: it has no allocations any more, and so does not exist.
    pub consumer_generation: Option<i64>,
    /// Its allocations by provider, with the generation of the provider.
    pub allocations: BTreeMap<Uuid, ProviderAllocations>,
    /// The generations of providers on which it had allocations before, and has none now.
    pub left: BTreeMap<Uuid, i64>,
}

/// The allocations of a consumer on a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AllocationsOfConsumer")]
pub struct ProviderAllocations {
    /// The generation of the provider.
    pub generation: i64,
    /// Amounts by resource class.
    pub resources: BTreeMap<String, i64>,
}

/// The changes of a transaction so far.
#[derive(Debug, Default)]
pub(in crate::store) struct NotedChanges {
    /// Providers with changes other than of their use.
    pub(in crate::store) providers: BTreeSet<i64>,
    /// Providers that were deleted.
    pub(in crate::store) gone: Vec<Uuid>,
    /// Consumers, in order.
    pub(in crate::store) consumers: Vec<(Recorder, NotedConsumer)>,
    /// Known names of owners by their keys.
    pub(in crate::store) owner_names: OwnerNames,
    pub(super) names: Vec<Change>,
}

/// The change of a consumer, with the keys of its owners.
#[derive(Debug)]
pub(in crate::store) struct NotedConsumer {
    pub(super) uuid: Uuid,
    pub(super) generation: Option<Generation>,
    pub(super) owner: Owner,
    pub(super) allocations: BTreeMap<Uuid, BTreeMap<String, i64>>,
    pub(super) providers: BTreeMap<Uuid, Generation>,
}

impl MadeBy {
    /// Returns the author of the changes of a request; `None`: no request, as for holds that expire.
    pub(super) fn of(origin: Option<&Origin>) -> Self {
        let Some(origin) = origin else { return Self::default() };
        let (user_id, project_id) = (origin.user.clone(), origin.project.clone());
        let is_known = user_id.is_some() || project_id.is_some();
        Self {
            request_id: Some(origin.request_id.clone()),
            global_request_id: origin.global_request_id.clone(),
            caller: is_known.then_some(Caller { user_id, project_id }),
        }
    }
}

impl NotedChanges {
    /// Records that a trait or a class was created, deleted or renamed.
    pub(in crate::store) fn name(&mut self, kind: Kind, before: Option<&str>, after: Option<&str>) {
        let (before, after) = (before.map(str::to_owned), after.map(str::to_owned));
        match kind {
            Kind::Trait => self.names.push(Change::Trait { before, after }),
            Kind::Class => self.names.push(Change::ResourceClass { before, after }),
            Kind::Provider
            | Kind::Inventories
            | Kind::ProviderTraits
            | Kind::ProviderAggregates
            | Kind::Consumer
            | Kind::Group
            | Kind::GroupMembers
            | Kind::Plan
            | Kind::Placement => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.providers.is_empty()
            && self.gone.is_empty()
            && self.consumers.is_empty()
            && self.names.is_empty()
    }
}

impl NotedConsumer {
    /// Returns the change of a consumer in a judged state.
    pub(in crate::store) fn of(
        ConsumerChange { uuid, before, now }: ConsumerChange<'_>,
        names: &PlaceNames,
        state: &LockedState,
    ) -> Option<Self> {
        let owner = now.or(before)?.owner;
        let mut allocations = BTreeMap::<Uuid, BTreeMap<String, i64>>::new();
        for ((provider, class), amount) in now.iter().flat_map(|now| &now.holds) {
            let (provider, class) = names.of_place(*provider, *class)?;
            allocations.entry(provider).or_default().insert(class.to_owned(), *amount);
        }
        let held = [before, now].into_iter().flatten().flat_map(|it| it.holds.keys());
        let providers = held.filter_map(|(provider, class): &(ProviderId, ClassId)| {
            let (uuid, _) = names.of_place(*provider, *class)?;
            Some((uuid, state.providers.get(&uuid)?.generation))
        });
        let providers = providers.collect();
        let generation = now.map(|now| now.generation);
        Some(Self { uuid, generation, owner, allocations, providers })
    }
}
