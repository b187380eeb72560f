//! Limits of a server, and the stages of its shutdown.

use std::time::Duration;

/// Timeout for the TLS handshake and for the head of a request.
pub const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout for an idle connection after a response: longer than the minute between two requests of
/// nova-compute.
pub const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of open connections. Beyond it, the connection that has been idle longest is
    /// closed; if none is idle, new ones wait to be accepted.
    pub connections: usize,
    /// Timeout for the TLS handshake, for the head of the first request, and for each further head
    /// from its first byte.
    pub header_timeout: Duration,
    /// Timeout for an idle connection after a response.
    pub idle_timeout: Duration,
    /// Timeout for the client to read the next part of a response.
    pub write_timeout: Duration,
    /// Time after the stop signal during which the server still serves, but is not ready.
    pub shutdown_delay: Duration,
    /// Maximum time for requests in progress to finish after that.
    pub shutdown_grace: Duration,
}

/// Phase of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Stage {
    Open,
    /// Accepting no new requests, finishing those in progress.
    Finishing,
    /// Aborting the requests in progress.
    Over,
}
