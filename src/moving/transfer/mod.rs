//! Moves the contents of an OpenStack Placement database into Berth's, and back ([`export()`]).
//!
//! The rows are read in one consistent snapshot ([`mod@reference`]) and copied unchanged into a schema of Berth's
//! database ([`staging`]), in pieces that survive an interruption ([`fill`]). SQL then finds rows that Berth stores
//! differently or not at all ([`findings`]), and brings Berth's tables in line with the source ([`load`]), in one
//! transaction. Following a source that continues to change does the same for the rows that differ ([`round`],
//! [`follow`]); [`chunks`] finds these.

mod checked;
mod chunks;
mod collation;
mod error;
mod export;
mod fill;
mod findings;
pub mod follow;
mod from_service;
mod kept;
mod listed;
mod load;
mod reference;
mod reference_url;
pub mod report;
mod responses;
mod resume;
mod round;
mod service;
mod staging;
mod tables;

use std::time::Instant;

use sqlx::{Connection, PgConnection};

pub use self::error::Error;
pub use self::from_service::import_service;
use self::reference::Database;
pub(crate) use self::reference_url::Access;
pub use self::reference_url::ReferenceUrl;
use self::report::{Estimate, Report, TableRows};
pub use self::resume::Options;
use self::resume::{discard_refused, refuse_faults, resume};
use crate::moving::progress::Progress;
use crate::store;

