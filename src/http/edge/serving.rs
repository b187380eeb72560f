//! Serves one connection: the TLS handshake, its requests in sequence, and its end.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_io_timeout::TimeoutStream;

use crate::http::connection::WriteError;
use crate::http::edge::activity::{Phase, ResponseGuard};
use crate::http::edge::bare_errors::WithErrorBodies;
use crate::http::edge::bounds::{Bounds, Stage};
use crate::http::edge::connections::Slot;
use crate::http::edge::listener::Accepted;
use crate::http::edge::observed::{Observed, Socket};
use crate::http::edge::tls::{self, Tls};
use crate::http::edge::unread_body;

/// Maximum length of a request head: room for URLs of 64 KiB and other headers.
const HEAD_BYTES_MAX: usize = 128 * 1024;
/// Maximum time for an idle connection to close cleanly.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// Handles the requests of a connection.
pub(crate) trait Service: Clone + Send + 'static {
    /// Whether responses come from another server: their headers keep their case, and none is
    /// added.
    const IS_PROXY: bool = false;

    /// Handles a request.
    fn respond(&self, request: Request) -> impl Future<Output = Response> + Send + 'static;

    /// Returns how errors are written that occur before a request is parsed.
    fn write_error(&self) -> WriteError;

    /// Limits for discarding the rest of request bodies.
    fn unread_bounds(&self) -> unread_body::Bounds;
}

/// A connection to be served.
pub(in crate::http) struct Serving<V> {
    pub(in crate::http) service: V,
    pub(in crate::http) bounds: Bounds,
    pub(in crate::http) slot: Slot,
    pub(in crate::http) stage: watch::Receiver<Stage>,
}

/// Events that may end a connection.
enum Event {
    /// The connection ended, possibly with an error.
    Ended(Result<(), hyper::Error>),
    /// Another connection needs the slot.
    CloseRequested,
    /// The shutdown has reached a stage.
    Stage(Stage),
    /// A timeout may have passed.
    Time,
}

impl<V: Service> Serving<V> {
    /// Serves the connection until it ends.
    pub(in crate::http) async fn serve(self, accepted: Accepted, tls: Option<Arc<Tls>>) {
        match (accepted, tls) {
            (Accepted::Tcp(stream, _), None) => self.keep(stream).await,
            (Accepted::Unix(stream), _) => self.keep(stream).await,
            (Accepted::Tcp(stream, _), Some(tls)) => self.secure(&tls, stream).await,
        }
    }

    /// Performs the TLS handshake, then serves; aborts at shutdown.
    async fn secure(mut self, tls: &Tls, stream: TcpStream) {
        self.slot.activity.enter(Phase::Arriving);
        let agreeing = tls::agree(tls.accept(stream), self.bounds.header_timeout);
        let mut agreeing = std::pin::pin!(agreeing);
        let agreed = loop {
            tokio::select! {
                agreed = &mut agreeing => break agreed,
                _ = self.stage.changed() => return,
                () = self.slot.activity.close_requested() => {
                    if self.slot.activity.can_be_closed() {
                        return self.slot.count_closed();
                    }
                    self.slot.activity.decline_close();
                }
            }
        };
        match agreed {
            Ok(stream) => {
                self.slot.activity.enter(Phase::Fresh);
                self.keep(stream).await;
            }
            Err(error) => tracing::debug!(%error, "the TLS handshake failed"),
        }
    }

