//! `berth db restore`: restores the database from a file of `berth db dump`, completely or not at all.
//!
//! `pg_restore` turns the file into SQL. psql runs one transaction: statements that drop the old tables, this SQL,
//! and statements that fail if the new tables are not Berth's.

use std::fs::File;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use clap::Args;
use sqlx::PgConnection;
use tokio::io::AsyncWriteExt;

use super::programs::client;
use crate::cli::db_options::DbOptions;
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::store::consistency;
use crate::store::schema::{self, Status};
use crate::store::sessions;

/// The exit code if the restored data is inconsistent, or unusable for this program.
const FAULTY: u8 = 2;

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

/// Runs `berth db restore`, and returns the output lines and the exit code.
///
/// # Errors
/// A server uses the database, it has other contents, the file is not a dump of Berth, or a program fails. Nothing is
/// changed then.
pub async fn restore(
    options: &RestoreOptions,
    database: &Database,
) -> Result<(Vec<String>, ExitCode), Failure> {
    let input = if options.file.as_os_str() == "-" {
        Stdio::inherit()
    } else {
        let failed = |error| Failure(format!("{}: {error}", options.file.display()));
        File::open(&options.file).map_err(failed)?.into()
    };
    let mut conn = database.connect().await?;
    check(&mut conn, options.replace).await?;
    load(database, input).await?;
    report(&mut conn).await
}

/// Checks that the existing tables may be replaced.
async fn check(conn: &mut PgConnection, replace: bool) -> Result<(), Failure> {
    let servers = sessions::of_berth(conn).await?;
    if servers > 0 {
        return Err(Failure(format!(
            "{servers} connections of Berth to this database are open: stop all replicas first"
        )));
    }
    let status = schema::status(conn).await?;
    let why = match &status {
        Status::Reference | Status::Foreign(_) | Status::Encoding(_) | Status::Forbidden { .. } => {
            status.hindrance()
        }
        Status::Behind(missing) if schema::is_all(missing) => None,
        Status::Current
        | Status::Newer(_)
        | Status::Behind(_)
        | Status::Ahead(_)
        | Status::Incomplete(_)
        | Status::Altered(_) => (!replace).then(|| {
            "the database has tables of Berth already; to replace all that Berth has stored in it, \
             pass --replace"
                .to_owned()
        }),
    };
    why.map_or(Ok(()), |why| Err(Failure(why)))
}

/// Drops the old tables, loads the file and checks that its tables are Berth's, in one transaction.
async fn load(database: &Database, input: Stdio) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure(format!("nothing was restored: {error}"));
    let mut pg_restore = client("pg_restore", database).await?;
    let pg_restore = pg_restore.args(["--no-owner", "--no-privileges", "--file=-"]);
    let mut reader = pg_restore.stdin(input).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut psql = client("psql", database).await?;
    let psql = psql.args(["--no-psqlrc", "--quiet", "--single-transaction", "--file=-"]);
    let psql = psql.args(["--set", "ON_ERROR_STOP=1"]);
    let mut writer = psql.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map_err(failed)?;
    let (Some(mut statements), Some(mut into)) = (reader.stdout.take(), writer.stdin.take()) else {
        return Err(Failure("nothing was restored: there is no pipe".to_owned()));
    };
    let drops = schema::drop_script();
    let copied = async {
        into.write_all(drops.as_bytes()).await?;
        tokio::io::copy(&mut statements, &mut into).await?;
        into.flush().await
    };
    let copied = copied.await;
    drop(statements);
    let read = reader.wait().await.map_err(failed)?;
    // psql exits with an error when a statement fails, and stops reading.
    if copied.is_ok() && !read.success() {
        // It would commit at the end of its input.
        writer.kill().await.map_err(failed)?;
        return Err(Failure(format!("nothing was restored, because pg_restore failed ({read})")));
    }
    let copied = match copied {
        Ok(()) => into.write_all(schema::check_script().as_bytes()).await,
        Err(error) => Err(error),
    };
    drop(into);
    let written = writer.wait().await.map_err(failed)?;
    if !written.success() {
        return Err(Failure(format!("nothing was restored, because psql failed ({written})")));
    }
    copied.map_err(failed)
}

/// Checks the restored database.
async fn report(conn: &mut PgConnection) -> Result<(Vec<String>, ExitCode), Failure> {
    let status = schema::status(conn).await?;
    if let Some(why) = status.hindrance() {
        // A backup of an older version needs `berth db migrate` next.
        let is_older = matches!(status, Status::Behind(_));
        let code = if is_older { ExitCode::SUCCESS } else { ExitCode::from(FAULTY) };
        return Ok((vec![format!("restored; {why}")], code));
    }
    let mut lines = consistency::faults(conn).await?;
    let code = if lines.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAULTY) };
    lines.push(format!("restored; the schema is current; {} faults", lines.len()));
    Ok((lines, code))
}
