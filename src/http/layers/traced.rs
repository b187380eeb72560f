//! A layer that opens the scope of each request. All log lines within it carry the request id, and
//! the trace id if the request is part of a trace. While traces are exported, it has a span, which
//! is the root of what Berth exports of the request, with the attributes of OpenTelemetry's
//! conventions for HTTP servers; it ends when the response body has been sent.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{Method, header};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use opentelemetry::trace::{Status, TraceContextExt, TraceId};
use pin_project_lite::pin_project;
use tower::{Layer, Service};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::http::connection::connection;
use crate::http::layers::broken_off::Progress;
use crate::http::layers::proxy::Remote;
use crate::http::layers::request_id::{GlobalRequestId, request_id};
use crate::http::layers::response_info::{RequestInfo, ResponseTrace, method_name};
use crate::http::layers::service::Streaming;
use crate::http::layers::slow::{TimedRequest, TimedResponse};
use crate::observe::request_context::{RequestContext, RequestScope, Scoped};
use crate::observe::spans;
use crate::observe::trace_context::TraceContext;

/// Maximum length of a text attribute, in bytes.
const TEXT_MAX: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct TracedLayer {
    /// Time after which a request is slow, which is logged; `None`: no request is.
    pub(in crate::http) slow_after: Option<Duration>,
}

impl<S> Layer<S> for TracedLayer {
    type Service = Traced<S>;

    fn layer(&self, inner: S) -> Traced<S> {
        Traced { inner, slow_after: self.slow_after }
    }
}

/// The service of [`TracedLayer`].
#[derive(Clone, Debug)]
pub(in crate::http) struct Traced<S> {
    inner: S,
    slow_after: Option<Duration>,
}

impl<S, B> Service<Request> for Traced<S>
where
    S: Service<Request, Response = axum::http::Response<B>, Error = Infallible>,
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let given = TraceContext::read(request.headers());
        let recorded = spans::are_recorded().then(|| Recorded::begin(&request, given.as_ref()));
        let trace_id = match &recorded {
            Some(recorded) => Some(recorded.trace),
            None => given.as_ref().map(TraceContext::trace_id),
        };
        let method = request.method().clone();
        let timed = self.slow_after.map(|it| TimedRequest::start(it, &method, request.uri()));
        let context = RequestContext {
            id: request_id(request.extensions()).to_owned(),
            are_several: false,
            trace_id,
            trace: given,
            times: timed.as_ref().map(TimedRequest::times),
        };
        let span = recorded.as_ref().map_or_else(Span::none, |recorded| recorded.span.clone());
        let scope = RequestScope::of(context, span);
        let response = scope.run(|| self.inner.call(request));
        let response = scope.clone().during(response);
        ResponseFuture { response, method, scope, recorded, timed }
    }
}

pin_project! {
    /// The future of the response.
    pub(in crate::http) struct ResponseFuture<F> {
        #[pin]
        response: Scoped<F>,
        method: Method,
        scope: RequestScope,
        recorded: Option<Recorded>,
        timed: Option<TimedRequest>,
    }
}

impl<F, B> Future for ResponseFuture<F>
where
    F: Future<Output = Result<axum::http::Response<B>, Infallible>>,
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Ok(mut response) = ready!(this.response.poll(context));
        if let Some(trace) = this.scope.request().and_then(|request| request.trace_id) {
            response.extensions_mut().insert(ResponseTrace(trace));
        }
        let recorded = this.recorded.take();
        if let Some(recorded) = &recorded {
            recorded.note(&response);
        }
        let scope = this.scope.clone();
        let progress = Progress::new(this.method, response.status());
        let timed =
            this.timed.take().filter(|_| response.extensions().get::<Streaming>().is_none());
        let timed = timed.map(|timed| timed.responded(response.status()));
        let within =
            |body| Body::new(WithinScope { body, scope, progress, timed, _recorded: recorded });
        Poll::Ready(Ok(response.map(within)))
    }
}

/// A body that is polled within the scope of its request. Logs bodies that are cut off.
struct WithinScope<B: HttpBody> {
    body: B,
    scope: RequestScope,
    progress: Progress,
    timed: Option<TimedResponse>,
    _recorded: Option<Recorded>,
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for WithinScope<B>
where
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let Self { body, scope, progress, .. } = &mut *self;
        scope.run(|| {
            progress.polled();
            let polled = Pin::new(body).poll_frame(context);
            let polled = polled.map_err(Into::into);
            match &polled {
                Poll::Pending => progress.passed(0),
                Poll::Ready(None) => progress.ended(),
                Poll::Ready(Some(Ok(frame))) => {
                    progress.passed(frame.data_ref().map_or(0, Bytes::len));
                }
                Poll::Ready(Some(Err(error))) => progress.failed(error.as_ref()),
            }
            polled
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: HttpBody> Drop for WithinScope<B> {
    fn drop(&mut self) {
        let Self { body, scope, progress, timed, .. } = self;
        scope.run(|| {
            progress.dropped(body.is_end_stream());
            if let Some(timed) = timed {
                timed.sent();
            }
        });
    }
}

/// The recorded span of a request, ended on drop. Tasks that outlive it keep the span for log
/// lines, but not in the recording.
#[derive(Debug)]
struct Recorded {
    span: Span,
    method: &'static str,
    trace: TraceId,
}

impl Recorded {
    fn begin(request: &Request, given: Option<&TraceContext>) -> Self {
        let method = method_name(request.method());
        let (headers, extensions) = (request.headers(), request.extensions());
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(short);
        let span = tracing::info_span!(
            target: spans::TARGET,
            "request",
            otel.kind = "server",
            http.request.method = method,
            url.scheme = if connection(extensions).secure { "https" } else { "http" },
            url.path = short(request.uri().path()),
            url.query = request.uri().query().map(short),
            server.address = text(header::HOST),
            user_agent.original = text(header::USER_AGENT),
            client.address = extensions.get().map(Remote::to_string),
            openstack.request_id = request_id(extensions),
            openstack.global_request_id =
                extensions.get::<GlobalRequestId>().map(|id| id.0.as_str()),
        );
        let parent = given.map_or_else(opentelemetry::Context::new, TraceContext::as_parent);
        // Fails only if nothing is recorded.
        drop(span.set_parent(parent));
        let trace = span.context().span().span_context().trace_id();
        Self { span, method, trace }
    }

    fn note<B>(&self, response: &axum::http::Response<B>) {
        let status = response.status();
        self.span.set_attribute("http.response.status_code", i64::from(status.as_u16()));
        let info = response.extensions().get::<RequestInfo>();
        if let Some(route) = info.and_then(|info| info.route) {
            self.span.set_attribute("http.route", route);
            self.span.context().span().update_name(format!("{} {route}", self.method));
        } else {
            self.span.context().span().update_name(self.method);
        }
        if let Some(version) = info.and_then(|info| info.version.clone()) {
            self.span.set_attribute("openstack.microversion", version);
        }
        if status.is_server_error() {
            let cause = info.and_then(|info| info.cause.clone());
            self.span.set_attribute("error.type", status.as_str().to_owned());
            let cause = cause.map_or(Cow::from(""), Cow::from);
            self.span.set_status(Status::error(cause));
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.span.context().span().end();
    }
}

fn short(text: &str) -> &str {
    text.split_at(text.floor_char_boundary(TEXT_MAX)).0
}
