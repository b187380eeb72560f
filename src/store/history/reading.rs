//! Reads the history of an object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::FutureExt;
use sqlx::PgConnection;
use uuid::Uuid;

use super::entry::HistoryEntry;
use crate::store::access::Store;
use crate::store::error::{Error, Result};

/// Maximum number of objects looked up for one name: the provider that has it, and providers that had it.
const NAMESAKES_MAX: i64 = 100;
/// Maximum number of rows that a statement searches for entries.
const SEARCHED: i64 = 10_000;
/// Maximum number of rows that `berth history` reads at once.
const PAGE: i64 = 1000;
/// Time limit of a search for a name, which may read some gigabytes from a disk.
const SEARCH_MAX: &str = "set statement_timeout = '5min'";

/// A query for entries.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// A UUID, or the name of a provider.
    pub object: String,
    /// Only entries from this time on, in seconds since 1970.
    pub since: Option<f64>,
    /// Maximum number of entries, of which the newest are returned.
    pub limit: u32,
}

/// The result of a query.
#[derive(Clone, Debug, Default)]
pub struct HistoryResult {
    /// The periods during which changes were recorded, in the order of time.
    pub periods: Vec<Period>,
    /// The objects that the query is about.
    pub objects: Vec<Uuid>,
    /// The entries, newest first.
    pub entries: Vec<HistoryEntry>,
    /// Whether there are older ones.
    pub has_more: bool,
    /// The names of the existing providers that the entries are about.
    pub names: BTreeMap<Uuid, String>,
}

/// A period during which all changes were recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// Its beginning, as RFC 3339.
    pub began: String,
    /// Its beginning, in seconds since 1970.
    pub began_at: f64,
    /// Its end; `None`: it has not ended.
    pub ended: Option<String>,
}

/// Changes in a part of the history.
#[derive(Clone, Debug, Default)]
pub struct HistoryPart {
    /// The changes, newest first.
    pub entries: Vec<HistoryEntry>,
    /// The number of the row before which the search can go on; `None`: all rows have been searched.
    pub rest: Option<i64>,
}

impl Store {
    /// Returns whether this replica records changes.
    pub fn keeps_history(&self) -> bool {
        self.primary().options().history_days.is_some()
    }

    /// Returns the latest changes of some objects in rows below a number; without objects, the changes of all. At most
    /// `limit` rows are read, each with changes of a transaction, and a bounded number is searched.
    ///
    /// # Errors
    /// The database is unavailable, or a row is damaged.
    pub async fn history(&self, objects: &[Uuid], below: i64, limit: u16) -> Result<HistoryPart> {
        let objects: Arc<[Uuid]> = objects.into();
        let part = self.read(move |conn| {
            let objects = Arc::clone(&objects);
            async move { Ok(part(conn, &objects, below, limit.into()).await) }.boxed()
        });
        part.await?.map_err(Error::settled)
    }
}

/// Reads the entries about an object, on a connection that is used for nothing else. All rows are searched, from the
/// newest on, until the limit is reached.
///
/// # Errors
/// The database is unavailable, or a row is damaged.
pub async fn read(conn: &mut PgConnection, query: &HistoryQuery) -> Result<HistoryResult> {
    sqlx::raw_sql(SEARCH_MAX).execute(&mut *conn).await?;
    let mut found = HistoryResult {
        periods: periods(conn).await?,
        objects: objects(conn, &query.object).await?,
        ..HistoryResult::default()
    };
    if !found.objects.is_empty() {
        (found.entries, found.has_more) = entries(conn, &found.objects, query).await?;
        found.names = names(conn, &found.entries).await?;
    }
    Ok(found)
}

/// Returns the entries about objects, and whether there are more than the limit.
async fn entries(
    conn: &mut PgConnection,
    objects: &[Uuid],
    query: &HistoryQuery,
) -> Result<(Vec<HistoryEntry>, bool)> {
    let mut found = Vec::new();
    let mut rest = Some(i64::MAX);
    while let Some(below) = rest {
        let part = part(conn, objects, below, PAGE).await?;
        rest = part.rest;
        for entry in part.entries {
            if query.since.is_some_and(|since| entry.at_seconds < since) {
                return Ok((found, false));
            }
            if found.len() == query.limit as usize {
                return Ok((found, true));
            }
            found.push(entry);
        }
    }
    Ok((found, false))
}

