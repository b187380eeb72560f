//! One PostgreSQL for all tests of this process (that of `TEST_POSTGRES_URL` if it is set), and a
//! migrated database for each.

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};

use berth::server::embedded_postgres::EmbeddedPostgres;
use berth::store::schema;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};

/// Kept by a runtime of its own: a test's runtime ends with the test.
static CLUSTER: LazyLock<PgConnectOptions> = LazyLock::new(|| {
    let started = std::thread::spawn(|| {
        let runtime = Box::leak(Box::new(tokio::runtime::Runtime::new().unwrap()));
        runtime.block_on(async {
            let options = match std::env::var("TEST_POSTGRES_URL") {
                Ok(url) => url.parse().unwrap(),
                Err(_) => private_cluster().await,
            };
            drop_leftovers(&options).await;
            create(&options, "template").await;
            let mut conn =
                PgConnection::connect_with(&options.clone().database("template")).await.unwrap();
            schema::migrate(&mut conn).await.unwrap();
            conn.close().await.unwrap();
            options
        })
    });
    started.join().unwrap()
});

/// A cluster that lives as long as this process; the next run finds it and need not make it.
async fn private_cluster() -> PgConnectOptions {
    let target = env!("CARGO_TARGET_TMPDIR");
    // Binaries of tests run side by side.
    let binary = env!("CARGO_CRATE_NAME");
    let fast = [
        "fsync=off",
        "full_page_writes=off",
        "synchronous_commit=off",
        "min_wal_size=64MB",
        "max_wal_size=128MB",
    ];
    let mut cluster = EmbeddedPostgres::start_with(&Path::new(target).join(binary), &fast).await;
    if cluster.is_err() {
        // Root's checkout may stand where PostgreSQL's user cannot go.
        let elsewhere = format!("berth-tests{}-{binary}", target.replace('/', "-"));
        cluster = EmbeddedPostgres::start_with(&std::env::temp_dir().join(elsewhere), &fast).await;
    }
    Box::leak(Box::new(cluster.unwrap())).options()
}

/// The databases of tests that have ended. All of a run at once would be gigabytes.
static UNUSED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The databases that the test of this thread has made.
struct Made(RefCell<Vec<String>>);

impl Drop for Made {
    fn drop(&mut self) {
        UNUSED.lock().unwrap().append(self.0.get_mut());
    }
}

thread_local! {
    static MADE: Made = const { Made(RefCell::new(Vec::new())) };
}

/// Creates a migrated and empty database for this test. Those of ended tests are dropped first.
pub async fn database() -> PgConnectOptions {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let cluster = tokio::task::spawn_blocking(|| CLUSTER.clone()).await.unwrap();
    let unused = std::mem::take(&mut *UNUSED.lock().unwrap());
    for name in unused {
        execute(&cluster, &format!("drop database {name} with (force)")).await;
    }
    let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    execute(&cluster, &format!("create database {name} template template")).await;
    MADE.with(|made| made.0.borrow_mut().push(name.clone()));
    cluster.database(&name)
}

/// A database with nothing in it, not even a schema.
pub async fn empty_database() -> PgConnectOptions {
    let options = database().await;
    let mut conn = PgConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql("drop schema public cascade; create schema public")
        .execute(&mut conn)
        .await
        .unwrap();
    options
}

async fn create(cluster: &PgConnectOptions, name: &str) {
    execute(cluster, &format!("create database {name}")).await;
}

async fn execute(cluster: &PgConnectOptions, statement: &str) {
    let mut conn = PgConnection::connect_with(cluster).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

/// Databases of an earlier run.
async fn drop_leftovers(cluster: &PgConnectOptions) {
    let mut conn = PgConnection::connect_with(cluster).await.unwrap();
    let names: Vec<String> = sqlx::query_scalar(
        "select datname::text from pg_database where datname ~ '^(test_[0-9]+|template)$'",
    )
    .fetch_all(&mut conn)
    .await
    .unwrap();
    for name in names {
        let statement = sqlx::AssertSqlSafe(format!("drop database {name} with (force)"));
        sqlx::raw_sql(statement).execute(&mut conn).await.unwrap();
    }
}

/// Adds providers with long names to a database that no replica serves yet, since they are not in its change log.
pub async fn add_providers(database: &PgConnectOptions, count: i32) {
    let insert = format!(
        "insert into providers (id, uuid, name, root_id) overriding system value
             select n, gen_random_uuid(), repeat('x', 150) || n, n from generate_series(1, {count}) n"
    );
    execute(database, &insert).await;
}
