//! A layer of one function, which looks at requests on their way in and at answers on their way out.
//!
//! axum's `from_fn` does the same, and more: its functions decide themselves when the rest answers. For
//! that it clones and boxes the rest for each request, at each layer, which is most of what a small
//! request costs. Here the rest is asked at once, where it stands.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::extract::Request;
use axum::response::Response;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

/// What is to be done with the answer.
pub(in crate::http) type Then = Box<dyn FnOnce(Response) -> Response + Send>;

/// What came of looking at a request: what is to be done with its answer, or the answer, if nobody else
/// is to be asked.
pub(in crate::http) type Before = Result<Then, Box<Response>>;

/// A layer of a function that looks at a request, and may change it.
pub(in crate::http) fn around<F>(before: F) -> Around<F>
where
    F: Fn(&mut Request) -> Before + Clone,
{
    Around(before)
}

/// The layer.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Around<F>(F);

impl<F: Clone, S> Layer<S> for Around<F> {
    type Service = AroundService<F, S>;

    fn layer(&self, inner: S) -> Self::Service {
        AroundService { before: self.0.clone(), inner }
    }
}

/// The service of the layer.
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
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        match (self.before)(&mut request) {
            Ok(then) => Answering::Asked { asked: self.inner.call(request), then: Some(then) },
            Err(response) => Answering::Known { response: Some(response) },
        }
    }
}

pin_project! {
    /// The answer to come.
    #[project = Project]
    pub(in crate::http) enum Answering<F> {
        Asked {
            #[pin]
            asked: F,
            then: Option<Then>,
        },
        Known { response: Option<Box<Response>> },
    }
}

impl<F> Future for Answering<F>
where
    F: Future<Output = Result<Response, Infallible>>,
{
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = match self.project() {
            Project::Asked { asked, then } => {
                let Ok(response) = ready!(asked.poll(context));
                then.take().map(|then| then(response))
            }
            Project::Known { response } => response.take().map(|response| *response),
        };
        // Nobody polls a future once more that is ready.
        answered.map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
    }
}
