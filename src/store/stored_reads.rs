//! Reads of allocations from the database, where they are not in memory.

use futures_util::FutureExt;
use uuid::Uuid;

use super::access::Store;
use super::consumers::{Row, assembled};
use super::error::Result;
use super::reads::{ConsumerAllocations, HeldByConsumer, ProviderAllocations};
use crate::model::ProviderId;

impl Store {
    /// Reads the allocations of a consumer from the database; `None` if it has none.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn stored_consumer_allocations(
        &self,
        consumer: Uuid,
    ) -> Result<Option<ConsumerAllocations>> {
        let rows = self
            .read(|conn| {
                sqlx::query_as!(
                    Row,
                    r#"select c.uuid, c.generation, pr.external_id as project, u.external_id as "user",
                      t.name as "consumer_type?", p.uuid as provider,
                      p.generation as provider_generation, rc.name as class, a.used as "used!",
                      extract(epoch from a.updated_at)::bigint as "updated_at!",
                      false as "has_more!"
               from consumers c
               join projects pr on pr.id = c.project_id
               join users u on u.id = c.user_id
               left join consumer_types t on t.id = c.consumer_type_id
               join allocations a on a.consumer_id = c.id
               join providers p on p.id = a.provider_id
               join resource_classes rc on rc.id = a.class_id
               where c.uuid = $1
               order by a.provider_id, a.class_id"#,
                    consumer
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        Ok(assembled(rows).consumers.pop().map(|(_, held)| held))
    }

    /// Reads the allocations on a provider from the database.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn stored_provider_allocations(
        &self,
        provider: ProviderId,
    ) -> Result<ProviderAllocations> {
        let rows = self
            .read(|conn| {
                sqlx::query!(
                    r#"select c.uuid as consumer, c.generation, a.classes as "classes!", a.used as "used!",
                      extract(epoch from a.updated_at)::bigint as "updated_at!"
               from (
                   select a.consumer_id, array_agg(rc.name order by a.class_id) as classes,
                          array_agg(a.used order by a.class_id) as used,
                          max(a.updated_at) as updated_at
                   from allocations a join resource_classes rc on rc.id = a.class_id
                   where a.provider_id = $1
                   group by a.consumer_id
               ) a join consumers c on c.id = a.consumer_id
               order by a.consumer_id"#,
                    provider.0
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        let updated_at = rows.iter().map(|row| row.updated_at).max();
        let held = rows.into_iter().map(|row| HeldByConsumer {
            consumer: row.consumer,
            generation: row.generation,
            resources: row.classes.into_iter().zip(row.used).collect(),
        });
        Ok(ProviderAllocations { consumers: held.collect(), updated_at })
    }
}
