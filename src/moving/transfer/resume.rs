//! Begins an import, continues an interrupted one, and gives up a refused one.

use sqlx::{Connection, PgConnection};

use super::error::Error;
use super::{kept, load};
use crate::store;

/// Options of an import.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Reads everything and reports the result, but writes nothing.
    pub dry_run: bool,
    /// Replaces Berth's providers and consumers.
    pub replace: bool,
    /// Keeps the staging, and records writes of others to Berth's tables, so that the source can be followed.
    pub follow: bool,
}

/// Discards the state of a refused import, unless Berth's tables follow the source.
pub(super) async fn discard_refused(target: &mut PgConnection) -> Result<(), Error> {
    if kept::state(target).await?.is_some_and(|state| state.is_following) {
        return Ok(());
    }
    let mut tx = target.begin().await?;
    kept::discard(&mut tx).await?;
    Ok(tx.commit().await?)
}

/// Creates the state of an import, or continues with that of an interrupted one. Returns notes for the report.
pub(super) async fn resume(
    source: &str,
    target: &mut PgConnection,
    options: Options,
) -> Result<Vec<String>, Error> {
    let found = kept::state(target).await?;
    let is_same = found.as_ref().is_some_and(|state| state.source == source);
    let Some(state) = found.filter(|state| is_same || state.is_following) else {
        let mut tx = target.begin().await?;
        load::before(&mut tx, options.replace).await?;
        // From another source, or incomplete because a process was killed while it was created.
        let is_given_up = kept::discard(&mut tx).await?;
        kept::create(&mut tx, source).await?;
        tx.commit().await?;
        let note = "the rows of an import from another source were discarded".to_owned();
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
            "Berth's database already shows {source} as of {as_of}. Continue with `berth import --follow`, end with \
             `berth import --finish`, give up following with `berth import --discard`, or import everything again \
             with `--replace`"
        )));
    }
    let mut notes = vec![format!("continuing the import started at {}", state.started)];
    if let Some(why) = kept::damage(target).await? {
        notes.push(format!("{why}: everything was read again"));
    }
    kept::read_again(target).await?;
    Ok(notes)
}

/// Refuses to commit an inconsistent result.
pub(super) async fn refuse_faults(conn: &mut PgConnection) -> Result<(), Error> {
    let faults = store::consistency::faults(conn).await?;
    let Some(first) = faults.first() else { return Ok(()) };
    let count = faults.len();
    Err(Error::Refused(format!(
        "nothing was written, because the result would be inconsistent in {count} places; the first: {first}"
    )))
}
