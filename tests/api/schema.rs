//! The schema's version: an empty database is reported, migrated and recognised; a newer one is
//! refused.

use std::path::Path;

use berth::store::history::reading::{HistoryQuery, read};
use berth::store::schema::{Status, migrate, status};
use berth::store::standard;
use serde_json::json;
use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::{Host, claim_body};
use crate::support::postgres::{database, empty_database};
use crate::support::process::{Server, signal};

#[tokio::test]
async fn an_empty_database_is_behind_until_it_is_migrated() {
    let mut conn = PgConnection::connect_with(&empty_database().await).await.unwrap();
    assert!(matches!(status(&mut conn).await.unwrap(), Status::Behind(_)));
    migrate(&mut conn).await.unwrap();
    assert_eq!(status(&mut conn).await.unwrap(), Status::Current);
    migrate(&mut conn).await.unwrap();
    assert_eq!(status(&mut conn).await.unwrap(), Status::Current, "twice is fine");
}

#[tokio::test]
async fn servers_that_migrate_at_once_take_turns() {
    let options = empty_database().await;
    let migrations = (0..4).map(|_| {
        let options = options.clone();
        async move {
            let mut conn = PgConnection::connect_with(&options).await.unwrap();
            migrate(&mut conn).await
        }
    });
    for migrated in futures_util::future::join_all(migrations).await {
        migrated.unwrap();
    }
}

/// Claims are written without foreign keys; what they would refuse to let go stays all the same.
#[tokio::test]
async fn rows_in_use_cannot_be_deleted() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 2)]).await.expect(204);
    let mut conn = berth.session().await;
    for (statement, constraint) in [
        ("delete from inventories", "allocations_inventory"),
        ("delete from providers", "allocations_inventory"),
        ("delete from consumers", "allocations_consumer"),
    ] {
        let refused = sqlx::query(statement).execute(&mut conn).await.unwrap_err();
        let refused = refused.as_database_error().unwrap();
        assert_eq!(refused.constraint(), Some(constraint), "{statement}: {refused}");
        assert!(refused.is_foreign_key_violation());
    }
    berth.assert_consistent().await;
}

/// Classes have their position as key, so listings by key are in the reference's order; a standard
/// name that a newer list brings is added to a database that is current otherwise.
#[tokio::test]
async fn standard_names_are_there_in_their_order() {
    let mut conn = PgConnection::connect_with(&database().await).await.unwrap();
    let listed: Vec<&str> = standard::resource_classes().collect();
    assert_eq!(&listed[..3], ["VCPU", "MEMORY_MB", "DISK_GB"]);
    let stored = |table: &str| sqlx::AssertSqlSafe(format!("select name from {table} order by id"));
    let classes: Vec<String> =
        sqlx::query_scalar(stored("resource_classes")).fetch_all(&mut conn).await.unwrap();
    assert_eq!(classes, listed);
    let traits: Vec<String> =
        sqlx::query_scalar(stored("traits")).fetch_all(&mut conn).await.unwrap();
    assert_eq!(traits, standard::traits().collect::<Vec<_>>());

    sqlx::raw_sql("delete from traits where name = 'HW_CPU_X86_AVX2'; delete from change_log")
        .execute(&mut conn)
        .await
        .unwrap();
    migrate(&mut conn).await.unwrap();
    let back: i64 = sqlx::query_scalar(
        "select count(*) from traits t, change_log where name = 'HW_CPU_X86_AVX2' and t.id < 10000",
    )
    .fetch_one(&mut conn)
    .await
    .unwrap();
    assert_eq!(back, 1, "it is back, among the standard ones, and replicas are told");
}

