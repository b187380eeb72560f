//! Caps on the rows that a project may store in the planner.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgConnection;

use crate::model::Refusal;
use crate::model::refusal::Capped;
use crate::store::access::Store;
use crate::store::error::Result;
use crate::store::tx::Tx;

/// The maximum numbers of each project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Plans.
    pub plans: u32,
    /// Placements of all its plans together.
    pub placements: u32,
    /// Size of the requests of its plans together, in bytes.
    pub bytes: u64,
    /// Groups created by it.
    pub groups: u32,
}

impl Default for Caps {
    fn default() -> Self {
        Self { plans: 10_000, placements: 50_000, bytes: 256 * 1024 * 1024, groups: 1_000 }
    }
}

/// The growth that a change causes. Numbers that do not grow are not checked, so that a project above its caps can
/// still shrink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Growth {
    pub(super) plans: bool,
    pub(super) placements: bool,
    pub(super) bytes: bool,
}

impl Caps {
    /// Refuses changes that leave a project with more plans, placements or bytes than its caps allow, after
    /// everything has been written. Must be called last: growing changes of one project take turns from here to
    /// their commit, each counts what those before it have committed, and the holder of the turn waits for no
    /// other lock.
    pub(super) async fn check(&self, tx: &mut Tx<'_>, project: &str, growth: Growth) -> Result<()> {
        if growth == Growth::default() {
            return Ok(());
        }
        take_turns(tx, project).await?;
        let has = count(&mut *tx.conn, project).await?;
        self.refuse(has, growth)
    }

    /// Refuses a group beyond the cap of a project; the new one has been written.
    pub(super) async fn check_groups(&self, tx: &mut Tx<'_>, project: &str) -> Result<()> {
        take_turns(tx, project).await?;
        let has = sqlx::query_scalar!(
            r#"select count(*) as "groups!" from planner_groups where project = $1"#,
            project
        )
        .fetch_one(&mut *tx.conn)
        .await?;
        let most = i64::from(self.groups);
        if has > most {
            return Err(Refusal::CapReached { most, what: Capped::Groups }.into());
        }
        Ok(())
    }

    /// Refuses a new plan with this number of servers if it would exceed the caps, before it is solved. A preliminary
    /// check only: the numbers may grow meanwhile.
    ///
    /// # Errors
    /// `CapReached`, or the database is unavailable.
    pub async fn foresee(&self, store: &Store, project: &str, servers: usize) -> Result<()> {
        let has = store.read(|conn| count(conn, project)).await?;
        let servers = i64::try_from(servers).unwrap_or(i64::MAX);
        let would = Stored {
            plans: has.plans + 1,
            placements: has.placements.saturating_add(servers),
            ..has
        };
        self.refuse(would, Growth { plans: true, placements: servers > 0, bytes: false })
    }

    fn refuse(&self, has: Stored, growth: Growth) -> Result<()> {
        let bytes = i64::try_from(self.bytes).unwrap_or(i64::MAX);
        for (grows, has, most, what) in [
            (growth.plans, has.plans, self.plans.into(), Capped::Plans),
            (growth.placements, has.placements, self.placements.into(), Capped::Placements),
            (growth.bytes, has.bytes, bytes, Capped::Bytes),
        ] {
            if grows && has > most {
                return Err(Refusal::CapReached { most, what }.into());
            }
        }
        Ok(())
    }
}

/// The numbers that a project has stored.
#[derive(Clone, Copy, Debug)]
struct Stored {
    plans: i64,
    placements: i64,
    bytes: i64,
}

fn count<'c>(conn: &'c mut PgConnection, project: &str) -> BoxFuture<'c, sqlx::Result<Stored>> {
    sqlx::query_as!(
        Stored,
        r#"select count(*) as "plans!",
                  coalesce(sum(octet_length(document)), 0)::bigint as "bytes!",
                  (select count(*) from placements where project = $1) as "placements!"
           from plans where project = $1"#,
        project
    )
    .fetch_one(conn)
    .boxed()
}

/// Takes the turn of a project. Two projects with the same hash share a turn.
async fn take_turns(tx: &mut Tx<'_>, project: &str) -> Result<()> {
    sqlx::query!("select pg_advisory_xact_lock(hashtext('berth.caps'), hashtext($1))", project)
        .execute(&mut *tx.conn)
        .await?;
    Ok(())
}
