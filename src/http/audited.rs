//! A layer that keeps the [audit log](crate::audit): it begins an entry for each request that may change
//! something, has the store record there what it changes, and notes the answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use futures_util::future::{BoxFuture, Either};
use tower::{Layer, Service};

use super::Api;
use super::connection;
use super::middleware::{GlobalRequestId, request_id};
use super::proxy::Remote;
use crate::audit::{self, AuditLog, Entry};
use crate::policy::Caller;
use crate::store::effects::Recorder;

/// The longest path that is written, in bytes.
const PATH_MAX: usize = 2048;

/// Who has sent a request: an extension of its answer.
#[derive(Clone, Debug)]
pub(super) struct SentBy(pub(super) Arc<Caller>);

/// The layer.
#[derive(Clone, Debug)]
pub(super) struct AuditLayer(pub(super) AuditLog);

impl<S> Layer<S> for AuditLayer {
    type Service = Audited<S>;

    fn layer(&self, inner: S) -> Audited<S> {
        Audited { log: self.0.clone(), inner }
    }
}

/// The service of the layer.
#[derive(Clone, Debug)]
pub(super) struct Audited<S> {
    log: AuditLog,
    inner: S,
}

impl<S> Service<Request> for Audited<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
            return Either::Left(self.inner.call(request));
        }
        let entry = self.log.begin(facts(&request));
        let recorder = Recorder::new(Arc::<Entry>::clone(&entry));
        let answered = self.inner.call(request);
        Either::Right(Box::pin(async move {
            let Ok(response) = recorder.during(answered).await;
            let caller = response.extensions().get::<SentBy>();
            let caller = caller.map(|SentBy(caller)| Arc::clone(caller));
            entry.answer(audit::Answer { status: response.status().as_u16(), caller });
            Ok(response)
        }))
    }
}

fn facts(request: &Request) -> audit::Request {
    let extensions = request.extensions();
    let mut path = request.uri().path().to_owned();
    path.truncate(path.floor_char_boundary(PATH_MAX));
    audit::Request {
        request_id: request_id(extensions).to_owned(),
        global_request_id: extensions.get::<GlobalRequestId>().map(|id| id.0.clone()),
        remote: extensions.get::<Remote>().map_or_else(String::new, Remote::to_string),
        api: match connection(extensions).api {
            Api::Placement => "placement",
            Api::Planner => "planner",
        },
        method: request.method().to_string(),
        path,
    }
}
