//! Events, and the changes that a transaction notes for them.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::model::claim::{Consumer, LockedState, Owner};
use crate::model::{ClassId, Generation, Inventory, ProviderId};
use crate::store::effects::{Kind, Origin, PlaceNames, Recorder};
use crate::store::owners::OwnerNames;

/// An event: a change, and the request behind it.
#[derive(Clone, Copy, Debug)]
pub struct Event<'e> {
    /// The change.
    pub change: &'e Change,
    /// The request; `None` if there was none, as for holds that expire.
    pub origin: Option<&'e Origin>,
}

/// A change with the new state.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A provider, apart from the use of its inventories; `None`: it was deleted.
    Provider(Uuid, Option<ProviderState>),
    /// A consumer.
    Consumer(ConsumerState),
    /// A trait: its name before, and now.
    Trait(Option<String>, Option<String>),
    /// A resource class: its name before, and now.
    Class(Option<String>, Option<String>),
}

/// A provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderState {
    /// Its name.
    pub name: String,
    /// Its generation.
    pub generation: Generation,
    /// Its parent.
    pub parent: Option<Uuid>,
    /// The root of its tree.
    pub root: Uuid,
    /// Its inventories by class.
    pub inventories: Vec<(String, Inventory)>,
    /// Its traits.
    pub traits: Vec<String>,
    /// Its aggregates, as clients spelled them.
    pub aggregates: Vec<String>,
}

/// A consumer.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerState {
    /// The consumer.
    pub uuid: Uuid,
    /// Its generation; `None`: it has no allocations any more, and so does not exist.
    pub generation: Option<Generation>,
    /// Its project, or the last one.
    pub project: String,
    /// Its user, or the last one.
    pub user: String,
    /// Its type, or the last one; `None` if no client has given one.
    pub consumer_type: Option<String>,
    /// Its allocations, by provider and class.
    pub allocations: BTreeMap<Uuid, BTreeMap<String, i64>>,
    /// The generations of all providers on which it has or had allocations.
    pub providers: BTreeMap<Uuid, Generation>,
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

impl NotedChanges {
    /// Records that a trait or a class was created, deleted or renamed.
    pub(in crate::store) fn name(&mut self, kind: Kind, before: Option<&str>, after: Option<&str>) {
        let (before, after) = (before.map(str::to_owned), after.map(str::to_owned));
        match kind {
            Kind::Trait => self.names.push(Change::Trait(before, after)),
            Kind::Class => self.names.push(Change::Class(before, after)),
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
        (uuid, before, now): (Uuid, Option<&Consumer>, Option<&Consumer>),
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
