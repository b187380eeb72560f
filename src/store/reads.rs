//! Reads of the consumer side: plain indexed SQL, committed state only.

use futures_util::FutureExt;
use uuid::Uuid;

use super::Result;
use super::access::Store;
use crate::model::{Generation, ProviderId};

/// All allocations of one consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerAllocations {
    /// Owner.
    pub project: String,
    /// Owner.
    pub user: String,
    /// Consumer type; `None` if no client has given one.
    pub consumer_type: Option<String>,
    /// The consumer's generation.
    pub generation: Generation,
    /// By provider.
    pub providers: Vec<HeldOnProvider>,
    /// Last change, seconds since the Unix epoch.
    pub updated_at: i64,
}

/// The allocations of a consumer on one provider, by provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldOnProvider {
    /// The provider.
    pub provider: Uuid,
    /// Its generation.
    pub generation: Generation,
    /// Amounts by class name, in class order.
    pub resources: Vec<(String, i64)>,
}

/// The allocations of one consumer on a provider, by consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldByConsumer {
    /// The consumer.
    pub consumer: Uuid,
    /// Its generation.
    pub generation: Generation,
    /// Amounts by class name, in class order.
    pub resources: Vec<(String, i64)>,
}

/// A filter of usages for `GET /usages`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageFilter {
    /// Owner.
    pub project: String,
    /// The user, if given.
    pub user: Option<String>,
    /// The consumer type.
    pub consumer_type: TypeFilter,
}

/// A choice of consumer types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeFilter {
    /// Every type, together.
    All,
    /// Every type, each on its own (microversion 1.38 without `consumer_type`).
    Each,
    /// Consumers without a type.
    Unknown,
    /// This type.
    Named(String),
}

/// Usage of the consumers of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageOfType {
    /// The type; `None` for consumers without one, or for all types together.
    pub consumer_type: Option<String>,
    /// Number of distinct consumers.
    pub consumers: i64,
    /// Sums by class name, in class order.
    pub resources: Vec<(String, i64)>,
}

impl Store {
    /// Returns the allocations of a consumer; `None` if it has none.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn consumer_allocations(
        &self,
        consumer: Uuid,
    ) -> Result<Option<ConsumerAllocations>> {
        let rows = self
            .read(|conn| {
                sqlx::query!(
                    r#"select c.generation, pr.external_id as project, u.external_id as "user",
                      t.name as "consumer_type?", p.uuid as provider,
                      p.generation as provider_generation, rc.name as class, a.used,
                      extract(epoch from a.updated_at)::bigint as "updated_at!"
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
        let Some(first) = rows.first() else { return Ok(None) };
        let mut held = ConsumerAllocations {
            project: first.project.clone(),
            user: first.user.clone(),
            consumer_type: first.consumer_type.clone(),
            generation: first.generation,
            providers: Vec::new(),
            updated_at: first.updated_at,
        };
        for row in rows {
            held.updated_at = held.updated_at.max(row.updated_at);
            let amount = (row.class, row.used);
            match held.providers.last_mut() {
                Some(last) if last.provider == row.provider => last.resources.push(amount),
                _ => held.providers.push(HeldOnProvider {
                    provider: row.provider,
                    generation: row.provider_generation,
                    resources: vec![amount],
                }),
            }
        }
        Ok(Some(held))
    }

    /// Returns the allocations on a provider by consumer, and the time of the last change if there are any.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn provider_allocations(
        &self,
        provider: ProviderId,
    ) -> Result<(Vec<HeldByConsumer>, Option<i64>)> {
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
        Ok((held.collect(), updated_at))
    }

    /// Returns the usage of a project's consumers. Types without usage are left out.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn usages(&self, filter: UsageFilter) -> Result<Vec<UsageOfType>> {
        let (apart, unknown, named) = match filter.consumer_type {
            TypeFilter::All => (false, false, None),
            TypeFilter::Each => (true, false, None),
            TypeFilter::Unknown => (true, true, None),
            TypeFilter::Named(name) => (true, false, Some(name)),
        };
        let rows = self
            .read(|conn| {
                sqlx::query!(
                    r#"with owned as (
                   select c.id, case when $3 then t.name end as consumer_type
                   from consumers c
                   join projects p on p.id = c.project_id
                   left join consumer_types t on t.id = c.consumer_type_id
                   where p.external_id = $1
                     and ($2::text is null
                          or c.user_id = (select id from users where external_id = $2))
                     and (not $4 or c.consumer_type_id is null)
                     and ($5::text is null or t.name = $5)
               ), counted as (
                   select consumer_type, count(*) as consumers from owned group by consumer_type
               )
               select o.consumer_type, min(n.consumers) as "consumers!", rc.name as class,
                      sum(a.used)::bigint as "used!"
               from owned o
               join allocations a on a.consumer_id = o.id
               join resource_classes rc on rc.id = a.class_id
               join counted n on n.consumer_type is not distinct from o.consumer_type
               group by o.consumer_type, rc.id, rc.name
               order by o.consumer_type nulls first, rc.id"#,
                    filter.project,
                    filter.user,
                    apart,
                    unknown,
                    named
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        let mut usages: Vec<UsageOfType> = Vec::new();
        for row in rows {
            let sum = (row.class, row.used);
            match usages.last_mut() {
                Some(last) if last.consumer_type == row.consumer_type => last.resources.push(sum),
                _ => usages.push(UsageOfType {
                    consumer_type: row.consumer_type,
                    consumers: row.consumers,
                    resources: vec![sum],
                }),
            }
        }
        Ok(usages)
    }
}
