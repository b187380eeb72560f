//! Limits on writes at the connection pool. Changes of one row take turns, so that a row which another
//! transaction has locked keeps one connection busy instead of one for each request; and writes never take the
//! last connections, which are for reads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use super::error::{Error, Result};

type Rows = HashMap<Uuid, Weak<tokio::sync::Mutex<()>>>;

/// Limits on the use of the pool for writes. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct WriteLimits {
    rows: Arc<Mutex<Rows>>,
    /// Concurrent writes: three quarters of the pool; the rest is for reads.
    writes: Arc<Semaphore>,
    /// Of these, writes that have met a lock before: a quarter of the pool.
    retries: Arc<Semaphore>,
}

impl WriteLimits {
    /// Makes the limits for a pool of this size.
    pub(super) fn new(connections: u32) -> Self {
        let connections = usize::try_from(connections).unwrap_or(usize::MAX);
        let quarter = connections / 4;
        let writes = (connections - quarter).clamp(1, Semaphore::MAX_PERMITS);
        let retries = quarter.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            rows: Arc::default(),
            writes: Arc::new(Semaphore::new(writes)),
            retries: Arc::new(Semaphore::new(retries)),
        }
    }

    /// Waits until no other change of this row is in progress in this process.
    ///
    /// # Errors
    /// The deadline passes.
    pub(super) async fn row(&self, row: Uuid, deadline: Instant) -> Result<RowTurn> {
        let mutex = {
            let mut rows = lock(&self.rows);
            let known = rows.get(&row).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let mutex = Arc::new(tokio::sync::Mutex::new(()));
                rows.insert(row, Arc::downgrade(&mutex));
                mutex
            })
        };
        // Made before the wait, so that the entry is removed even if the deadline passes.
        let mut turn = RowTurn { rows: Arc::clone(&self.rows), row, guard: None };
        let guard = timeout_at(deadline, mutex.lock_owned()).await;
        turn.guard = Some(guard.map_err(|_| Error::Locked(format!("{row} is held by others")))?);
        Ok(turn)
    }

    /// Waits until a connection may be used; `again`: by a write that has met a lock before.
    ///
    /// # Errors
    /// None becomes free in time.
    pub(super) async fn connection(&self, again: bool, patience: Duration) -> Result<Permits> {
        let late = || Error::Unavailable("no database connection became free".to_owned());
        let take = async {
            let retry =
                if again { Some(Arc::clone(&self.retries).acquire_owned().await) } else { None };
            let write = Arc::clone(&self.writes).acquire_owned().await;
            let permits = retry.into_iter().chain([write]).collect::<std::result::Result<_, _>>();
            permits.map_err(|closed| Error::bug(closed.to_string()))
        };
        let permits = timeout(patience, take).await.map_err(|_| late())??;
        Ok(Permits { _held: permits })
    }
}

/// Permission to use a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Permits {
    _held: Vec<OwnedSemaphorePermit>,
}

/// The turn of one change of a row, until it is dropped.
#[derive(Debug)]
pub(super) struct RowTurn {
    rows: Arc<Mutex<Rows>>,
    row: Uuid,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Drop for RowTurn {
    fn drop(&mut self) {
        self.guard = None;
        let mut rows = lock(&self.rows);
        if rows.get(&self.row).is_some_and(|mutex| mutex.strong_count() == 0) {
            rows.remove(&self.row);
        }
    }
}

/// A panic elsewhere leaves the map consistent: each change of it is one call.
fn lock(rows: &Mutex<Rows>) -> MutexGuard<'_, Rows> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;
    use uuid::Uuid;

    use super::{WriteLimits, lock};
    use crate::store::Error;

    #[tokio::test]
    async fn a_row_has_one_turn_at_a_time_and_is_forgotten_afterwards() {
        let (turns, row) = (WriteLimits::new(4), Uuid::new_v4());
        let deadline = Instant::now() + Duration::from_millis(20);
        let first = turns.row(row, deadline).await.unwrap();
        let late = turns.row(row, deadline).await;
        assert!(matches!(late, Err(Error::Locked(_))), "{late:?}");
        drop(first);
        let deadline = Instant::now() + Duration::from_mins(1);
        turns.row(row, deadline).await.unwrap();
        assert!(lock(&turns.rows).is_empty());
    }

    #[tokio::test]
    async fn writes_that_wait_for_locks_leave_connections_to_others() {
        let (turns, patience) = (WriteLimits::new(8), Duration::from_millis(20));
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(turns.connection(true, patience).await.unwrap());
        }
        assert!(turns.connection(true, patience).await.is_err());
        for _ in 0..4 {
            held.push(turns.connection(false, patience).await.unwrap());
        }
        // Two of the eight are left to reads.
        assert!(turns.connection(false, patience).await.is_err());
    }
}
