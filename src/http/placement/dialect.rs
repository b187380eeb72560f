//! The dialect of the Placement API.

use std::sync::OnceLock;

use super::accept::Accept;
use super::microversion::Microversion;

/// The dialect of the Placement API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Placement;

/// Facts from the headers of a request.
#[derive(Debug)]
pub(in crate::http) struct PlacementFacts {
    pub(super) offered: Offered,
    pub(super) microversion: OnceLock<Microversion>,
}

/// Content type and accepted types of a request.
#[derive(Clone, Debug)]
pub(super) struct Offered {
    /// The media type of the body.
    pub(super) content_type: Option<String>,
    /// The accepted media types.
    pub(super) accept: Accept,
}
