//! The proxy: forwards requests to the upstream and its responses to the client, both unchanged.
//!
//! Bodies are forwarded part by part. Afterwards, copies of them go to the [`Mirror`], which never waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, Version, header};
use axum::response::Response;
use hyper::body::Incoming;
use tokio::sync::oneshot;

use super::copied_body::{ForwardedBody, copied};
use super::exchange::{RequestHead, TimedResponse, name_of};
use super::headers::{hide_secrets, remove_hop_by_hop};
use super::mirror::{Mirror, scope_of_write};
use super::recent_writes::WriteId;
use super::route::Kind;
use super::service::PlacementService;
use super::tally::{Certainty, of_write};
use crate::http::{Api, Service, UnreadBounds, WriteError, write_error};
use crate::http_client::Failure;

/// Bounds for reading the rest of a body that the upstream has not read.
const UNREAD_BYTES_MAX: usize = 64 << 20;
const UNREAD_MAX: Duration = Duration::from_secs(5);

/// Responds to requests with the upstream's responses.
#[derive(Clone)]
pub(super) struct Proxy(Arc<Inner>);

struct Inner {
    upstream: PlacementService,
    mirror: Arc<Mirror>,
}

impl Service for Proxy {
    const IS_PROXY: bool = true;

    fn respond(&self, request: Request) -> impl Future<Output = Response> + Send + 'static {
        let inner = Arc::clone(&self.0);
        async move { inner.respond(request).await }
    }

    fn write_error(&self) -> WriteError {
        write_error(Api::Placement)
    }

    fn unread_bounds(&self) -> UnreadBounds {
        UnreadBounds::of(UNREAD_BYTES_MAX, UNREAD_MAX)
    }
}

/// A request that is being forwarded.
struct ForwardedRequest {
    head: RequestHead,
    body: Option<oneshot::Receiver<ForwardedBody>>,
    began: Instant,
    /// Whether it is mirrored, if possible.
    is_watched: bool,
}

impl Proxy {
    pub(super) fn new(upstream: PlacementService, mirror: Arc<Mirror>) -> Self {
        Self(Arc::new(Inner { upstream, mirror }))
    }
}

impl Inner {
    async fn respond(self: Arc<Self>, mut request: Request) -> Response {
        let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
        remove_hop_by_hop(request.headers_mut());
        if is_chunked {
            // Without it, the body of a GET would be left out.
            let chunked = HeaderValue::from_static("chunked");
            request.headers_mut().insert(header::TRANSFER_ENCODING, chunked);
        }
        hide_secrets(request.headers_mut());
        let head = RequestHead {
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: request.headers().clone(),
        };
        match head.kind() {
            Kind::Read => self.answer_read(head, request).await,
            Kind::Write => {
                // The outcome of a write is recorded even if the client disconnects.
                let answering = tokio::spawn(Arc::clone(&self).answer_write(head, request));
                answering.await.unwrap_or_else(|error| {
                    tracing::error!(%error, "passing on a request has failed");
                    failed(StatusCode::BAD_GATEWAY, "the proxy has failed")
                })
            }
        }
    }

    async fn answer_read(self: Arc<Self>, head: RequestHead, request: Request) -> Response {
        let mirror = &self.mirror;
        let room = mirror.has_room();
        let (request, body) = self.watch(request, room.is_ok());
        if let Err(reason) = room {
            mirror.tally.not_mirrored(Kind::Read, reason);
        }
        let is_watched = room.is_ok();
        let passing = ForwardedRequest { head, body, began: Instant::now(), is_watched };
        match self.send(request).await {
            Ok(response) => {
                mirror.tally.requested(Kind::Read, "answered");
                self.pass_read(passing, response)
            }
            Err(failure) => self.fail(&passing.head, &failure),
        }
    }

    async fn answer_write(self: Arc<Self>, head: RequestHead, request: Request) -> Response {
        let mirror = &self.mirror;
        let is_watched = mirror.is_on();
        let (request, body) = self.watch(request, is_watched);
        let began = Instant::now();
        let id = mirror.recent.begin(began);
        let passing = ForwardedRequest { head, body, began, is_watched };
        match self.send(request).await {
            Ok(response) => {
                mirror.tally.requested(Kind::Write, of_write(response.status()));
                self.pass_write(passing, id, response)
            }
            Err(failure) => {
                match &failure {
                    Failure::NotConnected(_) => mirror.recent.forget(id),
                    // It may have been carried out all the same.
                    Failure::TimedOut | Failure::Broken(_) => self.lose_or_end(id),
                }
                self.fail(&passing.head, &failure)
            }
        }
    }

    /// Records that a write has failed with an unknown outcome.
    fn lose_or_end(&self, id: WriteId) {
        if self.mirror.bounds.writes {
            self.mirror.lose(id, "upstream_failed", Certainty::Unknown);
        } else {
            self.mirror.recent.end(id, Instant::now());
        }
    }

