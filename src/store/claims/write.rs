//! Writes a judged state: the difference between the state as it was locked and as it is now, in one
//! statement.

use std::collections::BTreeMap;

use sqlx::PgConnection;

use super::locked::{LockedClaims, StoredConsumer};
use crate::model::claim::{Consumer, ConsumerState, LockedState};
use crate::model::{ClassId, ProviderId};
use crate::store::error::{Error, Result};
use crate::store::log_entry::{LogEntry, UseEntry};
use crate::store::tx::Tx;

/// Writes the difference between the state as it was locked and as it is now. Of inventories, only their use is
/// changed here.
///
/// # Errors
/// Those of the database; a bug if allocations and inventories do not add up.
pub(in crate::store) async fn write(
    tx: &mut Tx<'_>,
    locked: &LockedClaims,
    moved: &GenerationSteps,
) -> Result<()> {
    locked.state.balance()?;
    let mut rows = Rows::default();
    for (uuid, consumer) in &locked.state.consumers {
        if let Some(row) = locked.rows.get(uuid) {
            rows.add_consumer(row, consumer);
            if consumer.before != consumer.now {
                tx.logged.push(LogEntry::consumer(*uuid, row.id, consumer.now.as_ref()));
            }
            if locked.planner_role.has_placements && consumer.before != consumer.now {
                tx.touch_hold(row.id);
            }
        }
    }
    let mut uses: BTreeMap<ProviderId, UseEntry> = BTreeMap::new();
    for ((provider, class), inventory) in &locked.state.inventories {
        if inventory.used != inventory.used_before {
            rows.inventory.0.push(provider.0);
            rows.inventory.1.push(class.0);
            rows.inventory.2.push(inventory.used - inventory.used_before);
            let entry = uses.entry(*provider).or_insert_with(|| UseEntry::of(*provider));
            entry.used.push((class.0, inventory.used));
        }
    }
    for (provider, steps) in &moved.0 {
        rows.provider.0.push(provider.0);
        rows.provider.1.push(*steps);
    }
    for provider in locked.state.providers.values() {
        if moved.0.contains_key(&provider.id) {
            let entry = uses.entry(provider.id).or_insert_with(|| UseEntry::of(provider.id));
            entry.generation = Some(provider.generation);
        }
    }
    tx.logged.extend(uses.into_values().map(LogEntry::Use));
    rows.write(tx.conn).await
}

/// The steps by which the generations of providers moved.
#[derive(Debug, Default)]
pub(in crate::store) struct GenerationSteps(BTreeMap<ProviderId, i64>);

impl GenerationSteps {
    /// Remembers the generations as locked.
    pub(in crate::store) fn before(state: &LockedState) -> Self {
        Self(state.providers.values().map(|provider| (provider.id, provider.generation)).collect())
    }

    /// Returns the steps since [`GenerationSteps::before`].
    pub(in crate::store) fn since(mut self, state: &LockedState) -> Self {
        for provider in state.providers.values() {
            if let Some(generation) = self.0.get_mut(&provider.id) {
                *generation = provider.generation - *generation;
            }
        }
        self.0.retain(|_, steps| *steps != 0);
        self
    }
}

/// The rows to write, column by column.
#[derive(Default)]
struct Rows {
    /// Consumers and providers between which allocations end.
    gone: (Vec<i64>, Vec<i64>),
    held: AllocationSets,
    /// Changes of `inventories.used`.
    inventory: (Vec<i64>, Vec<i32>, Vec<i64>),
    /// Steps of provider generations.
    provider: (Vec<i64>, Vec<i64>),
    /// Consumers that are new or change: id and generation.
    consumer: (Vec<i64>, Vec<i64>),
    /// Their project, user and type.
    owner: (Vec<i64>, Vec<i64>, Vec<Option<i64>>),
    /// Consumers to delete.
    consumer_gone: Vec<i64>,
}

/// Rows of `allocation_sets` that begin or change.
#[derive(Default)]
struct AllocationSets {
    consumers: Vec<i64>,
    providers: Vec<i64>,
    /// Positions of the first and of the last class of each row in `classes` and `used`, from 1.
    firsts: Vec<i32>,
    lasts: Vec<i32>,
    classes: Vec<i32>,
    used: Vec<i64>,
}

impl AllocationSets {
    /// Adds the allocations of a consumer, which are sorted by provider.
    fn add(&mut self, consumer: i64, holds: &BTreeMap<(ProviderId, ClassId), i64>) {
        for ((provider, class), amount) in holds {
            self.classes.push(class.0);
            self.used.push(*amount);
            let row = (self.consumers.last(), self.providers.last());
            let is_same_row = row == (Some(&consumer), Some(&provider.0));
            let position = self.lasts.last().map_or(1, |last| last + 1);
            match self.lasts.last_mut() {
                Some(last) if is_same_row => *last = position,
                _ => {
                    self.consumers.push(consumer);
                    self.providers.push(provider.0);
                    self.firsts.push(position);
                    self.lasts.push(position);
                }
            }
        }
    }
}

