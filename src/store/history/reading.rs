//! Reads the history of an object.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::PgConnection;
use uuid::Uuid;

use super::super::Result;

/// Maximum number of objects looked up for one name: the provider that has it, and providers that had it.
const NAMESAKES_MAX: i64 = 100;
/// Maximum number of entries read at once.
const PAGE: i64 = 1000;

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

/// A change.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEntry {
    /// Its number. Of the changes of one object, the later one has the higher number.
    pub id: i64,
    /// The time of the change, as RFC 3339.
    pub at: String,
    /// The time of the change, in seconds since 1970.
    pub at_seconds: f64,
    /// The id of the request; `None` if there was none.
    pub request_id: Option<String>,
    /// The id that the client sent.
    pub global_request_id: Option<String>,
    /// The id of the caller.
    pub user: Option<String>,
    /// The id of the caller's project.
    pub project: Option<String>,
    /// The kind of the object.
    pub kind: String,
    /// The object's identity.
    pub object: String,
    /// The generation after the change, or the last one.
    pub generation: Option<i64>,
    /// The state before, as JSON.
    pub before: Option<String>,
    /// The state after, as JSON.
    pub after: Option<String>,
    /// The UUIDs of the objects that it is about.
    pub subjects: Vec<Uuid>,
}

/// Reads the entries about an object.
///
/// # Errors
/// The database is unavailable.
pub async fn read(conn: &mut PgConnection, query: &HistoryQuery) -> Result<HistoryResult> {
    let mut found = HistoryResult {
        periods: periods(conn).await?,
        objects: objects(conn, &query.object).await?,
        ..HistoryResult::default()
    };
    let (mut left, mut below) = (query.limit, i64::MAX);
    loop {
        let page = page(conn, &found.objects, below).await?;
        let is_last = i64::try_from(page.len()) != Ok(PAGE);
        for entry in page {
            below = entry.id;
            if query.since.is_some_and(|since| entry.at_seconds < since) {
                return named(conn, found).await;
            }
            if left == 0 {
                found.has_more = true;
                return named(conn, found).await;
            }
            left -= 1;
            found.entries.push(entry);
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
             select object::uuid from history where name = $1
           ) as named limit $2"#,
        object,
        NAMESAKES_MAX
    );
    Ok(uuids.fetch_all(conn).await?)
}

/// Reads the next entries about any of the objects, newest first.
async fn page(conn: &mut PgConnection, objects: &[Uuid], below: i64) -> Result<Vec<HistoryEntry>> {
    let entries = sqlx::query_as!(
        HistoryEntry,
        r#"select h.id, to_char(h.at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "at!",
                  extract(epoch from h.at)::double precision as "at_seconds!", h.request_id,
                  h.global_request_id, h.user_id as "user", h.project, h.kind, h.object, h.generation,
                  h.before::text as before, h.after::text as after, h.subjects
           from (
               select distinct newest.entry from unnest($1::uuid[]) as object (uuid),
               lateral (select entry from history_subjects
                        where subject = object.uuid and entry < $2
                        order by entry desc limit $3) as newest
               order by newest.entry desc limit $3
           ) as newest
           join history h on h.id = newest.entry
           order by h.id desc"#,
        objects,
        below,
        PAGE
    );
    Ok(entries.fetch_all(conn).await?)
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
