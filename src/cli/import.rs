//! `berth import` and `berth export`: what a database of OpenStack Placement stores, brought over and back.

use std::path::PathBuf;

use clap::Args;

use super::DbOptions;
use crate::serve::{Database, Failure};
use crate::transfer::{self, ReferenceUrl, report::Report};

/// Options of `import`.
#[derive(Args, Clone, Debug)]
pub struct DataImportOptions {
    /// The database of OpenStack Placement, as `connection` in its placement.conf.
    ///
    /// MySQL, MariaDB, PostgreSQL or SQLite, such as `mysql+pymysql://user:password@host/placement`
    /// or `sqlite:////absolute/path`. Set the environment variable to keep the password out of the
    /// list of processes.
    #[arg(long, env = "BERTH_FROM_DATABASE", hide_env_values = true, value_name = "URL")]
    pub from_database: ReferenceUrl,

    /// Read everything and report what would be done, but write nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Write the whole report to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Berth's database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Imports, and returns the report in words.
///
/// # Errors
/// Nothing was imported, or the report cannot be written.
pub async fn run(options: &DataImportOptions) -> Result<String, Failure> {
    // A report that cannot be written is found out before anything is done.
    let file = options.report.as_ref().map(|path| {
        let file = std::fs::File::create(path);
        file.map_err(|error| Failure(format!("{}: {error}", path.display())))
            .map(|file| (path, file))
    });
    let file = file.transpose()?;
    let database = Database::open(&options.db.database).await?;
    let imported = import(options, &database).await;
    database.close().await;
    let report = imported?;
    if let Some((path, mut file)) = file {
        std::io::Write::write_all(&mut file, report.json().as_bytes())
            .map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    }
    Ok(report.words())
}

async fn import(options: &DataImportOptions, database: &Database) -> Result<Report, Failure> {
    let mut conn = database.connect().await?;
    let what = transfer::Options { dry_run: options.dry_run };
    let imported = transfer::import(&options.from_database, &mut conn, what).await;
    imported.map_err(|error| Failure(error.to_string()))
}

/// Options of `export`.
#[derive(Args, Clone, Debug)]
pub struct ExportOptions {
    /// An empty database of OpenStack Placement, as `connection` in its placement.conf.
    ///
    /// MySQL, MariaDB, PostgreSQL or SQLite, made by `placement-manage db sync`. Set the environment
    /// variable to keep the password out of the list of processes.
    #[arg(long, env = "BERTH_TO_DATABASE", hide_env_values = true, value_name = "URL")]
    pub to_database: ReferenceUrl,

    /// Berth's database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Exports, and returns the report in words.
///
/// # Errors
/// Nothing was exported.
pub async fn export(options: &ExportOptions) -> Result<String, Failure> {
    let database = Database::open(&options.db.database).await?;
    let exported = match database.connect().await {
        Ok(mut conn) => {
            let exported = transfer::export(&mut conn, &options.to_database).await;
            exported.map_err(|error| Failure(error.to_string()))
        }
        Err(failure) => Err(failure),
    };
    database.close().await;
    exported.map(|report| report.words())
}
