//! Reads of the consumer side: from memory, or with indexed SQL.

use std::sync::Arc;

use futures_util::FutureExt;
use uuid::Uuid;

use super::access::Store;
use super::error::{Error, Result};
use crate::model::{ClassId, Generation, ProviderId};
use crate::world::{ConsumerRow, Consumers, World};

/// Maximum number of consumers of a provider that are read from memory, where it keeps the next refresh waiting.
const HOLDERS_MAX: usize = 1000;

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

/// The allocations on a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderAllocations {
    /// By consumer, ascending by key.
    pub consumers: Vec<HeldByConsumer>,
    /// Last change, seconds since the Unix epoch, if there are any.
    pub updated_at: Option<i64>,
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

impl ConsumerAllocations {
    fn of(row: &ConsumerRow, world: &World) -> Result<Self> {
        let on_provider = |held: &[(ProviderId, ClassId, i64)]| {
            let (id, ..) = held.first()?;
            let provider = world.provider_by_id(*id)?;
            Some(HeldOnProvider {
                provider: provider.uuid(),
                generation: provider.generation(),
                resources: named(held, world)?,
            })
        };
        let providers = row.held.chunk_by(|(one, ..), (other, ..)| one == other).map(on_provider);
        let owner = &row.owner;
        Ok(Self {
            project: owner.project.clone(),
            user: owner.user.clone(),
            consumer_type: owner.consumer_type.clone(),
            generation: row.generation,
            providers: providers.collect::<Option<_>>().ok_or_else(|| unknown(row))?,
            updated_at: row.updated_at,
        })
    }
}

impl ProviderAllocations {
    fn of(provider: ProviderId, holders: &[Arc<ConsumerRow>], world: &World) -> Result<Self> {
        let of_consumer = |row: &Arc<ConsumerRow>| {
            let start = row.held.partition_point(|(id, ..)| *id < provider);
            let end = row.held.partition_point(|(id, ..)| *id <= provider);
            let resources = row.held.get(start..end).and_then(|held| named(held, world));
            Ok(HeldByConsumer {
                consumer: row.uuid,
                generation: row.generation,
                resources: resources.ok_or_else(|| unknown(row))?,
            })
        };
        Ok(Self {
            consumers: holders.iter().map(of_consumer).collect::<Result<_>>()?,
            updated_at: holders.iter().map(|row| row.updated_at).max(),
        })
    }
}

/// Returns amounts by class name; `None` if a class has no name.
fn named(held: &[(ProviderId, ClassId, i64)], world: &World) -> Option<Vec<(String, i64)>> {
    let name = |class: ClassId| world.class_name(class).map(str::to_owned);
    held.iter().map(|(_, class, used)| Some((name(*class)?, *used))).collect()
}

fn unknown(row: &ConsumerRow) -> Error {
    let row = format!("{}: a provider or class is not known", row.uuid);
    Error::inconsistent("allocations", "provider_id, class_id", row)
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
        if self.consumers_in_memory().is_some() {
            let find = |_: &World, consumers: &Consumers| consumers.get(consumer).cloned();
            if let (world, Some(found)) = self.feed.current_with_consumers(find).await? {
                return found.map(|row| ConsumerAllocations::of(&row, &world)).transpose();
            }
        }
        self.stored_consumer_allocations(consumer).await
    }

    /// Returns the world and the allocations on a provider, of the same moment or a later one; none if there is no
    /// such provider.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn provider_allocations(
        &self,
        provider: Uuid,
    ) -> Result<(Arc<World>, ProviderAllocations)> {
        let find = |world: &World, consumers: &Consumers| {
            let id = world.provider(provider)?.id();
            let holders = consumers.on_provider(id).take(HOLDERS_MAX + 1);
            Some((id, holders.cloned().collect::<Vec<_>>()))
        };
        let (world, found) = self.feed.current_with_consumers(find).await?;
        let id = match found {
            Some(Some((id, holders))) if holders.len() <= HOLDERS_MAX => {
                let held = ProviderAllocations::of(id, &holders, &world)?;
                return Ok((world, held));
            }
            _ => world.provider(provider).map(|provider| provider.id()),
        };
        let held = match id {
            Some(id) => self.stored_provider_allocations(id).await?,
            None => ProviderAllocations::default(),
        };
        Ok((world, held))
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
