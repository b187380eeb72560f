//! Follows a running old service: keeps Berth's tables up to date with its database until the cut-over.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::{Connection, PgConnection};
use time::OffsetDateTime;
use time::macros::format_description;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::error::Error;
use super::reference::Database;
use super::reference_url::{Access, ReferenceUrl};
use super::report::{Report, TableRows};
use super::round::{self, Depth, Round};
use super::{Options, collation, findings, import, import_heeding, kept, load, refuse_faults};
use crate::store;

/// Timeout for a round. A round that times out changes nothing.
const ROUND_MAX: Duration = Duration::from_hours(1);
/// Minimum and maximum pause after a failure.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Interval of the check whether another process wants to finish.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum time for which `--finish` waits until the following process ends.
const FINISH_WAIT_MAX: Duration = Duration::from_mins(10);
/// Maximum time without a line of output.
const QUIET_MAX: Duration = Duration::from_mins(1);

/// Connections, output and signals that following needs.
pub struct FollowContext<'s> {
    /// Connects to Berth's database.
    pub connect: &'s (dyn Fn() -> BoxFuture<'s, store::Result<PgConnection>> + Sync),
    /// Prints a line for the operator.
    pub print: &'s (dyn Fn(&str) + Sync),
    /// Becomes true when the operator stops the command.
    pub stop: watch::Receiver<bool>,
    /// The pause between two rounds.
    pub interval: Duration,
}

impl std::fmt::Debug for FollowContext<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FollowContext")
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