/// Rows of the first version: a host with a child, a sharing disk, two consumers; a group with an exclusive host,
/// and a plan whose only server has the allocations of the second consumer.
const OF_VERSION_1: &str = "
    insert into resource_classes (id, name) values
        (0, 'VCPU'), (2, 'DISK_GB'), (10000, 'CUSTOM_GOLD');
    insert into traits (id, name) values (0, 'HW_CPU_X86_AVX2'), (10000, 'CUSTOM_FAST');
    select setval('resource_classes_id', 10000), setval('traits_id', 10000);
    insert into providers (id, uuid, name, generation, parent_id, root_id)
        overriding system value values
        (1, '00000000-0000-0000-0000-0000000000a1', 'host', 7, null, 1),
        (2, '00000000-0000-0000-0000-0000000000a2', 'numa', 3, 1, 1),
        (5, '00000000-0000-0000-0000-0000000000a5', 'disk', 4, null, 5);
    select setval(pg_get_serial_sequence('providers', 'id'), 5);
    insert into inventories (provider_id, class_id, total, reserved, min_unit, max_unit, step_size,
                             allocation_ratio, used)
        values (1, 10000, 9, 1, 1, 9, 1, 1.5, 2), (2, 0, 8, 0, 1, 8, 1, 4.0, 5),
               (5, 2, 100, 0, 10, 50, 10, 1.0, 0);
    insert into provider_traits (provider_id, trait_id) values (1, 0), (2, 10000);
    insert into provider_aggregates (provider_id, aggregate) values
        (1, '00000000-0000-0000-0000-0000000000e1'), (5, '00000000-0000-0000-0000-0000000000e1');
    insert into projects (external_id) values ('project'), ('other');
    insert into users (external_id) values ('user');
    insert into consumer_types (name) values ('INSTANCE');
    insert into consumers (id, uuid, project_id, user_id, consumer_type_id, generation)
        overriding system value values
        (1, '00000000-0000-0000-0000-0000000000c1', 1, 1, 1, 2),
        (2, '00000000-0000-0000-0000-0000000000c2', 2, 1, null, 1);
    select setval(pg_get_serial_sequence('consumers', 'id'), 2);
    insert into change_log (providers) values (array[0, 1, 2, 5]);
    insert into planner_groups (id, name, kind, level) values
        ('00000000-0000-0000-0000-0000000000b1', 'alone', 'exclusivity', 'host');
    insert into planner_group_members (group_id, project)
        values ('00000000-0000-0000-0000-0000000000b1', 'other');
    insert into plans (id, name, stack_id, stack_key, project, user_id, document) values
        ('00000000-0000-0000-0000-0000000000d1', 'stack', 'the stack', 'the stack', 'other', 'user',
         '{}');
    insert into placements (id, plan_id, position, orchestration_id, orchestration_key, name,
                            reserved, consumer)
        values ('00000000-0000-0000-0000-0000000000c2', '00000000-0000-0000-0000-0000000000d1', 0,
                'server', 'server', 'server', false, '00000000-0000-0000-0000-0000000000c2');
    insert into placement_groups (placement_id, group_id) values
        ('00000000-0000-0000-0000-0000000000c2', '00000000-0000-0000-0000-0000000000b1');
    insert into exclusive_units (root_id, level, unit, group_id)
        values (1, 'host', 'host', '00000000-0000-0000-0000-0000000000b1');
";

/// The allocations of these consumers as versions before [`ALLOCATION_SETS`] stored them.
const ALLOCATIONS_OF_VERSION_1: &str = "
    insert into allocations (consumer_id, provider_id, class_id, used) values
        (1, 1, 10000, 2), (1, 2, 0, 4), (2, 2, 0, 1)";

/// As later versions store them.
const ALLOCATIONS_IN_SETS: &str = "
    insert into allocation_sets (consumer_id, provider_id, class_ids, used) values
        (1, 1, '{10000}', '{2}'), (1, 2, '{0}', '{4}'), (2, 2, '{0}', '{1}')";

/// The first version that has one row for all classes of a consumer on a provider.
const ALLOCATION_SETS: i64 = 5;

/// A change in the history as versions 1 and 2 stored it.
const HISTORY_OF_VERSION_1: &str = "
    insert into history (request_id, user_id, kind, object, name, generation, before, after, subjects)
        values ('req-1', 'user', 'resource_provider', '00000000-0000-0000-0000-0000000000a1', 'host', 0, null,
                '{\"name\": \"host\", \"parent\": null}', '{00000000-0000-0000-0000-0000000000a1}');
