//! The real path: a request goes to the upstream as it came, and the answer to the client as it came.
//!
//! Bodies pass part by part. Copies of them are handed over to the [`Mirror`] when they have passed, which
//! waits for nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, Version, header};
use axum::response::Response;
use hyper::body::Incoming;
use tokio::sync::oneshot;

use super::copied_body::{Passed, copied};
use super::exchange::{Answered, Asked, name_of};
use super::headers::{hide_secrets, remove_hop_by_hop};
use super::mirror::{Mirror, scope_of_write};
use super::recent_writes::WriteId;
use super::route::Kind;
use super::service::PlacementService;
use super::tally::{Certainty, of_write};
use crate::http::Api;
use crate::http::Service;
use crate::http::UnreadBounds;
use crate::http::WriteError;
use crate::http_client::Failure;

/// How much of a body is read, and for how long, that the upstream has not taken.
const UNREAD_BYTES_MAX: usize = 64 << 20;
const UNREAD_MAX: Duration = Duration::from_secs(5);

/// Answers requests with the upstream's answers.
#[derive(Clone)]
pub(super) struct Proxy(Arc<Inner>);

struct Inner {
    upstream: PlacementService,
    mirror: Arc<Mirror>,
}

impl Service for Proxy {
    const IS_PROXY: bool = true;

    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send + 'static {
        let inner = Arc::clone(&self.0);
        async move { inner.answer(request).await }
    }

    fn write_error(&self) -> WriteError {
        Api::Placement.write_error()
    }

    fn unread_bounds(&self) -> UnreadBounds {
        UnreadBounds::of(UNREAD_BYTES_MAX, UNREAD_MAX)
    }
}

/// A request on its way.
struct Passing {
    asked: Asked,
    body: Option<oneshot::Receiver<Passed>>,
    began: Instant,
    /// Whether it is mirrored if it can be.
    is_watched: bool,
}

impl Proxy {
    pub(super) fn new(upstream: PlacementService, mirror: Arc<Mirror>) -> Self {
        Self(Arc::new(Inner { upstream, mirror }))
    }
}

impl Inner {
    async fn answer(self: Arc<Self>, mut request: Request) -> Response {
        let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
        remove_hop_by_hop(request.headers_mut());
        if is_chunked {
            // Without it, the body of a GET would be left out.
            let chunked = HeaderValue::from_static("chunked");
            request.headers_mut().insert(header::TRANSFER_ENCODING, chunked);
        }
        hide_secrets(request.headers_mut());
        let asked = Asked {
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: request.headers().clone(),
        };
        match asked.kind() {
            Kind::Read => self.answer_read(asked, request).await,
            Kind::Write => {
                // What becomes of a write is learned also if the client does not wait for it.
                let answering = tokio::spawn(Arc::clone(&self).answer_write(asked, request));
                answering.await.unwrap_or_else(|error| {
                    tracing::error!(%error, "passing on a request has failed");
                    failed(StatusCode::BAD_GATEWAY, "the proxy has failed")
                })
            }
        }
    }

    async fn answer_read(self: Arc<Self>, asked: Asked, request: Request) -> Response {
        let mirror = &self.mirror;
        let room = mirror.has_room();
        let (request, body) = self.watch(request, room.is_ok());
        if let Err(reason) = room {
            mirror.tally.not_mirrored(Kind::Read, reason);
        }
        let is_watched = room.is_ok();
        let passing = Passing { asked, body, began: Instant::now(), is_watched };
        match self.send(request).await {
            Ok(answer) => {
                mirror.tally.requested(Kind::Read, "answered");
                self.pass_read(passing, answer)
            }
            Err(failure) => self.fail(&passing.asked, &failure),
        }
    }

    async fn answer_write(self: Arc<Self>, asked: Asked, request: Request) -> Response {
        let mirror = &self.mirror;
        let is_watched = mirror.is_on();
        let (request, body) = self.watch(request, is_watched);
        let began = Instant::now();
        let id = mirror.recent.begin(began);
        let passing = Passing { asked, body, began, is_watched };
        match self.send(request).await {
            Ok(answer) => {
                mirror.tally.requested(Kind::Write, of_write(answer.status()));
                self.pass_write(passing, id, answer)
            }
            Err(failure) => {
                match &failure {
                    Failure::NotConnected(_) => mirror.recent.forget(id),
                    // It may have been carried out all the same.
                    Failure::TimedOut | Failure::Broken(_) => self.lose_or_end(id),
                }
                self.fail(&passing.asked, &failure)
            }
        }
    }