impl FollowContext<'_> {
    async fn connected(&self) -> Result<PgConnection, Error> {
        Ok((self.connect)().await?)
    }

    /// Waits until the operator stops the command.
    async fn stopped(&self) {
        if self.stop.clone().wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Imports, unless that has been done, and then follows until it is stopped. Returns the closing message.
///
/// # Errors
/// [`import`] refuses; another client has written to Berth's tables; or rows of the source can no longer be imported.
/// Once the first import is done, database failures are retried instead.
pub async fn follow(
    from: &ReferenceUrl,
    options: Options,
    context: &FollowContext<'_>,
) -> Result<String, Error> {
    let mut conn = context.connected().await?;
    if !is_following(from, &mut conn).await? || options.replace {
        let report = {
            let mut work = pin!(import(from, &mut conn, options));
            tokio::select! {
                report = &mut work => report?,
                () = context.stopped() => return Ok(
                    "stopped before the import was done; run it again to continue".to_owned()
                ),
            }
        };
        (context.print)(&report.words());
    } else if !kept::lock(&mut conn).await? {
        return Err(busy());
    }
    kept::request_finish(&mut conn, false).await?;
    let mut follower = Follower {
        from,
        context,
        conn: Some(conn),
        rounds: 0,
        failing: None,
        shown: None,
        as_of: None,
    };
    follower.run().await
}

fn busy() -> Error {
    Error::Refused("another `berth import` is running in Berth's database".to_owned())
}

/// Returns whether Berth's tables were filled from this source and follow it.
async fn is_following(from: &ReferenceUrl, conn: &mut PgConnection) -> Result<bool, Error> {
    if let Some(why) = store::schema::status(conn).await?.hindrance() {
        return Err(Error::Refused(why));
    }
    Ok(kept::state(conn)
        .await?
        .is_some_and(|state| state.is_following && state.source == from.to_string()))
}

struct Follower<'f, 's> {
    from: &'f ReferenceUrl,
    context: &'f FollowContext<'s>,
    conn: Option<PgConnection>,
    rounds: u64,
    /// Time of the first failure since a database last responded.
    failing: Option<Instant>,
    /// Time of the last line of output.
    shown: Option<Instant>,
    /// Time of the source's snapshot that Berth shows.
    as_of: Option<Instant>,
}

impl Follower<'_, '_> {
    async fn run(&mut self) -> Result<String, Error> {
        let mut pause = PAUSE_MIN;
        loop {
            if *self.context.stop.borrow() {
                return Ok(format!(
                    "stopped after {} rounds; continue with `berth import --follow`, or end with `berth import --finish`",
                    self.rounds
                ));
            }
            let wait = match self.round().await {
                Ok(()) => {
                    pause = PAUSE_MIN;
                    self.context.interval
                }
                Err(refused @ (Error::Refused(_) | Error::Changing(_))) => return Err(refused),
                // A bug, or inconsistent rows: a retry would fail in the same way.
                Err(Error::Target(error)) if error.is_ours() => return Err(Error::Target(error)),
                Err(error) => {
                    self.conn = None;
                    if self.failing.is_none() {
                        self.failing = Some(Instant::now());
                        (self.context.print)(&format!("{}: {error}; trying again", now()));
                    }
                    let wait = pause;
                    pause = (pause * 2).min(PAUSE_MAX);
                    wait
                }
            };
            if self.rest(wait).await {
                return Ok("another process finishes".to_owned());
            }
        }
    }

    /// Waits until the next round, or until the operator stops the command. Returns whether another process wants to
    /// finish.
    async fn rest(&mut self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Some(conn) = &mut self.conn {
                match kept::is_finish_requested(conn).await {
                    Ok(false) => {}
                    Ok(true) => return true,
                    Err(_) => self.conn = None,
                }
            }
            if left.is_zero() || timeout(left.min(LOOK), self.context.stopped()).await.is_ok() {
                return false;
            }
        }
    }

    /// Runs a round. It is not interrupted when the operator stops the command.
    async fn round(&mut self) -> Result<(), Error> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.connected_again().await?,
        };
        if let Some(why) = kept::damage(&mut conn).await? {
            (self.context.print)(&format!("{}: {why}: reading everything again", now()));
            let options = Options { dry_run: false, replace: true, follow: true };
            import_heeding(self.from, &mut conn, options, true).await?;
        }
        let began = Instant::now();
        let made = timeout(ROUND_MAX, one_round(self.from, &mut conn, Depth::Changed)).await;
        let made = made.map_err(|_| {
            Error::Target(store::Error::Unavailable(format!("no round within {ROUND_MAX:?}")))
        })?;
        let (round, snapshot) = made?;
        self.conn = Some(conn);
        self.rounds += 1;
        self.as_of = Some(snapshot);
        if let Some(since) = self.failing.take() {
            let seconds = since.elapsed().as_secs();
            (self.context.print)(&format!(
                "{}: both databases respond again, after {seconds} s",
                now()
            ));
        }
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= QUIET_MAX);
        if is_due || !round.changed.is_empty() {
            self.shown = Some(Instant::now());
            (self.context.print)(&self.line(&round, began, snapshot));
        }
        Ok(())
    }

    /// Replaces a connection that has died.
    async fn connected_again(&self) -> Result<PgConnection, Error> {
        let mut conn = self.context.connected().await?;
        if !is_following(self.from, &mut conn).await? {
            return Err(Error::Refused("the state of the import has been removed".to_owned()));
        }
        // The server may not have noticed yet that the previous connection is gone.
        if !kept::lock(&mut conn).await? {
            let why = "another `berth import` is running".to_owned();
            return Err(Error::Target(store::Error::Unavailable(why)));
        }
        Ok(conn)
    }

    fn line(&self, round: &Round, began: Instant, snapshot: Instant) -> String {
        let each = |it: &TableRows| format!("{} of {}", it.rows, it.table);
        let changed: Vec<String> = round.changed.iter().map(each).collect();
        let changed = if changed.is_empty() { "nothing".to_owned() } else { changed.join(", ") };
        format!(
            "{} round {}: changed {changed}; compared {} rows, read {}, in {:.1} s; {:.1} s behind",
            now(),
            self.rounds,
            round.compared,
            round.read,
            began.elapsed().as_secs_f64(),
            snapshot.elapsed().as_secs_f64()
        )
    }
}

