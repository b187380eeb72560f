//! The request that work is done for: its id, which log lines show, its trace, and its times. They follow the work
//! into other tasks and onto other threads with a [`RequestScope`].

use std::fmt::{self, Write};
use std::future::Future;
use std::sync::Arc;

use axum::http::HeaderMap;
use opentelemetry::trace::TraceId;
use tokio::task::futures::TaskLocalFuture;
use tracing::Span;
use tracing::instrument::{Instrument, Instrumented};

use crate::observe::times::RequestTimes;
use crate::observe::trace_context::TraceContext;

tokio::task_local! {
    static REQUEST: Option<Arc<RequestContext>>;
}

/// A request, or several for which work is done together.
#[derive(Debug, Default)]
pub(crate) struct RequestContext {
    /// The id of the request, or the ids of several, separated by spaces.
    pub(crate) id: String,
    /// Whether these are several requests.
    pub(crate) are_several: bool,
    /// The trace that it belongs to.
    pub(crate) trace_id: Option<TraceId>,
    /// The trace context of its client.
    pub(crate) trace: Option<TraceContext>,
    /// Its times, if they are measured.
    pub(crate) times: Option<RequestTimes>,
}

impl RequestContext {
    /// Writes the request as a part of a log line for people, with the form of a span.
    pub(super) fn write_text(&self, writer: &mut impl Write) -> fmt::Result {
        let (name, key) = self.names();
        write!(writer, "{name}{{{key}={:?}", self.id)?;
        if let Some(trace) = self.trace_id {
            write!(writer, " trace_id={trace}")?;
        }
        writer.write_str("}")
    }

    /// Writes the request as a JSON object. Ids need no escapes.
    pub(super) fn write_json(&self, writer: &mut impl Write) -> fmt::Result {
        let (name, key) = self.names();
        write!(writer, "{{\"{key}\":\"{}\",", self.id)?;
        if let Some(trace) = self.trace_id {
            write!(writer, "\"trace_id\":\"{trace}\",")?;
        }
        write!(writer, "\"name\":\"{name}\"}}")
    }

    fn names(&self) -> (&'static str, &'static str) {
        if self.are_several { ("claims", "request_ids") } else { ("request", "request_id") }
    }
}

/// Returns the present request.
pub(crate) fn current() -> Option<Arc<RequestContext>> {
    REQUEST.try_with(Clone::clone).ok().flatten()
}

/// Returns the times of the present request, if they are measured.
pub(super) fn times() -> Option<RequestTimes> {
    REQUEST.try_with(|request| request.as_ref()?.times.clone()).ok().flatten()
}

/// The request and the span of a trace that work belongs to. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RequestScope {
    request: Option<Arc<RequestContext>>,
    span: Span,
}

/// A future that runs within a scope.
pub(crate) type Scoped<F> = Instrumented<TaskLocalFuture<Option<Arc<RequestContext>>, F>>;

impl RequestScope {
    /// Returns the scope of a request, with its span.
    pub(crate) fn of(request: RequestContext, span: Span) -> Self {
        Self { request: Some(Arc::new(request)), span }
    }

    /// Returns the present scope.
    pub(crate) fn current() -> Self {
        Self { request: current(), span: Span::current() }
    }

    /// Returns the scope of work that no request needs.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { request: None, span: Span::none() }
    }

    /// Returns the request.
    pub(crate) fn request(&self) -> Option<&RequestContext> {
        self.request.as_deref()
    }

    /// Returns the times of the request, if they are measured.
    pub(super) fn times(&self) -> Option<RequestTimes> {
        self.request.as_ref()?.times.clone()
    }

    /// Returns the span.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Runs work within the scope.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        REQUEST.sync_scope(self.request.clone(), || self.span.in_scope(work))
    }

    /// Runs a future within the scope.
    pub(crate) fn during<F: Future>(self, work: F) -> Scoped<F> {
        REQUEST.scope(self.request, work).instrument(self.span)
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
