//! Checks of the database: connection, schema and the condition of the server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::PgConnection;
use tokio::time::timeout;

use super::finding::Finding;
use crate::config::Config;
use crate::server::database::Database;
use crate::store;
use crate::store::condition::{self, LONG_LOCK, REPORTED_MAX, Server};
use crate::store::consistency;
use crate::store::schema::{self, Status};

/// The subject of a database that takes no writes.
const WRITES: &str = "writes";
/// Timeout for all queries together.
const ANSWER_MAX: Duration = Duration::from_mins(2);
/// Minimum version of PostgreSQL, as the server reports it.
const OLDEST_VERSION: i32 = 130_000;
/// Maximum lag of a standby: bytes of WAL, and seconds.
const LAG_BYTES: i64 = 64 << 20;
const LAG_SECONDS: f64 = 30.0;
/// Age in seconds from which a transaction is reported.
const LONG_TRANSACTION: i32 = 300;
/// Maximum rows and bytes of the change log. At some hundred claims per second it has tens of thousands of rows.
const LOG_ROWS: i64 = 1_000_000;
const LOG_BYTES: i64 = 1 << 30;
/// Maximum difference between the clocks of the database and this machine, in seconds.
const CLOCK_SECONDS: f64 = 2.0;

/// Checks for `berth check`.
pub(super) async fn condition(config: &Config) -> Vec<Finding> {
    // The pool and at most ten more, as in docs/operating/database.md.
    let needed = i64::from(config.database_connections) + 10;
    // An invalid URL is reported when connecting.
    let servers = config.database.hosts().ok().flatten().map_or(1, |hosts| hosts.len());
    with(config, |conn, findings| {
        Box::pin(async move {
            let server = server(conn, findings).await?;
            findings.push(connections(&server, needed));
            findings.push(durability(&server));
            if findings.iter().all(|finding| finding.subject != WRITES) {
                findings.push(space(conn).await);
            }
            let is_ours = findings_of_schema(conn, findings).await?;
            standbys(conn, &server, servers, findings).await?;
            long_transactions(conn, &server, findings).await?;
            if is_ours {
                locks(conn, findings).await?;
                findings.push(change_log(conn).await?);
                findings.push(oversubscribed(conn).await?);
                findings.push(consistency(conn).await?);
            }
            Ok(())
        })
    })
    .await
}

/// Checks for `berth check --upgrade`.
pub(super) async fn upgrade(config: &Config) -> Vec<Finding> {
    with(config, |conn, findings| {
        Box::pin(async move {
            server(conn, findings).await?;
            if findings_of_schema(conn, findings).await? {
                findings.push(oversubscribed(conn).await?);
                findings.push(consistency(conn).await?);
            }
            Ok(())
        })
    })
    .await
}

type QueryFuture<'a> = futures_util::future::BoxFuture<'a, store::Result<()>>;

/// Connects and runs checks, with a timeout.
async fn with(
    config: &Config,
    ask: impl for<'a> FnOnce(&'a mut PgConnection, &'a mut Vec<Finding>) -> QueryFuture<'a>,
) -> Vec<Finding> {
    let advice = "check --database-url, the server and its log";
    let mut findings = Vec::new();
    let database = match Database::open(&config.database).await {
        Ok(database) => database,
        Err(why) => return vec![Finding::failure("database", why.to_string(), advice)],
    };
    let result = timeout(ANSWER_MAX, async {
        let mut conn = database.connect().await.map_err(|why| why.to_string())?;
        ask(&mut conn, &mut findings).await.map_err(|why| why.to_string())
    });
    let result = result.await.unwrap_or_else(|_| Err(format!("no response in {ANSWER_MAX:?}")));
    database.close().await;
    if let Err(why) = result {
        findings.push(Finding::failure("database", why, advice));
    }
    findings
}

async fn server(conn: &mut PgConnection, findings: &mut Vec<Finding>) -> store::Result<Server> {
    let server = condition::server(conn).await?;
    let found = format!("PostgreSQL {} responds; the role is {}", server.version_name, server.role);
    findings.push(if server.version < OLDEST_VERSION {
        Finding::failure("database", found, "upgrade PostgreSQL to version 13 or newer")
    } else {
        Finding::fine("database", found)
    });
    if let Some((found, advice)) = condition::read_only(conn).await? {
        findings.push(Finding::failure(WRITES, found, advice));
    }
    findings.push(clock(server.clock));
    Ok(server)
}

