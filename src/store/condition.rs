//! The condition of the database and its server, for `berth check` and `berth check --upgrade`. Changes nothing.

use sqlx::{FromRow, PgConnection};

use super::error::{Result, described};

/// Maximum number of inventories that are named.
const NAMED_MAX: i64 = 5;
/// Maximum number of rows of the change log that are counted.
const ROWS_MAX: i64 = 1_000_000;
/// Age in seconds of a transaction from which its locks are reported. Berth's own transactions end sooner.
pub const LONG_LOCK: i32 = 5;
/// Maximum number of sessions, and of transactions, that are reported.
pub const REPORTED_MAX: i64 = 5;
/// SQLSTATE of a disk without free space.
const DISK_FULL: &str = "53100";

/// The server, as the role of the connection sees it.
#[derive(Clone, Debug, FromRow)]
pub struct Server {
    /// Its version as a number, such as 150018.
    pub version: i32,
    /// Its version as text.
    pub version_name: String,
    /// The role of the connection.
    pub role: String,
    /// Whether the role sees the sessions of others.
    pub sees_all: bool,
    /// Whether commits reach the disk: `fsync` and `full_page_writes`.
    pub is_durable: bool,
    /// `synchronous_commit`.
    pub synchronous_commit: String,
    /// `max_connections`.
    pub max_connections: i32,
    /// Number of open connections.
    pub connections: i64,
    /// Its clock, in seconds since 1970.
    pub clock: f64,
}

/// A connected standby.
#[derive(Clone, Debug, FromRow)]
pub struct Standby {
    /// Its `application_name`.
    pub name: String,
    /// Size of the WAL that it has not replayed, in bytes.
    pub bytes: Option<i64>,
    /// Age of the WAL that it replays now, in seconds.
    pub seconds: Option<f64>,
}

/// A transaction that has been open for long.
#[derive(Clone, Debug, FromRow)]
pub struct LongTransaction {
    /// Its session with user and application, or the prepared transaction.
    pub place: String,
    /// The time for which it has been open, in seconds.
    pub seconds: i64,
}

/// A session that has locked rows of this database for long.
#[derive(Clone, Debug, FromRow)]
pub struct LockHolder {
    /// Its process.
    pub pid: i32,
    /// The session with user, application and client.
    pub place: String,
    /// The tables.
    pub tables: String,
    /// The age of its transaction, in seconds.
    pub seconds: i64,
}

/// The size of the change log.
#[derive(Clone, Copy, Debug, FromRow)]
pub struct ChangeLog {
    /// Number of rows, counted up to [`ROWS_MAX`].
    pub rows: i64,
    /// Size of the table with its index, in bytes.
    pub bytes: i64,
}

/// Inventories with more use than capacity.
#[derive(Clone, Debug, Default)]
pub struct Oversubscribed {
    /// Their number.
    pub count: i64,
    /// Descriptions of the first ones.
    pub named: Vec<String>,
}

/// Describes the server.
///
/// # Errors
/// The database is unavailable.
pub async fn server(conn: &mut PgConnection) -> Result<Server> {
    let server = sqlx::query_as(
        "select current_setting('server_version_num')::integer as version,
                current_setting('server_version') as version_name,
                current_user::text as role,
                pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all,
                current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on'
                    as is_durable,
                current_setting('synchronous_commit') as synchronous_commit,
                current_setting('max_connections')::integer as max_connections,
                (select sum(numbackends)::bigint from pg_stat_database) as connections,
                extract(epoch from clock_timestamp())::double precision as clock",
    );
    Ok(server.fetch_one(conn).await?)
}

/// Returns the reason why new sessions cannot write, with advice; `None` if they can. The session of the connection
/// must not have changed the setting itself.
///
/// # Errors
/// The database is unavailable.
pub async fn read_only(conn: &mut PgConnection) -> Result<Option<(String, &'static str)>> {
    let (is_standby, source): (bool, Option<String>) = sqlx::query_as(
        "select pg_is_in_recovery(),
                (select source from pg_settings
                 where name = 'default_transaction_read_only' and setting = 'on')",
    )
    .fetch_one(conn)
    .await?;
    Ok(match source {
        Some(source) => Some((
            format!(
                "default_transaction_read_only is on (source: {source}): nothing can be written"
            ),
            "set it to off, or reset it, for the database, the role or the server",
        )),
        None if is_standby => Some((
            "it is a standby: nothing can be written".to_owned(),
            "name the primary in --database-url, or all servers",
        )),
        None => None,
    })
}

/// Lists the standbys. Their lag is unknown to a role that does not see the sessions of others.
///
/// # Errors
/// The database is unavailable.
pub async fn standbys(conn: &mut PgConnection) -> Result<Vec<Standby>> {
    let standbys = sqlx::query_as(
        "select coalesce(application_name, '') as name,
                pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint as bytes,
                extract(epoch from replay_lag)::double precision as seconds
         from pg_stat_replication order by 1",
    );
    Ok(standbys.fetch_all(conn).await?)
}

