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
    pub(in crate::http) offered: Offered,
    pub(in crate::http) microversion: OnceLock<Microversion>,
}

/// Content type and accepted types of a request.
#[derive(Clone, Debug)]
pub(in crate::http) struct Offered {
    /// The media type of the body.
    pub(in crate::http) content_type: Option<String>,
    /// The accepted media types.
    pub(in crate::http) accept: Accept,
}
