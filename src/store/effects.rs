//! Effects of changes, for the audit log, the history and events: the state that a change found within its
//! transaction, and the state that it left. They are recorded after the commit.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use uuid::Uuid;

use crate::model::claim::{Consumer, LockedState};
use crate::model::{ClassId, Generation, Inventory, ProviderId};

/// The effect of a change on one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The kind of the object.
    pub kind: Kind,
    /// Its identity: a UUID, or the name of a class or trait.
    pub id: String,
    /// The state that the change found; `None`: it did not exist.
    pub before: Option<ObjectState>,
    /// The state that it left; `None`: it does not exist any more.
    pub after: Option<ObjectState>,
}

/// The kind of a changed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A resource provider: its name and its parent.
    Provider,
    /// The inventories of a provider.
    Inventories,
    /// The traits of a provider.
    ProviderTraits,
    /// The aggregates of a provider.
    ProviderAggregates,
    /// The allocations of a consumer.
    Consumer,
    /// A trait.
    Trait,
    /// A resource class.
    Class,
    /// A group of the planner.
    Group,
    /// The members of a group.
    GroupMembers,
    /// A plan.
    Plan,
    /// A placement of a plan: the instance that it is reserved for.
    Placement,
}

impl Kind {
    /// Returns the name of the kind in the history and the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Provider => "resource_provider",
            Self::Inventories => "inventories",
            Self::ProviderTraits => "traits",
            Self::ProviderAggregates => "aggregates",
            Self::Consumer => "allocations",
            Self::Trait => "trait",
            Self::Class => "resource_class",
            Self::Group => "group",
            Self::GroupMembers => "members",
            Self::Plan => "plan",
            Self::Placement => "placement",
        }
    }
}

/// The state of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectState {
    /// Its generation, if it has one.
    pub generation: Option<Generation>,
    /// Its content.
    pub content: Content,
}

/// The content of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// No recorded content.
    Nothing,
    /// A name.
    Named(String),
    /// A name and a parent.
    Provider {
        /// The name.
        name: String,
        /// The parent.
        parent: Option<Uuid>,
    },
    /// Inventories by the name of their class.
    Inventories(BTreeMap<String, Inventory>),
    /// Names of traits or aggregates, or ids of members.
    Names(BTreeSet<String>),
    /// Amounts by provider and class.
    Allocations(BTreeMap<(Uuid, String), i64>),
    /// A description, if there is one.
    Described(Option<String>),
    /// The instance of a placement, as clients name it; `None`: it has none.
    Instance(Option<String>),
}

/// A recorder of effects.
pub trait Record: Debug + Send + Sync {
    /// Records an effect that has been committed.
    fn record(&self, effect: Effect);
}

/// The request behind a change, for the history of changes.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The id of the request.
    pub request_id: String,
    /// The id of the client's own request that this one is part of, as the client states it.
    pub global_request_id: Option<String>,
    /// The id of the caller, if known.
    pub user: Option<String>,
    /// The id of the caller's project, if known.
    pub project: Option<String>,
}

impl Origin {
    /// Makes the origin of a request whose caller is not known yet.
    pub fn new(request_id: String, global_request_id: Option<String>) -> Self {
        Self { request_id, global_request_id, user: None, project: None }
    }
}

/// The recorder of the effects of a request, and facts about the request.
#[derive(Clone, Debug)]
pub struct Recorder {
    record: Option<Arc<dyn Record>>,
    origin: Option<Arc<Origin>>,
}

impl Recorder {
    /// Makes a recorder for a request. Without `record`, it records nothing.
    pub fn new(record: Option<Arc<dyn Record>>, origin: Origin) -> Self {
        Self { record, origin: Some(Arc::new(origin)) }
    }

    /// Sets the caller of the request, by the ids of user and project.
    pub fn sent_by(&mut self, user: Option<String>, project: Option<String>) {
        if let Some(origin) = &mut self.origin {
            let origin = Arc::make_mut(origin);
            (origin.user, origin.project) = (user, project);
        }
    }

    /// Makes a recorder that records nothing.
    pub const fn none() -> Self {
        Self { record: None, origin: None }
    }

    /// Returns whether anything is recorded.
    pub(super) fn is_on(&self) -> bool {
        self.record.is_some()
    }

    pub(super) fn record(&self, effect: Effect) {
        if let Some(record) = &self.record {
            record.record(effect);
        }
    }

    /// Returns the request; `None` if there is none, as for holds that expire.
    pub(super) fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }
}

impl ObjectState {
    /// Makes the state of an object that has only a name.
    pub(super) fn named(name: &str) -> Self {
        Self { generation: None, content: Content::Named(name.to_owned()) }
    }

    /// Makes the state of a list of members.
    pub(super) fn members(members: &[String]) -> Self {
        let names = members.iter().cloned().collect();
        Self { generation: None, content: Content::Names(names) }
    }
}

/// A consumer before and after a request.
#[derive(Clone, Copy)]
pub(super) struct ConsumerChange<'c> {
    pub(super) uuid: Uuid,
    pub(super) before: Option<&'c Consumer>,
    pub(super) now: Option<&'c Consumer>,
}

/// Names of the providers and classes in allocations.
pub(super) struct PlaceNames {
    providers: HashMap<ProviderId, Uuid>,
    classes: HashMap<ClassId, String>,
}

impl PlaceNames {
    /// Collects the names of all locked rows.
    pub(super) fn of(state: &LockedState) -> Self {
        Self {
            providers: state.providers.iter().map(|(uuid, it)| (it.id, *uuid)).collect(),
            classes: state.classes.iter().map(|(name, id)| (*id, name.clone())).collect(),
        }
    }

    /// Returns the UUID of a provider and the name of a class. All that consumers hold is locked, so it has names.
    pub(super) fn of_place(&self, provider: ProviderId, class: ClassId) -> Option<(Uuid, &str)> {
        Some((*self.providers.get(&provider)?, self.classes.get(&class)?))
    }

    /// Returns the effect on a consumer.
    pub(super) fn effect(&self, change: ConsumerChange<'_>) -> Effect {
        let ConsumerChange { uuid, before, now } = change;
        let state = |consumer: &Consumer| ObjectState {
            generation: Some(consumer.generation),
            content: Content::Allocations(
                consumer
                    .holds
                    .iter()
                    .filter_map(|((provider, class), amount)| {
                        let (provider, class) = self.of_place(*provider, *class)?;
                        Some(((provider, class.to_owned()), *amount))
                    })
                    .collect(),
            ),
        };
        Effect {
            kind: Kind::Consumer,
            id: uuid.to_string(),
            before: before.map(state),
            after: now.map(state),
        }
    }
}
