//! Requests to the claim writer.

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;
use uuid::Uuid;

use crate::observe::request_context::{RequestContext, RequestScope};
use crate::observe::spans::TimedSpan;
use crate::store::consumer_claim::ConsumerClaim;
use crate::store::effects::Recorder;
use crate::store::error::Result;

/// Maximum number of requests in one transaction.
pub(super) const BATCH_MAX: usize = 64;

/// A request to the writer.
#[derive(Clone, Debug)]
pub(in crate::store) enum Job {
    /// See [`Request::Replace`](crate::model::claim::Request::Replace).
    Replace(Vec<ConsumerClaim>, JobOrigin),
    /// See [`Request::Release`](crate::model::claim::Request::Release).
    Release(Uuid, JobOrigin),
}

/// The request that a job comes from.
#[derive(Clone, Debug)]
pub(in crate::store) struct JobOrigin {
    /// The recorder of the effects of the job.
    pub(super) recorder: Recorder,
    /// The scope in which the caller waits for the job.
    pub(super) scope: RequestScope,
}

impl JobOrigin {
    /// Returns the present request, which has this recorder.
    pub(super) fn of(recorder: Recorder) -> Self {
        Self { recorder, scope: RequestScope::current() }
    }

    /// Returns an origin without a request.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { recorder: Recorder::none(), scope: RequestScope::none() }
    }
}

impl Job {
    pub(super) fn claims(&self) -> &[ConsumerClaim] {
        match self {
            Self::Replace(claims, _) => claims,
            Self::Release(..) => &[],
        }
    }

    /// Returns the named consumers.
    pub(super) fn consumers(&self) -> impl Iterator<Item = Uuid> {
        let released = match self {
            Self::Replace(..) => None,
            Self::Release(consumer, _) => Some(*consumer),
        };
        self.claims().iter().map(|claim| claim.consumer).chain(released)
    }

    /// Returns the request that it comes from.
    pub(super) fn origin(&self) -> &JobOrigin {
        match self {
            Self::Replace(_, origin) | Self::Release(_, origin) => origin,
        }
    }

    /// Returns the named providers.
    pub(super) fn providers(&self) -> impl Iterator<Item = Uuid> {
        self.claims().iter().flat_map(|claim| &claim.wants).map(|(provider, ..)| *provider)
    }
}

/// Makes the scope in which jobs are written together: log lines in it carry the ids of all their requests.
pub(super) fn scope_of(jobs: &[&Job]) -> RequestScope {
    if let [job] = jobs {
        return job.origin().scope.clone();
    }
    let requests = jobs.iter().filter_map(|job| job.origin().scope.request());
    let ids: Vec<&str> = requests.map(|request| request.id.as_str()).collect();
    let together =
        RequestContext { id: ids.join(" "), are_several: true, ..RequestContext::default() };
    RequestScope::of(together, Span::none())
}

/// A job with the channel for its outcome.
#[derive(Debug)]
pub(super) struct WaitingJob {
    pub(super) job: Job,
    pub(super) response: oneshot::Sender<Result<()>>,
    /// The time at which its caller gives up.
    pub(super) deadline: Instant,
    /// The span of the wait for the writer.
    pub(super) queued: TimedSpan,
}

impl WaitingJob {
    /// Ends the wait for the writer.
    pub(super) fn begin(&mut self) {
        self.queued = TimedSpan::none();
    }

    pub(super) fn end(self, outcome: Result<()>) {
        // The caller may have gone away.
        drop(self.response.send(outcome));
    }
}
