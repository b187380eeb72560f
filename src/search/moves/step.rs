//! What is to be done, and how far the search for it has come.

use crate::model::{ClassId, ProviderId};

/// A consumer that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its position in the question.
    pub consumer: usize,
    /// The host to which it moves, by the root of its tree; `None` if it gives up what it holds.
    pub to: Option<ProviderId>,
    /// What it holds afterwards: provider, class, amount.
    pub allocations: Vec<(ProviderId, ClassId, i64)>,
}

/// How far the search has come.
pub(super) struct Progress {
    /// Hypothetical worlds that may still be searched.
    pub(super) checks_left: usize,
    /// Sets of consumers, whole or not, that may still be tried.
    pub(super) tries_left: usize,
    /// Places that may still be tried for consumers that have another one.
    pub(super) places_left: usize,
    /// Whether nothing was left out so far.
    pub(super) is_exhaustive: bool,
}
