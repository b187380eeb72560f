//! Open sessions in the database.

use sqlx::PgConnection;

use super::error::Result;

/// Returns the number of other connections of Berth's servers to this database.
///
/// # Errors
/// The database is unavailable.
pub async fn of_berth(conn: &mut PgConnection) -> Result<i64> {
    let count = sqlx::query_scalar(
        "select count(*) from pg_stat_activity
         where datname = current_database() and application_name = $1 and pid <> pg_backend_pid()",
    );
    Ok(count.bind(super::APPLICATION).fetch_one(conn).await?)
}
