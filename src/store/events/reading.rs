//! Reads events by number.

use futures_util::FutureExt;
use sqlx::PgConnection;
use tokio::sync::watch;

use super::numbering;
use crate::store::Store;
use crate::store::error::{Error, Result};

/// Transactions that are read at once at the most.
const PAGE: i64 = 32;
/// No further transaction is read at once with those that have so many bytes.
const PAGE_BYTES: i64 = 4 << 20;

/// How far a reader has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The number of the last event that was read.
    pub number: i64,
    /// Where that is in its batch, if it is known.
    within: Option<Within>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Within {
    /// The number of the batch.
    batch: i64,
    /// The last row of it that was read.
    seq: i64,
    /// The number of the last event of that row.
    number: i64,
}

/// What comes after a cursor.
#[derive(Clone, Debug)]
pub enum Found {
    /// Events, and the cursor behind them.
    Events(Vec<Row>, Cursor),
    /// Nothing, so far.
    Nothing,
    /// The log does not reach back to the cursor, or has never had its number.
    Gap,
}

/// The events of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The number of its first event.
    pub first: i64,
    /// When it was made, as RFC 3339 writes it.
    pub at: String,
    /// A JSON list of its events.
    pub entries: String,
}

impl Cursor {
    /// Behind the event with a number.
    pub fn at(number: i64) -> Self {
        Self { number, within: None }
    }
}

impl Store {
    /// Whether the log of events is kept.
    pub fn keeps_events(&self) -> bool {
        self.primary().options().events.is_some()
    }

    /// The number of the last event that was committed before this call.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn event_number(&self) -> Result<i64> {
        let number = self.read(|conn| async move { Ok(numbering::keep_up(conn).await) }.boxed());
        number.await?.map_err(Error::settled)
    }

    /// The next events after a cursor.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn events_after(&self, cursor: Cursor) -> Result<Found> {
        let found = self.read(move |conn| async move { Ok(after(conn, cursor).await) }.boxed());
        found.await?.map_err(Error::settled)
    }

    /// Changes whenever events may have got numbers.
    pub fn event_tail(&self) -> watch::Receiver<i64> {
        self.tail.follow()
    }
}

async fn after(conn: &mut PgConnection, cursor: Cursor) -> Result<Found> {
    let since = cursor.number;
    let place = sqlx::query!(
        r#"select log.begun, here.number as "here?", here.count as "of_here?",
                  next.number as "next?", next.count as "of_next?", next.snapshot as "snapshot?",
                  (select snapshot::text from event_batches where number < next.number
                   order by number desc limit 1) as before
           from event_log log
           left join lateral (select number, count from event_batches where number >= $1
                              order by number limit 1) as here on true
           left join lateral (select number, count, snapshot::text as snapshot
                              from event_batches where number > $1
                              order by number limit 1) as next on true"#,
        since
    )
    .fetch_one(&mut *conn)
    .await?;
    let is_known = match (place.here, place.of_here) {
        (Some(here), Some(count)) => since == here || since > here - count,
        _ => false,
    };
    if since < place.begun || !is_known {
        return Ok(Found::Gap);
    }
    let (Some(number), Some(count), Some(snapshot)) = (place.next, place.of_next, place.snapshot)
    else {
        return Ok(Found::Nothing);
    };
    // What is before a batch goes only with the batch itself.
    let Some(before) = place.before else { return Ok(Found::Gap) };
    let within = match cursor.within {
        Some(within) if within.batch == number => within,
        _ => Within { batch: number, seq: 0, number: number - count },
    };
    let batch = Batch { number, count, snapshot, before };
    rows(conn, &batch, since, within).await
}

struct Batch {
    number: i64,
    count: i64,
    /// What is visible in it.
    snapshot: String,
    /// What was visible in the batch before.
    before: String,
}

/// The next rows of a batch.
async fn rows(
    conn: &mut PgConnection,
    batch: &Batch,
    since: i64,
    mut within: Within,
) -> Result<Found> {
    let rows = sqlx::query!(
        r#"with unseen as (
               select seq, at, count, entries from events
               where xid = any(array(select pg_snapshot_xip($3::text::pg_snapshot)))
                 and pg_visible_in_snapshot(xid, $4::text::pg_snapshot)
               union all
               select seq, at, count, entries from events
               where xid >= pg_snapshot_xmax($3::text::pg_snapshot)
                 and xid < pg_snapshot_xmax($4::text::pg_snapshot)
                 and pg_visible_in_snapshot(xid, $4::text::pg_snapshot)
           )
           select e.seq as "seq?", e.count as "count?", e.entries as "entries?",
                  to_char(e.at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
           from event_batches b
           left join lateral (
               select * from (
                   select *, sum(octet_length(entries)) over (order by seq) - octet_length(entries) as before
                   from (select * from unseen where seq > $5 order by seq limit $6) as next
               ) as page where before < $7
           ) as e on true
           where b.number = $1 and b.count = $2
           order by e.seq"#,
        batch.number,
        batch.count,
        batch.before,
        batch.snapshot,
        within.seq,
        PAGE,
        PAGE_BYTES
    )
    .fetch_all(conn)
    .await?;
    let mut read = Vec::with_capacity(rows.len());
    for row in rows {
        let (Some(seq), Some(count)) = (row.seq, row.count) else {
            let key = format!("{}: it has fewer events than {}", batch.number, batch.count);
            return Err(Error::inconsistent("event_batches", "count", key));
        };
        let (Some(entries), Some(at)) = (row.entries, row.at) else { continue };
        let first = within.number + 1;
        within = Within { seq, number: within.number + i64::from(count), ..within };
        if within.number > since {
            read.push(Row { first, at, entries });
        }
    }
    if within.number == batch.number - batch.count && read.is_empty() && within.seq == 0 {
        // The batch has gone meanwhile.
        return Ok(Found::Gap);
    }
    let number = within.number.max(since);
    Ok(Found::Events(read, Cursor { number, within: Some(within) }))
}
