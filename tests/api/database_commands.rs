//! The commands for the database: grants for a role, shell, dump and restore, and what they say.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::claim_body;
use crate::support::cluster::programs;
use crate::support::postgres::{database, empty_database};
use crate::support::process::{Server, signal};

async fn execute(options: &PgConnectOptions, statements: &str) {
    let mut conn = PgConnection::connect_with(options).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut conn).await.unwrap();
}

/// Runs `berth` to its end, with this file as its input if there is one.
async fn run(arguments: &[&str], input: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(arguments).stdin(Stdio::null());
    if let Some(path) = input {
        command.stdin(std::fs::File::open(path).unwrap());
    }
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn url(options: &PgConnectOptions) -> String {
    options.to_url_lossy().to_string()
}

/// Runs a command that succeeds, and returns what it prints.
async fn ok(arguments: &[&str], input: Option<&Path>) -> String {
    let output = run(arguments, input).await;
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs a command that fails with this code, and returns all that it says.
async fn fails(arguments: &[&str], code: i32) -> String {
    let output = run(arguments, None).await;
    let message = text(&[output.stdout, output.stderr].concat());
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    message
}

/// A role that has nothing in this database, not even what everybody has.
async fn bare_role(options: &PgConnectOptions) -> PgConnectOptions {
    let role = format!("Role of \"{}\"", options.get_database().unwrap());
    let quoted = role.replace('"', "\"\"");
    execute(
        options,
        &format!(
            "drop role if exists \"{quoted}\"; create role \"{quoted}\" login;
             revoke all on schema public from public"
        ),
    )
    .await;
    options.clone().username(&role)
}

/// Only the owner of the tables needs more privileges than `db grants` prints.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_with_the_printed_grants_serves() {
    let owner = database().await;
    let role = bare_role(&owner).await;
    let name = role.get_username().to_owned();
    // A user name with blanks is no part of a URL.
    let as_role = format!("{}&user={}", url(&owner), name.replace(' ', "%20").replace('"', "%22"));

    let message = fails(&["db", "status", "--database-url", &as_role], 2).await;
    assert!(message.contains("usage on the schema public"), "{message}");
    assert!(message.contains("berth db grants --role"), "{message}");
    execute(&owner, "grant usage on schema public to public").await;
    let serve = ["serve", "--listen", "127.0.0.1:0", "--database-url", &as_role];
    let message = fails(&serve, 1).await;
    assert!(message.contains("select on _sqlx_migrations"), "{message}");
    execute(&owner, "revoke all on schema public from public").await;

    let owner_url = url(&owner);
    let grants = ["db", "grants", "--role", &name, "--database-url", &owner_url];
    let script = ok(&grants, None).await;
    execute(&owner, &script).await;
    ok(&["db", "status", "--database-url", &as_role], None).await;

    let berth = Berth::over(&role).await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    berth.put("/resource_classes/CUSTOM_GOLD", json!({})).await.expect(201);
    berth.put("/traits/CUSTOM_FAST", json!({})).await.expect(201);
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 2)]).await.expect(204);
    assert_eq!(berth.usages(host).await, json!({"VCPU": 2}));
    berth.delete(&format!("/allocations/{consumer}")).await.expect(204);
    berth.assert_consistent().await;

    execute(
        &owner,
        &format!("revoke usage on sequence traits_id from \"{}\"", name.replace('"', "\"\"")),
    )
    .await;
    let message = fails(&["db", "status", "--database-url", &as_role], 2).await;
    assert!(message.contains("usage on traits_id"), "{message}");
    berth.put("/traits/CUSTOM_LATE", json!({})).await.expect(503);

    let unknown = ["db", "grants", "--role", "nobody of ours", "--database-url", &owner_url];
    let message = fails(&unknown, 1).await;
    assert!(message.contains("the database has no role \"nobody of ours\""), "{message}");
    assert!(!message.contains("cannot be used"), "{message}");
}