async fn periods(conn: &mut PgConnection) -> Result<Vec<Period>> {
    let periods = sqlx::query_as!(
        Period,
        r#"select to_char(began at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "began!",
                  extract(epoch from began)::double precision as "began_at!",
                  to_char(ended at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as ended
           from history_periods order by began"#
    );
    Ok(periods.fetch_all(conn).await?)
}

/// Returns the object with a UUID, or the providers that have or had a name.
async fn objects(conn: &mut PgConnection, object: &str) -> Result<Vec<Uuid>> {
    if let Ok(uuid) = Uuid::parse_str(object) {
        return Ok(vec![uuid]);
    }
    let uuids = sqlx::query_scalar!(
        r#"select uuid as "uuid!" from (
             select uuid from providers where name = $1
             union
             select (entry->>'object')::uuid
             from history, jsonb_array_elements(entries::jsonb) as entry
             where strpos(entries, to_json($1::text)::text) > 0 and entry->>'name' = $1
           ) as named limit $2"#,
        object,
        NAMESAKES_MAX
    );
    Ok(uuids.fetch_all(conn).await?)
}

/// Entries of a transaction.
struct Row {
    id: i64,
    at: String,
    at_seconds: f64,
    entries: String,
}

impl Row {
    fn entries(self) -> Result<Vec<HistoryEntry>> {
        let Self { id, at, at_seconds, entries } = self;
        let mut entries: Vec<HistoryEntry> = serde_json::from_str(&entries).map_err(|error| {
            Error::inconsistent("history", "entries", format!("row {id}: {error}"))
        })?;
        for entry in &mut entries {
            (entry.id, entry.at, entry.at_seconds) = (id, at.clone(), at_seconds);
        }
        Ok(entries)
    }
}

/// Searches the next rows for entries about any of the objects, or for all entries if there are no objects.
async fn part(
    conn: &mut PgConnection,
    objects: &[Uuid],
    below: i64,
    limit: i64,
) -> Result<HistoryPart> {
    // Without objects, each row counts, so the limit bounds the search.
    let beyond = if objects.is_empty() { None } else { row_beyond(conn, below).await? };
    let patterns: Vec<String> = objects.iter().map(|object| format!("%\"{object}\"%")).collect();
    let rows = sqlx::query_as!(
        Row,
        r#"select id, to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "at!",
                  extract(epoch from at)::double precision as "at_seconds!", entries
           from history
           where id < $2 and ($3::bigint is null or id > $3)
             and (cardinality($1::text[]) = 0 or entries like any ($1))
           order by id desc limit $4"#,
        &patterns,
        below,
        beyond,
        limit
    );
    let rows = rows.fetch_all(conn).await?;
    let is_full = i64::try_from(rows.len()) == Ok(limit);
    let mut part = HistoryPart { entries: Vec::new(), rest: beyond.map(|row| row + 1) };
    if is_full && let Some(row) = rows.last() {
        part.rest = Some(row.id);
    }
    for row in rows {
        let mut entries = row.entries()?;
        if !objects.is_empty() {
            entries.retain(|entry| objects.iter().any(|it| entry.subjects.contains(it)));
        }
        part.entries.extend(entries.into_iter().rev());
    }
    Ok(part)
}

/// Returns the first row beyond a part that begins below a number; `None`: the part has the oldest row.
async fn row_beyond(conn: &mut PgConnection, below: i64) -> Result<Option<i64>> {
    let beyond = sqlx::query_scalar!(
        "select id from history where id < $1 order by id desc offset $2 limit 1",
        below,
        SEARCHED
    );
    Ok(beyond.fetch_optional(conn).await?)
}

/// Returns the names of the providers that the entries are about.
async fn names(
    conn: &mut PgConnection,
    entries: &[HistoryEntry],
) -> Result<BTreeMap<Uuid, String>> {
    let subjects: BTreeSet<Uuid> =
        entries.iter().flat_map(|entry| &entry.subjects).copied().collect();
    let subjects: Vec<Uuid> = subjects.into_iter().collect();
    let names = sqlx::query!("select uuid, name from providers where uuid = any($1)", &subjects);
    let names = names.fetch_all(conn).await?;
    Ok(names.into_iter().map(|row| (row.uuid, row.name)).collect())
}
