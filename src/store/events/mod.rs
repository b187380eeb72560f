//! The log of events, which clients follow: every change of providers, consumers, traits and resource classes, with
//! the state that it left. It is written in the transaction of the change, so it has exactly the committed
//! changes; [`numbering`] numbers them afterwards, [`reading`] reads by number, [`tail`] publishes the last
//! number, and [`retention`] removes old events.
//!
//! # Numbers
//!
//! Transactions cannot know in which order they will commit. So rows have no numbers, but a sequence number that
//! is drawn when everything that the transaction changes is locked. From time to time a replica takes a snapshot
//! and stores it as a *batch*: it has the transactions that are visible in this snapshot and not in that of the
//! previous batch, in the order of their sequence numbers, which fixes the number of each event.
//!
//! Example: transaction A changes a provider, draws 7 and stays open; B changes another one, draws 8 and commits.
//! A batch has B alone; A is in a later one, whose snapshot sees it. Had B waited for a lock of A, it would have
//! drawn its number after A's commit. So an event comes after all that its transaction could have seen.
//!
//! Numbers start at the microseconds since 1970 if that is more than the previous number. Whatever state a
//! database is restored to, no number is used twice, and an unknown number is recognised.

mod describing;
mod numbering;
pub mod reading;
mod retention;
mod snapshot_number;
mod tail;

use std::collections::{BTreeMap, BTreeSet};

use sqlx::PgConnection;
use uuid::Uuid;

use super::Result;
use super::effects::{Kind, Origin, Recorder};
use super::owners::OwnerNames;
use crate::model::claim::{Consumer, LockedState, Owner};
use crate::model::{ClassId, Generation, Inventory, ProviderId};
pub(super) use numbering::reach_now;
pub(super) use retention::remove_old;
pub(super) use snapshot_number::Numbering;
pub(super) use tail::Tail;

/// A transaction that changes more providers than this is not described: the log restarts.
const PROVIDERS_MAX: usize = 1000;

/// Settings of the log of events.
#[derive(Clone, Copy, Debug)]
pub struct EventLog {
    /// Age at which events are removed, in hours.
    pub hours: u16,
    /// Writes events as a JSON list.
    pub write: fn(&[Event<'_>]) -> String,
}

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
pub(super) struct NotedChanges {
    /// Providers with changes other than of their use.
    pub(super) providers: BTreeSet<i64>,
    /// Providers that were deleted.
    pub(super) gone: Vec<Uuid>,
    /// Consumers, in order.
    pub(super) consumers: Vec<(Recorder, NotedConsumer)>,
    /// Known names of owners by their keys.
    pub(super) owner_names: OwnerNames,
    names: Vec<Change>,
}

/// The change of a consumer, with the keys of its owners.
#[derive(Debug)]
pub(super) struct NotedConsumer {
    uuid: Uuid,
    generation: Option<Generation>,
    owner: Owner,
    allocations: BTreeMap<Uuid, BTreeMap<String, i64>>,
    providers: BTreeMap<Uuid, Generation>,
}

impl NotedChanges {
    /// Records that a trait or a class was created, deleted or renamed.
    pub(super) fn name(&mut self, kind: Kind, before: Option<&str>, after: Option<&str>) {
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

    fn is_empty(&self) -> bool {
        self.providers.is_empty()
            && self.gone.is_empty()
            && self.consumers.is_empty()
            && self.names.is_empty()
    }
}

impl NotedConsumer {
    /// Returns the change of a consumer in a judged state.
    pub(super) fn of(
        (uuid, before, now): (Uuid, Option<&Consumer>, Option<&Consumer>),
        names: &super::effects::PlaceNames,
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

impl EventLog {
    /// Adds the changes of a transaction to the change log and to this one.
    ///
    /// # Errors
    /// The database is unavailable.
    pub(super) async fn write(
        self,
        conn: &mut PgConnection,
        touched: &[i64],
        recorder: &Recorder,
        noted: NotedChanges,
    ) -> Result<()> {
        if noted.is_empty() && touched.is_empty() {
            return Ok(());
        }
        if noted.providers.len() > PROVIDERS_MAX {
            let count = noted.providers.len();
            tracing::info!("{count} providers have changed at once: the log of events restarts");
            return log(conn, touched).await;
        }
        let described = describing::changes(conn, noted).await?;
        let events: Vec<Event<'_>> = described
            .iter()
            .map(|(of, change)| {
                let origin = of.as_ref().map_or(recorder.origin(), Recorder::origin);
                Event { change, origin }
            })
            .collect();
        let count = i32::try_from(events.len())
            .map_err(|_| super::Error::bug("a transaction has too many events"))?;
        sqlx::query!(
            "with logged as (
                 insert into change_log (providers)
                 select $1::bigint[] where cardinality($1::bigint[]) > 0
             )
             insert into events (count, entries) values ($2, $3)",
            touched,
            count,
            (self.write)(&events)
        )
        .execute(conn)
        .await?;
        Ok(())
    }
}

/// Adds the changed providers of a transaction to the change log.
pub(super) async fn log(conn: &mut PgConnection, touched: &[i64]) -> Result<()> {
    if !touched.is_empty() {
        sqlx::query!("insert into change_log (providers) values ($1)", touched)
            .execute(conn)
            .await?;
    }
    Ok(())
}
