//! The consumers with allocations on some providers, with all their allocations.

use futures_util::FutureExt;
use uuid::Uuid;

use super::Result;
use super::access::Store;
use crate::model::consumer::ConsumerRow;
use crate::model::{ClassId, ProviderId};

/// Maximum numbers of rows to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldersMax {
    /// Consumers.
    pub consumers: u32,
    /// Allocations examined on the providers, those of plans included: a shared provider can have millions.
    pub allocations: u32,
}

/// Consumers with allocations on some providers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Some of them, or all.
    pub consumers: Vec<ConsumerRow>,
    /// Whether these are all.
    pub are_all: bool,
}

/// An allocation of a consumer. If there is no consumer, all columns but the number of allocations are null.
struct Row {
    /// Number of allocations on the providers that were examined.
    allocated: i64,
    uuid: Option<Uuid>,
    generation: Option<i64>,
    project: Option<String>,
    user: Option<String>,
    consumer_type: Option<String>,
    provider_id: Option<i64>,
    class_id: Option<i32>,
    used: Option<i64>,
}

impl Store {
    /// Returns consumers with allocations on any of these providers. Holds of plans and the instances that have
    /// replaced them are left out: the planner has rules for these.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn holders(&self, providers: &[ProviderId], most: HoldersMax) -> Result<Holders> {
        let providers: Vec<i64> = providers.iter().map(|id| id.0).collect();
        let consumers_limit = i64::from(most.consumers) + 1;
        let allocations_limit = i64::from(most.allocations) + 1;
        // The number of allocations comes even if no consumer does, so there is always a row.
        let rows = self
            .read(|conn| {
                sqlx::query_as!(
                    Row,
                    r#"with allocated as materialized (
                   select consumer_id from allocations where provider_id = any($1) limit $3
               ), holding as (
                   select distinct consumer_id from allocated
               ), chosen as (
                   select c.id, c.uuid, c.generation, c.project_id, c.user_id, c.consumer_type_id
                   from holding h join consumers c on c.id = h.consumer_id
                   where not exists (select from placements p where p.consumer = c.uuid)
                     and not exists (select from placements p where p.ticket = c.uuid)
                     and not exists (select from placements p where p.resource_key = c.uuid::text)
                   order by c.id limit $2
               ), held as (
                   select c.id, c.uuid, c.generation, pr.external_id as project,
                          u.external_id as "user", t.name as consumer_type, a.provider_id, a.class_id,
                          a.used
                   from chosen c
                   join projects pr on pr.id = c.project_id
                   join users u on u.id = c.user_id
                   left join consumer_types t on t.id = c.consumer_type_id
                   join allocations a on a.consumer_id = c.id
               )
               select n.allocated as "allocated!", h.uuid as "uuid?", h.generation as "generation?",
                      h.project as "project?", h."user" as "user?",
                      h.consumer_type as "consumer_type?", h.provider_id as "provider_id?",
                      h.class_id as "class_id?", h.used as "used?"
               from (select count(*) as allocated from allocated) n left join held h on true
               order by h.id, h.provider_id, h.class_id"#,
                    &providers,
                    consumers_limit,
                    allocations_limit
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        Ok(collected(rows, most))
    }
}

/// Collects the rows, ascending by consumer.
fn collected(rows: Vec<Row>, most: HoldersMax) -> Holders {
    let mut holders = Holders { are_all: true, ..Holders::default() };
    for row in rows {
        holders.are_all = row.allocated <= i64::from(most.allocations);
        let Some((mut consumer, allocation)) = row.consumer() else { continue };
        match holders.consumers.last_mut() {
            Some(last) if last.uuid == consumer.uuid => last.allocations.push(allocation),
            _ => {
                consumer.allocations.push(allocation);
                holders.consumers.push(consumer);
            }
        }
    }
    let consumers_max = most.consumers as usize;
    holders.are_all &= holders.consumers.len() <= consumers_max;
    holders.consumers.truncate(consumers_max);
    holders
}

impl Row {
    /// Returns the consumer, without its allocations, and one of these. `None` if there is no consumer.
    fn consumer(self) -> Option<(ConsumerRow, (ProviderId, ClassId, i64))> {
        let consumer = ConsumerRow {
            uuid: self.uuid?,
            generation: self.generation?,
            project: self.project?,
            user: self.user?,
            consumer_type: self.consumer_type,
            allocations: Vec::new(),
        };
        let allocation = (ProviderId(self.provider_id?), ClassId(self.class_id?), self.used?);
        Some((consumer, allocation))
    }
}
