//! The choice of a connection for each request, and of the requests that are repeated.

use axum::body::Body;
use axum::extract::Request;
use hyper::body::Body as _;
use hyper::header::{CONNECTION, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};

use super::failure::Failure;

/// Two clients for the same servers, one of which keeps connections open.
#[derive(Clone, Debug)]
pub(crate) struct Connections<C> {
    /// Keeps connections open for later requests.
    kept: C,
    /// Opens a connection for each request.
    new: C,
}

impl<C: Clone> Connections<C> {
    /// Makes both clients. `client` takes the maximum number of idle connections to one host.
    ///
    /// # Errors
    /// Those of `client`.
    pub(crate) fn new<E>(client: impl Fn(usize) -> Result<C, E>) -> Result<Self, E> {
        Ok(Self { kept: client(usize::MAX)?, new: client(0)? })
    }

    /// Returns the client that keeps connections open.
    pub(super) fn kept(&self) -> &C {
        &self.kept
    }

    /// Sends a request by `attempt`, which waits for as much of the response as the caller needs. A time limit
    /// around this covers both attempts.
    ///
    /// # Errors
    /// Those of the last attempt.
    pub(crate) async fn exchange<R: Outgoing, A, F>(
        &self,
        request: R,
        attempt: impl Fn(C, R) -> F,
    ) -> Result<A, Failure>
    where
        A: HasStatus,
        F: Future<Output = Result<A, Failure>>,
    {
        let over_new = |mut request: R| {
            // Normally the server then closes first: the side that does keeps the port for a minute.
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            attempt(self.new.clone(), request)
        };
        let Some(again) = request.copy_if_repeatable() else {
            return over_new(request).await;
        };
        let why = match attempt(self.kept.clone(), request).await {
            Err(Failure::Broken(why)) => why,
            // Some servers send this, unrequested, when they close an idle connection.
            Ok(response) if response.status() == Some(StatusCode::REQUEST_TIMEOUT) => {
                "the server waited too long for a request".to_owned()
            }
            outcome => return outcome,
        };
        tracing::debug!(why, "an idle connection gave no response; sending the request again");
        over_new(again).await
    }
}

/// The outcome of an attempt.
pub(crate) trait HasStatus {
    /// Returns the status of the response; `None` if the response was abandoned.
    fn status(&self) -> Option<StatusCode>;
}

impl<B> HasStatus for Response<B> {
    fn status(&self) -> Option<StatusCode> {
        Some(self.status())
    }
}

impl HasStatus for reqwest::Response {
    fn status(&self) -> Option<StatusCode> {
        Some(self.status())
    }
}

impl<A: HasStatus, E> HasStatus for Result<A, E> {
    fn status(&self) -> Option<StatusCode> {
        self.as_ref().ok().and_then(HasStatus::status)
    }
}

/// A request that can be sent.
pub(crate) trait Outgoing: Sized {
    /// Returns a copy to be sent again; `None` if the request may change something, or has a body.
    fn copy_if_repeatable(&self) -> Option<Self>;

    /// Returns the headers.
    fn headers_mut(&mut self) -> &mut HeaderMap;
}

impl Outgoing for reqwest::Request {
    fn copy_if_repeatable(&self) -> Option<Self> {
        if self.method().is_safe() && self.body().is_none() { self.try_clone() } else { None }
    }

    fn headers_mut(&mut self) -> &mut HeaderMap {
        self.headers_mut()
    }
}

impl Outgoing for Request {
    fn copy_if_repeatable(&self) -> Option<Self> {
        if !self.method().is_safe() || !self.body().is_end_stream() {
            return None;
        }
        let mut copy = Self::new(Body::empty());
        *copy.method_mut() = self.method().clone();
        *copy.uri_mut() = self.uri().clone();
        *copy.version_mut() = self.version();
        *copy.headers_mut() = self.headers().clone();
        *copy.extensions_mut() = self.extensions().clone();
        Some(copy)
    }

    fn headers_mut(&mut self) -> &mut HeaderMap {
        self.headers_mut()
    }
}