";

/// The first version whose history has lists of entries.
const HISTORY_OF_LISTS: i64 = 3;

/// A database of that version, with the rows that it can have.
async fn of_version(version: i64) -> PgConnectOptions {
    let options = empty_database().await;
    let mut conn = PgConnection::connect_with(&options).await.unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    Migrator::new(folder).await.unwrap().run_to(version, &mut conn).await.unwrap();
    sqlx::raw_sql(OF_VERSION_1).execute(&mut conn).await.unwrap();
    let allocations =
        if version < ALLOCATION_SETS { ALLOCATIONS_OF_VERSION_1 } else { ALLOCATIONS_IN_SETS };
    sqlx::raw_sql(allocations).execute(&mut conn).await.unwrap();
    if version < HISTORY_OF_LISTS {
        sqlx::raw_sql(HISTORY_OF_VERSION_1).execute(&mut conn).await.unwrap();
    }
    options
}

/// Data of each version is served after the migrations that follow, as it was.
#[tokio::test]
async fn data_of_every_version_survives_what_comes_after() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let known: Vec<i64> =
        Migrator::new(folder).await.unwrap().iter().map(|migration| migration.version).collect();
    for (nth, &version) in known.iter().enumerate() {
        let options = of_version(version).await;
        let mut conn = PgConnection::connect_with(&options).await.unwrap();
        let expected = match &known[nth + 1..] {
            [] => Status::Current,
            later => Status::Behind(later.to_vec()),
        };
        assert_eq!(status(&mut conn).await.unwrap(), expected);
        migrate(&mut conn).await.unwrap();
        assert_eq!(status(&mut conn).await.unwrap(), Status::Current);
        let berth = Berth::over(&options).await;
        berth.assert_consistent().await;
        survivors_are_served(&berth, version).await;
        newcomers_are_served(&berth).await;
        planner_rows_survived(&mut conn).await;
        if version < HISTORY_OF_LISTS {
            history_survived(&mut conn).await;
        }
        berth.assert_consistent().await;
    }
}

async fn history_survived(conn: &mut PgConnection) {
    let query = HistoryQuery { object: "host".to_owned(), since: None, limit: 10 };
    let found = read(conn, &query).await.unwrap();
    let [entry] = found.entries.as_slice() else { panic!("{found:?}") };
    let facts = (entry.kind.as_str(), entry.request_id.as_deref(), entry.generation);
    assert_eq!(facts, ("resource_provider", Some("req-1"), Some(0)));
    assert_eq!(
        (&entry.before, &entry.after),
        (&None, &Some(json!({"name": "host", "parent": null})))
    );
}

fn key(last: &str) -> String {
    format!("00000000-0000-0000-0000-0000000000{last}")
}

async fn survivors_are_served(berth: &Berth, version: i64) {
    let provider = |last: &str, what: &str| format!("/resource_providers/{}{what}", key(last));
    let numa = berth.get(&provider("a2", "")).await.expect(200).json();
    assert_eq!(
        (&numa["name"], &numa["generation"], &numa["parent_provider_uuid"]),
        (&json!("numa"), &json!(3), &json!(key("a1"))),
        "of version {version}"
    );
    assert_eq!(numa["root_provider_uuid"], json!(key("a1")));
    let inventories = berth.get(&provider("a1", "/inventories")).await.expect(200).json();
    let gold = json!({"total": 9, "reserved": 1, "min_unit": 1, "max_unit": 9, "step_size": 1,
                      "allocation_ratio": 1.5});
    assert_eq!(inventories["inventories"], json!({"CUSTOM_GOLD": gold}));
    let usages = berth.get(&provider("a2", "/usages")).await.expect(200).json();
    assert_eq!(usages["usages"], json!({"VCPU": 5}));
    let traits = berth.get(&provider("a2", "/traits")).await.expect(200).json();
    assert_eq!(traits["traits"], json!(["CUSTOM_FAST"]));
    let aggregates = berth.get(&provider("a5", "/aggregates")).await.expect(200).json();
    assert_eq!(aggregates["aggregates"], json!([key("e1")]));
    let held = berth.get(&format!("/allocations/{}", key("c1"))).await.expect(200).json();
    let allocations = json!({
        key("a1"): {"generation": 7, "resources": {"CUSTOM_GOLD": 2}},
        key("a2"): {"generation": 3, "resources": {"VCPU": 4}},
    });
    assert_eq!(held["allocations"], allocations);
    let owner = json!(["project", "user", "INSTANCE", 2]);
    let output = ["project_id", "user_id", "consumer_type", "consumer_generation"];
    assert_eq!(json!(output.map(|key| held[key].clone())), owner);
    let held = berth.get(&provider("a2", "/allocations")).await.expect(200).json();
    let by_consumer = json!({
        key("c1"): {"consumer_generation": 2, "resources": {"VCPU": 4}},
        key("c2"): {"consumer_generation": 1, "resources": {"VCPU": 1}},
    });
    assert_eq!(held["allocations"], by_consumer);
}

