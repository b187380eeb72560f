//! What is asked.

use super::super::request::Request;
use super::relocation::Keeping;
use crate::model::ProviderId;
use crate::model::consumer::ConsumerRow;

/// What leaves a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Consumers that fit on another host.
    Moves(Keeping),
    /// Consumers that give up all that they hold. For each consumer, how readily: all of a smaller number go
    /// before any of a larger one; `None`: not at all.
    Victims(Vec<Option<usize>>),
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The request.
    pub request: &'q Request,
    /// The hosts to make room on, by the roots of their trees, best first.
    pub targets: &'q [ProviderId],
    /// Whether it is proven that the request fits on no host as it is.
    pub is_needed: bool,
    /// Whether there are no other hosts where the request would fit if they were empty.
    pub are_all_targets: bool,
    /// Consumers with something on these hosts.
    pub consumers: &'q [ConsumerRow],
    /// Whether these are all of them.
    pub are_all_consumers: bool,
    /// Who may leave.
    pub leaving: &'q Leaving,
}