/// Lists at most this number of transactions that have been open for longer than this time, the oldest first. They
/// keep vacuum from reclaiming space.
///
/// # Errors
/// The database is unavailable.
pub async fn long_transactions(
    conn: &mut PgConnection,
    older_than: i32,
    at_most: i64,
) -> Result<Vec<LongTransaction>> {
    let found = sqlx::query_as(
        "select place, extract(epoch from now() - began)::bigint as seconds from (
             select format('process %s of %s (%s)', pid, usename, application_name) as place,
                    xact_start as began
             from pg_stat_activity where pid <> pg_backend_pid()
             union all
             select format('prepared transaction %s of %s', gid, owner), prepared
             from pg_prepared_xacts
         ) as open
         where began < now() - make_interval(secs => $1) order by began limit $2",
    );
    Ok(found.bind(f64::from(older_than)).bind(at_most).fetch_all(conn).await?)
}

/// Lists at most this number of sessions whose transaction is older than this time and may have locked rows, the oldest
/// first. Claims of these rows are refused until it ends. Reading, vacuum and analyze lock none.
///
/// # Errors
/// The database is unavailable.
pub async fn lock_holders(
    conn: &mut PgConnection,
    older_than: i32,
    at_most: i64,
) -> sqlx::Result<Vec<LockHolder>> {
    let found = sqlx::query_as(
        "select pid, format('process %s of %s (%s) at %s', pid, usename, application_name,
                            coalesce(host(client_addr), 'a local socket')) as place,
                string_agg(distinct relname, ', ' order by relname) as tables,
                extract(epoch from now() - xact_start)::bigint as seconds
         from pg_stat_activity
         join (select pid, relation::regclass::text as relname from pg_locks
               where granted and mode not in ('AccessShareLock', 'ShareUpdateExclusiveLock')
                 and database = (select oid from pg_database where datname = current_database())
                 and relation in (select oid from pg_class
                                  where relkind = 'r' and relnamespace = current_schema()::regnamespace)
              ) as locked using (pid)
         where pid <> pg_backend_pid() and xact_start < now() - make_interval(secs => $1)
         group by pid, usename, application_name, client_addr, xact_start
         order by xact_start limit $2",
    );
    found.bind(f64::from(older_than)).bind(at_most).fetch_all(conn).await
}

/// Space that must be free for the tables of the database, in rows of about 64 bytes.
const SPACE_ROWS: i32 = 1 << 14;

/// Checks that the database can write a mebibyte, with a temporary table. Returns the reason if its disk is full.
///
/// # Errors
/// The database is unavailable, or the role may not create temporary tables.
pub async fn full_disk(conn: &mut PgConnection) -> Result<Option<String>> {
    // Temporary tables may have a tablespace of their own.
    sqlx::raw_sql("set temp_tablespaces = ''").execute(&mut *conn).await?;
    let written = sqlx::query(
        "create temporary table berth_space as select md5(n::text) from generate_series(1, $1) n",
    );
    match written.bind(SPACE_ROWS).execute(&mut *conn).await {
        Ok(_) => {
            sqlx::raw_sql("drop table pg_temp.berth_space").execute(conn).await?;
            Ok(None)
        }
        Err(error)
            if error.as_database_error().is_some_and(|it| it.code() == Some(DISK_FULL.into())) =>
        {
            Ok(Some(described(&error)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Measures the change log.
///
/// # Errors
/// The database is unavailable.
pub async fn change_log(conn: &mut PgConnection) -> Result<ChangeLog> {
    let size = sqlx::query_as(
        "select (select count(*) from (select from change_log limit $1) as counted) as rows,
                pg_total_relation_size('change_log') as bytes",
    );
    Ok(size.bind(ROWS_MAX).fetch_one(conn).await?)
}

/// Finds inventories with more use than capacity, as after a change of `reserved` or of the ratio.
///
/// # Errors
/// The database is unavailable, or has no inventories.
pub async fn oversubscribed(conn: &mut PgConnection) -> Result<Oversubscribed> {
    let found: Vec<(i64, String)> = sqlx::query_as(
        "select count(*) over (),
                format('%s of provider %s: %s used, capacity %s', c.name, p.uuid, i.used,
                       floor((i.total - i.reserved) * i.allocation_ratio)::bigint)
         from inventories i
         join providers p on p.id = i.provider_id
         join resource_classes c on c.id = i.class_id
         where i.used > floor((i.total - i.reserved) * i.allocation_ratio)
         order by p.id, c.id limit $1",
    )
    .bind(NAMED_MAX)
    .fetch_all(conn)
    .await?;
    let count = found.first().map_or(0, |(count, _)| *count);
    Ok(Oversubscribed { count, named: found.into_iter().map(|(_, words)| words).collect() })
}
