//! The number of a snapshot: that of the last event visible in it.
//!
//! A bulk read locks the numbers first, takes its snapshot, and then numbers exactly the events visible in it. So
//! its data include all events up to the number, and no later ones.

use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{Postgres, Transaction};

use super::numbering;
use crate::store::error::Result;
use crate::store::primary::Term;

/// A connection for numbering events.
#[derive(Debug)]
pub(in crate::store) struct Numbering {
    conn: PoolConnection<Postgres>,
}

/// The lock on the numbers, held until this is dropped.
pub(in crate::store) struct Locked<'c>(Transaction<'c, Postgres>);

impl Numbering {
    /// Takes a connection of the pool.
    pub(in crate::store) async fn new(term: &Arc<Term>) -> Result<Self> {
        let conn = term.during(async { Ok(term.pool().acquire().await?) }).await?;
        Ok(Self { conn })
    }

    /// Locks the numbers.
    pub(in crate::store) async fn lock(&mut self) -> Result<Locked<'_>> {
        Ok(Locked(numbering::lock(&mut self.conn).await?))
    }
}

impl Locked<'_> {
    /// Returns the number of a snapshot that was taken under the lock.
    pub(in crate::store) async fn number(mut self, snapshot: &str) -> Result<i64> {
        let number = numbering::number(&mut self.0, Some(snapshot)).await?;
        self.0.commit().await?;
        Ok(number)
    }
}