/// To migrate would be the wrong advice for the database of the reference.
#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_grants_for_what_is_not_berths() {
    let empty = empty_database().await;
    let url = empty.to_url_lossy();
    let grants = ["db", "grants", "--role", "anybody", "--database-url", url.as_str()];
    let message = fails(&grants, 1).await;
    assert!(message.contains("no tables of Berth; run `berth db migrate` first"), "{message}");
    let words = "create table resource_providers (id integer); create table alembic_version ()";
    execute(&empty, words).await;
    let message = fails(&grants, 1).await;
    assert!(
        message.contains("openstack-placement") && message.contains("berth import"),
        "{message}"
    );
    assert!(!message.contains("migrate"), "{message}");
}

/// Every recorded query may be run with the privileges in the list, and each privilege is needed by one of them.
/// PostgreSQL checks privileges also when it only explains a statement.
#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_privileges_is_exactly_what_the_queries_need() {
    let owner = database().await;
    execute(&owner, "drop role if exists exactly; create role exactly").await;
    let url = url(&owner);
    let script = ok(&["db", "grants", "--role", "exactly", "--database-url", &url], None).await;
    execute(&owner, &script).await;
    let mut conn = PgConnection::connect_with(&owner).await.unwrap();
    let mut statements = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".sqlx");
    for (nth, entry) in std::fs::read_dir(folder).unwrap().enumerate() {
        let recorded = std::fs::read(entry.unwrap().path()).unwrap();
        let recorded: serde_json::Value = serde_json::from_slice(&recorded).unwrap();
        let query = recorded["query"].as_str().unwrap();
        if query.starts_with("lock table") {
            continue;
        }
        let parameters = recorded["describe"]["parameters"]["Left"].as_array().unwrap().len();
        let prepare = format!("prepare s{nth} as {query}");
        sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut conn).await.unwrap();
        let nulls = vec!["null"; parameters].join(", ");
        let nulls = if nulls.is_empty() { nulls } else { format!("({nulls})") };
        statements.push(format!("explain execute s{nth}{nulls}"));
    }
    assert!(statements.len() > 100);
    sqlx::raw_sql(
        "set plan_cache_mode = force_generic_plan; create temp table needless (what text)",
    )
    .execute(&mut conn)
    .await
    .unwrap();
    let refused = "create function pg_temp.refused(statements text[]) returns integer
        language plpgsql as $$
        declare statement text; ignored text; refused integer := 0;
        begin
            set local role exactly;
            foreach statement in array statements loop
                begin
                    execute statement into ignored;
                exception when insufficient_privilege then refused := refused + 1;
                end;
            end loop;
            reset role;
            return refused;
        end $$";
    sqlx::raw_sql(refused).execute(&mut conn).await.unwrap();
    let count = "select pg_temp.refused($1)";
    let refused: i32 =
        sqlx::query_scalar(count).bind(&statements).fetch_one(&mut conn).await.unwrap();
    assert_eq!(refused, 0, "the list lacks something");
    for needed in berth::store::schema::privileges::required() {
        // The query of the schema's state is not a recorded one, and sequences are used when a row is written.
        if needed.kind == "sequence"
            || ["_sqlx_migrations", "schema_compatibility"].contains(&needed.object)
        {
            continue;
        }
        let (privilege, object) = (needed.privilege, needed.object);
        let revoke = format!("revoke {privilege} on {object} from exactly");
        sqlx::raw_sql(AssertSqlSafe(revoke)).execute(&mut conn).await.unwrap();
        let refused: i32 =
            sqlx::query_scalar(count).bind(&statements).fetch_one(&mut conn).await.unwrap();
        assert!(refused > 0, "{privilege} on {object} is not needed");
        let grant = format!("grant {privilege} on {object} to exactly");
        sqlx::raw_sql(AssertSqlSafe(grant)).execute(&mut conn).await.unwrap();
    }
}

/// An attempt to migrate openstack-placement's database with an older program has left its own table.
#[tokio::test(flavor = "multi_thread")]
async fn the_references_database_is_known_also_after_an_attempt_to_migrate_it() {
    let options = empty_database().await;
    execute(
        &options,
        "create table alembic_version (version_num text);
         create table resource_providers (id int); create table allocations (id int);
         create table _sqlx_migrations (version bigint primary key, description text not null,
             installed_on timestamptz not null default now(), success boolean not null,
             checksum bytea not null, execution_time bigint not null)",
    )
    .await;
    for (command, code) in [("status", 2), ("migrate", 1)] {
        let message = fails(&["db", command, "--database-url", &url(&options)], code).await;
        assert!(message.contains("openstack-placement"), "{message}");
        assert!(message.contains("copy the data with `berth import --from-database`"), "{message}");
        assert!(!message.contains("run `berth db migrate`"), "{message}");
    }
}