    async fn keep<S: Socket>(self, stream: S) {
        let Self { service, bounds, slot, mut stage } = self;
        let activity = Arc::clone(&slot.activity);
        let write_error = service.write_error();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let response_guard = ResponseGuard::new(&activity);
            let activity = Arc::clone(&activity);
            let response = respond(service.clone(), request.map(Body::new));
            async move {
                let (response, goes_on) =
                    if activity.take_head() { response.await } else { (unclear_framing(), false) };
                if !goes_on {
                    activity.linger();
                }
                Ok::<_, Infallible>(
                    response.map(|body| GuardedBody { body, _response_guard: response_guard }),
                )
            }
        });
        let activity = &slot.activity;
        let stream = Observed::new(stream, Arc::clone(activity));
        let stream =
            WithErrorBodies::new(patient(stream, bounds), Arc::clone(activity), write_error);
        let served = http1::Builder::new()
            // Timeouts depend on the phase of the connection, which distinguishes idle ones.
            .header_read_timeout(None)
            .max_buf_size(HEAD_BYTES_MAX)
            .auto_date_header(!V::IS_PROXY)
            .preserve_header_case(V::IS_PROXY)
            .serve_connection(TokioIo::new(stream), service);
        let mut served = std::pin::pin!(served);
        loop {
            let event = tokio::select! {
                // Polled first, so that a received request is noticed before any reason to end.
                biased;
                ended = served.as_mut() => Event::Ended(ended),
                () = activity.close_requested() => Event::CloseRequested,
                changed = stage.changed() => Event::Stage(match changed {
                    Ok(()) => *stage.borrow_and_update(),
                    // The server has ended.
                    Err(_) => Stage::Over,
                }),
                () = tokio::time::sleep_until(activity.look_at(&bounds)) => Event::Time,
            };
            match next(event, &slot, &bounds) {
                Next::GoOn => {}
                Next::Finish => served.as_mut().graceful_shutdown(),
                Next::Close => {
                    served.as_mut().graceful_shutdown();
                    drop(tokio::time::timeout(CLOSING_MAX, served).await);
                    return;
                }
                Next::End => return,
            }
        }
    }
}

/// The next step for a connection.
enum Next {
    GoOn,
    /// Close after the current response, which announces it.
    Finish,
    /// Idle: close cleanly.
    Close,
    /// Close at once.
    End,
}

fn next(event: Event, slot: &Slot, bounds: &Bounds) -> Next {
    let activity = &slot.activity;
    let end = match activity.phase() {
        Phase::Fresh | Phase::Idle => Next::Close,
        // An incomplete head is not a request.
        Phase::Arriving => Next::End,
        Phase::Busy | Phase::Sending => Next::Finish,
    };
    match event {
        Event::Ended(outcome) => {
            if let Err(error) = outcome {
                tracing::debug!(%error, "a connection ended early");
            }
            Next::End
        }
        Event::CloseRequested if activity.can_be_closed() => {
            slot.count_closed();
            end
        }
        Event::CloseRequested => {
            activity.decline_close();
            Next::GoOn
        }
        Event::Stage(Stage::Finishing) => end,
        Event::Stage(Stage::Over) => Next::End,
        Event::Time if activity.is_overdue(bounds) => end,
        Event::Stage(Stage::Open) | Event::Time => Next::GoOn,
    }
}

/// Handles a request and discards the rest of its body. Returns whether the connection can take
/// another request.
async fn respond(service: impl Service, request: Request) -> (Response, bool) {
    let (request, unread) = unread_body::track(request);
    let bounds = service.unread_bounds();
    let mut response = service.respond(request).await;
    let goes_on = match unread {
        None => true,
        // The timeout of this body has already passed.
        Some(_) if response.status() == StatusCode::REQUEST_TIMEOUT => false,
        Some(unread) => unread.discard(bounds).await,
    };
    if !goes_on {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    (response, goes_on)
}

/// Response to a request with ambiguous framing, in the form of hyper's own errors, whose bodies
/// [`WithErrorBodies`] adds.
fn unclear_framing() -> Response {
    let mut response = StatusCode::BAD_REQUEST.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    response
}

/// Wraps a stream with the write timeout.
fn patient<S: Socket>(stream: Observed<S>, bounds: Bounds) -> Pin<Box<TimeoutStream<Observed<S>>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(bounds.write_timeout));
    Box::pin(stream)
}

/// A response body that records its end when it is dropped.
struct GuardedBody {
    body: Body,
    _response_guard: ResponseGuard,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
