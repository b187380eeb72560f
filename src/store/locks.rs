//! The order in which transactions take locks, and the locks that belong to no row.
//!
//! Every transaction takes its locks in this order and never goes back, so no two of them can wait
//! for each other. Example: one batch of claims moves consumer A from provider P to Q, another moves
//! consumer B from Q to P. Both lock their consumers first and then P and Q in the order of their keys, so
//! the second waits at P before it holds Q, and the first can finish. Had each locked first the provider
//! from which it takes, each would hold the lock for which the other waits.
//!
//! The order:
//!
//! 1. the plan's row (`plans`)
//! 2. stored groups (`planner_groups`), by id
//! 3. the lock of trees ([`lock_trees_exclusive`], [`lock_trees_shared`])
//! 4. the lock of names ([`lock_names`])
//! 5. consumers: first those that are inserted, by UUID, then those that exist, by UUID; among them
//!    the holds that arriving instances take over
//! 6. providers, by key, in one statement: those that are named, those that the consumers use, and the
//!    roots of exclusive units that may become free
//! 7. rows that are added to a locked provider (inventories, traits), and the shared key locks that
//!    their foreign keys take on classes and traits
//! 8. resource ids of placements ([`lock_resource_keys`]), by hash
//! 9. consumer types, projects and users that are new, in one statement
//! 10. placements, by id
//! 11. rows deleted from a locked provider, and exclusive units, whose hosts are locked
//! 12. the turn of a project at counting its rows in the planner (`planner/caps.rs`)
//!
//! The locks of each transaction:
//!
//! | transaction | takes |
//! |---|---|
//! | a batch of claims (`writer`) | 5, 6, 9, 10, 11 |
//! | `Reshape` | 5, 6, 7, 9, 10, 11 |
//! | `ReplaceInventories` and similar, `ReplaceTraits`, `ReplaceAggregates` | one row of 6, 7, 11 |
//! | `CreateProvider` | 3 shared if it has a parent; then only its own new row |
//! | `UpdateProvider` | 3 if it moves, 4 if it renames, 6: the subtree |
//! | `DeleteProvider` | one row of 6 for update, 11 |
//! | `EnsureClass`, `EnsureTrait` | the new row |
//! | `RenameClass` | 4, the row of the class |
//! | `DeleteClass`, `DeleteTrait` | the row, then key locks on the rows that refer to it |
//! | `Booking` | 1, 2, 5, 6, 8, 9, 10, 11, and 12 if the plan grows |
//! | `ExpireHold` | 5, 6, 10, 11 |
//! | `CreateGroup` | one row of 2, 12 |
//! | `DescribeGroup`, `AddMembers`, `RemoveMembers` | one row of 2 |
//! | `DeleteGroup` | one row of 2, its exclusive units |
//! | `SetFlavors`, `UnsetFlavor` | flavors alone |
//!
//! A transaction that finds out later that it needs a lock of an earlier step is rolled back with
//! `Error::Again` and starts again. Reads, the change feed and the audit take no row locks.
//!
//! No transaction waits long for one lock: sessions have a short lock time-out ([`WAIT_MAX`] and
//! [`WRITER_WAIT_MAX`]). After it the transaction is rolled back, its other locks are free again, and
//! it is tried later, until
//! [`Timeouts::locked`](super::options::Timeouts::locked) has passed.

use std::time::Duration;

use sqlx::PgConnection;

use super::error::Result;

/// Lock timeout of a session of the pool.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(500);
/// Lock timeout of the claim writer; all claims of the replica wait meanwhile.
pub(super) const WRITER_WAIT_MAX: Duration = Duration::from_millis(200);

/// Serializes moves of providers: two moves that each pass the check for loops could make one together, and a
/// move must see all children.
pub(super) async fn lock_trees_exclusive(conn: &mut PgConnection) -> Result<()> {
    sqlx::query!("select pg_advisory_xact_lock(hashtext('berth.trees'))").execute(conn).await?;
    Ok(())
}

/// Keeps moves away while a child is created; children are created concurrently.
pub(super) async fn lock_trees_shared(conn: &mut PgConnection) -> Result<()> {
    sqlx::query!("select pg_advisory_xact_lock_shared(hashtext('berth.trees'))")
        .execute(conn)
        .await?;
    Ok(())
}

/// Serializes renames of providers and classes: two that swap their names would wait for each other at the
/// unique key.
pub(super) async fn lock_names(conn: &mut PgConnection) -> Result<()> {
    sqlx::query!("select pg_advisory_xact_lock(hashtext('berth.names'))").execute(conn).await?;
    Ok(())
}

/// Serializes bookings that write the same resource ids: at the unique key they would wait for each other in
/// the order of their servers.
pub(super) async fn lock_resource_keys(conn: &mut PgConnection, keys: &[&str]) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "select pg_advisory_xact_lock(number) from (
             select distinct hashtextextended('berth.resource ' || key, 0) as number
             from unnest($1::text[]) as key order by 1) as numbers",
        keys as &[&str]
    )
    .execute(conn)
    .await?;
    Ok(())
}
