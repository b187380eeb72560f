//! Reads of many consumers at once.

use std::sync::Arc;

use futures_util::FutureExt;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use super::Result;
use super::access::Store;
use super::reads::{ConsumerAllocations, HeldOnProvider, TypeFilter};
use crate::model::Generation;

/// Maximum number of allocations read at once, unless a single consumer has more.
const ALLOCATIONS_MAX: i64 = 50_000;

/// A filter of consumers. They must pass all of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerFilter {
    /// UUIDs.
    pub uuids: Option<Vec<Uuid>>,
    /// The project.
    pub project: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The type.
    pub consumer_type: TypeFilter,
    /// Providers on one of which they must have an allocation.
    pub providers: Option<Vec<Uuid>>,
    /// UUID after which the page starts.
    pub after: Option<Uuid>,
    /// Maximum number, in ascending order of UUIDs.
    pub limit: i64,
}

impl ConsumerFilter {
    /// Returns the filter that all consumers pass, for a page of at most `limit`.
    pub fn all(limit: i64) -> Self {
        Self {
            uuids: None,
            project: None,
            user: None,
            consumer_type: TypeFilter::All,
            providers: None,
            after: None,
            limit,
        }
    }
}

/// Consumers that pass a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerPage {
    /// The consumers with all their allocations, ascending by UUID.
    pub consumers: Vec<(Uuid, ConsumerAllocations)>,
    /// Whether more pass, with greater UUIDs: beyond the limit, or with too many allocations for one page.
    pub has_more: bool,
}

impl Store {
    /// Returns the consumers with allocations that pass, as of one moment.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn consumers(&self, filter: ConsumerFilter) -> Result<ConsumerPage> {
        let filter = Arc::new(filter);
        let read = self.read(move |conn| {
            let filter = Arc::clone(&filter);
            async move { read(conn, &filter).await }.boxed()
        });
        read.await
    }
}

async fn read(conn: &mut PgConnection, filter: &ConsumerFilter) -> sqlx::Result<ConsumerPage> {
    let mut tx = conn.begin_with("begin read only").await?;
    // The best plan depends on the filters.
    sqlx::raw_sql("set local plan_cache_mode = force_custom_plan").execute(&mut *tx).await?;
    let (of_type, name) = match &filter.consumer_type {
        TypeFilter::All | TypeFilter::Each => (false, None),
        TypeFilter::Unknown => (true, None),
        TypeFilter::Named(name) => (true, Some(name.as_str())),
    };
    let rows = sqlx::query_as!(
        Row,
        r#"with page as materialized (
               select c.id, c.uuid, c.generation, c.project_id, c.user_id, c.consumer_type_id
               from consumers c
               where ($1::uuid[] is null or c.uuid = any($1))
                 and ($2::text is null
                      or c.project_id = (select id from projects where external_id = $2))
                 and ($3::text is null
                      or c.user_id = (select id from users where external_id = $3))
                 and (not $4 or c.consumer_type_id is not distinct from
                                (select id from consumer_types where name = $5)
                            and ($5::text is null or c.consumer_type_id is not null))
                 and ($6::uuid[] is null
                      or c.id in (select a.consumer_id from allocation_sets a
                                  join providers p on p.id = a.provider_id where p.uuid = any($6)))
                 and ($7::uuid is null or c.uuid > $7)
                 and exists (select from allocation_sets a where a.consumer_id = c.id)
               order by c.uuid limit $8::bigint + 1
           ), counted as (
               select p.*, row_number() over by_uuid as nth,
                      sum((select count(*) from allocations a where a.consumer_id = p.id))
                          over by_uuid as allocations
               from page p window by_uuid as (order by p.uuid)
           ), kept as (
               select * from counted where nth = 1 or nth <= $8::bigint and allocations <= $9::bigint
           )
           select c.uuid, c.generation, pr.external_id as project, u.external_id as "user",
                  t.name as "consumer_type?", p.uuid as provider,
                  p.generation as provider_generation, rc.name as class, a.used as "used!",
                  extract(epoch from a.updated_at)::bigint as "updated_at!",
                  (select count(*) from page) > (select count(*) from kept) as "has_more!"
           from kept c
           join projects pr on pr.id = c.project_id
           join users u on u.id = c.user_id
           left join consumer_types t on t.id = c.consumer_type_id
           join allocations a on a.consumer_id = c.id
           join providers p on p.id = a.provider_id
           join resource_classes rc on rc.id = a.class_id
           order by c.uuid, a.provider_id, a.class_id"#,
        filter.uuids.as_deref(),
        filter.project,
        filter.user,
        of_type,
        name,
        filter.providers.as_deref(),
        filter.after,
        filter.limit,
        ALLOCATIONS_MAX
    )
    .fetch_all(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(assembled(rows))
}

/// An allocation with its consumer.
pub(super) struct Row {
    pub(super) uuid: Uuid,
    pub(super) generation: Generation,
    pub(super) project: String,
    pub(super) user: String,
    pub(super) consumer_type: Option<String>,
    pub(super) provider: Uuid,
    pub(super) provider_generation: Generation,
    pub(super) class: String,
    pub(super) used: i64,
    pub(super) updated_at: i64,
    pub(super) has_more: bool,
}

/// Makes a page of rows that are sorted by consumer and provider.
pub(super) fn assembled(rows: Vec<Row>) -> ConsumerPage {
    let has_more = rows.first().is_some_and(|row| row.has_more);
    let mut consumers: Vec<(Uuid, ConsumerAllocations)> = Vec::new();
    for row in rows {
        if consumers.last().is_none_or(|(last, _)| *last != row.uuid) {
            let held = ConsumerAllocations {
                project: row.project,
                user: row.user,
                consumer_type: row.consumer_type,
                generation: row.generation,
                providers: Vec::new(),
                updated_at: row.updated_at,
            };
            consumers.push((row.uuid, held));
        }
        let Some((_, held)) = consumers.last_mut() else { continue };
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
    ConsumerPage { consumers, has_more }
}
