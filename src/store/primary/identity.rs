//! Identifies the server at the other end of a connection.

use std::fmt;

use sqlx::PgConnection;

use crate::store::error::{Error, Result};

/// A server that takes writes, as PostgreSQL identifies it.
///
/// A promotion begins a timeline with a greater number, so of two primaries of one cluster the one
/// with the greater timeline is right, and the other is deposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The id of the cluster, which `initdb` made up, and which is the same on all copies.
    pub(super) system: i64,
    /// The number of promotions so far, plus one.
    pub(super) timeline: u32,
    /// Whether `default_transaction_read_only` keeps new sessions from writing. Only new sessions see a change of
    /// it, so the change begins a term with new connections.
    pub(super) is_read_only: bool,
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "timeline {} of cluster {}", self.timeline, self.system)?;
        formatter.write_str(if self.is_read_only { " without writes" } else { "" })
    }
}

impl Identity {
    /// Checks that this server can be the primary after another one. `alone`: no primary of the other one's
    /// cluster responds.
    ///
    /// # Errors
    /// It cannot be.
    pub(super) fn may_follow(self, newest: Self, alone: bool) -> Result<()> {
        let why = if self.system != newest.system {
            if alone {
                return Ok(());
            }
            format!("{self} is another cluster than {newest}")
        } else if self.timeline < newest.timeline {
            format!("{self} has been deposed by {newest}: restart berth if that is gone for good")
        } else {
            return Ok(());
        };
        Err(Error::Unavailable(why))
    }
}

/// Identifies a server; `None` if it is a standby.
///
/// # Errors
/// The server is unavailable.
pub(super) async fn identify(conn: &mut PgConnection) -> Result<Option<Identity>> {
    // The control file names the timeline of the last checkpoint, which is late after a promotion;
    // the name of the current WAL file begins with the current timeline.
    let row = sqlx::query!(
        r#"select (select system_identifier from pg_control_system()) as "system!",
                  case when not pg_is_in_recovery()
                       then pg_walfile_name(pg_current_wal_insert_lsn()) end as wal,
                  current_setting('default_transaction_read_only')::boolean as "is_read_only!""#
    )
    .fetch_one(conn)
    .await?;
    let Some(wal) = row.wal else { return Ok(None) };
    let timeline = wal.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let timeline = timeline.ok_or_else(|| Error::bug(format!("a WAL file is called {wal}")))?;
    Ok(Some(Identity { system: row.system, timeline, is_read_only: row.is_read_only }))
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn an_older_timeline_or_another_cluster_is_refused_while_the_primary_responds() {
        let newest = Identity { system: 1, timeline: 3, is_read_only: false };
        let may = |system, timeline, alone| {
            let found = Identity { system, timeline, is_read_only: true };
            found.may_follow(newest, alone).is_ok()
        };
        assert!(may(1, 3, false) && may(1, 4, false));
        assert!(!may(1, 2, false) && !may(1, 2, true));
        assert!(!may(2, 9, false) && may(2, 1, true));
    }
}
