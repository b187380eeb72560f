//! Effects of changes, for the audit log, the history and events: the state that a change found within its
//! transaction, and the state that it left. They are recorded after the commit.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use uuid::Uuid;

use super::change::Tx;
use super::error::Result;
use super::events::NotedConsumer;
use super::providers::ProviderLock;
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
#[derive(Debug, Default)]
pub struct Origin {
    /// The id of the request.
    pub request_id: String,
    /// The id of the client's own request that this one is part of, as the client states it.
    pub global_request_id: Option<String>,
    caller: OnceLock<(Option<String>, Option<String>)>,
}

impl Origin {
    /// Makes the origin of a request whose caller is not known yet.
    pub fn new(request_id: String, global_request_id: Option<String>) -> Self {
        Self { request_id, global_request_id, caller: OnceLock::new() }
    }

    /// Sets the caller, by the ids of user and project. Later calls have no effect.
    pub fn sent_by(&self, user: Option<String>, project: Option<String>) {
        self.caller.get_or_init(|| (user, project));
    }

    /// Returns the id of the caller, if known.
    pub fn user(&self) -> Option<&str> {
        self.caller.get()?.0.as_deref()
    }

    /// Returns the id of the caller's project, if known.
    pub fn project(&self) -> Option<&str> {
        self.caller.get()?.1.as_deref()
    }
}

/// The recorder of the effects of the present request, and facts about the request.
#[derive(Clone, Debug)]
pub struct Recorder {
    record: Option<Arc<dyn Record>>,
    origin: Option<Arc<Origin>>,
}

tokio::task_local! {
    static RECORDER: Recorder;
}

impl Recorder {
    /// Makes a recorder for a request. Without `record`, it records nothing.
    pub fn new(record: Option<Arc<dyn Record>>, origin: Arc<Origin>) -> Self {
        Self { record, origin: Some(origin) }
    }

    /// Makes a recorder that records nothing.
    pub(super) const fn none() -> Self {
        Self { record: None, origin: None }
    }

    /// Runs `work` so that all changes it starts are recorded here.
    pub async fn during<F: Future>(self, work: F) -> F::Output {
        RECORDER.scope(self, work).await
    }

