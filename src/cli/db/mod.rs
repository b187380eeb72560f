//! `berth db check`, `grants`, `shell`, `dump` and `restore`.

mod dump;
mod programs;
mod restore;

use clap::Args;

pub use self::dump::{DumpOptions, dump};
pub use self::programs::{ShellOptions, shell};
pub use self::restore::{RestoreOptions, restore};
use super::db_options::DbOptions;
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::store;
use crate::store::schema::{self, Status, grants};

/// Options of `db grants`.
#[derive(Args, Clone, Debug)]
pub struct GrantsOptions {
    /// The role that servers use. It must exist.
    #[arg(long, value_name = "ROLE")]
    pub role: String,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Runs `berth db grants`, and returns the script.
///
/// # Errors
/// The role or Berth's tables do not exist, or the database is unavailable.
pub async fn grants(options: &GrantsOptions, database: &Database) -> Result<String, Failure> {
    let mut conn = database.connect().await?;
    grants::script(&mut conn, &options.role).await?.map_err(Failure)
}

/// Runs `berth db check`, and returns the faults.
///
/// # Errors
/// The database has no tables of Berth that the role may read, or is unavailable.
pub async fn faults(database: &Database) -> Result<Vec<String>, Failure> {
    let mut conn = database.connect().await?;
    let status = schema::status(&mut conn).await?;
    let is_readable = match &status {
        // The check needs fewer privileges than a server.
        Status::Current | Status::Newer(_) | Status::Forbidden { .. } => true,
        Status::Behind(missing) => !schema::is_all(missing),
        Status::Ahead(_)
        | Status::Incomplete(_)
        | Status::Altered(_)
        | Status::Reference
        | Status::Foreign(_)
        | Status::Encoding(_) => false,
    };
    let hindrance = status.hindrance();
    if let (false, Some(why)) = (is_readable, &hindrance) {
        return Err(Failure(why.clone()));
    }
    let faults = store::consistency::faults(&mut conn).await;
    faults.map_err(|error| hindrance.map_or_else(|| error.into(), Failure))
}
