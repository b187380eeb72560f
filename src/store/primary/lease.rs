//! The lease of the primary: a heartbeat that must be acknowledged by a commit.
//!
//! A deposed primary whose cluster demands a synchronous standby cannot commit any more, so an acknowledged
//! commit proves that the server was the primary when the commit began. See etcd's leases, or section 6.4 of
//! Ongaro's dissertation on Raft.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use tokio::time::{Instant, sleep};

use super::term::Term;
use crate::store::error::Result;

/// Number of heartbeats that begin within the lease.
const BEATS: u32 = 4;

/// Commits heartbeats until the term is over.
pub(super) async fn keep(term: Arc<Term>, lease: Duration) {
    let period = lease / BEATS;
    let mut conn = None;
    while !term.is_over() {
        let began = Instant::now();
        match term.during(beat(&term, &mut conn)).await {
            Ok(()) => drop(term.confirmed.send_replace(Some(began))),
            Err(error) => {
                tracing::debug!(%error, "a heartbeat was not acknowledged");
                conn = None;
            }
        }
        sleep(period.saturating_sub(began.elapsed())).await;
    }
}

/// Commits a message that a synchronous standby must acknowledge, and that leaves no row behind.
async fn beat(term: &Term, kept: &mut Option<PgConnection>) -> Result<()> {
    let mut conn = match kept.take() {
        Some(conn) => conn,
        // Commits may hang for as long as a standby is away; nothing else does.
        None => term.connect(|options| options).await?,
    };
    // A transaction of its own, so the response comes after its commit.
    sqlx::query!("select pg_logical_emit_message(true, 'berth', '')::text as lsn")
        .fetch_one(&mut conn)
        .await?;
    *kept = Some(conn);
    Ok(())
}
