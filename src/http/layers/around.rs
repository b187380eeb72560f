//! A layer of one function that inspects requests on their way in and responses on their way out.
//!
//! axum's `from_fn` is more general: its functions decide when to call the inner service. For that
//! it clones and boxes the inner service for each request at each layer, which is most of the cost
//! of a small request. Here the inner service is called in place.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::extract::Request;
use axum::response::Response;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

/// Applied to the response.
pub(in crate::http) type Then = Box<dyn FnOnce(Response) -> Response + Send>;

/// Outcome of inspecting a request: a function for its response, or a response that skips the inner
/// service.
pub(in crate::http) type Before = Result<Then, Box<Response>>;

/// Makes a layer of a function that inspects, and may change, a request.
pub(in crate::http) fn around<F>(before: F) -> Around<F>
where
    F: Fn(&mut Request) -> Before + Clone,
{
    Around(before)
}

/// The layer of [`around`].
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Around<F>(F);

impl<F: Clone, S> Layer<S> for Around<F> {
    type Service = AroundService<F, S>;

    fn layer(&self, inner: S) -> Self::Service {
        AroundService { before: self.0.clone(), inner }
    }
}

/// The service of [`Around`].
#[derive(Clone, Debug)]
pub(in crate::http) struct AroundService<F, S> {
    before: F,
    inner: S,
}

impl<F, S> Service<Request> for AroundService<F, S>
where
    F: Fn(&mut Request) -> Before,
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = AroundFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        match (self.before)(&mut request) {
            Ok(then) => {
                AroundFuture::Pending { response: self.inner.call(request), then: Some(then) }
            }
            Err(response) => AroundFuture::Ready { response: Some(response) },
        }
    }
}

pin_project! {
    /// The future of the response.
    #[project = Project]
    pub(in crate::http) enum AroundFuture<F> {
        Pending {
            #[pin]
            response: F,
            then: Option<Then>,
        },
        Ready { response: Option<Box<Response>> },
    }
}

impl<F> Future for AroundFuture<F>
where
    F: Future<Output = Result<Response, Infallible>>,
{
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let response = match self.project() {
            Project::Pending { response, then } => {
                let Ok(response) = ready!(response.poll(context));
                then.take().map(|then| then(response))
            }
            Project::Ready { response } => response.take().map(|response| *response),
        };
        // A completed future is not polled again.
        response.map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
    }
}
