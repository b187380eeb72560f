//! Imports the contents of a placement service over its API.
//!
//! They become rows of OpenStack Placement's tables ([`super::service`]), which are treated as rows from its
//! database. Responses are kept until the import is done ([`super::responses`]).

use std::time::Instant;

use futures_util::{StreamExt, stream};
use sqlx::{Connection, PgConnection};

use super::error::Error;
use super::report::{Estimate, Report, TableRows};
use super::responses::ResponseStore;
use super::resume::{Options, discard_refused, refuse_faults, resume};
use super::service::ServiceContents;
use super::tables::TABLES;
use super::{findings, kept, load, service, staging};
use crate::moving::placement_client::Client;
use crate::moving::progress::Progress;
use crate::store;

/// Copies the contents of a placement service into Berth's database.
///
/// # Errors
/// The service cannot be read or changes too fast, Berth's schema is not current, its tables are not empty and
/// `replace` is not set, another import is running, or the database fails. Nothing is written then.
pub async fn import_service(
    client: &Client,
    target: &mut PgConnection,
    options: Options,
) -> Result<Report, Error> {
    let began = Instant::now();
    if let Some(why) = store::schema::status(target).await?.hindrance() {
        return Err(Error::Refused(why));
    }
    if !options.dry_run && !kept::lock(target).await? {
        return Err(Error::Refused(
            "another `berth import` is running in Berth's database".to_owned(),
        ));
    }
    // Refuses before hours of reading.
    load::before(target, options.replace).await?;
    let service = service::Service::open(client).await?;
    let mut resumed = Vec::new();
    let kept = if options.dry_run {
        None
    } else {
        let source = format!("{} (API {})", service.url, service.version);
        resumed = resume(&source, target, options).await?;
        Some(ResponseStore::new(target))
    };
    let progress = Progress::new();
    let imported = match service::read(service, kept, &progress).await {
        Ok(mut read) => {
            read.notes.splice(0..0, resumed);
            write(read, target, options, began, &progress).await
        }
        Err(error) => Err(error),
    };
    if let Err(Error::Refused(_)) = imported {
        discard_refused(target).await?;
    }
    imported
}

/// Writes the rows into Berth's tables, or computes what would be written.
async fn write(
    read: ServiceContents,
    target: &mut PgConnection,
    options: Options,
    began: Instant,
    progress: &Progress,
) -> Result<Report, Error> {
    let reading = began.elapsed();
    let mut tx = target.begin().await?;
    load::lock(&mut tx).await?;
    let before = load::before(&mut tx, options.replace).await?;
    if options.dry_run {
        staging::create(&mut tx, staging::ONCE).await?;
    }
    let mut copied = Vec::new();
    for table in &TABLES {
        let rows = stream::iter(read.snapshot.rows(table.name).map(Ok)).boxed();
        let rows = staging::copy(&mut tx, table, rows, &|_| {}).await?;
        copied.push(TableRows { table: table.name.to_owned(), rows });
    }
    load::settle(&mut tx, progress).await?;
    let mut found = findings::all(&mut tx).await?;
    // The notes already say which times the API lacks.
    found.retain(|finding| finding.kind != findings::WITHOUT_TIME);
    found.extend(read.findings);
    found.sort_by(|one, other| one.kind.cmp(&other.kind));
    let mut report = Report {
        database: read.url,
        schema: format!("API {}", read.version),
        dry_run: options.dry_run,
        estimate: None,
        notes: read.notes,
        read: copied,
        written: Vec::new(),
        findings: found,
        seconds: 0.0,
    };
    if options.dry_run {
        tx.rollback().await?;
        report.estimate = Some(Estimate::new(&report.read, reading, began.elapsed()));
    } else {
        load::write(&mut tx, before, progress).await?;
        load::announce_all(&mut tx).await?;
        report.written = load::written(&mut tx).await?;
        refuse_faults(&mut tx).await?;
        kept::discard(&mut tx).await?;
        tx.commit().await?;
        load::analyze(target).await?;
    }
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}
