//! The steps that make room, and the progress of the search for them.

use crate::model::{ClassId, ProviderId};

/// A consumer that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its position among the consumers.
    pub consumer: usize,
    /// The host to which it moves, by the root of its tree; `None` if it is deleted.
    pub to: Option<ProviderId>,
    /// Its allocations afterwards: provider, class, amount.
    pub allocations: Vec<(ProviderId, ClassId, i64)>,
}

/// The progress of the search.
pub(super) struct Progress {
    /// Number of hypothetical worlds that may still be searched.
    pub(super) checks_left: usize,
    /// Number of sets of consumers, complete or not, that may still be tried.
    pub(super) tries_left: usize,
    /// Number of further hosts that may still be tried for consumers.
    pub(super) places_left: usize,
    /// Whether the search has skipped nothing so far.
    pub(super) is_exhaustive: bool,
}
