//! The schema's version: an empty database is told, migrated and known; one of the future is
//! refused.

use berth::store::schema::{Status, migrate, status};
use berth::store::standard;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::postgres::{database, empty_database};

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

#[tokio::test]
async fn a_schema_of_the_future_is_refused() {
    let mut conn = PgConnection::connect_with(&database().await).await.unwrap();
    sqlx::raw_sql(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
         values (9999, 'of the future', true, '', 0)",
    )
    .execute(&mut conn)
    .await
    .unwrap();
    assert_eq!(status(&mut conn).await.unwrap(), Status::Ahead(vec![9999]));
    let refused = migrate(&mut conn).await.unwrap_err().to_string();
    assert!(refused.contains("9999"), "{refused}");
}

/// Claims are written without foreign keys; what they would refuse to let go stays all the same.
#[tokio::test]
async fn nothing_goes_that_is_still_held() {
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
    berth.audit().await;
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
        "select count(*) from traits, change_log where name = 'HW_CPU_X86_AVX2' and id < 10000",
    )
    .fetch_one(&mut conn)
    .await
    .unwrap();
    assert_eq!(back, 1, "it is back, among the standard ones, and replicas are told");
}
