//! Notes the effects of a transaction.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::effects::{ConsumerChange, Content, Effect, Kind, ObjectState, PlaceNames, Recorder};
use super::error::Result;
use super::events::event::NotedConsumer;
use super::provider_lock::ProviderLock;
use super::tx::Tx;
use crate::model::claim::LockedState;
use crate::model::{Generation, Inventory, ProviderId};

/// A list of a provider before a change, as it was when the provider was locked.
pub(super) struct ListBefore {
    kind: Kind,
    provider: ProviderLock,
    content: Content,
}

impl Tx<'_> {
    /// Returns whether the history or the audit log records this transaction.
    fn is_recorded(&self) -> bool {
        self.has_history || self.recorder.is_on()
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
            let change = ConsumerChange { uuid: *uuid, before, now };
            self.note_consumer(change, &names, state, &recorder);
        }
    }

    /// Records the change of a consumer by one request.
    pub(super) fn note_consumer(
        &mut self,
        change: ConsumerChange<'_>,
        names: &PlaceNames,
        state: &LockedState,
        recorder: &Recorder,
    ) {
        if change.before == change.now {
            return;
        }
        if self.has_history || recorder.is_on() {
            self.effects.push((recorder.clone(), names.effect(change)));
        }
        if let Some(noted) = &mut self.noted {
            let consumer = NotedConsumer::of(change, names, state);
            noted.consumers.extend(consumer.map(|consumer| (recorder.clone(), consumer)));
        }
    }
}
