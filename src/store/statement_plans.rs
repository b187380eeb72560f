//! Query plans of the change feed and the claim writer, which run the same few statements for as long as
//! the process lives. PostgreSQL makes a generic plan of each, which looks keys up in indexes, and makes
//! it again about once a second.

use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::time::Instant;

use super::error::Result;

/// Planning for each execution costs more than the statement itself, and for so few keys only index
/// look-ups pay.
const SETTINGS: [(&str, &str); 4] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_seqscan", "off"),
];

/// The greatest age of a plan. One that was made while a table was small may read the whole table.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Sessions with these settings.
pub(super) fn settings(options: PgConnectOptions) -> PgConnectOptions {
    options.options(SETTINGS)
}

/// The age of a session's plans.
#[derive(Debug)]
pub(super) struct StatementPlans {
    made: Instant,
}

impl StatementPlans {
    /// Of a session that begins.
    pub(super) fn new() -> Self {
        Self { made: Instant::now() }
    }

    /// Forgets the plans if they are old.
    pub(super) async fn renew(&mut self, conn: &mut PgConnection) -> Result<()> {
        if self.made.elapsed() > AGE_MAX {
            sqlx::raw_sql("discard plans").execute(conn).await?;
            self.made = Instant::now();
        }
        Ok(())
    }
}