/// A slow migration is named by its number, not by its text.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_migration_is_logged_briefly() {
    let options = empty_database().await;
    let mut other = PgConnection::connect_with(&options).await.unwrap();
    // Another session that creates a table of the same name waits for the end of this transaction.
    sqlx::raw_sql("begin; create table resource_classes (id integer)")
        .execute(&mut other)
        .await
        .unwrap();
    let url = url(&options);
    let arguments = ["db", "migrate", "--database-url", &url];
    let (output, ()) = tokio::join!(run(&arguments, None), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        sqlx::raw_sql("rollback").execute(&mut other).await.unwrap();
    });
    let log = text(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(log.contains("applied: initial version=1"), "{log}");
    assert!(!log.contains("create table"), "{log}");
    assert!(log.lines().all(|line| line.len() < 300), "{log}");
}

/// An error of the database ends with what it says, not with a line of PostgreSQL's source.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_database_name_no_line_of_its_source() {
    let nowhere = database().await.database("nowhere");
    let message = fails(&["db", "status", "--database-url", &url(&nowhere)], 1).await;
    assert!(message.contains("database \"nowhere\" does not exist"), "{message}");
    assert!(!message.contains("at line"), "{message}");
}

/// The data of the private PostgreSQL, and a database to move them to.
#[tokio::test(flavor = "multi_thread")]
async fn a_private_database_moves_to_one_of_ones_own() {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut server = Server::start(folder.path()).await;
    let host = Uuid::new_v4();
    let body = json!({"name": "host", "uuid": host});
    server.ask("POST", "/resource_providers", Some(&body)).await.unwrap();
    let body = json!({"resource_provider_generation": 0,
                      "inventories": {"VCPU": {"total": 8}}});
    let path = format!("/resource_providers/{host}/inventories");
    assert_eq!(server.ask("PUT", &path, Some(&body)).await.unwrap().0, 200);
    let body = claim_body(None, &[(crate::support::cloud::Host(host), "VCPU", 2)]);
    let path = format!("/allocations/{}", Uuid::new_v4());
    assert_eq!(server.ask("PUT", &path, Some(&body)).await.unwrap().0, 204);
    signal("TERM", &server.pid());
    server.wait();

    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let file = folder.path().join("berth.dump");
    let file_name = file.to_str().unwrap();
    let count = "select count(*) from allocations";
    let shell = ["db", "shell", "--data-dir", data, "--", "-XAtc", count];
    assert_eq!(ok(&shell, None).await, "1\n");
    let wrong = ["db", "shell", "--data-dir", data, "--", "-XAtc", "select 1/0"];
    assert!(fails(&wrong, 1).await.contains("division by zero"));

    ok(&["db", "dump", file_name, "--data-dir", data], None).await;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let message = fails(&["db", "dump", file_name, "--data-dir", data], 1).await;
    assert!(message.contains("--force"), "{message}");
    ok(&["db", "dump", file_name, "--force", "--data-dir", data], None).await;

    let own = empty_database().await;
    let own_url = url(&own);
    let message = ok(&["db", "restore", "-", "--database-url", &own_url], Some(&file)).await;
    assert!(message.contains("the schema is current; 0 faults"), "{message}");
    let berth = Berth::over(&own).await;
    assert_eq!(berth.usages(crate::support::cloud::Host(host)).await, json!({"VCPU": 2}));
    let restore = ["db", "restore", file_name, "--replace", "--database-url", &own_url];
    let message = fails(&restore, 1).await;
    assert!(message.contains("stop all replicas first"), "{message}");
}

/// Notes a migration that this program does not know, and with which it cannot work.
const OF_THE_FUTURE: &str =
    "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
         values (9999, 'of the future', true, '', 0);
     update schema_compatibility set oldest_program = 9999";