/// New rows get new keys, and can be claimed beside the existing ones.
async fn newcomers_are_served(berth: &Berth) {
    let child = berth.child("new", Some(Host(key("a5").parse().unwrap())), &[("VCPU", 2)]).await;
    let wants = [(child, "VCPU", 1)];
    berth.claim(Uuid::new_v4(), None, &wants).await.expect(204);
    let consumer: Uuid = key("c1").parse().unwrap();
    berth.claim(consumer, Some(2), &wants).await.expect(204);
    assert_eq!(berth.usages(child).await, json!({"VCPU": 2}));
    berth.put(&format!("/traits/CUSTOM_{}", "NEW"), json!({})).await.expect(201);
}

async fn planner_rows_survived(conn: &mut PgConnection) {
    let rows: Vec<String> = sqlx::query_scalar(
        "select format('%s %s %s %s', p.name, s.name, s.project, u.root_id)
         from plans s join placements p on p.plan_id = s.id
         join placement_groups g on g.placement_id = p.id
         join exclusive_units u on u.group_id = g.group_id",
    )
    .fetch_all(conn)
    .await
    .unwrap();
    assert_eq!(rows, ["server stack other 1"]);
}

/// Keys of providers, projects, users and consumer types go on where 32 bits end.
#[tokio::test]
async fn keys_may_need_more_than_32_bits() {
    let berth = Berth::new().await;
    let mut conn = berth.session().await;
    sqlx::raw_sql(
        "select setval(pg_get_serial_sequence(name, 'id'), 5000000000)
         from unnest(array['providers', 'projects', 'users', 'consumer_types']) as name",
    )
    .execute(&mut conn)
    .await
    .unwrap();
    let root = berth.host("root", &[("VCPU", 8)]).await;
    let child = berth.child("child", Some(root), &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(root, "VCPU", 1), (child, "VCPU", 2)]).await.expect(204);
    assert_eq!(berth.usages(child).await, json!({"VCPU": 2}));
    // Another replica reads everything from scratch.
    let other = berth.replica().await;
    assert_eq!(other.held(consumer).await[child.0.to_string()]["resources"], json!({"VCPU": 2}));
    let tree = other.get(&format!("/resource_providers?in_tree={}", child.0)).await.expect(200);
    assert_eq!(tree.json()["resource_providers"].as_array().unwrap().len(), 2);
    let candidates = "/allocation_candidates?resources=VCPU:1";
    let candidates = other.get(candidates).await.expect(200).json();
    assert_eq!(candidates["allocation_requests"].as_array().unwrap().len(), 2);
    berth.delete(&format!("/allocations/{consumer}")).await.expect(204);
    berth.delete(&format!("/resource_providers/{}", child.0)).await.expect(204);
    other.get(&format!("/resource_providers/{}", child.0)).await.expect(404);
    let least: i64 = sqlx::query_scalar(
        "select least((select min(id) from providers), (select min(id) from projects),
                      (select min(id) from users), (select min(id) from consumer_types))",
    )
    .fetch_one(&mut conn)
    .await
    .unwrap();
    assert!(least > i64::from(i32::MAX), "{least}");
    berth.assert_consistent().await;
}

