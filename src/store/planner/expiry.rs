//! Ends holds whose servers have not arrived for too long: their capacity is released. The placement remains
//! without a host, and is marked as expired. It keeps its ticket, so its instance may still arrive.
//!
//! Two kinds of holds stay. A placement that is reserved without a ticket may have a server that is unknown here, and
//! its hold is what that server uses. The hold of a migration is for an instance that is still elsewhere.

use futures_util::FutureExt;
use uuid::Uuid;

use super::exclusive_units;
use crate::model::claim::{Claim, Request, judge};
use crate::store::access::Store;
use crate::store::change::Change;
use crate::store::claims;
use crate::store::claims::GenerationSteps;
use crate::store::claims::locked::Needs;
use crate::store::effects::Recorder;
use crate::store::error::{Error, Result};
use crate::store::recording;
use crate::store::tx::Tx;

/// Maximum number of holds ended at a time.
const AT_ONCE: i64 = 100;

impl Store {
    /// Ends holds of plans that have not changed for `ttl` seconds, at most a hundred at a time. Returns their
    /// placements. A hold that another transaction has locked is left for later.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn expire_holds(&self, ttl: u32) -> Result<Vec<Uuid>> {
        if self.maintenance.check().is_err() {
            return Ok(Vec::new());
        }
        // In random order, so that holds that cannot be ended do not always come first.
        let due = self
            .read(|conn| {
                sqlx::query_scalar!(
                    "select p.id from placements p join plans s on s.id = p.plan_id
             join consumers c on c.uuid = p.consumer
             where p.consumer = p.id and (p.reserved is null or p.reserved and p.ticket is not null)
               and s.changed_at < now() - make_interval(secs => $1)
             order by random() limit $2",
                    f64::from(ttl),
                    AT_ONCE
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        let changes = self.changes(Recorder::none());
        let mut expired = Vec::new();
        for placement in due {
            match changes.commit(ExpireHold { placement, ttl }).await {
                Ok(true) => {
                    recording::hold_expired();
                    expired.push(placement);
                }
                Ok(false) => {}
                Err(Error::Unavailable(why)) => {
                    tracing::warn!(%placement, why, "a hold is not ended yet");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }
}

/// Ends one hold if it is still due. Returns whether it did.
#[derive(Clone, Copy, Debug)]
struct ExpireHold {
    placement: Uuid,
    ttl: u32,
}

impl Change for ExpireHold {
    const PATIENT: bool = false;
    type Outcome = bool;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let request = Request::Replace(vec![Claim::giving_up(self.placement)]);
        let mut locked = claims::lock(tx, &Needs::of([&request])).await?;
        // Checked again now that the hold is locked.
        let due = sqlx::query_scalar!(
            "select p.id from placements p join plans s on s.id = p.plan_id
             join consumers c on c.uuid = p.consumer
             where p.id = $1 and p.consumer = p.id and (p.reserved is null or p.reserved and p.ticket is not null)
               and s.changed_at < now() - make_interval(secs => $2)
             for update of p",
            self.placement,
            f64::from(self.ttl)
        )
        .fetch_optional(&mut *tx.conn)
        .await?;
        if due.is_none() {
            return Ok(false);
        }
        let before = GenerationSteps::before(&locked.state);
        judge(&mut locked.state, &request)?;
        let moved = before.since(&locked.state);
        tx.note_consumers(&locked.state);
        claims::write(tx, &locked, &moved).await?;
        sqlx::query!("update placements set expired_at = now() where id = $1", self.placement)
            .execute(&mut *tx.conn)
            .await?;
        let groups = exclusive_units::groups_of_consumers(tx, &[self.placement]).await?;
        exclusive_units::release(tx, &groups, &locked).await?;
        Ok(true)
    }
}
