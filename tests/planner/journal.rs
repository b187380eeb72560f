//! A journal of the planner's rows, kept by the database itself: it explains a fault that a storm finds.

use std::io::Write;

use sqlx::PgConnection;

/// Maximum number of rows of the journal that are printed.
const ROWS_MAX: i64 = 20_000;

/// In a schema of its own, because a server refuses a database with other tables among its own.
const JOURNAL: &str = "
    create schema storm;
    create table storm.journal (
        id bigint generated always as identity,
        at timestamptz not null default clock_timestamp(),
        transaction xid8 not null default pg_current_xact_id(),
        what text not null
    );
    create function storm.note() returns trigger language plpgsql as $$
    begin
        insert into storm.journal (what)
        values (concat_ws(' ', tg_table_name, lower(tg_op), to_jsonb(old), to_jsonb(new)));
        return null;
    end $$;
    create trigger journal after insert or update or delete on exclusive_units
        for each row execute function storm.note();
    create trigger journal after insert or update or delete on exclusive_tenants
        for each row execute function storm.note();
    create trigger journal after insert or update or delete on placements
        for each row execute function storm.note();
    create trigger journal after insert or update or delete on placement_groups
        for each row execute function storm.note();
    create trigger journal after insert or update or delete on consumers
        for each row execute function storm.note();
    create trigger journal after insert or update or delete on allocation_sets
        for each row execute function storm.note();";

/// Begins to keep the journal.
pub async fn keep(session: &mut PgConnection) {
    sqlx::raw_sql(JOURNAL).execute(session).await.unwrap();
}

/// Writes the newest rows of the journal to a file, and gives its path.
pub async fn write(session: &mut PgConnection) -> String {
    let rows: Vec<String> = sqlx::query_scalar(
        "select format('%s %s %s', at, transaction, what) from
             (select * from storm.journal order by id desc limit $1) as newest order by id",
    )
    .bind(ROWS_MAX)
    .fetch_all(session)
    .await
    .unwrap();
    let (mut file, path) = tempfile::NamedTempFile::new().unwrap().keep().unwrap();
    file.write_all(rows.join("\n").as_bytes()).unwrap();
    path.display().to_string()
}
