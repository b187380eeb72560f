//! Sessions in the database: settings, time limits, and open ones.

use std::future::Future;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection};
use tokio::time::timeout;

use super::error::{Error, Result};

/// Lock timeout of the change feed, which locks no row but may wait for a locked table.
pub(super) const FEED_WAIT_MAX: Duration = Duration::from_secs(2);
/// The beginning of the application name of servers; the name of the machine follows.
const APPLICATION: &str = "berth@";
/// Settings of each session: timeouts for statements and idle transactions, and for noticing that a client is
/// gone. No request waits longer than [`Timeouts::write`](super::options::Timeouts).
const SESSION: [(&str, &str); 8] = [
    ("statement_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "20s"),
    // Compiling a plan takes a hundred times as long as these statements.
    ("jit", "off"),
    // The pages that most requests read are in memory. With the default of 4, a read of the allocations of a provider
    // scans the consumers of all providers.
    ("random_page_cost", "1.1"),
];
/// Timeout for one statement, even if the server does not respond. It is longer than the server's own
/// timeout.
const STATEMENT_MAX: Duration = Duration::from_secs(15);

/// Duration of a statement from which its line in the log says that it is slow.
const SLOW_STATEMENT: Duration = Duration::from_secs(1);

/// Adds the lock timeout to options of a session.
pub(super) fn waiting(options: PgConnectOptions, lock: Duration) -> PgConnectOptions {
    options.options([("lock_timeout", format!("{}ms", lock.as_millis()))])
}

/// Adds the limits of every session to its options.
pub(super) fn session(options: PgConnectOptions) -> PgConnectOptions {
    // At the level of all statements: the text of a slow one has up to two kilobytes.
    let machine = rustix::system::uname();
    let default = || format!("{APPLICATION}{}", machine.nodename().to_string_lossy());
    let name = options.get_application_name().map_or_else(default, str::to_owned);
    options
        .options(SESSION)
        .application_name(&name)
        .statement_cache_capacity(200)
        .log_slow_statements(log::LevelFilter::Debug, SLOW_STATEMENT)
}

/// Runs a statement with this time limit.
pub(super) async fn bounded<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| Error::Unavailable(format!("no outcome within {STATEMENT_MAX:?}"));
    timeout(STATEMENT_MAX, work).await.map_err(late)?
}

/// Returns the number of other connections of Berth's servers to this database.
///
/// # Errors
/// The database is unavailable.
pub async fn of_berth(conn: &mut PgConnection) -> Result<i64> {
    let count = sqlx::query_scalar(
        "select count(*) from pg_stat_activity
         where datname = current_database() and starts_with(application_name, $1) and pid <> pg_backend_pid()",
    );
    Ok(count.bind(APPLICATION).fetch_one(conn).await?)
}
