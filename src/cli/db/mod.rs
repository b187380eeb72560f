//! `berth db audit`, `grants`, `shell`, `dump` and `restore`.

mod dump;
mod programs;
mod restore;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

pub use self::dump::dump;
pub use self::programs::shell;
pub use self::restore::restore;
use super::DbOptions;
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::store;
use crate::store::schema::{self, Status, privileges};

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

/// Options of `db shell`.
#[derive(Args, Clone, Debug)]
pub struct ShellOptions {
    /// The database.
    #[command(flatten)]
    pub db: DbOptions,

    /// Arguments for psql, after `--`.
    #[arg(last = true, value_name = "ARGUMENT")]
    pub arguments: Vec<OsString>,
}

/// Options of `db dump`.
#[derive(Args, Clone, Debug)]
pub struct DumpOptions {
    /// File to write, readable only by its owner; `-`: standard output.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Overwrite an existing file.
    #[arg(long)]
    pub force: bool,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Options of `db restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreOptions {
    /// File that `berth db dump` or `pg_dump --format=custom` wrote; `-`: standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Replace what Berth has stored in the database.
    ///
    /// Without this option, the database must not have any tables of Berth.
    #[arg(long)]
    pub replace: bool,

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
    let script = privileges::script(&mut conn, &options.role).await;
    script.map_err(|error| Failure(error.to_string()))?.map_err(Failure)
}

/// Runs `berth db audit`, and returns the faults.
///
/// # Errors
/// The database has no tables of Berth that the role may read, or is unavailable.
pub async fn faults(database: &Database) -> Result<Vec<String>, Failure> {
    let failed = |error: store::Error| Failure(error.to_string());
    let mut conn = database.connect().await?;
    let status = schema::status(&mut conn).await.map_err(failed)?;
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
    let faults = store::audit::audit(&mut conn).await;
    faults.map_err(|error| hindrance.map_or_else(|| failed(error), Failure))
}

/// The exit code of a finished program: its own, or 1 if a signal ended it.
fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
