//! Checks periodically whether the schema still serves this program: a newer one may have migrated it, or a table or
//! a privilege may have been removed.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::error::{Error, Result};
use super::primary::Primary;
use super::schema;
use super::schema::status::Status;
use super::sessions::{FEED_WAIT_MAX, waiting};

/// Interval of checks. A check reads catalogs only, and takes some milliseconds.
const EVERY: Duration = Duration::from_secs(5);
/// Timeout for a check, even if the server does not respond.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// The reason why this program cannot use the schema.
type Hindrance = Cow<'static, str>;

/// The result of the last check. The task ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct SchemaWatch {
    last: watch::Receiver<Option<Hindrance>>,
    _task: Arc<JoinSet<()>>,
}

impl SchemaWatch {
    /// Starts the task, for a schema that was right when the server started.
    pub(super) fn start(primary: Primary) -> Self {
        let (noted, last) = watch::channel(None);
        Self { last, _task: Arc::new(JoinSet::from_iter([run(primary, noted)])) }
    }

    /// Returns the reason why this program cannot use the schema, if any.
    pub(super) fn hindrance(&self) -> Option<Hindrance> {
        self.last.borrow().clone()
    }
}

async fn run(primary: Primary, noted: watch::Sender<Option<Hindrance>>) {
    loop {
        sleep(EVERY).await;
        let status = match look(&primary).await {
            Ok(status) => status,
            // An unavailable database shows nothing about its schema, and is reported as such.
            Err(error) => {
                tracing::debug!(%error, "the schema was not checked");
                continue;
            }
        };
        let found = hindrance(&status);
        noted.send_if_modified(|known| {
            let is_new = *known != found;
            match &found {
                Some(why) if is_new => tracing::error!(
                    "this server is no longer ready: {}",
                    status.hindrance().unwrap_or_else(|| why.to_string())
                ),
                None if is_new => tracing::info!("the schema serves this program again"),
                Some(_) | None => {}
            }
            known.clone_from(&found);
            is_new
        });
    }
}

async fn look(primary: &Primary) -> Result<Status> {
    let (mut conn, term) = primary.connect(|options| waiting(options, FEED_WAIT_MAX)).await?;
    let status = timeout(LOOK_MAX, term.during(schema::status(&mut conn))).await;
    drop(sqlx::Connection::close(conn).await);
    status.unwrap_or_else(|_| Err(Error::Unavailable(format!("no response within {LOOK_MAX:?}"))))
}

/// Returns the text for health checks, which need no token: it does not name the role of the server.
fn hindrance(status: &Status) -> Option<Hindrance> {
    match status {
        Status::Forbidden { .. } => Some(Cow::Borrowed(
            "the role of the server lacks privileges in the database: `berth check` names them",
        )),
        Status::Current
        | Status::Newer(_)
        | Status::Behind(_)
        | Status::Ahead(_)
        | Status::Incomplete(_)
        | Status::Altered(_)
        | Status::Reference
        | Status::Foreign(_)
        | Status::Encoding(_) => status.hindrance().map(Cow::Owned),
    }
}