/// The current time, as printed.
fn now() -> String {
    let form = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    OffsetDateTime::now_utc().format(&form).unwrap_or_else(|error| error.to_string())
}

/// Runs and commits one round. Also returns the time of its snapshot.
async fn one_round(
    from: &ReferenceUrl,
    conn: &mut PgConnection,
    depth: Depth,
) -> Result<(Round, Instant), Error> {
    let began = Instant::now();
    let mut source = Database::open(from, Access::Read).await?;
    let mut tx = conn.begin().await?;
    let made = round::make(&mut source, &mut tx, began, depth).await;
    source.close().await;
    let round = made?;
    tx.commit().await?;
    Ok((round, began))
}

/// Ends following, once the old service is stopped: runs a last round, then one that reads everything and compares it
/// with Berth's tables. Removes the state of the import.
///
/// # Errors
/// No source is followed; another client has written to Berth's tables; the source still changes; its rows cannot be
/// imported; or a database fails. The source can still be followed, or finished, afterwards.
pub async fn finish(from: &ReferenceUrl, context: &FollowContext<'_>) -> Result<Report, Error> {
    let began = Instant::now();
    let mut conn = context.connected().await?;
    if !is_following(from, &mut conn).await? {
        return Err(Error::Refused(format!(
            "there is no import from {from} to finish: start with `berth import --follow`"
        )));
    }
    wait_for_lock(&mut conn, context).await?;
    if let Some(why) = kept::damage(&mut conn).await? {
        return Err(Error::Refused(format!(
            "{why}: run `berth import --follow` until it prints its first round, and finish then"
        )));
    }
    let (last, _) = one_round(from, &mut conn, Depth::Changed).await?;
    let changed: u64 = last.changed.iter().map(|it| it.rows).sum();
    let print = |what: &str| (context.print)(&format!("{}: {what}", now()));
    print(&format!("the last changes are in Berth ({changed} rows); comparing everything now"));

    let snapshot = Instant::now();
    let mut source = Database::open(from, Access::Read).await?;
    let mut tx = conn.begin().await?;
    let complete = round::make(&mut source, &mut tx, snapshot, Depth::Everything).await?;
    let (note, alike) = collation::alike(&mut source).await?;
    let schema = source.schema().to_owned();
    source.close().await;
    let mut findings = findings::all(&mut tx).await?;
    findings.extend(alike);
    refuse_faults(&mut tx).await?;
    let written = load::written(&mut tx).await?;
    // The source must still have the chunks as they are recorded.
    let mut source = Database::open(from, Access::Read).await?;
    let still = round::is_unchanged(&mut source, &mut tx).await?;
    source.close().await;
    if !still {
        return Err(Error::Refused(
            "the old database has changed while everything was compared: the old service still runs somewhere. Stop \
             it on all controllers, and finish again"
                .to_owned(),
        ));
    }
    kept::discard(&mut tx).await?;
    tx.commit().await?;
    let differing: u64 = complete.changed.iter().map(|it| it.rows).sum();
    let mut notes = vec![
        format!("the last round changed {changed} rows"),
        format!(
            "{} rows were read and compared with the followed state; {differing} differed, and {} of Berth's \
             providers were not as the rows say and were mended",
            complete.read, complete.providers
        ),
    ];
    notes.extend(note);
    Ok(Report {
        database: from.to_string(),
        schema,
        dry_run: false,
        estimate: None,
        notes,
        read: complete.changed,
        written,
        findings,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Asks the following process to end, and waits until it has.
async fn wait_for_lock(conn: &mut PgConnection, context: &FollowContext<'_>) -> Result<(), Error> {
    let until = Instant::now() + FINISH_WAIT_MAX;
    let mut is_first = true;
    while !kept::lock(conn).await? {
        if Instant::now() >= until {
            return Err(busy());
        }
        if is_first {
            (context.print)(&format!(
                "{}: waiting for the process that follows to end its round",
                now()
            ));
            kept::request_finish(conn, true).await?;
            is_first = false;
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
