//! The plans of the change feed and the claim writer, which run the same few statements for as long as
//! the process lives: made once for all parameters, by looking keys up, and made anew now and then.

use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::time::Instant;

use super::error::Result;

/// Plans made for each statement cost more than the statement, and joins other than look-ups never
/// pay for so few keys.
const SETTINGS: [(&str, &str); 4] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_seqscan", "off"),
];

/// How old plans get. One that was made while a table was small may read all of it.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Sessions with these settings.
pub(super) fn settings(options: PgConnectOptions) -> PgConnectOptions {
    options.options(SETTINGS)
}

/// The age of a session's plans.
#[derive(Debug)]
pub(super) struct Plans {
    made: Instant,
}

impl Plans {
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
