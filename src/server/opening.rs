//! Opening the store when the server starts: a database that is away is waited for, and one that
//! waiting does not help is refused with words.

use std::time::Duration;

use sqlx::PgConnection;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::config::Config;
use crate::observe::spans::milliseconds;
use crate::server::serve::{Database, Failure};
use crate::server::systemd;
use crate::store::condition;
use crate::store::error::CANNOT;
use crate::store::planner::flavors::SetFlavors;
use crate::store::schema::{self, Status};
use crate::store::{Error, Pruning, Store, StoreOptions};

/// How long after a failed attempt the next one is made.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long a database has to take a connection and to say what its schema is.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);
/// How long the log says nothing while the reason stays the same, and while it changes.
const TOLD_EVERY: Duration = Duration::from_mins(1);
const CHANGES_TOLD_EVERY: Duration = Duration::from_secs(5);

/// Why the store is not open.
pub(crate) enum Trouble {
    /// The database cannot be used now, which may pass by itself or by what somebody does to it.
    Away(String),
    /// It has to be another database, or another program.
    Lasting(Failure),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(why) | Error::Again(why) | Error::Locked(why) => {
                Self::Away(format!("{CANNOT}: {why}"))
            }
            Error::Refused(_) | Error::Inconsistent { .. } | Error::Bug(_) => {
                Self::Lasting(Failure(error.to_string()))
            }
        }
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Away(why) => Self(why),
            Trouble::Lasting(failure) => failure,
        }
    }
}

/// Opens the store and sets the flavors that are set at the start. A database that is away is waited
/// for, as long as the options say; `waiting` is notified when that begins.
///
/// # Errors
/// The database did not come, or waiting for it does not help.
pub(crate) async fn open(
    database: &Database,
    config: &Config,
    flavors: &SetFlavors,
    waiting: &Notify,
) -> Result<Store, Failure> {
    // The private one has been waited for.
    let bound = if database.is_private() { Some(Duration::ZERO) } else { config.database_wait() };
    let mut wait = Wait { bound, began: Instant::now(), told: None };
    loop {
        match attempt(database, config, flavors).await {
            Ok(store) => {
                wait.end();
                return Ok(store);
            }
            Err(Trouble::Away(why)) => wait.go_on(why)?,
            Err(Trouble::Lasting(failure)) => return Err(failure),
        }
        waiting.notify_one();
        sleep(RETRY_AFTER).await;
    }
}

async fn attempt(
    database: &Database,
    config: &Config,
    flavors: &SetFlavors,
) -> Result<Store, Trouble> {
    if database.is_private() {
        settle(database, true).await?;
        check_writes(&mut database.try_connect().await?).await?;
    } else {
        let late = |_| Trouble::Away(format!("the database does not answer in {ATTEMPT_MAX:?}"));
        let looked = async {
            check_writes(&mut database.try_connect().await?).await?;
            look(database, config.database_migrate).await
        };
        // Migrations take as long as they take.
        if let Some(mut conn) = timeout(ATTEMPT_MAX, looked).await.map_err(late)?? {
            schema::migrate(&mut conn).await?;
        }
    }
    let report_only = config.planner.report_only();
    let connections = config.database_connections;
    let hosts = database.hosts().to_vec();
    let lease = config.primary_lease;
    let pruning = Pruning::default();
    let history = config.history.kept();
    let events = config.events.kept();
    let options = StoreOptions { hosts, connections, report_only, lease, pruning, history, events };
    let store = Store::open(options).await?;
    if !flavors.0.is_empty() {
        store.commit(flavors.clone()).await.map_err(|error| {
            if let Error::Refused(why) = error {
                Trouble::Lasting(Failure(format!("--planner-flavors: {why}")))
            } else {
                error.into()
            }
        })?;
    }
    Ok(store)
}

/// Makes sure that the schema is the one this program knows.
///
/// # Errors
/// It is not, and this is a database that somebody else looks after; the message says what to do.
pub async fn settle_schema(database: &Database) -> Result<(), Failure> {
    settle(database, database.is_private()).await.map_err(Failure::from)
}

async fn settle(database: &Database, migrates: bool) -> Result<(), Trouble> {
    if let Some(mut conn) = look(database, migrates).await? {
        schema::migrate(&mut conn).await?;
    }
    Ok(())
}

/// Makes sure that new sessions can write. That they cannot may pass: for the time of a switch-over, for example.
async fn check_writes(conn: &mut PgConnection) -> Result<(), Trouble> {
    let found = condition::read_only(conn).await?;
    found.map_or(Ok(()), |(why, advice)| Err(Trouble::Away(format!("{CANNOT}: {why}; {advice}"))))
}

/// Looks at the schema. A connection, if it is to be migrated.
async fn look(database: &Database, migrates: bool) -> Result<Option<PgConnection>, Trouble> {
    let mut conn = database.try_connect().await?;
    let status = schema::status(&mut conn).await?;
    // A newer list of standard names is added even when the schema is current.
    if migrates && matches!(status, Status::Current | Status::Behind(_)) {
        return Ok(Some(conn));
    }
    status.hindrance().map_or(Ok(None), |why| Err(Trouble::Lasting(Failure(why))))
}

/// Waiting for the database.
struct Wait {
    /// How long; none: until it is there.
    bound: Option<Duration>,
    began: Instant,
    /// When the log said why, and why.
    told: Option<(Instant, String)>,
}

impl Wait {
    /// Notes one more failed attempt, and tells the log now and then.
    fn go_on(&mut self, why: String) -> Result<(), Failure> {
        let waited = self.began.elapsed();
        if let Some(bound) = self.bound.filter(|bound| waited >= *bound) {
            return Err(Failure(if bound.is_zero() {
                why
            } else {
                format!("{why}; it was waited for {bound:?} (--database-wait)")
            }));
        }
        let is_due = self.told.as_ref().is_none_or(|(told, before)| {
            told.elapsed() >= if *before == why { TOLD_EVERY } else { CHANGES_TOLD_EVERY }
        });
        if is_due {
            systemd::status(&format!("waiting for the database: {why}"));
            tracing::error!(
                "{why}; waiting for it, and answering 503 until it can be used (look at \
                 --database-url if that does not pass; --database-wait bounds it)"
            );
            self.told = Some((Instant::now(), why));
        }
        Ok(())
    }

    fn end(&self) {
        if self.told.is_some() {
            let waited_ms = milliseconds(self.began.elapsed());
            tracing::info!(waited_ms, "the database is there");
        }
    }
}