    /// Notes that a write has failed of which nobody knows whether it was carried out.
    fn lose_or_end(&self, id: WriteId) {
        if self.mirror.bounds.writes {
            self.mirror.lose(id, "upstream_failed", Certainty::Unknown);
        } else {
            self.mirror.recent.end(id, Instant::now());
        }
    }

    /// The request with a body that is copied, and where the copy arrives, unless it has none.
    fn watch(
        &self,
        request: Request,
        is_watched: bool,
    ) -> (Request, Option<oneshot::Receiver<Passed>>) {
        if !is_watched || request.body().is_end_stream() {
            return (request, None);
        }
        let (sender, passed) = oneshot::channel();
        let copy = self.mirror.copy();
        // Nobody wants it if the request has failed.
        let then = Box::new(move |passed| drop(sender.send(passed)));
        (request.map(|body| copied(body, copy, then)), Some(passed))
    }

    async fn send(&self, request: Request) -> Result<Response<Incoming>, Failure> {
        let target = self.upstream.url().target(request.uri()).map_err(Failure::Broken)?;
        let mut answer = self.upstream.send(target, request).await?;
        remove_hop_by_hop(answer.headers_mut());
        *answer.version_mut() = Version::HTTP_11;
        Ok(answer)
    }

    fn pass_read(self: Arc<Self>, passing: Passing, answer: Response<Incoming>) -> Response {
        let answer = answer.map(Body::new);
        // A read with a body is odd, and passed on only.
        if !passing.is_watched || passing.body.is_some() {
            return answer;
        }
        let copy = self.mirror.copy();
        let (status, headers) = (answer.status(), answer.headers().clone());
        let then = Box::new(move |passed: Passed| {
            let mirror = &self.mirror;
            match passed {
                Passed { copy: Ok(body), is_whole: true } => {
                    let took = passing.began.elapsed();
                    let answered = Answered { status, headers, body, took };
                    mirror.read(passing.asked, answered, passing.began);
                }
                Passed { copy: Err(omitted), is_whole: true } => {
                    mirror.tally.not_mirrored(Kind::Read, omitted.name());
                }
                Passed { is_whole: false, .. } => mirror.tally.not_mirrored(Kind::Read, "cut_off"),
            }
        });
        answer.map(|body| copied(body, copy, then))
    }

    fn pass_write(
        self: Arc<Self>,
        passing: Passing,
        id: WriteId,
        answer: Response<Incoming>,
    ) -> Response {
        let answer = answer.map(Body::new);
        let mirror = &self.mirror;
        let Passing { asked, mut body, began, is_watched } = passing;
        if !answer.status().is_success() {
            if answer.status().is_server_error() {
                // It may have been carried out all the same.
                self.lose_or_end(id);
            } else {
                mirror.recent.forget(id);
            }
            return answer;
        }
        if !mirror.bounds.writes {
            let passed = body.as_mut().and_then(|it| it.try_recv().ok());
            if let Some(Passed { copy: Ok(copy), is_whole: true }) = &passed {
                mirror.recent.learn(id, scope_of_write(&asked, copy.bytes()));
            }
            mirror.recent.end(id, Instant::now());
            mirror.tally.not_mirrored(Kind::Write, "reads_only");
            return answer;
        }
        if !is_watched {
            mirror.lose(id, "off", Certainty::Accepted);
            return answer;
        }
        let Some(sender) = mirror.write(asked, body, began, id) else { return answer };
        let copy = mirror.copy();
        let (status, headers) = (answer.status(), answer.headers().clone());
        let then = Box::new(move |passed: Passed| {
            if let Passed { copy: Ok(body), is_whole: true } = passed {
                let took = began.elapsed();
                drop(sender.send(Answered { status, headers, body, took }));
            }
        });
        answer.map(|body| copied(body, copy, then))
    }

    /// The answer when there is none.
    fn fail(&self, asked: &Asked, failure: &Failure) -> Response {
        self.mirror.tally.requested(asked.kind(), name_of(failure));
        let url = self.upstream.url();
        tracing::warn!(method = %asked.method, route = asked.route(), ?failure, "{url} has not answered");
        let (status, what) = match failure {
            Failure::NotConnected(_) => (StatusCode::BAD_GATEWAY, "cannot be reached"),
            Failure::Broken(_) => {
                (StatusCode::BAD_GATEWAY, "closed the connection without an answer")
            }
            Failure::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "did not answer in time"),
        };
        let may_be_done =
            asked.kind() == Kind::Write && !matches!(failure, Failure::NotConnected(_));
        let unknown = if may_be_done { " It may have carried out the request." } else { "" };
        failed(status, &format!("The placement service behind this proxy {what}.{unknown}"))
    }
}

fn failed(status: StatusCode, why: &str) -> Response {
    let (kind, body) = Api::Placement.write_error()(status, why, "");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
