//! Rows of plans that another program writes: what they get by themselves, and what is refused.

use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::support::postgres::database;

/// Writes a plan of two servers, one of them with an instance. Neither project nor host of its placements is named.
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

#[tokio::test(flavor = "multi_thread")]
async fn placements_have_the_project_of_their_plan_and_keys_within_it() {
    let mut conn = PgConnection::connect_with(&database().await).await.unwrap();
    let instance = Uuid::new_v4().to_string();
    let one = plan(&mut conn, "p", "stack", &instance).await;
    // Another project has a stack and an instance of the same names.
    let other = plan(&mut conn, "q", "stack", &instance).await;
    let placements: Vec<(Uuid, String, Option<i64>)> = sqlx::query_as(
        "select plan_id, project, planned_on from placements order by project, position",
    )
    .fetch_all(&mut conn)
    .await
    .unwrap();
    let expected = [(one, "p"), (one, "p"), (other, "q"), (other, "q")];
    assert_eq!(placements, expected.map(|(plan, project)| (plan, project.to_owned(), None)));
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