/// Refused creations use up no keys: of names that are taken, and of claims by known owners.
#[tokio::test]
async fn refused_writes_use_no_keys() {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(204);
    berth.put("/traits/CUSTOM_A", json!({})).await.expect(201);
    berth.put("/resource_classes/CUSTOM_A", json!({})).await.expect(201);
    let mut conn = berth.session().await;
    let used_up = "select string_agg(format('%s %s', sequencename, last_value), ', '
                                     order by sequencename)
                   from pg_sequences where sequencename <> 'consumers_id_seq'";
    let before: String = sqlx::query_scalar(used_up).fetch_one(&mut conn).await.unwrap();
    for nth in 0..20 {
        let named = json!({"name": "host"});
        let taken = berth.post("/resource_providers", named).await.expect(409);
        assert!(taken.detail().contains("name: host"), "{}", taken.detail());
        let same = json!({"name": format!("other-{nth}"), "uuid": host.0});
        let taken = berth.post("/resource_providers", same).await.expect(409);
        assert!(taken.detail().contains(&host.0.to_string()), "{}", taken.detail());
        let both = json!({"name": "host", "uuid": host.0});
        let taken = berth.post("/resource_providers", both).await.expect(409);
        assert!(taken.detail().contains("uuid"), "{}", taken.detail());
        let parent = json!({"name": format!("other-{nth}"), "parent_provider_uuid": key("99")});
        berth.post("/resource_providers", parent).await.expect(400);
        berth.put("/traits/CUSTOM_A", json!({})).await.expect(204);
        berth.put("/resource_classes/CUSTOM_A", json!({})).await.expect(204);
        berth.post("/resource_classes", json!({"name": "CUSTOM_A"})).await.expect(409);
        let body = claim_body(None, &[(host, "VCPU", 9)]);
        berth.put(&format!("/allocations/{}", Uuid::new_v4()), body).await.expect(409);
    }
    let after: String = sqlx::query_scalar(used_up).fetch_one(&mut conn).await.unwrap();
    assert_eq!(after, before);
}

/// A request for a row that contradicts another gets 500 and a log line, and others are not affected.
#[tokio::test]
async fn an_allocation_without_an_inventory_is_an_error() {
    let berth = Berth::new().await;
    let [good, bad] =
        [berth.host("a", &[("VCPU", 8)]).await, berth.host("b", &[("VCPU", 8)]).await];
    let (kept, broken) = (Uuid::new_v4(), Uuid::new_v4());
    berth.claim(kept, None, &[(good, "VCPU", 1)]).await.expect(204);
    berth.claim(broken, None, &[(bad, "VCPU", 1)]).await.expect(204);
    let mut conn = berth.session().await;
    sqlx::raw_sql(
        "alter table inventories disable trigger allocations_inventory;
         delete from inventories where provider_id = (select id from providers where name = 'b')",
    )
    .execute(&mut conn)
    .await
    .unwrap();
    let before = berth::model::bug::found();
    let path = format!("/allocations/{broken}");
    let (refused, taken) =
        tokio::join!(berth.delete(&path), berth.claim(Uuid::new_v4(), None, &[(good, "VCPU", 2)]));
    let refused = refused.expect(500);
    assert!(!refused.text().contains("inventories"), "{}", refused.text());
    assert!(refused.json()["errors"][0]["request_id"].is_string());
    taken.expect(204);
    assert!(berth::model::bug::found() > before);
    assert_eq!(berth.usages(good).await, json!({"VCPU": 3}));
}

