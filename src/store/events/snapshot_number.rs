//! The number of a snapshot: that of the last event which is visible in it.
//!
//! Whoever takes the snapshot of a bulk read locks the numbers first, takes the snapshot, and gives numbers to
//! exactly what is visible in it. So all events up to the number are in what is read, and all later ones are not.

use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{Postgres, Transaction};

use super::numbering;
use crate::store::error::Result;
use crate::store::primary::Term;

/// A connection on which numbers can be given.
#[derive(Debug)]
pub(in crate::store) struct Numbering {
    conn: PoolConnection<Postgres>,
}

/// The lock on the numbers. Ends when it is dropped.
pub(in crate::store) struct Locked<'c>(Transaction<'c, Postgres>);

impl Numbering {
    /// A connection of the pool.
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
    /// The number of a snapshot that was taken since.
    pub(in crate::store) async fn number(mut self, snapshot: &str) -> Result<i64> {
        let number = numbering::number(&mut self.0, Some(snapshot)).await?;
        self.0.commit().await?;
        Ok(number)
    }
}
