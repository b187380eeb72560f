//! What an import keeps in Berth's database until it is done: the staging, how far it got, and whether somebody
//! else has written to Berth's tables meanwhile.
//!
//! The rows and the records of their chunks are in unlogged tables, which PostgreSQL empties when it recovers from a
//! crash. They are committed together, so a record is always right about its rows. That the import exists is in
//! a logged table: rows that are missing are noticed, and are read again.

use sqlx::{AssertSqlSafe, PgConnection};

use super::Error;
use super::chunks::{Changed, Chunk, Chunks};
use super::staging::{self, KEPT};
use super::tables::Table;

/// Of the form of these tables. A program that makes others has another number.
const LAYOUT: i32 = 2;

/// Key of the lock that each command holds which works with what is kept, as long as its connection lives.
const LOCK: i64 = 0x6265_7274_685f_696d;

const CREATE: &str = "
    create table berth_import.state (
        one boolean primary key default true check (one),
        layout integer not null,
        source text not null,
        begun_at timestamptz not null default now(),
        -- Whether Berth's tables have been filled and are kept up with the source.
        is_following boolean not null default false,
        -- When the snapshot was taken that Berth's tables show.
        as_of timestamptz,
        -- Whether another process wants to end the following.
        finish_requested boolean not null default false
    );
    create table berth_import.foreign_writes (
        at timestamptz not null, what text not null, role text not null, application text not null
    );
    create unlogged table berth_import.intact (one boolean primary key);
    insert into berth_import.intact values (true);
    create unlogged table berth_import.widths (name text primary key, width bigint not null);
    create unlogged table berth_import.chunks (
        name text, chunk bigint, rows bigint not null, fingerprint text not null, primary key (name, chunk)
    );
    create unlogged table berth_import.answers (
        about text, uuid text, answer text not null, number bigint generated always as identity,
        primary key (about, uuid)
    );
    create function berth_import.note_write() returns trigger language plpgsql security definer
        set search_path = pg_catalog, pg_temp as $$
    begin
        -- The first is enough, so that the table does not grow.
        if not exists (select from berth_import.foreign_writes) then
            insert into berth_import.foreign_writes values (clock_timestamp(),
                format('%s of a row of %s', lower(tg_op), tg_table_name), session_user,
                current_setting('application_name'));
        end if;
        return null;
    end $$";

/// The tables whose rows are kept up with the source.
const WATCHED: [&str; 8] = [
    "providers",
    "inventories",
    "provider_traits",
    "provider_aggregates",
    "consumers",
    "allocations",
    "resource_classes",
    "traits",
];

/// An import that is not done.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct State {
    pub(super) source: String,
    pub(super) begun: String,
    pub(super) is_following: bool,
    pub(super) as_of: Option<String>,
    layout: i32,
}

/// Takes the lock that keeps other imports away, as long as the connection lives. Returns whether it was free.
pub(super) async fn lock(conn: &mut PgConnection) -> Result<bool, Error> {
    Ok(sqlx::query_scalar("select pg_try_advisory_lock($1)").bind(LOCK).fetch_one(conn).await?)
}

