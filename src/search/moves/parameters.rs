//! The parameters of a search for room.

use super::super::request::Request;
use super::relocation::KeptProperties;
use crate::model::ProviderId;
use crate::model::consumer::ConsumerRow;

/// The kind of consumers that leave a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Consumers that fit on another host.
    Moves(KeptProperties),
    /// Consumers that are deleted. For each consumer, its tier: all of a lower tier go before any of a higher one;
    /// `None`: it stays.
    Victims(Vec<Option<usize>>),
}

/// The parameters of a search for room.
#[derive(Clone, Copy, Debug)]
pub struct RoomParameters<'q> {
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
    /// Whether these are all such consumers.
    pub are_all_consumers: bool,
    /// The consumers that may leave.
    pub leaving: &'q Departure,
}
