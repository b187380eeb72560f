//! Moves what a database of OpenStack Placement stores into Berth's, and back ([`export()`]).
//!
//! The rows are read in one consistent snapshot ([`mod@reference`]) and copied as they are into temporary tables of
//! Berth's database ([`staging`]). SQL then looks there for rows that Berth stores differently or not at
//! all ([`findings`]), and fills Berth's tables ([`load`]). All of it is one transaction: it is written
//! whole or not at all.

mod export;
mod findings;
mod load;
mod progress;
mod reference;
mod reference_url;
pub mod report;
mod staging;
mod tables;

use std::time::Instant;

use sqlx::{Connection, PgConnection};

use self::progress::Progress;
use self::reference::Database;
use self::reference_url::Access;
pub use self::reference_url::ReferenceUrl;
use self::report::Report;
use crate::store;

/// Why nothing was moved: a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source is not what it must be, or its rows cannot be brought over.
    #[error("{0}")]
    Refused(String),
    /// The database of OpenStack Placement cannot be read or written.
    #[error("the database of OpenStack Placement: {0}")]
    Reference(sqlx::Error),
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

/// Copies what Berth stores into a database of OpenStack Placement that is current and empty.
///
/// # Errors
/// The target is no such database, or either database fails. Nothing is written then.
pub async fn export(from: &mut PgConnection, to: &ReferenceUrl) -> Result<Report, Error> {
    let began = Instant::now();
    if let Some(why) = store::schema::status(from).await?.hindrance() {
        return Err(Error::Refused(why));
    }
    let mut into = Database::open(to, Access::Write).await?;
    export::check_empty(&mut into).await?;
    let mut tx = from.begin_with("begin isolation level repeatable read").await?;
    export::prepare(&mut tx).await?;
    let written = export::copy(&mut tx, &mut into, &Progress::new()).await?;
    tx.rollback().await?;
    let schema = into.schema().to_owned();
    into.commit().await?;
    Ok(Report {
        database: to.to_string(),
        schema,
        dry_run: false,
        read: Vec::new(),
        written,
        findings: Vec::new(),
        seconds: began.elapsed().as_secs_f64(),
    })
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
    from: &ReferenceUrl,
    target: &mut PgConnection,
    options: Options,
) -> Result<Report, Error> {
    let began = Instant::now();
    if let Some(why) = store::schema::status(target).await?.hindrance() {
        return Err(Error::Refused(why));
    }
    let mut source = Database::open(from, Access::Read).await?;
    let mut tx = target.begin().await?;
    load::begin(&mut tx).await?;
    staging::create(&mut tx).await?;
    let read = staging::copy(&mut source, &mut tx, &Progress::new()).await?;
    let schema = source.schema().to_owned();
    source.close().await;
    staging::settle(&mut tx).await?;
    let findings = findings::all(&mut tx).await?;
    let mut report = Report {
        database: from.to_string(),
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