    /// Replaces the body by one that is copied. Returns where the copy arrives, unless there is no body.
    fn watch(
        &self,
        request: Request,
        is_watched: bool,
    ) -> (Request, Option<oneshot::Receiver<ForwardedBody>>) {
        if !is_watched || request.body().is_end_stream() {
            return (request, None);
        }
        let (sender, passed) = oneshot::channel();
        let copy = self.mirror.copy();
        // The receiver is gone if the request has failed.
        let then = Box::new(move |passed| drop(sender.send(passed)));
        (request.map(|body| copied(body, copy, then)), Some(passed))
    }

    async fn send(&self, request: Request) -> Result<Response<Incoming>, Failure> {
        let target = self.upstream.url().target(request.uri()).map_err(Failure::Broken)?;
        let mut response = self.upstream.send(target, request).await?;
        remove_hop_by_hop(response.headers_mut());
        *response.version_mut() = Version::HTTP_11;
        Ok(response)
    }

    fn pass_read(
        self: Arc<Self>,
        passing: ForwardedRequest,
        response: Response<Incoming>,
    ) -> Response {
        let response = response.map(Body::new);
        // A read with a body is unusual, and only forwarded.
        if !passing.is_watched || passing.body.is_some() {
            return response;
        }
        let copy = self.mirror.copy();
        let (status, headers) = (response.status(), response.headers().clone());
        let then = Box::new(move |passed: ForwardedBody| {
            let mirror = &self.mirror;
            match passed {
                ForwardedBody { copy: Ok(body), is_complete: true } => {
                    let took = passing.began.elapsed();
                    let answered = TimedResponse { status, headers, body, took };
                    mirror.read(passing.head, answered, passing.began);
                }
                ForwardedBody { copy: Err(omitted), is_complete: true } => {
                    mirror.tally.not_mirrored(Kind::Read, omitted.name());
                }
                ForwardedBody { is_complete: false, .. } => {
                    mirror.tally.not_mirrored(Kind::Read, "cut_off");
                }
            }
        });
        response.map(|body| copied(body, copy, then))
    }

    fn pass_write(
        self: Arc<Self>,
        passing: ForwardedRequest,
        id: WriteId,
        response: Response<Incoming>,
    ) -> Response {
        let response = response.map(Body::new);
        let mirror = &self.mirror;
        let ForwardedRequest { head, mut body, began, is_watched } = passing;
        if !response.status().is_success() {
            if response.status().is_server_error() {
                // It may have been carried out all the same.
                self.lose_or_end(id);
            } else {
                mirror.recent.forget(id);
            }
            return response;
        }
        if !mirror.bounds.writes {
            let passed = body.as_mut().and_then(|it| it.try_recv().ok());
            if let Some(ForwardedBody { copy: Ok(copy), is_complete: true }) = &passed {
                mirror.recent.learn(id, scope_of_write(&head, copy.bytes()));
            }
            mirror.recent.end(id, Instant::now());
            mirror.tally.not_mirrored(Kind::Write, "reads_only");
            return response;
        }
        if !is_watched {
            mirror.lose(id, "off", Certainty::Accepted);
            return response;
        }
        let Some(sender) = mirror.write(head, body, began, id) else { return response };
        let copy = mirror.copy();
        let (status, headers) = (response.status(), response.headers().clone());
        let then = Box::new(move |passed: ForwardedBody| {
            if let ForwardedBody { copy: Ok(body), is_complete: true } = passed {
                let took = began.elapsed();
                drop(sender.send(TimedResponse { status, headers, body, took }));
            }
        });
        response.map(|body| copied(body, copy, then))
    }

    /// The response if the upstream gave none.
    fn fail(&self, head: &RequestHead, failure: &Failure) -> Response {
        self.mirror.tally.requested(head.kind(), name_of(failure));
        let url = self.upstream.url();
        tracing::warn!(method = %head.method, route = head.route(), ?failure, "{url} has not responded");
        let (status, what) = match failure {
            Failure::NotConnected(_) => (StatusCode::BAD_GATEWAY, "cannot be reached"),
            Failure::Broken(_) => {
                (StatusCode::BAD_GATEWAY, "closed the connection without a response")
            }
            Failure::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "did not respond in time"),
        };
        let may_be_done =
            head.kind() == Kind::Write && !matches!(failure, Failure::NotConnected(_));
        let unknown = if may_be_done { " It may have carried out the request." } else { "" };
        failed(status, &format!("The placement service behind this proxy {what}.{unknown}"))
    }
}

fn failed(status: StatusCode, why: &str) -> Response {
    let (kind, body) = write_error(Api::Placement)(status, why, "");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
