//! Opens the store when the server starts: waits for an unavailable database, and reports errors that waiting does
//! not resolve.

use std::time::Duration;

use sqlx::PgConnection;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::config::Config;
use crate::observe::spans::milliseconds;
use crate::server::database::Database;
use crate::server::failure::{Failure, OpenError};
use crate::server::systemd;
use crate::store::effects::Recorder;
use crate::store::error::CANNOT;
use crate::store::planner::flavors::SetFlavors;
use crate::store::schema::{self, Status};
use crate::store::{Error, Pruning, Store, StoreOptions, Timeouts, condition};

/// Pause between two attempts.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Timeout for connecting and reading the version of the schema.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);
/// Minimum interval between log messages with the same reason, and with different ones.
const LOG_INTERVAL: Duration = Duration::from_mins(1);
const LOG_CHANGE_INTERVAL: Duration = Duration::from_secs(5);

/// Opens the store and sets the flavors given for the start. Waits for an unavailable database as long as the options
/// allow; `waiting` is notified when that begins.
///
/// # Errors
/// The database did not become available, or waiting does not help.
pub(crate) async fn open(
    database: &Database,
    config: &Config,
    flavors: &SetFlavors,
    waiting: &Notify,
) -> Result<Store, Failure> {
    // The private one has already been waited for.
    let bound = if database.is_private() { Some(Duration::ZERO) } else { config.database_wait() };
    let mut wait = Wait { bound, began: Instant::now(), logged: None };
    loop {
        match attempt(database, config, flavors).await {
            Ok(store) => {
                wait.end();
                return Ok(store);
            }
            Err(OpenError::Away(why)) => wait.go_on(why)?,
            Err(OpenError::Lasting(failure)) => return Err(failure),
        }
        waiting.notify_one();
        sleep(RETRY_AFTER).await;
    }
}

async fn attempt(
    database: &Database,
    config: &Config,
    flavors: &SetFlavors,
) -> Result<Store, OpenError> {
    if database.is_private() {
        settle(database, true).await?;
        check_writes(&mut database.try_connect().await?).await?;
    } else {
        let late =
            |_| OpenError::Away(format!("the database does not respond within {ATTEMPT_MAX:?}"));
        let looked = async {
            check_writes(&mut database.try_connect().await?).await?;
            look(database, config.database_migrate).await
        };
        // Migrations have no timeout.
        if let Some(mut conn) = timeout(ATTEMPT_MAX, looked).await.map_err(late)?? {
            schema::migrate(&mut conn).await?;
        }
    }
    let report_only = config.planner.report_only();
    let connections = config.database_connections;
    let hosts = database.hosts().to_vec();
    let lease = config.primary_lease;
    let (history_days, events_hours) = (config.history.days(), config.events.events);
    let options = StoreOptions {
        hosts,
        connections,
        report_only,
        lease,
        max_staleness: Duration::from_millis(config.max_staleness.into()),
        timeouts: Timeouts::default(),
        pruning: Pruning::default(),
        history_days,
        consumers_memory_max: config.consumers.memory_max(),
        events_hours,
    };
    let store = Store::open(options).await?;
    if !flavors.0.is_empty() {
        store.changes(Recorder::none()).commit(flavors.clone()).await.map_err(|error| {
            if let Error::Refused(why, _) = error {
                OpenError::Lasting(Failure(format!("--planner-flavors: {why}")))
            } else {
                error.into()
            }
        })?;
    }
    Ok(store)
}

/// Makes sure that the schema is the one that this program knows.
///
/// # Errors
/// It is not, and the operator manages this database; the message says what to do.
pub async fn settle_schema(database: &Database) -> Result<(), Failure> {
    settle(database, database.is_private()).await.map_err(Failure::from)
}

async fn settle(database: &Database, migrates: bool) -> Result<(), OpenError> {
    if let Some(mut conn) = look(database, migrates).await? {
        schema::migrate(&mut conn).await?;
    }
    Ok(())
}

/// Checks that new sessions can write. A failure may be temporary, such as during a switch-over.
async fn check_writes(conn: &mut PgConnection) -> Result<(), OpenError> {
    let found = condition::read_only(conn).await?;
    found.map_or(Ok(()), |(why, advice)| Err(OpenError::Away(format!("{CANNOT}: {why}; {advice}"))))
}

/// Checks the schema. Returns a connection if it is to be migrated.
async fn look(database: &Database, migrates: bool) -> Result<Option<PgConnection>, OpenError> {
    let mut conn = database.try_connect().await?;
    let status = schema::status(&mut conn).await?;
    // A newer list of standard names is added even if the schema is current.
    if migrates && matches!(status, Status::Current | Status::Behind(_)) {
        return Ok(Some(conn));
    }
    status.hindrance().map_or(Ok(None), |why| Err(OpenError::Lasting(Failure(why))))
}

/// State of waiting for the database.
struct Wait {
    /// Maximum duration; `None` for no limit.
    bound: Option<Duration>,
    began: Instant,
    /// Time and reason of the last log message.
    logged: Option<(Instant, String)>,
}

impl Wait {
    /// Records a failed attempt, and logs it from time to time.
    fn go_on(&mut self, why: String) -> Result<(), Failure> {
        let waited = self.began.elapsed();
        if let Some(bound) = self.bound.filter(|bound| waited >= *bound) {
            return Err(Failure(if bound.is_zero() {
                why
            } else {
                format!("{why}; gave up after {bound:?} (--database-wait)")
            }));
        }
        let is_due = self.logged.as_ref().is_none_or(|(logged, before)| {
            logged.elapsed() >= if *before == why { LOG_INTERVAL } else { LOG_CHANGE_INTERVAL }
        });
        if is_due {
            systemd::status(&format!("waiting for the database: {why}"));
            tracing::error!(
                "{why}; waiting for it, and responding with 503 until it is usable (see \
                 --database-url if that does not pass; --database-wait bounds it)"
            );
            self.logged = Some((Instant::now(), why));
        }
        Ok(())
    }

    fn end(&self) {
        if self.logged.is_some() {
            let waited_ms = milliseconds(self.began.elapsed());
            tracing::info!(waited_ms, "the database is available");
        }
    }
}
