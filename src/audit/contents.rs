//! The contents of an entry, before it is written in a form.

use std::sync::Arc;

use time::OffsetDateTime;

use crate::auth::policy::Caller;
use crate::store::effects::Effect;

/// The contents of an entry.
pub(super) struct EntryContents<'e> {
    pub(super) request: &'e AuditedRequest,
    pub(super) began: OffsetDateTime,
    pub(super) response: Option<&'e AuditedResponse>,
    pub(super) effects: &'e [Effect],
    pub(super) omitted: usize,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    Failure,
    /// The client disconnected, or the server does not know: the request may have been carried out.
    Unknown,
}

impl Outcome {
    pub(super) fn of(response: Option<&AuditedResponse>) -> Self {
        match response.map(|response| response.status) {
            Some(..400) => Self::Success,
            Some(400..500) => Self::Failure,
            Some(_) | None => Self::Unknown,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Unknown => "unknown",
        }
    }
}

/// Facts about a request that are known when it arrives.
#[derive(Clone, Debug)]
pub struct AuditedRequest {
    /// Its id.
    pub request_id: String,
    /// The id of the client's own request that this one is part of, as the client states it.
    pub global_request_id: Option<String>,
    /// The address of the client; `unix:` for a Unix socket.
    pub remote: String,
    /// The API of its path: `placement` or `planner`.
    pub api: &'static str,
    /// The HTTP method.
    pub method: String,
    /// The path, as the client wrote it.
    pub path: String,
}

/// Facts about a request that are known when the response is sent.
#[derive(Clone, Debug)]
pub struct AuditedResponse {
    /// The HTTP status.
    pub status: u16,
    /// The caller; `None` if it was not identified.
    pub caller: Option<Arc<Caller>>,
}
