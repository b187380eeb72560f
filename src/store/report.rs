//! A report on the database for support: settings, sessions, locks, sizes and slow statements, without stored data.

use sqlx::{AssertSqlSafe, PgConnection};

use super::error::described;

/// The parts of the report: each a title and a query. Text of statements is only shown if it is Berth's own, whose
/// parameters are not part of it, or normalised by `pg_stat_statements`.
const PARTS: [(&str, &str); 9] = [
    (
        "Settings that differ from their defaults, without texts, which may have secrets",
        "select name, setting, unit, source from pg_settings
         where source <> 'default' and vartype <> 'string' or name = 'server_version' order by name",
    ),
    (
        "Sessions",
        "select pid, usename, application_name, client_addr, backend_type, state, wait_event_type, wait_event,
                now() - xact_start as in_transaction, now() - query_start as since_statement,
                case when application_name like 'berth%' then left(query, 500) end as statement
         from pg_stat_activity where datname = current_database() order by xact_start nulls last, pid",
    ),
    (
        "Sessions that wait for locks",
        "select pid, pg_blocking_pids(pid) as waits_for, now() - query_start as waits_since, wait_event
         from pg_stat_activity where wait_event_type = 'Lock' order by query_start",
    ),
    (
        "Locks of tables",
        "select relation::regclass::text as relation, mode, granted, array_agg(pid order by pid) as pids
         from pg_locks where relation is not null and pid <> pg_backend_pid()
         and database = (select oid from pg_database where datname = current_database())
         group by 1, 2, 3 order by 1, 2",
    ),
    (
        "Tables",
        "select relname, n_live_tup, n_dead_tup, n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del, seq_scan, idx_scan,
                pg_total_relation_size(relid) as bytes, last_vacuum, last_autovacuum, last_analyze, last_autoanalyze
         from pg_stat_user_tables order by relname",
    ),
    (
        "Indexes",
        "select indexrelname, idx_scan, pg_relation_size(indexrelid) as bytes from pg_stat_user_indexes order by 1",
    ),
    (
        "The database",
        "select pg_database_size(datname) as bytes, * from pg_stat_database where datname = current_database()",
    ),
    (
        "Standbys",
        "select application_name, client_addr, state, sync_state, write_lag, flush_lag, replay_lag,
                pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) as bytes_behind
         from pg_stat_replication order by 1",
    ),
    (
        "Statements that took most time in total; needs the extension pg_stat_statements",
        "select calls, round(total_exec_time) as total_ms, round(mean_exec_time::numeric, 3) as mean_ms,
                round(max_exec_time) as max_ms, rows, left(query, 500) as statement
         from pg_stat_statements where dbid = (select oid from pg_database where datname = current_database())
         order by total_exec_time desc limit 30",
    ),
];

/// Makes the report. A part that fails has the reason in its place.
pub async fn report(conn: &mut PgConnection) -> String {
    let mut text = String::new();
    for (title, query) in PARTS {
        let rows = sqlx::query_scalar(AssertSqlSafe(format!(
            "select row_to_json(part)::text from ({query}) as part"
        )));
        let rows: Result<Vec<String>, sqlx::Error> = rows.fetch_all(&mut *conn).await;
        let rows = match rows {
            Ok(rows) if rows.is_empty() => "none".to_owned(),
            Ok(rows) => rows.join("\n"),
            Err(error) => format!("not known: {}", described(&error)),
        };
        text.extend(["# ", title, "\n\n", &rows, "\n\n"]);
    }
    text
}
