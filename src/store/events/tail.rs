//! Publishes new events: a task that numbers them, often while a client follows the log, and seldom otherwise.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::numbering::keep_up;
use crate::store::error::{Error, Result};
use crate::store::primary::{Primary, Term};
use crate::store::sessions::{FEED_WAIT_MAX, waiting};
use crate::store::statement_plans;

/// Interval of numbering while a client follows the log.
const OFTEN: Duration = Duration::from_millis(100);
/// Interval otherwise: short enough that the change log, which is compared with the log of events, has not been
/// pruned.
const SELDOM: Duration = Duration::from_secs(5);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// Timeout for numbering.
const STATEMENT_MAX: Duration = Duration::from_secs(15);

/// The end of the log. The task ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub(in crate::store) struct Tail {
    number: Arc<watch::Sender<i64>>,
    follow_now: Arc<Notify>,
    _task: Arc<JoinSet<()>>,
}

impl Tail {
    /// Starts the task, unless the log of events is off.
    pub(in crate::store) fn start(primary: &Primary) -> Self {
        let number = Arc::new(watch::Sender::new(0));
        let follow_now = Arc::new(Notify::new());
        let mut task = JoinSet::new();
        if primary.options().events_hours.is_some() {
            let work = Work {
                primary: primary.clone(),
                conn: None,
                number: Arc::clone(&number),
                follow_now: Arc::clone(&follow_now),
            };
            task.spawn(work.run());
        }
        Self { number, follow_now, _task: Arc::new(task) }
    }

    /// Returns a receiver that changes whenever events have been numbered.
    pub(in crate::store) fn follow(&self) -> watch::Receiver<i64> {
        let follower = self.number.subscribe();
        self.follow_now.notify_one();
        follower
    }
}

struct Work {
    primary: Primary,
    conn: Option<(PgConnection, Arc<Term>)>,
    number: Arc<watch::Sender<i64>>,
    follow_now: Arc<Notify>,
}

impl Work {
    async fn run(mut self) {
        loop {
            match timeout(STATEMENT_MAX, self.keep_up()).await {
                Ok(Ok(number)) => {
                    self.number
                        .send_if_modified(|known| std::mem::replace(known, number) != number);
                }
                failed => {
                    self.conn = None;
                    let error = match failed {
                        Ok(Err(error)) => error.to_string(),
                        _ => format!("no outcome within {STATEMENT_MAX:?}"),
                    };
                    tracing::warn!(error, "events were not given numbers");
                    sleep(PAUSE).await;
                }
            }
            if self.number.receiver_count() > 0 {
                sleep(OFTEN).await;
            } else {
                tokio::select! {
                    () = sleep(SELDOM) => {}
                    () = self.follow_now.notified() => {}
                }
            }
        }
    }

    async fn keep_up(&mut self) -> Result<i64> {
        let (mut conn, term) = match self.conn.take().filter(|(_, term)| !term.is_over()) {
            Some(connected) => connected,
            None => self.primary.connect(settings).await?,
        };
        let number = term.during(keep_up(&mut conn)).await.map_err(Error::settled)?;
        self.conn = Some((conn, term));
        Ok(number)
    }
}

fn settings(options: PgConnectOptions) -> PgConnectOptions {
    waiting(statement_plans::settings(options), FEED_WAIT_MAX)
}
