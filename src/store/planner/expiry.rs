//! Holds that nobody has reserved for too long: what they hold is given back. The placement stays,
//! without a place, and says so.

use uuid::Uuid;

use super::units;
use crate::model::claim::{Claim, Request, judge};
use crate::store::change::{Change, Tx};
use crate::store::claims::{self, Moves, Needs};
use crate::store::error::Result;

/// Holds that one transaction ends at the most.
const AT_ONCE: i64 = 100;

/// Ends holds of plans that have not changed for this long; tells of which placements.
#[derive(Clone, Copy, Debug)]
pub struct ExpireHolds {
    /// How long, in seconds.
    pub ttl: u32,
}

impl Change for ExpireHolds {
    const NAME: &'static str = "expire_holds";
    type Outcome = Vec<Uuid>;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Vec<Uuid>> {
        let expired = sqlx::query_scalar!(
            "select p.id from placements p join plans s on s.id = p.plan_id
             join consumers c on c.uuid = p.consumer
             where p.consumer = p.id and p.reserved is null
               and s.changed_at < now() - make_interval(secs => $1)
             order by p.id limit $2 for update of p skip locked",
            f64::from(self.ttl),
            AT_ONCE
        )
        .fetch_all(&mut *tx.conn)
        .await?;
        if expired.is_empty() {
            return Ok(expired);
        }
        let given_up = expired.iter().map(|placement| Claim::giving_up(*placement));
        let request = Request::Replace(given_up.collect());
        let mut locked = claims::lock(tx, &Needs::of([&request])).await?;
        let before = Moves::before(&locked.books);
        judge(&mut locked.books, &request)?;
        let moved = before.since(&locked.books);
        claims::write(tx, &locked, &moved).await?;
        sqlx::query!("update placements set expired_at = now() where id = any($1)", &expired)
            .execute(&mut *tx.conn)
            .await?;
        let groups = units::groups_of_consumers(tx, &expired).await?;
        units::release(tx, &groups).await?;
        Ok(expired)
    }
}
