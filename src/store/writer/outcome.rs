//! Outcomes of the jobs of a batch.

use super::locked_rows::LockedRows;
use crate::store::error::{Error, Result};

/// The outcome of a job.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The job has been written, or has failed.
    Done(Result<()>),
    /// The job met a lock of another transaction, on a known row if `row_known`. Nothing of it has been
    /// written.
    Blocked { row_known: bool },
}

impl Outcome {
    /// Returns the result of a job that did not meet a lock; a missing one is a bug.
    pub(super) fn settled(outcome: Option<Self>) -> Result<()> {
        match outcome {
            Some(Self::Done(outcome)) => outcome,
            Some(Self::Blocked { .. }) | None => Err(Error::bug("a claim has no verdict")),
        }
    }
}

/// The outcome of a batch.
#[derive(Debug)]
pub(super) struct Written {
    /// The outcome of each job.
    pub(super) outcomes: Vec<Outcome>,
    /// Rows found to be locked by others.
    pub(super) locked: LockedRows,
}
