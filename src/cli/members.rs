//! `berth members` and `berth maintenance`: the replicas that run, and orders for them. They reach the replicas through
//! the database, also those that no client reaches.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use sqlx::PgConnection;
use tokio::time::{Instant, sleep};

use super::columns::{FormatOptions, ListFormat, columns};
use super::db_options::DbOptions;
use crate::http::admin::health::DRAINED;
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::server::opening::settle_schema;
use crate::store::maintenance::{self, Maintenance};
use crate::store::replicas::{self, Replica};

/// Seconds without a report after which a replica counts as silent. Replicas report every three seconds.
const SILENT: i64 = 10;
/// Timeout for replicas that report to carry out an order.
const ORDER_MAX: Duration = Duration::from_secs(30);
/// Interval of looking whether they have.
const PAUSE: Duration = Duration::from_millis(200);

/// Options of `members`.
#[derive(Args, Clone, Debug)]
pub struct MembersOptions {
    /// Drain this replica: `/readyz` returns 503, so balancers send it no requests, and it serves those that come.
    ///
    /// It stays drained until --resume, or until it is restarted. REPLICA is a name, an address or an id of the list.
    #[arg(long, value_name = "REPLICA", conflicts_with = "resume")]
    pub drain: Option<String>,

    /// End the draining of this replica.
    #[arg(long, value_name = "REPLICA")]
    pub resume: Option<String>,

    /// Output format.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Options of `maintenance`.
#[derive(Args, Clone, Debug)]
pub struct MaintenanceOptions {
    /// `on`: all replicas refuse writes, also after a restart; `off`: they accept them. Default: show which it is.
    #[arg(value_name = "STATE")]
    pub state: Option<MaintenanceState>,

    /// The reason, which clients see in each 503.
    #[arg(long, value_name = "TEXT", default_value = "an operator has switched writes off")]
    pub reason: String,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Whether writes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MaintenanceState {
    /// Writes are refused.
    On,
    /// Writes are accepted.
    Off,
}

/// Runs `berth members`, and returns its output.
///
/// # Errors
/// There is no such replica, it does not carry out the order in time, or the database is unavailable.
pub async fn members(options: &MembersOptions) -> Result<String, Failure> {
    Database::with(&options.db.database, async |database| {
        settle_schema(database).await?;
        let mut conn = database.connect().await?;
        let order = match (&options.drain, &options.resume) {
            (Some(name), _) => Some((name, true)),
            (None, Some(name)) => Some((name, false)),
            (None, None) => None,
        };
        let Some((name, is_drained)) = order else {
            let all = replicas::list(&mut conn).await?;
            return Ok(listed(&all, options.format.chosen()));
        };
        let replica = find(replicas::list(&mut conn).await?, name)?;
        replicas::set_drained(&mut conn, replica.id, is_drained).await?;
        // A drained replica says so as its readiness.
        let is_done = |it: &Replica| it.id != replica.id || is_drained == (it.readiness == DRAINED);
        carried_out(&mut conn, is_done).await?;
        let state = if is_drained { "drained" } else { "ready again" };
        Ok(format!("{} ({}) is {state}", replica.name, replica.address))
    })
    .await
}

/// Runs `berth maintenance`, and returns its output.
///
/// # Errors
/// A replica does not carry out the order in time, or the database is unavailable.
pub async fn maintenance(options: &MaintenanceOptions) -> Result<String, Failure> {
    Database::with(&options.db.database, async |database| {
        settle_schema(database).await?;
        let mut conn = database.connect().await?;
        let Some(state) = options.state else {
            return Ok(match maintenance::current(&mut conn).await? {
                Some(Maintenance { reason, since }) => {
                    format!("writes are refused since {since}: {reason}")
                }
                None => "writes are accepted".to_owned(),
            });
        };
        match state {
            MaintenanceState::On => maintenance::begin(&mut conn, &options.reason).await?,
            MaintenanceState::Off => maintenance::end(&mut conn).await?,
        }
        let is_on = state == MaintenanceState::On;
        let count = carried_out(&mut conn, |it| it.refuses_writes == is_on).await?;
        let does = if is_on { "refuse" } else { "accept" };
        Ok(format!("replicas that {does} writes: {count}"))
    })
    .await
}

/// The replica with a name, an address or an id.
fn find(all: Vec<Replica>, name: &str) -> Result<Replica, Failure> {
    let is_it = |it: &Replica| it.name == name || it.address == name || it.id.to_string() == name;
    let mut found: Vec<Replica> = all.into_iter().filter(is_it).collect();
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => {
            Err(Failure(format!("there is no replica {name}; `berth members` lists them")))
        }
        (Some(_), more) => Err(Failure(format!(
            "{} replicas are named {name}; use the id of one, which `berth members --json` shows",
            more + 1
        ))),
    }
}

/// Waits until all replicas that report have carried out an order. Returns their number.
async fn carried_out(
    conn: &mut PgConnection,
    is_done: impl Fn(&Replica) -> bool,
) -> Result<usize, Failure> {
    let began = Instant::now();
    loop {
        let all = replicas::list(conn).await?;
        let reporting = || all.iter().filter(|it| it.silent_seconds <= SILENT);
        let left: Vec<&str> =
            reporting().filter(|it| !is_done(it)).map(|it| it.name.as_str()).collect();
        if left.is_empty() {
            return Ok(reporting().count());
        }
        if began.elapsed() > ORDER_MAX {
            let left = left.join(", ");
            return Err(Failure(format!("ordered, but not carried out within 30 s by: {left}")));
        }
        sleep(PAUSE).await;
    }
}

/// Lists replicas, as `berth members` does.
pub(super) fn listed(all: &[Replica], format: ListFormat) -> String {
    match format {
        ListFormat::Json => format!("{:#}", json!(all)),
        ListFormat::Table if all.is_empty() => "no replica has reported within a day".to_owned(),
        ListFormat::Table => columns(
            ["name", "address", "version", "started", "read ms", "connections", "state"],
            all.iter().map(|it| {
                [
                    it.name.clone(),
                    it.address.clone(),
                    it.version.clone(),
                    it.started_at.clone(),
                    it.refresh_ms.to_string(),
                    it.connections.to_string(),
                    state(it),
                ]
            }),
        ),
    }
}

fn state(replica: &Replica) -> String {
    let Replica { readiness, silent_seconds, refuses_writes, .. } = replica;
    if *silent_seconds > SILENT {
        return format!("silent for {silent_seconds} s");
    }
    let writes = if *refuses_writes { "; refuses writes" } else { "" };
    format!("{readiness}{writes}")
}