/// A schema of the future that says which programs it serves.
async fn of_the_future(oldest_program: i64) -> PgConnectOptions {
    let options = database().await;
    let mut conn = PgConnection::connect_with(&options).await.unwrap();
    let expand = format!(
        "alter table providers add column owner text; create table newer (id integer primary key);
         update schema_compatibility set oldest_program = {oldest_program};
         insert into _sqlx_migrations (version, description, success, checksum, execution_time)
         values (9999, 'of the future', true, '', 0)"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(expand)).execute(&mut conn).await.unwrap();
    options
}

/// A replica of the version before may be started after `berth db migrate` of the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_that_serves_this_program_is_used() {
    let options = of_the_future(1).await;
    let mut conn = PgConnection::connect_with(&options).await.unwrap();
    assert_eq!(status(&mut conn).await.unwrap(), Status::Newer(vec![9999]));
    migrate(&mut conn).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = options.to_url_lossy();
    let server = Server::start_with(folder.path(), &["--database-url", url.as_str()]).await;
    let body = json!({"name": "host", "uuid": Uuid::new_v4()});
    assert_eq!(server.ask("POST", "/resource_providers", Some(&body)).await.unwrap().0, 200);

    sqlx::raw_sql("drop table flavors").execute(&mut conn).await.unwrap();
    let incomplete = Status::Incomplete(vec!["table flavors".to_owned()]);
    assert_eq!(status(&mut conn).await.unwrap(), incomplete, "what this program needs is gone");
}

#[tokio::test]
async fn a_newer_schema_that_does_not_serve_this_program_is_refused() {
    let options = of_the_future(9999).await;
    let mut conn = PgConnection::connect_with(&options).await.unwrap();
    assert_eq!(status(&mut conn).await.unwrap(), Status::Ahead(vec![9999]));
    let refused = migrate(&mut conn).await.unwrap_err().to_string();
    assert!(refused.contains("9999"), "{refused}");
}

/// The program of the last release, which `TEST_LAST_RELEASE` names, serves on the schema of this one, beside a
/// replica of this one: each claims, and reads the claims of the other. It stops on request, and starts again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "TEST_LAST_RELEASE=PROGRAM cargo test --test api -- --ignored the_last_release"]
async fn the_last_release_serves_on_this_schema() {
    let program = std::env::var_os("TEST_LAST_RELEASE")
        .expect("TEST_LAST_RELEASE must name the program of the last release");
    let mut conn = PgConnection::connect_with(&database().await).await.unwrap();
    let oldest: i64 = sqlx::query_scalar("select oldest_program from schema_compatibility")
        .fetch_one(&mut conn)
        .await
        .unwrap();
    // As it is, and as the next release may extend it.
    for options in [database().await, of_the_future(oldest).await] {
        let url = options.to_url_lossy();
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let options = ["--database-url", url.as_str()];
        let new = Server::start_with(folders[0].path(), &options).await;
        let host = Host(Uuid::new_v4());
        let body = json!({"name": "host", "uuid": host.0});
        assert_eq!(new.ask("POST", "/resource_providers", Some(&body)).await.unwrap().0, 200);
        let path = format!("/resource_providers/{}", host.0);
        let body = json!({"resource_provider_generation": 0,
                          "inventories": {"VCPU": {"total": 8}}});
        let stocked = new.ask("PUT", &format!("{path}/inventories"), Some(&body)).await.unwrap();
        assert_eq!(stocked.0, 200);
        for round in 1..=2 {
            let mut old = Server::spawn_program(&program, folders[1].path(), &options);
            old.ready().await;
            for server in [&old, &new] {
                let claim = format!("/allocations/{}", Uuid::new_v4());
                let body = claim_body(None, &[(host, "VCPU", 1)]);
                let answer = server.ask("PUT", &claim, Some(&body)).await.unwrap();
                assert_eq!(answer.0, 204, "{}\n{}", answer.1, old.log());
            }
            for server in [&new, &old] {
                let usages = server.ask("GET", &format!("{path}/usages"), None).await.unwrap();
                let usages: serde_json::Value = serde_json::from_str(&usages.1).unwrap();
                assert_eq!(usages["usages"], json!({"VCPU": 2 * round}));
            }
            signal("TERM", &old.pid());
            assert_eq!(old.ended().await.0, Some(0), "{}", old.log());
            assert!(!old.log().contains("ERROR"), "{}", old.log());
        }
        let mut conn = PgConnection::connect(url.as_str()).await.unwrap();
        let faults = berth::store::consistency::faults(&mut conn).await.unwrap();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