    /// Returns the recorder of the current task.
    pub(super) fn current() -> Self {
        RECORDER.try_with(Clone::clone).unwrap_or_else(|_| Self::none())
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

/// A list of a provider before a change, as it was when the provider was locked.
pub(super) struct ListBefore {
    kind: Kind,
    provider: ProviderLock,
    content: Content,
}

impl Tx<'_> {
    /// Returns whether the history or the audit log records this transaction.
    fn is_recorded(&self) -> bool {
        self.history.is_some() || self.recorder.is_on()
    }

    /// Adds an effect, to be recorded if the transaction commits. `effect` is called only if effects are recorded.
    pub(super) fn note(&mut self, effect: impl FnOnce() -> Effect) {
        if self.is_recorded() {
            let effect = (self.recorder.clone(), effect());
            self.effects.push(effect);
        }
    }

    /// Records that an object with a name was created, deleted or changed.
    pub(super) fn note_named(
        &mut self,
        kind: Kind,
        id: &str,
        before: Option<&str>,
        after: Option<&str>,
    ) {
        if let Some(noted) = &mut self.noted {
            noted.name(kind, before, after);
        }
        self.note(|| Effect {
            kind,
            id: id.to_owned(),
            before: before.map(ObjectState::named),
            after: after.map(ObjectState::named),
        });
    }

    /// Reads a list of a locked provider before it changes; `None` if effects are not recorded.
    pub(super) async fn before(
        &mut self,
        kind: Kind,
        provider: ProviderLock,
    ) -> Result<Option<ListBefore>> {
        if !self.is_recorded() {
            return Ok(None);
        }
        let content = self.content(kind, provider.id).await?;
        Ok(Some(ListBefore { kind, provider, content }))
    }

    /// Records the new state of the list. `generation` is the provider's new generation.
    pub(super) async fn note_since(
        &mut self,
        before: Option<ListBefore>,
        generation: Generation,
    ) -> Result<()> {
        let Some(ListBefore { kind, provider, content }) = before else { return Ok(()) };
        let now = self.content(kind, provider.id).await?;
        let state =
            |generation, content| Some(ObjectState { generation: Some(generation), content });
        self.note(|| Effect {
            kind,
            id: provider.uuid.to_string(),
            before: state(provider.generation, content),
            after: state(generation, now),
        });
        Ok(())
    }

    /// Records the new state of a provider, with its state `before`, if effects are recorded.
    pub(super) async fn note_provider(
        &mut self,
        uuid: Uuid,
        before: Option<ObjectState>,
    ) -> Result<()> {
        let after = self.provider(uuid).await?;
        self.note(|| Effect { kind: Kind::Provider, id: uuid.to_string(), before, after });
        Ok(())
    }

    /// Records that a provider was deleted.
    pub(super) fn note_gone(&mut self, uuid: Uuid) {
        if let Some(noted) = &mut self.noted {
            noted.gone.push(uuid);
        }
    }

    /// Returns the state of a provider, if it exists and effects are recorded.
    pub(super) async fn provider(&mut self, uuid: Uuid) -> Result<Option<ObjectState>> {
        if !self.is_recorded() {
            return Ok(None);
        }
        let row = sqlx::query!(
            r#"select p.name, p.generation, parent.uuid as "parent?" from providers p
               left join providers parent on parent.id = p.parent_id where p.uuid = $1"#,
            uuid
        )
        .fetch_optional(&mut *self.conn)
        .await?;
        Ok(row.map(|row| ObjectState {
            generation: Some(row.generation),
            content: Content::Provider { name: row.name, parent: row.parent },
        }))
    }

    async fn content(&mut self, kind: Kind, provider: ProviderId) -> Result<Content> {
        Ok(match kind {
            Kind::Inventories => Content::Inventories(self.inventories(provider).await?),
            Kind::ProviderTraits => Content::Names(self.traits(provider).await?),
            Kind::ProviderAggregates
            | Kind::Provider
            | Kind::Consumer
            | Kind::Trait
            | Kind::Class
            | Kind::Group
            | Kind::GroupMembers
            | Kind::Plan
            | Kind::Placement => Content::Names(self.aggregates(provider).await?),
        })
    }

    async fn inventories(&mut self, provider: ProviderId) -> Result<BTreeMap<String, Inventory>> {
        let rows = sqlx::query!(
            "select name, total, reserved, min_unit, max_unit, step_size, allocation_ratio
             from inventories join resource_classes on id = class_id where provider_id = $1",
            provider.0
        )
        .fetch_all(&mut *self.conn)
        .await?;
        let terms = rows.into_iter().map(|row| {
            let terms = Inventory {
                total: row.total,
                reserved: row.reserved,
                min_unit: row.min_unit,
                max_unit: row.max_unit,
                step_size: row.step_size,
                allocation_ratio: row.allocation_ratio,
            };
            (row.name, terms)
        });
        Ok(terms.collect())
    }

    async fn traits(&mut self, provider: ProviderId) -> Result<BTreeSet<String>> {
        let names = sqlx::query_scalar!(
            "select name from provider_traits join traits on id = trait_id where provider_id = $1",
            provider.0
        )
        .fetch_all(&mut *self.conn)
        .await?;
        Ok(names.into_iter().collect())
    }

    async fn aggregates(&mut self, provider: ProviderId) -> Result<BTreeSet<String>> {
        let aggregates = sqlx::query_scalar!(
            "select aggregate from provider_aggregates where provider_id = $1",
            provider.0
        )
        .fetch_all(&mut *self.conn)
        .await?;
        Ok(aggregates.iter().map(Uuid::to_string).collect())
    }

    /// Records the changes of all consumers since they were locked. A transaction calls this once.
    pub(super) fn note_consumers(&mut self, state: &LockedState) {
        if !self.is_recorded() && self.noted.is_none() {
            return;
        }
        let (names, recorder) = (PlaceNames::of(state), self.recorder.clone());
        for (uuid, consumer) in &state.consumers {
            let (before, now) = (consumer.before.as_ref(), consumer.now.as_ref());
            self.note_consumer((*uuid, before, now), &names, state, &recorder);
        }
    }

    /// Records the change of a consumer by one request.
    pub(super) fn note_consumer(
        &mut self,
        (uuid, before, now): (Uuid, Option<&Consumer>, Option<&Consumer>),
        names: &PlaceNames,
        state: &LockedState,
        recorder: &Recorder,
    ) {
        if before == now {
            return;
        }
        if self.history.is_some() || recorder.is_on() {
            self.effects.push((recorder.clone(), names.effect(uuid, before, now)));
        }
        if let Some(noted) = &mut self.noted {
            let consumer = NotedConsumer::of((uuid, before, now), names, state);
            noted.consumers.extend(consumer.map(|consumer| (recorder.clone(), consumer)));
        }
    }
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
    pub(super) fn effect(
        &self,
        uuid: Uuid,
        before: Option<&Consumer>,
        now: Option<&Consumer>,
    ) -> Effect {
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