/// A restore replaces everything, or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_replaces_everything_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("berth.dump");
    let file = file.to_str().unwrap();
    let options = database().await;
    let url = url(&options);
    execute(&options, "insert into projects (external_id) values ('kept')").await;
    ok(&["db", "dump", file, "--database-url", &url], None).await;
    execute(&options, "insert into projects (external_id) values ('later')").await;
    let projects = async || {
        let mut conn = PgConnection::connect_with(&options).await.unwrap();
        let all = "select string_agg(external_id, ' ' order by id) from projects";
        sqlx::query_scalar::<_, String>(all).fetch_one(&mut conn).await.unwrap()
    };

    let message = fails(&["db", "restore", file, "--database-url", &url], 1).await;
    assert!(message.contains("--replace"), "{message}");
    assert_eq!(projects().await, "kept later");

    let broken = folder.path().join("broken.dump");
    let whole = std::fs::read(file).unwrap();
    std::fs::write(&broken, &whole[..whole.len() / 2]).unwrap();
    let broken = broken.to_str().unwrap();
    let message = fails(&["db", "restore", broken, "--replace", "--database-url", &url], 1).await;
    assert!(message.contains("nothing was restored"), "{message}");
    assert_eq!(projects().await, "kept later");

    ok(&["db", "restore", file, "--replace", "--database-url", &url], None).await;
    assert_eq!(projects().await, "kept");

    execute(&options, "create table theirs (id integer references projects (id))").await;
    let message = fails(&["db", "restore", file, "--replace", "--database-url", &url], 1).await;
    assert!(message.contains("theirs") && message.contains("nothing was restored"), "{message}");
    assert_eq!(projects().await, "kept");
}

/// Has `pg_dump` write a file, with arguments of its own.
async fn dump_with(file: &str, options: &PgConnectOptions, arguments: &[&str]) {
    let host = options.get_socket().map_or(Path::new(options.get_host()), |socket| socket);
    let mut command = Command::new(programs().join("pg_dump"));
    command.arg("--host").arg(host).args(["--port", &options.get_port().to_string()]);
    command.args(["--username", options.get_username(), "--format=custom", "--file", file]);
    if let Some(password) = options.to_url_lossy().password() {
        command.env("PGPASSWORD", password);
    }
    command.args(arguments).arg(options.get_database().unwrap());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// A file that is not a dump of Berth's data is not restored: the existing tables stay.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_dump_of_berth_replaces_its_tables() {
    let folder = tempfile::tempdir().unwrap();
    let dump = async |name: &str, options: &PgConnectOptions, arguments: &[&str]| {
        let file = folder.path().join(name).to_str().unwrap().to_owned();
        dump_with(&file, options, arguments).await;
        file
    };
    let options = database().await;
    let url = url(&options);
    execute(&options, "insert into projects (external_id) values ('kept')").await;
    let other = empty_database().await;
    let empty = dump("empty", &other, &[]).await;
    execute(&other, "create table theirs (id integer)").await;
    let wrong = [
        (empty, "does not have its tables"),
        (dump("theirs", &other, &[]).await, "does not have its tables"),
        (dump("schema", &options, &["--schema-only"]).await, "which migrations"),
        (dump("rows", &options, &["--exclude-table-data=change*"]).await, "without their rows"),
        (dump("part", &options, &["--exclude-table=events"]).await, "is not a complete dump"),
    ];
    for (file, why) in wrong {
        let message =
            fails(&["db", "restore", &file, "--replace", "--database-url", &url], 1).await;
        assert!(
            message.contains(why) && message.contains("nothing was restored"),
            "{file}: {message}"
        );
        let mut conn = PgConnection::connect_with(&options).await.unwrap();
        let kept: String = sqlx::query_scalar("select external_id from projects")
            .fetch_one(&mut conn)
            .await
            .unwrap();
        assert_eq!(kept, "kept", "{file}");
        let foreign: bool = sqlx::query_scalar("select to_regclass('theirs') is not null")
            .fetch_one(&mut conn)
            .await
            .unwrap();
        assert!(!foreign, "{file}");
    }

    // Another version knows other migrations, and may lack what this one makes.
    execute(&options, "drop table events, event_batches, event_log").await;
    execute(&options, OF_THE_FUTURE).await;
    let newer = dump("newer", &options, &[]).await;
    let message = fails(&["db", "restore", &newer, "--replace", "--database-url", &url], 2).await;
    assert!(message.contains("restored; the schema is ahead"), "{message}");
}