/// Copies Berth's contents into an empty OpenStack Placement database with the current schema.
///
/// # Errors
/// The target is unsuitable, or a database fails. Nothing is written then.
pub async fn export(from: &mut PgConnection, to: &ReferenceUrl) -> Result<Report, Error> {
    let began = Instant::now();
    if let Some(why) = store::schema::status(from).await?.hindrance() {
        return Err(Error::Refused(why));
    }
    let mut into = Database::open(to, Access::Write).await?;
    let mut tx = from.begin_with("begin isolation level repeatable read").await?;
    export::check_empty(&mut tx, &mut into).await?;
    export::prepare(&mut tx, &mut into).await?;
    collation::check(&mut tx, &mut into).await?;
    let findings = export::findings(&mut tx).await?;
    let lost = if into.has_types() { None } else { export::lost_types(&mut tx).await? };
    let written = export::copy(&mut tx, &mut into, &Progress::new()).await?;
    tx.rollback().await?;
    let schema = into.schema().to_owned();
    into.commit().await?;
    Ok(Report {
        database: to.to_string(),
        schema,
        dry_run: false,
        estimate: None,
        notes: lost.into_iter().collect(),
        read: Vec::new(),
        written,
        findings,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Copies the contents of an OpenStack Placement database into Berth's.
///
/// Rows are committed in pieces; an interrupted import continues with them.
///
/// # Errors
/// The source is unsuitable, its rows cannot be imported, Berth's schema is not current, its tables are not empty and
/// `replace` is not set, another import is running, or a database fails. Nothing is written to Berth's tables then.
pub async fn import(
    from: &ReferenceUrl,
    target: &mut PgConnection,
    options: Options,
) -> Result<Report, Error> {
    if let Some(why) = store::schema::status(target).await?.hindrance() {
        return Err(Error::Refused(why));
    }
    if options.dry_run {
        return dry_run(from, target, options).await;
    }
    import_heeding(from, target, options, false).await
}

/// Imports. With `heed`, rows that others have written since the last import are not replaced.
async fn import_heeding(
    from: &ReferenceUrl,
    target: &mut PgConnection,
    options: Options,
    heeds_others: bool,
) -> Result<Report, Error> {
    let began = Instant::now();
    if !kept::lock(target).await? {
        return Err(Error::Refused(
            "another `berth import` is running in Berth's database".to_owned(),
        ));
    }
    let opened = Instant::now();
    let source = Database::open(from, Access::Read).await?;
    let notes = resume(&from.to_string(), target, options).await?;
    let report = Report {
        database: from.to_string(),
        schema: source.schema().to_owned(),
        dry_run: false,
        estimate: None,
        notes,
        read: Vec::new(),
        written: Vec::new(),
        findings: Vec::new(),
        seconds: 0.0,
    };
    let import = Import { options, heeds_others, opened };
    let imported = read_and_write(source, target, &import, report).await;
    if let Err(Error::Refused(_)) = imported {
        discard_refused(target).await?;
    }
    Ok(Report { seconds: began.elapsed().as_secs_f64(), ..imported? })
}

/// An import that has opened its source.
struct Import {
    options: Options,
    /// Whether rows that others have written since the last import stay.
    heeds_others: bool,
    opened: Instant,
}

/// Reads the rows that are not staged yet, and writes all of them into Berth's tables. Completes the report.
async fn read_and_write(
    mut source: Database,
    target: &mut PgConnection,
    Import { options, heeds_others, opened }: &Import,
    mut report: Report,
) -> Result<Report, Error> {
    let progress = Progress::new();
    let filled = fill::fill(&mut source, target, &progress).await?;
    let (note, alike) = collation::alike(&mut source).await?;
    source.close().await;
    if filled.kept > 0 {
        report.notes.push(format!("{} rows had been read before", filled.kept));
    }
    report.notes.extend(note);

    let mut tx = target.begin().await?;
    load::lock(&mut tx).await?;
    if *heeds_others {
        kept::refuse_foreign_writes(&mut tx).await?;
    }
    let before = load::before(&mut tx, options.replace).await?;
    load::settle(&mut tx, &progress).await?;
    report.findings = findings::all(&mut tx).await?;
    report.findings.extend(alike);
    load::write(&mut tx, before, &progress).await?;
    load::announce_all(&mut tx).await?;
    report.written = load::written(&mut tx).await?;
    refuse_faults(&mut tx).await?;
    if options.follow {
        kept::begin_following(&mut tx, &filled.widths).await?;
        kept::set_as_of(&mut tx, opened.elapsed().as_secs_f64()).await?;
    } else {
        kept::discard(&mut tx).await?;
    }
    tx.commit().await?;
    load::analyze(target).await?;
    Ok(Report { read: filled.read, ..report })
}

/// Reads everything, and reports the result without writing it.
async fn dry_run(
    from: &ReferenceUrl,
    target: &mut PgConnection,
    options: Options,
) -> Result<Report, Error> {
    let began = Instant::now();
    let mut tx = target.begin().await?;
    load::before(&mut tx, options.replace).await?;
    staging::create(&mut tx, staging::ONCE).await?;
    let mut source = Database::open(from, Access::Read).await?;
    let progress = Progress::new();
    let mut read = Vec::new();
    let reading = Instant::now();
    for table in tables::TABLES.iter().filter(|table| source.has(table)).collect::<Vec<_>>() {
        let bar = progress.of(table.name, source.count(table).await?);
        let rows = source.rows(table);
        let rows = staging::copy(&mut tx, table, rows, &|count| bar.set_position(count)).await?;
        bar.finish();
        read.push(TableRows { table: table.name.to_owned(), rows });
    }
    let reading = reading.elapsed();
    let (note, alike) = collation::alike(&mut source).await?;
    let schema = source.schema().to_owned();
    source.close().await;
    load::lock(&mut tx).await?;
    load::settle(&mut tx, &progress).await?;
    let mut findings = findings::all(&mut tx).await?;
    findings.extend(alike);
    tx.rollback().await?;
    let estimate = Estimate::new(&read, reading, began.elapsed());
    Ok(Report {
        database: from.to_string(),
        schema,
        dry_run: true,
        estimate: Some(estimate),
        notes: note.into_iter().collect(),
        read,
        written: Vec::new(),
        findings,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Discards an import that is unfinished or follows a source. Berth's tables stay as they are. Returns a message.
///
/// # Errors
/// An import is running, or the database fails.
pub async fn discard(target: &mut PgConnection) -> Result<String, Error> {
    if !kept::lock(target).await? {
        return Err(Error::Refused(
            "another `berth import` is running in Berth's database: stop it first".to_owned(),
        ));
    }
    let mut tx = target.begin().await?;
    let removed = kept::discard(&mut tx).await?;
    tx.commit().await?;
    Ok(if removed { "the rows read so far were removed" } else { "there was nothing to remove" }
        .to_owned())
}
