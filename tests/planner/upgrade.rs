//! Migrations on data of the version before, beside replicas of that version.

use std::borrow::Cow;
use std::path::Path;

use berth::store::schema::{Status, migrate, status};
use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::support::postgres::empty_database;

/// Writes the rows of a replica of the previous version: a plan of two servers, one of them reserved.
async fn plan(conn: &mut PgConnection, project: &str, stack: &str, resource: &str) -> Uuid {
    let id = Uuid::new_v4();
    let statement = format!(
        "insert into plans (id, name, stack_id, stack_key, project, user_id, document)
             values ('{id}', 'n', '{stack}', '{stack}', '{project}', 'u', '{{}}');
         insert into placements (id, plan_id, position, orchestration_id, orchestration_key, name,
                                 resource_id, resource_key, consumer, ticket)
             values (gen_random_uuid(), '{id}', 0, 'a', 'a', 'a', '{resource}', '{resource}',
                     gen_random_uuid(), '{resource}'),
                    (gen_random_uuid(), '{id}', 1, 'b', 'b', 'b', null, null, gen_random_uuid(), null)"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(conn).await.unwrap();
    id
}

/// A database with the schema of before a migration.
async fn before(migration: i64) -> PgConnection {
    let mut conn = PgConnection::connect_with(&empty_database().await).await.unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut before = Migrator::new(folder).await.unwrap();
    let known = before.migrations.iter().filter(|it| it.version < migration).cloned();
    before.migrations = Cow::Owned(known.collect());
    before.run(&mut conn).await.unwrap();
    conn
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_before_have_no_planned_hosts() {
    let mut conn = before(9).await;
    let instance = Uuid::new_v4().to_string();
    plan(&mut conn, "p", "stack", &instance).await;
    migrate(&mut conn).await.unwrap();
    assert_eq!(status(&mut conn).await.unwrap(), Status::Current);
    // A replica of the version before goes on, and names no host.
    plan(&mut conn, "q", "stack", &instance).await;
    let planned: Vec<Option<i64>> =
        sqlx::query_scalar("select planned_on from placements").fetch_all(&mut conn).await.unwrap();
    assert_eq!(planned, [None; 4]);
    let metadata: i64 = sqlx::query_scalar("select count(*) from aggregate_metadata")
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert_eq!(metadata, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_before_get_their_projects() {
    let mut conn = before(4).await;
    let instance = Uuid::new_v4().to_string();
    let old = plan(&mut conn, "p", "stack", &instance).await;
    sqlx::raw_sql(
        "insert into planner_groups (id, name, kind) values (gen_random_uuid(), 'g', 'affinity')",
    )
    .execute(&mut conn)
    .await
    .unwrap();

    migrate(&mut conn).await.unwrap();
    assert_eq!(status(&mut conn).await.unwrap(), Status::Current);
    // A replica of the version before goes on, and names no project. Another project has a stack and
    // an instance of the same names.
    let new = plan(&mut conn, "q", "stack", &instance).await;
    let projects: Vec<(Uuid, String)> =
        sqlx::query_as("select plan_id, project from placements order by project, position")
            .fetch_all(&mut conn)
            .await
            .unwrap();
    let expected = [(old, "p"), (old, "p"), (new, "q"), (new, "q")];
    assert_eq!(projects, expected.map(|(plan, project)| (plan, project.to_owned())));
    let group: Option<String> = sqlx::query_scalar("select project from planner_groups")
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert_eq!(group, None);
    // Within a project, both are one's only.
    for (statement, constraint) in [
        (
            "insert into plans (id, name, stack_id, stack_key, project, user_id, document)
             select gen_random_uuid(), 'n', 'stack', 'stack', 'p', 'u', '{}'",
            "plans_stack_key",
        ),
        (
            "update placements set ticket = (select ticket from placements where project = 'p' and
          name = 'a') where project = 'p' and name = 'b'",
            "placements_ticket",
        ),
        (
            "update placements set resource_key = (select resource_key from placements where
          project = 'q' and name = 'a') where project = 'q' and name = 'b'",
            "placements_resource_key",
        ),
    ] {
        let refused = sqlx::query(statement).execute(&mut conn).await.unwrap_err();
        let refused = refused.as_database_error().unwrap();
        let name = refused.constraint().unwrap();
        assert!(refused.is_unique_violation(), "{statement}: {refused}");
        // Two instances in one plan meet the plan's own key as well.
        assert!([constraint, "placements_plan_resource"].contains(&name), "{statement}: {refused}");
    }
}
