//! Reads events by number.

use futures_util::FutureExt;
use sqlx::PgConnection;
use tokio::sync::watch;

use super::numbering;
use crate::store::access::Store;
use crate::store::error::{Error, Result};

/// Maximum number of transactions read at once.
const PAGE: i64 = 32;
/// Number of bytes after which no further transaction is read at once.
const PAGE_BYTES: i64 = 4 << 20;

/// The position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The number of the last event that was read.
    pub number: i64,
    /// Its position in its batch, if known.
    within: Option<BatchPosition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BatchPosition {
    /// The number of the batch.
    batch: i64,
    /// The last row of the batch that was read.
    seq: i64,
    /// The number of the last event of that row.
    number: i64,
}

/// The events after a cursor.
#[derive(Clone, Debug)]
pub enum NextEvents {
    /// Events, and the cursor after them.
    Events(Vec<Row>, Cursor),
    /// No events yet.
    Nothing,
    /// The log does not reach back to the cursor, or has never had its number.
    Gap,
}

/// The events of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The number of its first event.
    pub first: i64,
    /// The time of the transaction, as RFC 3339.
    pub at: String,
    /// A JSON list of its events.
    pub entries: String,
}

impl Cursor {
    /// Returns the cursor after the event with a number.
    pub fn at(number: i64) -> Self {
        Self { number, within: None }
    }
}

impl Store {
    /// Returns whether the log of events is on.
    pub fn keeps_events(&self) -> bool {
        self.primary().options().events_hours.is_some()
    }

    /// Returns the number of the last event that was committed before this call.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn event_number(&self) -> Result<i64> {
        let number = self.read(|conn| async move { Ok(numbering::keep_up(conn).await) }.boxed());
        number.await?.map_err(Error::settled)
    }

    /// Returns the next events after a cursor.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn events_after(&self, cursor: Cursor) -> Result<NextEvents> {
        let found = self.read(move |conn| async move { Ok(after(conn, cursor).await) }.boxed());
        found.await?.map_err(Error::settled)
    }

    /// Returns a receiver that changes whenever events may have been numbered.
    pub fn event_tail(&self) -> watch::Receiver<i64> {
        self.tail.follow()
    }
}

async fn after(conn: &mut PgConnection, cursor: Cursor) -> Result<NextEvents> {
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
        return Ok(NextEvents::Gap);
    }
    let (Some(number), Some(count), Some(snapshot)) = (place.next, place.of_next, place.snapshot)
    else {
        return Ok(NextEvents::Nothing);
    };
    // Rows before a batch are removed only with the batch itself.
    let Some(before) = place.before else { return Ok(NextEvents::Gap) };
    let within = match cursor.within {
        Some(within) if within.batch == number => within,
        _ => BatchPosition { batch: number, seq: 0, number: number - count },
    };
    let batch = Batch { number, count, snapshot, before };
    rows(conn, &batch, since, within).await
}

struct Batch {
    number: i64,
    count: i64,
    /// The transactions visible in the batch.
    snapshot: String,
    /// The transactions visible in the previous batch.
    before: String,
}

/// Reads the next rows of a batch.
async fn rows(
    conn: &mut PgConnection,
    batch: &Batch,
    since: i64,
    mut within: BatchPosition,
) -> Result<NextEvents> {
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
        within = BatchPosition { seq, number: within.number + i64::from(count), ..within };
        if within.number > since {
            read.push(Row { first, at, entries });
        }
    }
    if within.number == batch.number - batch.count && read.is_empty() && within.seq == 0 {
        // The batch was removed meanwhile.
        return Ok(NextEvents::Gap);
    }
    let number = within.number.max(since);
    Ok(NextEvents::Events(read, Cursor { number, within: Some(within) }))
}
