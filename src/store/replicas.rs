//! The replicas that run: each writes a row every few seconds, and reads what operators have ordered.

use std::sync::LazyLock;

use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::access::Store;
use super::error::Result;

/// The report of a replica about itself.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// An id of the process.
    pub id: Uuid,
    /// The name of its machine.
    pub name: String,
    /// Its first address of the Placement API.
    pub address: String,
    /// Its version.
    pub version: String,
    /// The text of its `/readyz`.
    pub readiness: String,
    /// Time of a read that had everything acknowledged before it, in milliseconds.
    pub refresh_ms: i32,
    /// Number of connections of its pool to the database.
    pub connections: i32,
}

/// A replica, as it has last reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Replica {
    /// The id of its process.
    pub id: Uuid,
    /// The name of its machine.
    pub name: String,
    /// Its first address of the Placement API.
    pub address: String,
    /// Its version.
    pub version: String,
    /// Its start, as RFC 3339.
    pub started_at: String,
    /// Seconds since its last report.
    pub silent_seconds: i64,
    /// The text of its `/readyz`.
    pub readiness: String,
    /// Time of a read that had everything acknowledged before it, in milliseconds.
    pub refresh_ms: i32,
    /// Number of connections of its pool to the database.
    pub connections: i32,
    /// Whether it refuses writes for maintenance.
    pub refuses_writes: bool,
    /// Whether it is drained.
    pub is_drained: bool,
}

/// Returns the id of this process.
pub fn process_id() -> Uuid {
    static ID: LazyLock<Uuid> = LazyLock::new(Uuid::new_v4);
    *ID
}

impl Store {
    /// Writes the row of this replica, and takes over what operators have ordered. Returns whether it is drained.
    ///
    /// # Errors
    /// The database is unavailable; then nothing changes.
    pub async fn report(&self, heartbeat: &Heartbeat) -> Result<bool> {
        let reason = self.primary().read(|conn| {
            sqlx::query_scalar!("select reason from maintenance").fetch_optional(conn).boxed()
        });
        let reason = reason.await?;
        let refuses_writes = reason.is_some();
        self.maintenance.set(reason);
        let heartbeat = heartbeat.clone();
        let written = self.primary().read(|conn| {
            let heartbeat = heartbeat.clone();
            async move { write(conn, &heartbeat, refuses_writes).await }.boxed()
        });
        written.await
    }

    /// Lists the replicas that have reported within a day.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn replicas(&self) -> Result<Vec<Replica>> {
        self.read(|conn| reported(conn).boxed()).await
    }

    /// Removes the row of this replica, which stops, and closes the connections of the pool.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn sign_off(&self, id: Uuid) -> Result<()> {
        let removed = self.primary().read(|conn| {
            let removed = sqlx::query!("delete from replicas where id = $1", id).execute(conn);
            async move { removed.await.map(drop) }.boxed()
        });
        removed.await?;
        // A private PostgreSQL that ends would break off the test of a connection that returns to the pool.
        self.primary().term()?.pool().close().await;
        Ok(())
    }
}

/// Writes the row of a replica, and removes rows of replicas that have been silent for a day. Returns whether the
/// replica is drained.
async fn write(
    conn: &mut PgConnection,
    heartbeat: &Heartbeat,
    refuses_writes: bool,
) -> sqlx::Result<bool> {
    let Heartbeat { id, name, address, version, readiness, refresh_ms, connections } = heartbeat;
    sqlx::query_scalar!(
        "with gone as (delete from replicas where seen_at < now() - interval '1 day' and id <> $1)
         insert into replicas (id, name, address, version, readiness, refresh_ms, connections, refuses_writes)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (id) do update set
             seen_at = clock_timestamp(), readiness = $5, refresh_ms = $6, connections = $7, refuses_writes = $8
         returning is_drained",
        id,
        name,
        address,
        version,
        readiness,
        refresh_ms,
        connections,
        refuses_writes
    )
    .fetch_one(conn)
    .await
}

/// Lists the replicas that have reported within a day.
///
/// # Errors
/// The database is unavailable.
pub async fn list(conn: &mut PgConnection) -> Result<Vec<Replica>> {
    Ok(reported(conn).await?)
}

async fn reported(conn: &mut PgConnection) -> sqlx::Result<Vec<Replica>> {
    let replicas = sqlx::query_as!(
        Replica,
        r#"select id, name, address, version,
                  to_char(started_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as "started_at!",
                  extract(epoch from clock_timestamp() - seen_at)::bigint as "silent_seconds!",
                  readiness, refresh_ms, connections, refuses_writes, is_drained
           from replicas order by name, address, started_at"#
    );
    replicas.fetch_all(conn).await
}

/// Drains a replica, or lets it be ready again. The replica notices when it reports next.
///
/// # Errors
/// The database is unavailable.
pub async fn set_drained(conn: &mut PgConnection, id: Uuid, is_drained: bool) -> Result<()> {
    sqlx::query!("update replicas set is_drained = $2 where id = $1", id, is_drained)
        .execute(conn)
        .await?;
    Ok(())
}
