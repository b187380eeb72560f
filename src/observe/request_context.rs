//! The request on whose behalf work is done: its id, and the trace that its client named. Both follow
//! the work into other tasks, where log lines and requests to other services need them.

use std::future::Future;
use std::sync::Arc;

use axum::http::HeaderMap;
use tokio::task::futures::TaskLocalFuture;

use crate::observe::trace_context::TraceContext;

tokio::task_local! {
    static CONTEXT: Arc<RequestContext>;
}

/// A request, for work done for it in other tasks.
#[derive(Debug)]
pub(crate) struct RequestContext {
    /// The id of the request.
    pub(crate) id: String,
    /// The trace context of its client.
    pub(crate) trace: Option<TraceContext>,
}

impl RequestContext {
    /// Runs work on behalf of this request.
    pub(crate) fn during<F: Future>(self, work: F) -> TaskLocalFuture<Arc<Self>, F> {
        CONTEXT.scope(Arc::new(self), work)
    }
}

/// Returns the present request, if it is known: one whose client named a trace, or one that may change
/// something.
pub(crate) fn current() -> Option<Arc<RequestContext>> {
    CONTEXT.try_with(Arc::clone).ok()
}

/// Runs work in another task on behalf of a request.
pub(crate) async fn carried<F: Future>(request: Option<Arc<RequestContext>>, work: F) -> F::Output {
    match request {
        Some(request) => CONTEXT.scope(request, work).await,
        None => work.await,
    }
}

/// Adds the headers of the trace to a request to another service: those of the current span, or else
/// those that came with the current request.
pub(crate) fn pass_trace_on(headers: &mut HeaderMap) {
    if let Some(trace) = TraceContext::of_current_span() {
        trace.write(headers);
    } else if let Some(trace) = current().as_ref().and_then(|request| request.trace.as_ref()) {
        trace.write(headers);
    }
}
