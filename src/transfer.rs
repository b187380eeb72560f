//! Moves what a database of OpenStack Placement stores into Berth's.
//!
//! The rows are read in one consistent snapshot ([`source`]) and copied as they are into temporary tables of
//! Berth's database ([`staging`]). SQL then looks there for rows that Berth stores differently or not at
//! all ([`findings`]), and fills Berth's tables ([`load`]). All of it is one transaction: it is written
//! whole or not at all.

mod findings;
mod load;
mod progress;
pub mod report;
mod source;
mod source_url;
mod staging;
mod tables;

use std::time::Instant;

use sqlx::{Connection, PgConnection};

use self::progress::Progress;
use self::report::Report;
use self::source::Source;
pub use self::source_url::SourceUrl;
use crate::store;

/// Why nothing was moved: a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source is not what it must be, or its rows cannot be brought over.
    #[error("{0}")]
    Refused(String),
    /// The source cannot be read.
    #[error("the database of OpenStack Placement cannot be read: {0}")]
    Source(sqlx::Error),
    /// Berth's database cannot be read or written.
    #[error("Berth's database: {0}")]
    Target(store::Error),
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Target(error)
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Target(error.into())
    }
}

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Read everything and report what would be done, but write nothing.
    pub dry_run: bool,
}

/// Copies the contents of a database of OpenStack Placement into one of Berth's that has none.
///
/// # Errors
/// The source is no such database, its rows cannot be brought over, Berth's schema is not current or its
/// tables are not empty, or either database fails. Nothing is written then.
pub async fn import(
    from: &SourceUrl,
    target: &mut PgConnection,
    options: Options,
) -> Result<Report, Error> {
    let began = Instant::now();
    if let Some(why) = store::schema::status(target).await?.hindrance() {
        return Err(Error::Refused(why));
    }
    let mut source = Source::open(from).await?;
    let mut tx = target.begin().await?;
    load::begin(&mut tx).await?;
    staging::create(&mut tx).await?;
    let read = staging::copy(&mut source, &mut tx, &Progress::new()).await?;
    let schema = source.schema().to_owned();
    source.close().await;
    staging::settle(&mut tx).await?;
    let findings = findings::all(&mut tx).await?;
    let mut report = Report {
        source: from.to_string(),
        schema,
        dry_run: options.dry_run,
        read,
        written: Vec::new(),
        findings,
        seconds: 0.0,
    };
    if options.dry_run {
        tx.rollback().await?;
    } else {
        report.written = load::load(&mut tx).await?;
        let faults = store::audit::audit(&mut tx).await?;
        if let Some(first) = faults.first() {
            let count = faults.len();
            return Err(Error::Refused(format!(
                "nothing was written, because the result would be inconsistent in {count} places; \
                 the first: {first}"
            )));
        }
        tx.commit().await?;
        load::analyze(target).await?;
    }
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}