/// Compares the clock of the server with that of this machine.
fn clock(theirs: f64) -> Finding {
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let apart = (ours - theirs).abs();
    let found = format!("this machine and the database differ by {apart:.1} s");
    if apart > CLOCK_SECONDS {
        let advice = "synchronise the clocks: tokens would end too early or too late";
        return Finding::warning("clock", found, advice);
    }
    Finding::fine("clock", found)
}

/// Checks whether a replica can open `needed` more connections.
fn connections(server: &Server, needed: i64) -> Finding {
    const SUBJECT: &str = "connections";
    let free = i64::from(server.max_connections) - server.connections;
    let found = format!("{} of {} are open", server.connections, server.max_connections);
    if free < needed {
        let advice = format!(
            "raise max_connections, or lower --database-connections: a replica opens up to {needed}"
        );
        return Finding::warning(SUBJECT, found, advice);
    }
    Finding::fine(SUBJECT, found)
}

/// Checks that the disk of a database that takes writes has space.
async fn space(conn: &mut PgConnection) -> Finding {
    const SUBJECT: &str = "space";
    match condition::full_disk(conn).await {
        Ok(None) => Finding::fine(SUBJECT, "a temporary table of 1 MiB can be written"),
        Ok(Some(why)) => {
            Finding::failure(SUBJECT, why, "free space on the disk of the database, or enlarge it")
        }
        Err(error) => Finding::skipped(SUBJECT, error.to_string()),
    }
}

fn durability(server: &Server) -> Finding {
    const SUBJECT: &str = "durability";
    let commit = &server.synchronous_commit;
    if !server.is_durable {
        let advice = "set fsync and full_page_writes to on";
        let found = "a crash of the server's machine loses or corrupts data";
        return Finding::failure(SUBJECT, found, advice);
    }
    let found = format!("synchronous_commit is {commit}");
    if commit == "off" {
        let advice = "set it to on: a crash loses claims that were acknowledged";
        return Finding::failure(SUBJECT, found, advice);
    }
    Finding::fine(SUBJECT, found)
}

/// Checks whether Berth's tables exist and are readable.
async fn findings_of_schema(
    conn: &mut PgConnection,
    findings: &mut Vec<Finding>,
) -> store::Result<bool> {
    const SUBJECT: &str = "schema";
    let status = schema::status(conn).await?;
    findings.push(match (&status, status.hindrance()) {
        (_, Some(why)) => {
            // The advice follows the last semicolon.
            let (found, advice) = why.rsplit_once("; ").unwrap_or((why.as_str(), "see above"));
            if matches!(status, Status::Behind(_)) {
                Finding::warning(SUBJECT, found, advice)
            } else {
                Finding::failure(SUBJECT, found, advice)
            }
        }
        (Status::Newer(unknown), None) => Finding::fine(
            SUBJECT,
            format!("it is newer than this program ({unknown:?}), and serves it"),
        ),
        (_, None) => Finding::fine(SUBJECT, "it is current, and the role has all privileges"),
    });
    Ok(match status {
        Status::Current | Status::Newer(_) => true,
        Status::Behind(missing) => !schema::is_all(&missing),
        Status::Ahead(_)
        | Status::Incomplete(_)
        | Status::Altered(_)
        | Status::Reference
        | Status::Foreign(_)
        | Status::Encoding(_)
        | Status::Forbidden { .. } => false,
    })
}

async fn standbys(
    conn: &mut PgConnection,
    server: &Server,
    servers: usize,
    findings: &mut Vec<Finding>,
) -> store::Result<()> {
    const SUBJECT: &str = "replication";
    let standbys = condition::standbys(conn).await?;
    if standbys.is_empty() {
        findings.push(without_standby(SUBJECT, servers));
        return Ok(());
    }
    if !server.sees_all {
        findings.push(unseen(SUBJECT, server, &format!("{} standbys", standbys.len())));
        return Ok(());
    }
    for standby in standbys {
        let (bytes, seconds) =
            (standby.bytes.unwrap_or_default(), standby.seconds.unwrap_or_default());
        let found =
            format!("standby {:?} is {bytes} bytes and {seconds:.1} s behind", standby.name);
        findings.push(if bytes > LAG_BYTES || seconds > LAG_SECONDS {
            let advice = "check the standby and the network; a fail-over to it waits or loses data";
            Finding::warning(SUBJECT, found, advice)
        } else {
            Finding::fine(SUBJECT, found)
        });
    }
    Ok(())
}

/// Several servers are configured only for fail-over.
fn without_standby(subject: &'static str, servers: usize) -> Finding {
    let found = "no standby is connected";
    if servers < 2 {
        return Finding::fine(subject, found);
    }
    Finding::warning(
        subject,
        format!("{found}, although --database-url names {servers} servers"),
        "check the standbys: none can be promoted; see docs/ha.md",
    )
}

