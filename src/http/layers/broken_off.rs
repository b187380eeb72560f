//! Logs and counts response bodies that are cut off after the access log line was written.

use std::error::Error;

use axum::http::{Method, StatusCode};
use metrics::counter;

use crate::http::api::streamed::BrokenOff;

/// Progress of a response body.
#[derive(Debug)]
pub(in crate::http) struct Progress {
    status: StatusCode,
    /// Bytes passed to the connection.
    bytes: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sending,
    /// The next part is being produced.
    Making,
    /// Complete, or reported.
    Ended,
}

impl Progress {
    /// Starts a response. Responses to `HEAD` have no body.
    pub(in crate::http) fn new(method: &Method, status: StatusCode) -> Self {
        let stage = if method == Method::HEAD { Stage::Ended } else { Stage::Sending };
        Self { status, bytes: 0, stage }
    }

    /// Records that the next part is polled. One of the methods below follows, unless the poll
    /// panics.
    pub(in crate::http) fn polled(&mut self) {
        if self.stage == Stage::Sending {
            self.stage = Stage::Making;
        }
    }

    /// Records that the poll is pending, or returned this many bytes.
    pub(in crate::http) fn passed(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.stage == Stage::Making {
            self.stage = Stage::Sending;
        }
    }

    pub(in crate::http) fn ended(&mut self) {
        self.stage = Stage::Ended;
    }

    /// Reports an error of the body, within the scope of the request.
    pub(in crate::http) fn failed(&mut self, error: &(dyn Error + 'static)) {
        let mut causes = std::iter::successors(Some(error), |error| (*error).source());
        let known = causes.find_map(|error| error.downcast_ref::<BrokenOff>());
        let reason = known.map_or("failed", |known| known.reason);
        self.report(reason, &error.to_string());
    }

    /// Reports an incomplete body that is dropped, within the scope of the request.
    pub(in crate::http) fn dropped(&mut self, is_at_end: bool) {
        match self.stage {
            Stage::Making => self.report("panic", "producing the next part panicked"),
            Stage::Sending if !is_at_end => {
                self.report("gone", "the client disconnected before its end");
            }
            Stage::Sending | Stage::Ended => {}
        }
    }

    fn report(&mut self, reason: &'static str, why: &str) {
        if std::mem::replace(&mut self.stage, Stage::Ended) == Stage::Ended {
            return;
        }
        counter!("berth_responses_broken_off_total", "reason" => reason).increment(1);
        let (status, bytes) = (self.status.as_u16(), self.bytes);
        if reason == "gone" {
            tracing::info!(status, bytes, reason, "a response was cut off: {why}");
        } else {
            tracing::warn!(status, bytes, reason, "a response was cut off: {why}");
        }
    }
}
