//! Answers whose bodies break off after the line of the request has been logged: each has another line, and is
//! counted.

use std::error::Error;

use axum::http::{Method, StatusCode};
use metrics::counter;

use crate::http::api::streamed::BrokenOff;

/// How far the body of an answer is.
#[derive(Debug)]
pub(in crate::http) struct Progress {
    status: StatusCode,
    /// Bytes that were handed to the connection.
    bytes: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sending,
    /// The next part is being made.
    Making,
    /// It has come to its end, or has been reported.
    Ended,
}

impl Progress {
    /// The beginning of an answer. Answers to `HEAD` have no bodies, whatever they were made with.
    pub(in crate::http) fn begin(method: &Method, status: StatusCode) -> Self {
        let stage = if method == Method::HEAD { Stage::Ended } else { Stage::Sending };
        Self { status, bytes: 0, stage }
    }

    /// Notes that the next part is asked for. It ends with one of the following notes, unless it panics.
    pub(in crate::http) fn asked(&mut self) {
        if self.stage == Stage::Sending {
            self.stage = Stage::Making;
        }
    }

    /// Notes that there is no part yet, or so many bytes of one.
    pub(in crate::http) fn passed(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.stage == Stage::Making {
            self.stage = Stage::Sending;
        }
    }

    /// Notes the end.
    pub(in crate::http) fn ended(&mut self) {
        self.stage = Stage::Ended;
    }

    /// Reports an error in place of a part, within the span of the request.
    pub(in crate::http) fn failed(&mut self, error: &(dyn Error + 'static)) {
        let mut causes = std::iter::successors(Some(error), |error| (*error).source());
        let known = causes.find_map(|error| error.downcast_ref::<BrokenOff>());
        let reason = known.map_or("failed", |known| known.reason);
        self.report(reason, &error.to_string());
    }

    /// Reports that the body is dropped, within the span of the request, unless it has come to its end.
    pub(in crate::http) fn dropped(&mut self, is_at_end: bool) {
        match self.stage {
            Stage::Making => self.report("panic", "making the next part has panicked"),
            Stage::Sending if !is_at_end => {
                self.report("gone", "the client did not take it to its end");
            }
            Stage::Sending | Stage::Ended => {}
        }
    }

    fn report(&mut self, reason: &'static str, why: &str) {
        if std::mem::replace(&mut self.stage, Stage::Ended) == Stage::Ended {
            return;
        }
        counter!("berth_answers_broken_off_total", "reason" => reason).increment(1);
        let (status, bytes) = (self.status.as_u16(), self.bytes);
        if reason == "gone" {
            tracing::info!(status, bytes, reason, "an answer broke off: {why}");
        } else {
            tracing::warn!(status, bytes, reason, "an answer broke off: {why}");
        }
    }
}
