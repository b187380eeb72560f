//! Keeps requests that were refused or found nothing, for operators.
//!
//! Writes are kept in one place: [`keeping_refused_writes`] wraps each handler of a table that may
//! write. The problem of a refused change has its faults.

use std::future::ready;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, Method, Uri};
use axum::response::IntoResponse;

use super::context::microversion;
use super::dialect::Placement;
use super::microversion::Microversion;
use super::problem::Problem;
use crate::http::api::dialect::{BoxedHandler, Context, Route};
use crate::http::api::refused::{Kind, RefusalFacts, RequestDetails};
use crate::http::app::App;
use crate::http::layers::request_id::GlobalRequestId;
use crate::http::operator::claim_faults::claim_faults;
use crate::search;
use crate::world::World;

/// A request to be kept if it is refused.
#[derive(Clone, Debug)]
pub(super) struct KeptRequest {
    context: Arc<Context<Placement>>,
    global_request_id: Option<GlobalRequestId>,
    uri: Uri,
    microversion: Microversion,
}

/// The body of a request, once it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadBody(Arc<OnceLock<Bytes>>);

impl ReadBody {
    /// Records the body of a request that is kept if it is refused.
    pub(super) fn note(extensions: &Extensions, body: &Bytes) {
        if let Some(Self(place)) = extensions.get() {
            place.get_or_init(|| body.clone());
        }
    }
}

/// A candidate query without a result.
pub(in crate::http) struct EmptyResult {
    pub(super) world: Arc<World>,
    pub(super) request: search::Request,
}

impl<S: Sync> FromRequestParts<S> for KeptRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Self::of(&parts.extensions, &parts.uri)
    }
}

impl KeptRequest {
    fn of(extensions: &Extensions, uri: &Uri) -> Result<Self, Problem> {
        let context = extensions.get::<Arc<Context<Placement>>>().cloned();
        let missing = || Problem::internal("a request has no context");
        let global_request_id = extensions.get().cloned();
        let (uri, microversion) = (uri.clone(), microversion(extensions)?);
        Ok(Self { context: context.ok_or_else(missing)?, global_request_id, uri, microversion })
    }

    /// Keeps a candidate query without a result.
    pub(super) fn keep_empty_result(&self, app: &App, empty: EmptyResult) {
        if app.refused.is_on() {
            let details = self.details(app, Kind::Candidates, None, &[]);
            app.refused.keep_query(&details, empty.world, empty.request);
        }
    }

    /// Keeps a valid candidate query that was refused.
    pub(super) fn keep_refused_query(&self, app: &App, problem: &Problem) {
        if app.refused.is_on() {
            let details = self.details(app, Kind::Candidates, Some(problem), &[]);
            app.refused.keep(&details, RefusalFacts::Omitted("not_counted"));
        }
    }

    /// Keeps a write that was refused. A problem without faults is not of the stored state.
    fn keep_refused_write(&self, app: &App, kind: Kind, body: &[u8], problem: &Problem) {
        let Some(faults) = &problem.faults else { return };
        let facts = if faults.count == 0 {
            RefusalFacts::Omitted("in_error")
        } else {
            // With the names that providers have in memory.
            RefusalFacts::of(&claim_faults(&app.store.known_world(), faults))
        };
        app.refused.keep(&self.details(app, kind, Some(problem), body), facts);
    }

    fn details<'r>(
        &'r self,
        app: &App,
        kind: Kind,
        problem: Option<&'r Problem>,
        body: &'r [u8],
    ) -> RequestDetails<'r> {
        let caller = self.context.caller();
        let path = self.uri.path_and_query().map_or_else(|| self.uri.path(), |it| it.as_str());
        RequestDetails {
            request_id: &self.context.request_id,
            global_request_id: self.global_request_id.as_ref().map(|id| id.0.as_str()),
            at: app.now(),
            kind,
            method: &self.context.method,
            path,
            microversion: self.microversion.to_string(),
            project: caller.and_then(|caller| caller.project.as_deref()),
            user: caller.and_then(|caller| caller.user.as_deref()),
            status: problem.map_or(200, |problem| problem.status.as_u16()),
            error: problem.map(|problem| problem.detail.as_str()),
            body,
        }
    }
}

/// Wraps the handlers of a route, so that writes that conflict with the stored state are kept.
/// Invalid and unauthorized requests are not kept.
pub(super) fn keeping_refused_writes(route: Route<Placement>) -> Route<Placement> {
    let path = route.path;
    route.map_handlers(|method, handler| match Kind::of_write(path) {
        Some(kind) if method != Method::GET => keeping(kind, handler),
        Some(_) | None => handler,
    })
}

fn keeping(kind: Kind, handler: BoxedHandler) -> BoxedHandler {
    Box::new(move |mut request: Request, app| {
        if !app.refused.is_on() {
            return handler(request, app);
        }
        let kept = match KeptRequest::of(request.extensions(), request.uri()) {
            Ok(kept) => kept,
            Err(problem) => return Box::pin(ready(problem.into_response())),
        };
        let body = ReadBody::default();
        request.extensions_mut().insert(body.clone());
        let response = handler(request, Arc::clone(&app));
        Box::pin(async move {
            let response = response.await;
            if let Some(problem) = response.extensions().get::<Problem>() {
                let body = body.0.get().map_or(&[][..], |body| body);
                kept.keep_refused_write(&app, kind, body, problem);
            }
            response
        })
    })
}