impl Rows {
    fn add_consumer(&mut self, row: &StoredConsumer, consumer: &ConsumerState) {
        let empty = BTreeMap::new();
        let before = consumer.before.as_ref().map_or(&empty, |before| &before.holds);
        let now = consumer.now.as_ref().map_or(&empty, |now| &now.holds);
        let is_left = |provider: &ProviderId| {
            let next = now.range((*provider, ClassId(i32::MIN))..).next();
            next.is_none_or(|((used, _), _)| used != provider)
        };
        let mut providers: Vec<ProviderId> = before.keys().map(|(provider, _)| *provider).collect();
        providers.dedup();
        for provider in providers.into_iter().filter(is_left) {
            self.gone.0.push(row.id.0);
            self.gone.1.push(provider.0);
        }
        // A row is written again even when the amounts are the same: its time stamp moves.
        if consumer.before != consumer.now {
            self.held.add(row.id.0, now);
        }
        let stored = row.inserted.as_ref().or(consumer.before.as_ref());
        let is_stored = |now: &Consumer| {
            stored.is_some_and(|it| (it.generation, it.owner) == (now.generation, now.owner))
        };
        match &consumer.now {
            Some(now) if !is_stored(now) => {
                self.consumer.0.push(row.id.0);
                self.consumer.1.push(now.generation);
                self.owner.0.push(now.owner.project);
                self.owner.1.push(now.owner.user);
                self.owner.2.push(now.owner.consumer_type);
            }
            Some(_) => {}
            None => self.consumer_gone.push(row.id.0),
        }
    }

    /// Writes everything in one statement: constraints are checked at its end, when all is in place.
    ///
    /// # Errors
    /// Those of the database; a bug if other rows have changed than intended, which no foreign key would
    /// detect.
    async fn write(&self, conn: &mut PgConnection) -> Result<()> {
        let changed = sqlx::query!(
            r#"with gone as (
                 delete from allocation_sets a
                 using unnest($1::bigint[], $2::bigint[]) as g (consumer, provider)
                 where a.consumer_id = g.consumer and a.provider_id = g.provider
             ), held as (
                 insert into allocation_sets (consumer_id, provider_id, class_ids, used)
                 select consumer, provider, ($7::int[])[first:last], ($8::bigint[])[first:last]
                 from unnest($3::bigint[], $4::bigint[], $5::int[], $6::int[])
                     as s (consumer, provider, first, last)
                 on conflict (consumer_id, provider_id)
                     do update set class_ids = excluded.class_ids, used = excluded.used, updated_at = now()
             ), inventory as (
                 update inventories i set used = i.used + s.delta
                 from unnest($9::bigint[], $10::int[], $11::bigint[]) as s (provider, class, delta)
                 where i.provider_id = s.provider and i.class_id = s.class returning 1
             ), provider as (
                 update providers p set generation = p.generation + s.steps, updated_at = now()
                 from unnest($12::bigint[], $13::bigint[]) as s (provider, steps)
                 where p.id = s.provider returning 1
             ), consumer as (
                 update consumers c set project_id = s.project, user_id = s.user_id,
                        consumer_type_id = s.consumer_type, generation = s.generation
                 from unnest($14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[])
                     as s (consumer, generation, project, user_id, consumer_type)
                 where c.id = s.consumer returning 1
             ), consumer_gone as (
                 delete from consumers where id = any($19) returning 1
             )
             select (select count(*) from inventory) as "inventory!",
                    (select count(*) from provider) as "provider!",
                    (select count(*) from consumer) as "consumer!",
                    (select count(*) from consumer_gone) as "consumer_gone!""#,
            &self.gone.0,
            &self.gone.1,
            &self.held.consumers,
            &self.held.providers,
            &self.held.firsts,
            &self.held.lasts,
            &self.held.classes,
            &self.held.used,
            &self.inventory.0,
            &self.inventory.1,
            &self.inventory.2,
            &self.provider.0,
            &self.provider.1,
            &self.consumer.0,
            &self.consumer.1,
            &self.owner.0,
            &self.owner.1,
            &self.owner.2 as &[Option<i64>],
            &self.consumer_gone
        )
        .fetch_one(conn)
        .await?;
        let meant = [
            (changed.inventory, self.inventory.0.len()),
            (changed.provider, self.provider.0.len()),
            (changed.consumer, self.consumer.0.len()),
            (changed.consumer_gone, self.consumer_gone.len()),
        ];
        if meant.iter().any(|(changed, meant)| usize::try_from(*changed) != Ok(*meant)) {
            return Err(Error::bug(format!(
                "a claim changed other rows than it locked: {meant:?}"
            )));
        }
        Ok(())
    }
}