/// A finding that is limited by the role's privileges.
fn unseen(subject: &'static str, server: &Server, found: &str) -> Finding {
    let grant = format!("grant pg_read_all_stats to {}", server.role);
    Finding::skipped(subject, format!("{found}; the role sees no more than that; `{grant}`"))
}

async fn long_transactions(
    conn: &mut PgConnection,
    server: &Server,
    findings: &mut Vec<Finding>,
) -> store::Result<()> {
    const SUBJECT: &str = "transactions";
    let open = condition::long_transactions(conn, LONG_TRANSACTION, REPORTED_MAX).await?;
    if open.is_empty() {
        let found = format!("none is open for more than {LONG_TRANSACTION} s");
        findings.push(if server.sees_all {
            Finding::fine(SUBJECT, found)
        } else {
            unseen(SUBJECT, server, &format!("{found} in sessions of this role"))
        });
    }
    for transaction in open {
        findings.push(Finding::warning(
            SUBJECT,
            format!("{} is open for {} s", transaction.place, transaction.seconds),
            "end it: tables grow until then, because vacuum cannot reclaim their space",
        ));
    }
    Ok(())
}

/// Reports sessions that keep rows locked: claims of these rows get 503.
async fn locks(conn: &mut PgConnection, findings: &mut Vec<Finding>) -> store::Result<()> {
    for holder in condition::lock_holders(conn, LONG_LOCK, REPORTED_MAX).await? {
        let (place, tables, seconds) = (holder.place, holder.tables, holder.seconds);
        findings.push(Finding::failure(
            "locks",
            format!("{place} has had locks on {tables} for {seconds} s"),
            format!(
                "end it, such as by `select pg_terminate_backend({})`: changes of the rows that it has locked \
                 are refused until then",
                holder.pid
            ),
        ));
    }
    Ok(())
}

async fn change_log(conn: &mut PgConnection) -> store::Result<Finding> {
    const SUBJECT: &str = "change log";
    let log = condition::change_log(conn).await?;
    let found = format!("{} rows, {} MiB", log.rows, log.bytes >> 20);
    Ok(if log.rows > LOG_ROWS {
        let advice = "look in the logs of the replicas for `pruning the change log failed`";
        Finding::warning(SUBJECT, found, advice)
    } else if log.bytes > LOG_BYTES {
        let advice = "end long transactions; then the space is used again, and `vacuum full \
                      change_log` returns it while replicas are stopped";
        Finding::warning(SUBJECT, found, advice)
    } else {
        Finding::fine(SUBJECT, found)
    })
}

async fn oversubscribed(conn: &mut PgConnection) -> store::Result<Finding> {
    const SUBJECT: &str = "inventories";
    let found = condition::oversubscribed(conn).await?;
    if found.count == 0 {
        return Ok(Finding::fine(SUBJECT, "none is oversubscribed"));
    }
    let is_all = i64::try_from(found.named.len()) == Ok(found.count);
    let more = if is_all { "" } else { "; and more" };
    Ok(Finding::warning(
        SUBJECT,
        format!("{} are oversubscribed: {}{more}", found.count, found.named.join("; ")),
        "expected after `reserved` or `allocation_ratio` was lowered; otherwise look for leaked \
         allocations",
    ))
}

async fn consistency(conn: &mut PgConnection) -> store::Result<Finding> {
    const SUBJECT: &str = "consistency";
    let faults = consistency::faults(conn).await?;
    Ok(match faults.first() {
        None => Finding::fine(SUBJECT, "recorded usage and allocations agree"),
        Some(first) => Finding::failure(
            SUBJECT,
            format!("{} faults, such as: {first}", faults.len()),
            "`berth db check` names all; report them, and repair them before an upgrade",
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::super::Verdict;
    use super::{clock, without_standby};

    #[test]
    fn a_url_with_several_hosts_expects_a_standby() {
        assert_eq!(without_standby("replication", 1).verdict, Verdict::Fine);
        let found = without_standby("replication", 2);
        assert_eq!(found.verdict, Verdict::Warning);
        assert!(found.found.ends_with("although --database-url names 2 servers"), "{found:?}");
    }

    #[test]
    fn clocks_may_differ_a_little() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert_eq!(clock(now - 0.5).verdict, Verdict::Fine);
        assert_eq!(clock(now - 60.0).verdict, Verdict::Warning);
        assert_eq!(clock(now + 60.0).verdict, Verdict::Warning);
    }
}
