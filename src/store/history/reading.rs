//! Reads the history of an object.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::PgConnection;
use uuid::Uuid;

use super::entry::HistoryEntry;
use crate::store::error::{Error, Result};

/// Maximum number of objects looked up for one name: the provider that has it, and providers that had it.
const NAMESAKES_MAX: i64 = 100;
/// Maximum number of rows read at once.
const PAGE: i64 = 1000;
/// Time limit of a search, which may read some gigabytes from a disk.
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
    if found.objects.is_empty() {
        return Ok(found);
    }
    let limit = query.limit as usize;
    let mut below = i64::MAX;
    loop {
        let rows = rows(conn, &found.objects, below).await?;
        let is_last = i64::try_from(rows.len()) != Ok(PAGE);
        for row in rows {
            below = row.id;
            if query.since.is_some_and(|since| row.at_seconds < since) {
                return named(conn, found).await;
            }
            let mut entries = row.entries()?;
            entries.retain(|entry| found.objects.iter().any(|it| entry.subjects.contains(it)));
            found.entries.extend(entries.into_iter().rev());
            if found.entries.len() > limit {
                found.entries.truncate(limit);
                found.has_more = true;
                return named(conn, found).await;
            }
        }
        if is_last {
            return named(conn, found).await;
        }
    }
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

/// Reads the next rows whose entries name any of the objects, newest first.
async fn rows(conn: &mut PgConnection, objects: &[Uuid], below: i64) -> Result<Vec<Row>> {
    let patterns: Vec<String> = objects.iter().map(|object| format!("%\"{object}\"%")).collect();
    let rows = sqlx::query_as!(
        Row,
        r#"select id, to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "at!",
                  extract(epoch from at)::double precision as "at_seconds!", entries
           from history where id < $2 and entries like any ($1)
           order by id desc limit $3"#,
        &patterns,
        below,
        PAGE
    );
    Ok(rows.fetch_all(conn).await?)
}

/// Adds the names of providers.
async fn named(conn: &mut PgConnection, found: HistoryResult) -> Result<HistoryResult> {
    let subjects: BTreeSet<Uuid> =
        found.entries.iter().flat_map(|entry| &entry.subjects).copied().collect();
    let subjects: Vec<Uuid> = subjects.into_iter().collect();
    let names = sqlx::query!("select uuid, name from providers where uuid = any($1)", &subjects);
    let names = names.fetch_all(conn).await?;
    Ok(HistoryResult {
        names: names.into_iter().map(|row| (row.uuid, row.name)).collect(),
        ..found
    })
}
