//! Who holds something on some providers, with all that they hold.

use futures_util::FutureExt;

use super::{Result, Store};
use crate::model::consumer::ConsumerRow;
use crate::model::{ClassId, ProviderId};

/// The maximum number of allocations that are looked at: a shared provider can have millions.
const ROWS_MAX: i64 = 200_000;

/// Consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Some of them, or all.
    pub consumers: Vec<ConsumerRow>,
    /// Whether these are all.
    pub are_all: bool,
}

impl Store {
    /// The consumers that hold something on any of these providers, at most so many. Holds of plans and the
    /// instances that have come for them are left out: the planner has rules for these.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn holders(&self, providers: &[ProviderId], most: u32) -> Result<Holders> {
        let providers: Vec<i64> = providers.iter().map(|id| id.0).collect();
        let limit = i64::from(most) + 1;
        let rows = self
            .read(|conn| {
                sqlx::query!(
                    r#"with holding as (
                   select distinct a.consumer_id
                   from (select consumer_id from allocations where provider_id = any($1)
                         limit $3) a
               ), chosen as (
                   select c.id, c.uuid, c.generation, c.project_id, c.user_id, c.consumer_type_id
                   from holding h join consumers c on c.id = h.consumer_id
                   where not exists (select from placements p where p.consumer = c.uuid)
                     and not exists (select from placements p where p.ticket = c.uuid)
                     and not exists (select from placements p where p.resource_key = c.uuid::text)
                   order by c.id limit $2
               )
               select c.uuid, c.generation, pr.external_id as project, u.external_id as "user",
                      t.name as "consumer_type?", a.provider_id, a.class_id, a.used
               from chosen c
               join projects pr on pr.id = c.project_id
               join users u on u.id = c.user_id
               left join consumer_types t on t.id = c.consumer_type_id
               join allocations a on a.consumer_id = c.id
               order by c.id, a.provider_id, a.class_id"#,
                    &providers,
                    limit,
                    ROWS_MAX
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        let mut holders = Holders { are_all: true, ..Holders::default() };
        for row in rows {
            let allocation = (ProviderId(row.provider_id), ClassId(row.class_id), row.used);
            match holders.consumers.last_mut() {
                Some(last) if last.uuid == row.uuid => last.allocations.push(allocation),
                _ => holders.consumers.push(ConsumerRow {
                    uuid: row.uuid,
                    generation: row.generation,
                    project: row.project,
                    user: row.user,
                    consumer_type: row.consumer_type,
                    allocations: vec![allocation],
                }),
            }
        }
        let most = most as usize;
        holders.are_all = holders.consumers.len() <= most;
        holders.consumers.truncate(most);
        Ok(holders)
    }
}