/// A backup has something in it, and takes the place of a file only.
#[tokio::test(flavor = "multi_thread")]
async fn a_dump_is_of_berths_tables_and_goes_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = path("berth.dump");
    let empty = empty_database().await;
    let empty_url = url(&empty);
    for file in [&file, "-"] {
        let message = fails(&["db", "dump", file, "--database-url", &empty_url], 1).await;
        assert!(message.contains("no tables of Berth"), "{message}");
    }
    execute(&empty, "create table alembic_version (version_num text)").await;
    let message = fails(&["db", "dump", &file, "--database-url", &empty_url], 1).await;
    assert!(message.contains("database of another program"), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let options = database().await;
    let url = url(&options);
    let link = path("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let fifo = path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for special in [&link, &fifo, "/dev/null"] {
        let message = fails(&["db", "dump", special, "--force", "--database-url", &url], 1).await;
        assert!(message.contains("is not a regular file"), "{message}");
    }
    // Its schema need not be that of this program.
    execute(&options, OF_THE_FUTURE).await;
    ok(&["db", "dump", &file, "--database-url", &url], None).await;
}

/// Each command that checks the condition of a database reports that it is read-only.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_database_is_reported() {
    let options = database().await;
    let url = url(&options);
    let name = options.get_database().unwrap();
    execute(&options, &format!("alter database {name} set default_transaction_read_only = on"))
        .await;
    for command in [&["db", "status"] as &[&str], &["check"], &["check", "--upgrade"]] {
        let message = fails(&[command, &["--database-url", &url]].concat(), 2).await;
        assert!(
            message.contains("default_transaction_read_only is on (source: database)"),
            "{message}"
        );
    }
    let set = format!(
        "begin read write; alter role current_user in database {name}
             set default_transaction_read_only = off; commit"
    );
    execute(&options, &set).await;
    ok(&["db", "status", "--database-url", &url], None).await;
}

/// A server that takes connections and says nothing, as one that is frozen, is given up soon.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_not_waited_for() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://berth@{}/berth", silent.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file").to_str().unwrap().to_owned();
    std::fs::write(&file, "nothing").unwrap();
    let commands: [(&[&str], i32); 8] = [
        (&["db", "status"], 1),
        (&["db", "check"], 1),
        (&["db", "dump", "-"], 1),
        (&["db", "restore", &file], 1),
        (&["db", "shell", "--", "-c", "select 1"], 2),
        (&["history", "host"], 1),
        (&["check"], 2),
        (&["check", "--upgrade"], 2),
    ];
    let began = Instant::now();
    let all = commands.iter().map(|(command, code)| {
        let (shell, url) = (command.contains(&"shell"), url.as_str());
        async move {
            // The arguments after the dashes are psql's.
            let at = command.iter().position(|word| *word == "--").unwrap_or(command.len());
            let (ours, theirs) = command.split_at(at);
            let message = fails(&[ours, &["--database-url", url], theirs].concat(), *code).await;
            let words = if shell { "timeout expired" } else { "does not respond within 10s" };
            assert!(message.contains(words), "{command:?}: {message}");
        }
    });
    futures_util::future::join_all(all).await;
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
}

/// A database that is not Berth's, or closed to the role, is reported as by the other commands.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_is_of_berths_tables() {
    let empty = empty_database().await;
    let audit = async |url: &str| fails(&["db", "check", "--database-url", url], 1).await;
    let message = audit(&url(&empty)).await;
    assert!(message.contains("run `berth db migrate`"), "{message}");
    execute(&empty, "create table alembic_version (version_num text)").await;
    let message = audit(&url(&empty)).await;
    assert!(message.contains("database of another program"), "{message}");

    let owner = database().await;
    execute(&owner, "drop role if exists audits; create role audits login").await;
    let as_role = format!("{}&user=audits", url(&owner));
    let message = audit(&as_role).await;
    assert!(message.contains("the role audits lacks privileges"), "{message}");
    execute(&owner, "grant select on all tables in schema public to audits").await;
    let message = ok(&["db", "check", "--database-url", &as_role], None).await;
    assert_eq!(message, "0 faults\n");
}
