//! Query plans of the change feed and the claim writer, which run the same few statements for as long as
//! the process lives. PostgreSQL makes a generic plan of each, which looks keys up in indexes, and it is
//! made again about once a second.

use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::time::Instant;

use super::error::Result;

/// Settings for generic plans with index look-ups: planning each execution costs more than the statement itself,
/// and for few keys only index look-ups pay.
const SETTINGS: [(&str, &str); 4] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_seqscan", "off"),
];

/// Maximum age of a plan. One that was made while a table was small may read the whole table.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Adds these settings to options of sessions.
pub(super) fn settings(options: PgConnectOptions) -> PgConnectOptions {
    options.options(SETTINGS)
}

/// The age of a session's plans.
#[derive(Debug)]
pub(super) struct StatementPlans {
    made: Instant,
}

impl StatementPlans {
    /// Makes the state of a new session.
    pub(super) fn new() -> Self {
        Self { made: Instant::now() }
    }

    /// Discards old plans.
    pub(super) async fn renew(&mut self, conn: &mut PgConnection) -> Result<()> {
        if self.made.elapsed() > AGE_MAX {
            sqlx::raw_sql("discard plans").execute(conn).await?;
            self.made = Instant::now();
        }
        Ok(())
    }
}
