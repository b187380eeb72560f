//! `berth db dump`: writes the database to a file.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use clap::Args;

use super::programs::client;
use crate::cli::db_options::DbOptions;
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::store::schema::{self, Status};

/// Excludes data that a server recreates, and owners and privileges, which differ between databases.
const ARGUMENTS: [&str; 4] =
    ["--format=custom", "--no-unlogged-table-data", "--no-owner", "--no-privileges"];

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

/// Runs `berth db dump`. The file appears under its name once it is complete and on disk.
///
/// # Errors
/// The file exists or cannot be written, the database is not Berth's, or `pg_dump` is not installed or fails.
pub async fn dump(options: &DumpOptions, database: &Database) -> Result<ExitCode, Failure> {
    if options.file.as_os_str() == "-" {
        if std::io::stdout().is_terminal() {
            return Err(Failure(
                "a dump is binary: name a file, or redirect the output".to_owned(),
            ));
        }
        check_database(database).await?;
        return write(database, Stdio::inherit()).await.map(|()| ExitCode::SUCCESS);
    }
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", options.file.display()));
    check_file(&options.file, options.force)?;
    check_database(database).await?;
    let part = PathBuf::from([options.file.as_os_str(), ".part".as_ref()].join("".as_ref()));
    let file = create(&part)?;
    let outcome = async {
        write(database, file.try_clone().map_err(failed)?.into()).await?;
        file.sync_all().map_err(failed)?;
        std::fs::rename(&part, &options.file).map_err(failed)
    };
    outcome.await.inspect_err(|_| drop(std::fs::remove_file(&part)))?;
    Ok(ExitCode::SUCCESS)
}

/// Checks that the file does not exist, or may be overwritten.
fn check_file(file: &Path, may_overwrite: bool) -> Result<(), Failure> {
    let why = match std::fs::symlink_metadata(file) {
        Ok(found) if !found.is_file() => "is not a regular file; `-` writes to standard output",
        Ok(_) if !may_overwrite => "exists; overwrite it with --force",
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure(format!("{}: {error}", file.display()))),
    };
    Err(Failure(format!("{} {why}", file.display())))
}

/// Checks that the database has all of Berth's tables.
async fn check_database(database: &Database) -> Result<(), Failure> {
    let mut conn = database.connect().await?;
    let status = schema::status(&mut conn).await?;
    let why = match &status {
        Status::Behind(missing) if schema::is_all(missing) => Some(
            "the database has no tables of Berth, so there is nothing to dump; look at \
             --database-url"
                .to_owned(),
        ),
        Status::Incomplete(_) | Status::Reference | Status::Foreign(_) | Status::Encoding(_) => {
            status.hindrance()
        }
        // Other privileges that servers need do not matter: pg_dump reports unreadable tables.
        Status::Current
        | Status::Newer(_)
        | Status::Behind(_)
        | Status::Ahead(_)
        | Status::Altered(_)
        | Status::Forbidden { .. } => None,
    };
    why.map_or(Ok(()), |why| Err(Failure(why)))
}

async fn write(database: &Database, output: Stdio) -> Result<(), Failure> {
    let mut command = client("pg_dump", database).await?;
    let status = command.args(ARGUMENTS).stdout(output).status().await;
    let status = status.map_err(|error| Failure(format!("pg_dump: {error}")))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure(format!("nothing was written, because pg_dump failed ({status})")))
}

/// Creates a file that only its owner can access.
fn create(path: &Path) -> Result<File, Failure> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        let path = path.display();
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            return Failure(format!(
                "{path} exists: another dump is in progress, or was interrupted; then delete it"
            ));
        }
        Failure(format!("{path}: {error}"))
    })
}