/// The import that is not done, if there is one.
pub(super) async fn state(conn: &mut PgConnection) -> Result<Option<State>, Error> {
    let is_there: bool = sqlx::query_scalar("select to_regclass('berth_import.state') is not null")
        .fetch_one(&mut *conn)
        .await?;
    if !is_there {
        return Ok(None);
    }
    let state: Option<State> = sqlx::query_as(
        "select source, to_char(begun_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"') as begun,
                is_following, to_char(as_of at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"') as as_of, layout
         from berth_import.state",
    )
    .fetch_optional(&mut *conn)
    .await?;
    match state {
        Some(state) if state.layout != LAYOUT => Err(Error::Refused(
            "another version of berth has begun an import into this database. Go on with that version, or run \
             `berth import --discard` to begin again"
                .to_owned(),
        )),
        Some(state) => {
            staging::enter(conn, KEPT).await?;
            Ok(Some(state))
        }
        None => Ok(None),
    }
}

/// Makes the tables, in the transaction of the caller.
pub(super) async fn create(conn: &mut PgConnection, source: &str) -> Result<(), Error> {
    staging::create(conn, KEPT).await?;
    sqlx::raw_sql(CREATE).execute(&mut *conn).await?;
    sqlx::query("insert into berth_import.state (layout, source) values ($1, $2)")
        .bind(LAYOUT)
        .bind(source)
        .execute(conn)
        .await?;
    Ok(())
}

/// Removes everything that is kept. Returns whether there was something.
pub(super) async fn discard(conn: &mut PgConnection) -> Result<bool, Error> {
    let is_there: bool = sqlx::query_scalar("select to_regnamespace('berth_import') is not null")
        .fetch_one(&mut *conn)
        .await?;
    if is_there {
        // The triggers on Berth's tables go with the function.
        let drop = "set local lock_timeout = '30s'; set local client_min_messages = warning; \
                    drop schema berth_import cascade";
        sqlx::raw_sql(drop).execute(conn).await?;
    }
    Ok(is_there)
}

/// Whether the rows are there that have been recorded.
pub(super) async fn is_intact(conn: &mut PgConnection) -> Result<bool, Error> {
    let is_intact = sqlx::query_scalar("select exists (select from berth_import.intact)");
    Ok(is_intact.fetch_one(conn).await?)
}

/// Begins to read again. What is there is compared with the source, and Berth's tables do not show it any more.
pub(super) async fn read_again(conn: &mut PgConnection) -> Result<(), Error> {
    sqlx::raw_sql(
        "insert into berth_import.intact values (true) on conflict (one) do nothing;
         update berth_import.state set is_following = false",
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// How many keys each chunk of a table has, if that has been recorded.
pub(super) async fn width(conn: &mut PgConnection, table: &Table) -> Result<Option<i64>, Error> {
    let width = sqlx::query_scalar("select width from berth_import.widths where name = $1");
    Ok(width.bind(table.name).fetch_optional(conn).await?)
}

/// Records how many keys each chunk of a table has.
pub(super) async fn set_width(
    conn: &mut PgConnection,
    table: &Table,
    width: i64,
) -> Result<(), Error> {
    sqlx::query("insert into berth_import.widths (name, width) values ($1, $2)")
        .bind(table.name)
        .bind(width)
        .execute(conn)
        .await?;
    Ok(())
}

/// The chunks whose rows are in the staging.
pub(super) async fn chunks(conn: &mut PgConnection, table: &Table) -> Result<Chunks, Error> {
    let recorded: Vec<(i64, i64, String)> =
        sqlx::query_as("select chunk, rows, fingerprint from berth_import.chunks where name = $1")
            .bind(table.name)
            .fetch_all(conn)
            .await?;
    let chunk = |(number, rows, fingerprint): (i64, i64, String)| {
        u64::try_from(rows).map(|rows| (number, Chunk::new(rows, fingerprint)))
    };
    let chunks: Result<Chunks, _> = recorded.into_iter().map(chunk).collect();
    chunks.map_err(|_| Error::Refused("a recorded chunk has less than no rows".to_owned()))
}

/// Records chunks whose rows have been written, and forgets others.
pub(super) async fn record(
    conn: &mut PgConnection,
    table: &Table,
    gone: &[i64],
    found: &Chunks,
    written: &[i64],
) -> Result<(), Error> {
    if !gone.is_empty() {
        sqlx::query("delete from berth_import.chunks where name = $1 and chunk = any($2)")
            .bind(table.name)
            .bind(gone)
            .execute(&mut *conn)
            .await?;
    }
    let (mut numbers, mut rows, mut fingerprints) = (Vec::new(), Vec::new(), Vec::new());
    for number in written {
        if let Some(chunk) = found.get(number) {
            numbers.push(*number);
            rows.push(i64::try_from(chunk.rows).map_err(|_| {
                Error::Refused(format!("a chunk of {} has {} rows", table.name, chunk.rows))
            })?);
            fingerprints.push(chunk.fingerprint.as_str());
        }
    }
    sqlx::query(
        "insert into berth_import.chunks (name, chunk, rows, fingerprint)
         select $1, * from unnest($2::bigint[], $3::bigint[], $4::text[])",
    )
    .bind(table.name)
    .bind(numbers)
    .bind(rows)
    .bind(fingerprints)
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes rows of chunks that are not right any more, with their records. The caller commits.
pub(super) async fn forget(
    conn: &mut PgConnection,
    table: &Table,
    width: i64,
    changed: &Changed,
) -> Result<(), Error> {
    let (name, key) = (table.name, table.chunked_by());
    let delete = format!("delete from berth_import.source_{name} where {key} / {width} = any($1)");
    sqlx::query(AssertSqlSafe(delete)).bind(&changed.stale).execute(&mut *conn).await?;
    record(conn, table, &changed.stale, &Chunks::new(), &[]).await
}

/// Makes what the rounds of following need: indexes of the staging, and triggers that note whether somebody else
/// writes to Berth's tables.
pub(super) async fn begin_following(
    conn: &mut PgConnection,
    widths: &[(&'static Table, i64)],
) -> Result<(), Error> {
    let index =
        |name: &str, of: &str| format!("create index if not exists {name} on berth_import.{of};");
    let mut make = [
        "delete from berth_import.foreign_writes;".to_owned(),
        index("consumers_of_allocations", "source_allocations (consumer)"),
        index(
            "inventories_of_allocations",
            "source_allocations (resource_provider_id, resource_class_id)",
        ),
        index("consumers", "source_consumers (consumer)"),
        index("providers_of_inventories", "source_inventories (resource_provider_id)"),
    ]
    .concat();
    for (table, width) in widths {
        let (name, chunk, key) = (table.name, table.chunked_by(), table.key.join(", "));
        make.push_str(&index(
            &format!("chunks_of_{name}"),
            &format!("source_{name} (({chunk} / {width}))"),
        ));
        make.push_str(&index(&format!("keys_of_{name}"), &format!("source_{name} ({key})")));
        make.extend([format!("analyze berth_import.source_{name};")]);
    }
    for table in WATCHED {
        make.extend([format!(
            "drop trigger if exists berth_import_rows on {table};
             drop trigger if exists berth_import_all on {table};
             create trigger berth_import_rows after insert or update or delete on {table} for each row
                 when (current_setting('berth.import', true) is distinct from 'on')
                 execute function berth_import.note_write();
             create trigger berth_import_all after truncate on {table}
                 execute function berth_import.note_write();"
        )]);
    }
    make.push_str("update berth_import.state set is_following = true, finish_requested = false");
    sqlx::raw_sql(AssertSqlSafe(make)).execute(conn).await?;
    Ok(())
}

/// Notes which moment of the source Berth's tables show: so many seconds ago.
pub(super) async fn set_as_of(conn: &mut PgConnection, seconds_ago: f64) -> Result<(), Error> {
    sqlx::query("update berth_import.state set as_of = clock_timestamp() - $1 * interval '1 s'")
        .bind(seconds_ago)
        .execute(conn)
        .await?;
    Ok(())
}

/// Refuses to go on if somebody else has written to Berth's tables since they were filled.
pub(super) async fn refuse_foreign_writes(conn: &mut PgConnection) -> Result<(), Error> {
    let noted: Option<String> = sqlx::query_scalar(
        "select format('%s by the role %s (%s) at %s', what, role, coalesce(nullif(application, ''), 'unnamed'),
                       to_char(at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"'))
         from berth_import.foreign_writes limit 1",
    )
    .fetch_optional(conn)
    .await?;
    match noted {
        None => Ok(()),
        Some(write) => Err(Error::Refused(format!(
            "somebody else has changed Berth's database since the import; the first such change was an {write}. \
             Nothing more is brought over, so that this is not lost. If clients use Berth now and not the old \
             service, end with `berth import --discard`; to give up what they have changed, go on with \
             `berth import --follow --replace`"
        ))),
    }
}

/// Asks the process that follows to end, so that this one can finish; or takes that back.
pub(super) async fn request_finish(conn: &mut PgConnection, wanted: bool) -> Result<(), Error> {
    sqlx::query("update berth_import.state set finish_requested = $1")
        .bind(wanted)
        .execute(conn)
        .await?;
    Ok(())
}

/// Whether another process wants to finish.
pub(super) async fn is_finish_requested(conn: &mut PgConnection) -> Result<bool, Error> {
    let requested: Option<bool> =
        sqlx::query_scalar("select finish_requested from berth_import.state")
            .fetch_optional(conn)
            .await?;
    Ok(requested != Some(false))
}
