//! Moves what a database of OpenStack Placement stores into Berth's, and back ([`export()`]).
//!
//! The rows are read in one consistent snapshot ([`mod@reference`]) and copied as they are into a schema of
//! Berth's database ([`staging`]), in pieces that are kept when the import is interrupted ([`fill`]). SQL then
//! looks there for rows that Berth stores differently or not at all ([`findings`]), and brings Berth's tables to
//! what the source has ([`load`]), in one transaction: it is written whole or not at all. Following a source that
//! goes on to change is the same for the rows that differ ([`round`], [`follow`]); [`chunks`] finds them.

mod answers;
mod checked;
mod chunks;
mod collation;
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
mod round;
mod service;
mod staging;
mod tables;

use std::time::Instant;

use sqlx::{Connection, PgConnection};

pub use self::from_service::import_service;
use self::reference::Database;
pub(crate) use self::reference::connect;
pub use self::reference_url::ReferenceUrl;
pub(crate) use self::reference_url::{Access, Dialect};
use self::report::{Estimate, Report, TableRows};
use crate::moving::placement_client;
use crate::moving::progress::Progress;
use crate::store;

/// Why nothing was moved: a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source is not what it must be, or its rows cannot be brought over.
    #[error("{0}")]
    Refused(String),
    /// The source changes while it is read. What was read is kept: the next import goes on with it.
    #[error("{0}")]
    Changing(String),
    /// The database of OpenStack Placement cannot be read or written.
    #[error("the database of OpenStack Placement: {0}")]
    Reference(sqlx::Error),
    /// A placement service cannot be read.
    #[error("{0}")]
    Service(#[from] placement_client::Error),
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

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Read everything and report what would be done, but write nothing.
    pub dry_run: bool,
    /// Replace the providers and consumers that Berth has.
    pub replace: bool,
    /// Keep what was read, and note who writes to Berth's tables, so that the source can be followed.
    pub follow: bool,
}

/// Copies the contents of a database of OpenStack Placement into one of Berth's.
///
/// What is read is committed in pieces. If the import is interrupted, the next one goes on with it.
///
/// # Errors
/// The source is no such database, its rows cannot be brought over, Berth's schema is not current, its
/// tables are not empty and are not to be replaced, another import is at work, or either database fails.
/// Nothing is written to Berth's tables then.
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

/// Imports. If others are heeded, what they have written since the last import is not replaced.
async fn import_heeding(
    from: &ReferenceUrl,
    target: &mut PgConnection,
    options: Options,
    heeds_others: bool,
) -> Result<Report, Error> {
    let began = Instant::now();
    if !kept::lock(target).await? {
        return Err(Error::Refused(
            "another `berth import` is at work in Berth's database".to_owned(),
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
    let imported = read_and_write(source, target, (options, heeds_others, opened), report).await;
    if let Err(Error::Refused(_)) = imported {
        discard_refused(target).await?;
    }
    Ok(Report { seconds: began.elapsed().as_secs_f64(), ..imported? })
}

/// Reads what is not kept yet, and writes all of it into Berth's tables. Completes the report.
async fn read_and_write(
    mut source: Database,
    target: &mut PgConnection,
    (options, heeds_others, opened): (Options, bool, Instant),
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
    if heeds_others {
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

/// Removes everything that is kept for an import that was refused, unless Berth's tables are kept up with the source.
async fn discard_refused(target: &mut PgConnection) -> Result<(), Error> {
    if kept::state(target).await?.is_some_and(|state| state.is_following) {
        return Ok(());
    }
    let mut tx = target.begin().await?;
    kept::discard(&mut tx).await?;
    Ok(tx.commit().await?)
}

/// Makes what an import keeps, or finds what an interrupted one has left. Returns what is to be said about it.
async fn resume(
    source: &str,
    target: &mut PgConnection,
    options: Options,
) -> Result<Vec<String>, Error> {
    let found = kept::state(target).await?;
    let is_same = found.as_ref().is_some_and(|state| state.source == source);
    let Some(state) = found.filter(|state| is_same || state.is_following) else {
        let mut tx = target.begin().await?;
        load::before(&mut tx, options.replace).await?;
        // What was read from another source, or was left by a process that was killed while it made this.
        let is_given_up = kept::discard(&mut tx).await?;
        kept::create(&mut tx, source).await?;
        tx.commit().await?;
        let note = "what an import from elsewhere had read was given up".to_owned();
        return Ok(is_given_up.then_some(note).into_iter().collect());
    };
    if !is_same {
        return Err(Error::Refused(format!(
            "Berth's database follows {}: end that with `berth import --finish` or `berth import --discard` first",
            state.source
        )));
    }
    if state.is_following && !options.replace {
        let as_of = state.as_of.unwrap_or_else(|| "an unknown time".to_owned());
        return Err(Error::Refused(format!(
            "Berth's database already shows {source} as of {as_of}. Go on with `berth import --follow`, end with \
             `berth import --finish`, give up following with `berth import --discard`, or import everything again \
             with `--replace`"
        )));
    }
    let mut notes = vec![format!("going on with the import that was begun at {}", state.begun)];
    if let Some(why) = kept::damage(target).await? {
        notes.push(format!("{why}: everything was read again"));
    }
    kept::read_again(target).await?;
    Ok(notes)
}

/// Reads everything, and reports what would be done.
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

/// Refuses to commit what contradicts itself.
async fn refuse_faults(conn: &mut PgConnection) -> Result<(), Error> {
    let faults = store::audit::audit(conn).await?;
    let Some(first) = faults.first() else { return Ok(()) };
    let count = faults.len();
    Err(Error::Refused(format!(
        "nothing was written, because the result would be inconsistent in {count} places; the first: {first}"
    )))
}

/// Removes what an import keeps that is not done, or that follows. Berth's tables stay as they are. Returns what is
/// to be said.
///
/// # Errors
/// An import is at work, or the database fails.
pub async fn discard(target: &mut PgConnection) -> Result<String, Error> {
    if !kept::lock(target).await? {
        return Err(Error::Refused(
            "another `berth import` is at work in Berth's database: stop it first".to_owned(),
        ));
    }
    let mut tx = target.begin().await?;
    let removed = kept::discard(&mut tx).await?;
    tx.commit().await?;
    Ok(if removed { "what had been read was removed" } else { "there was nothing to remove" }
        .to_owned())
}
