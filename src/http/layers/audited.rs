//! A layer for requests that may change something. It starts an entry of the [audit
//! log](crate::audit), in which the store records its changes, and adds the response. It also
//! passes the caller to the store, for the [history](crate::store::history) of changes.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::http::{Extensions, Method};
use axum::response::Response;
use futures_util::future::{BoxFuture, Either};
use tower::{Layer, Service};

use crate::audit::{self, AuditLog, Entry};
use crate::http::connection::{Api, connection};
use crate::http::layers::proxy::Remote;
use crate::http::layers::request_id::{GlobalRequestId, request_id};
use crate::http::layers::response_info::ResponseCaller;
use crate::store::effects::{Origin, Record, Recorder};

/// Maximum length of a recorded path, in bytes.
const PATH_MAX: usize = 2048;

#[derive(Clone, Debug)]
pub(in crate::http) struct AuditLayer {
    log: Option<AuditLog>,
}

impl AuditLayer {
    /// Creates the layer, if changes are recorded anywhere.
    pub(in crate::http) fn of(log: Option<AuditLog>, has_history: bool) -> Option<Self> {
        (log.is_some() || has_history).then_some(Self { log })
    }
}

impl<S> Layer<S> for AuditLayer {
    type Service = Audited<S>;

    fn layer(&self, inner: S) -> Audited<S> {
        Audited { log: self.log.clone(), inner }
    }
}

/// The service of [`AuditLayer`].
#[derive(Clone, Debug)]
pub(in crate::http) struct Audited<S> {
    log: Option<AuditLog>,
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

    fn call(&mut self, mut request: Request) -> Self::Future {
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
            return Either::Left(self.inner.call(request));
        }
        let entry = self.log.as_ref().map(|log| log.start_entry(facts(&request)));
        let record = entry.clone().map(|entry: Arc<Entry>| entry as Arc<dyn Record>);
        let recorder = Recorder::new(record, origin(request.extensions()));
        request.extensions_mut().insert(recorder);
        let response = self.inner.call(request);
        let Some(entry) = entry else { return Either::Left(response) };
        Either::Right(Box::pin(async move {
            let Ok(response) = response.await;
            let caller = response.extensions().get::<ResponseCaller>();
            let caller = caller.map(|ResponseCaller(caller)| Arc::clone(caller));
            entry.record_response(audit::AuditedResponse {
                status: response.status().as_u16(),
                caller,
            });
            Ok(response)
        }))
    }
}

fn origin(extensions: &Extensions) -> Origin {
    let global_request_id = extensions.get::<GlobalRequestId>().map(|id| id.0.clone());
    Origin::new(request_id(extensions).to_owned(), global_request_id)
}

fn facts(request: &Request) -> audit::AuditedRequest {
    let extensions = request.extensions();
    let mut path = request.uri().path().to_owned();
    path.truncate(path.floor_char_boundary(PATH_MAX));
    audit::AuditedRequest {
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
