//! Databases that Berth cannot use: the commands say what they are and what to do, and change
//! nothing.

use std::path::Path;
use std::process::Command;

use berth::store::schema::{Status, migrate, status};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

use crate::support::postgres::{database, empty_database};

async fn execute(options: &PgConnectOptions, statements: &str) {
    let mut conn = PgConnection::connect_with(options).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut conn).await.unwrap();
}

/// Returns all objects of a database, and the recorded migrations.
async fn contents(options: &PgConnectOptions) -> Vec<String> {
    let mut conn = PgConnection::connect_with(options).await.unwrap();
    let all = "select relname::text from pg_class where relnamespace = 'public'::regnamespace";
    let mut all: Vec<String> = sqlx::query_scalar(all).fetch_all(&mut conn).await.unwrap();
    all.sort();
    all
}

/// Runs `berth` over a database: its exit code, and what it prints.
async fn berth(arguments: &[&str], options: &PgConnectOptions) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(arguments).env_clear().args(["--database-url", options.to_url_lossy().as_str()]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// Each command says so, `serve` does not serve, and `migrate` leaves everything as it is.
async fn is_refused(options: &PgConnectOptions, expected: Status, words: &[&str]) {
    let mut conn = PgConnection::connect_with(options).await.unwrap();
    assert_eq!(status(&mut conn).await.unwrap(), expected);
    migrate(&mut conn).await.unwrap_err();
    let before = contents(options).await;
    let serve = ["serve", "--listen", "127.0.0.1:0", "--planner-listen", "none"];
    for (arguments, code) in
        [(&["db", "status"][..], 2), (&["db", "migrate"][..], 1), (&serve[..], 1)]
    {
        let (found, output) = berth(arguments, options).await;
        assert_eq!(found, Some(code), "{arguments:?}: {output}");
        for word in words {
            assert!(output.contains(word), "{arguments:?}: {word:?} is not in: {output}");
        }
    }
    assert_eq!(contents(options).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_utf_8_is_refused() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let options = database().await;
        let name = options.get_database().unwrap();
        let cluster = options.clone().database("postgres");
        execute(&cluster, &format!("drop database {name}")).await;
        let create = format!(
            "create database {name} encoding '{encoding}' lc_collate 'C' lc_ctype 'C'
             template template0"
        );
        execute(&cluster, &create).await;
        let words = [encoding, "createdb -E UTF8 -T template0"];
        is_refused(&options, Status::Encoding(encoding.to_owned()), &words).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_lacks_something_is_named_with_what_it_lacks() {
    for (statement, missing) in [
        ("drop table allocation_sets cascade", &["table allocation_sets", "view allocations"][..]),
        (
            "drop table epoch, change_log cascade",
            &[
                "sequence change_log_id_seq",
                "table change_log",
                "table epoch",
                "view database_identity",
            ],
        ),
        ("alter table consumers drop generation", &["column generation (bigint) of consumers"]),
        (
            "alter table inventories alter total type bigint",
            &["column total (integer) of inventories"],
        ),
        (
            "drop trigger allocations_consumer on consumers",
            &["trigger allocations_consumer of consumers"],
        ),
        (
            "alter table providers drop constraint providers_name",
            &["constraint providers_name of providers"],
        ),
        (
            "drop index placements_plan_resource",
            &["unique index placements_plan_resource of placements"],
        ),
        ("drop sequence traits_id", &["sequence traits_id"]),
        // All but the migrations has been restored.
        ("drop table _sqlx_migrations", &["table _sqlx_migrations"]),
    ] {
        let options = database().await;
        execute(&options, statement).await;
        let lacking = Status::Incomplete(missing.iter().map(|it| (*it).to_owned()).collect());
        let words = [missing[0], "restore the whole database from a backup"];
        is_refused(&options, lacking, &words).await;
    }
}

/// The objects of a dropped schema are not listed one by one.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_schema_with_current_versions_is_reported_in_one_line() {
    let options = database().await;
    execute(
        &options,
        "create schema kept; alter table _sqlx_migrations set schema kept;
         drop schema public cascade; create schema public;
         alter table kept._sqlx_migrations set schema public",
    )
    .await;
    let (code, output) = berth(&["db", "status"], &options).await;
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("incomplete") && output.contains(" more"), "{output}");
    assert!(output.len() < 1000, "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_of_other_programs_are_refused() {
    let foreign = |why: &str| Status::Foreign(why.to_owned());
    let choose = "create a database for Berth alone";
    let noted =
        "create table _sqlx_migrations (version bigint primary key, description text not null,
                 installed_on timestamptz not null default now(), success boolean not null,
                 checksum bytea not null, execution_time bigint not null);
                 insert into _sqlx_migrations (version, description, success, checksum,
                 execution_time) values ";
    for (statements, expected, named) in [
        (
            "create table alembic_version (version_num text);
             create table resource_providers (id int); create table allocations (id int)"
                .to_owned(),
            Status::Reference,
            "openstack-placement",
        ),
        (
            "create table alembic_version (version_num text); create table project (id int)"
                .to_owned(),
            foreign("it has the table alembic_version"),
            "alembic_version",
        ),
        (
            "create table users (id int); create table orders (id int)".to_owned(),
            foreign("it has the table users already"),
            "table users",
        ),
        (
            format!("{noted} (1, 'users and orders', true, '\\x00', 1)"),
            foreign("its migration 1 is called \"users and orders\", and Berth's \"initial\""),
            "users and orders",
        ),
        (
            format!("{noted} (20260101120000, 'users', true, '\\x00', 1)"),
            foreign("its first migration is 20260101120000"),
            "20260101120000",
        ),
    ] {
        let options = empty_database().await;
        execute(&options, &statements).await;
        is_refused(&options, expected, &[choose, named]).await;
    }
}

/// Tables of others that are not in the way may be there.
#[tokio::test(flavor = "multi_thread")]
async fn tables_of_others_that_are_not_in_the_way_are_left_alone() {
    let options = empty_database().await;
    execute(&options, "create table spatial_ref_sys (srid int); create table orders (id int)")
        .await;
    let (code, output) = berth(&["db", "migrate"], &options).await;
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("the schema is current"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_altered_migration_is_reported() {
    let options = database().await;
    execute(&options, "update _sqlx_migrations set checksum = '\\x00' where version = 1").await;
    is_refused(&options, Status::Altered(vec![1]), &["[1]", "never released"]).await;
}

/// The expected objects are committed, so that they can be compared without applying migrations.
#[tokio::test]
async fn the_expected_schema_is_that_of_the_migrations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/schema");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let query = AssertSqlSafe(read("objects.sql"));
    let mut conn = PgConnection::connect_with(&database().await).await.unwrap();
    let made: Vec<String> = sqlx::query_scalar(query).fetch_all(&mut conn).await.unwrap();
    let expected = read("objects.txt");
    assert_eq!(made, expected.lines().collect::<Vec<_>>(), "run `make sqlx`");
}
