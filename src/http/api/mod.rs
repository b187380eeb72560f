//! Shared parts of the APIs: a table of [routes] as an axum router, the layers around it, extractors
//! ([`extract`]) and responses ([`reply`], [`problem`]). [`Dialect`] is what differs between them.

pub(super) mod dialect;
pub(super) mod extract;
pub(super) mod in_turn;
pub(super) mod intake;
pub(super) mod json;
pub(super) mod large_responses;
pub(super) mod operation;
pub(super) mod path;
pub(super) mod problem;
pub(super) mod python;
pub(super) mod query;
pub(crate) mod refused;
pub(super) mod reply;
pub(super) mod routes;
pub(super) mod status;
pub(crate) mod streamed;
pub(super) mod text;

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures_util::future::Either;
use metrics::counter;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use self::dialect::{Context, Dialect, Problem, Route, context};
use self::path::UndecodablePath;
use self::routes::Routed;
use super::app::App;
use super::layers::response_info::{RequestInfo, ResponseCaller};
use super::layers::service::{HttpService, boxed};
use crate::http::layers::around::{Before, around};
use crate::http::layers::panics;
use crate::store::effects::Recorder;

/// Creates the service of an API: a router of its table, with the layers in front of it.
///
/// The layers check a request in the reference's order, because the order decides which of several
/// errors a client sees: the length of the URI, the caller, `--max-requests`, the API's checks of
/// every request, the path. [`Dialect::choose`] makes the checks of a route. Routes in `open`, such
/// as the root, by which clients find out whether the server is up, need no token and do not count
/// towards `--max-requests`.
pub(super) fn service<D: Dialect>(
    app: &Arc<App>,
    open: impl IntoIterator<Item = Route<D>>,
    table: impl IntoIterator<Item = Route<D>>,
) -> HttpService {
    let open_routes: Vec<Route<D>> = open.into_iter().collect();
    let open_paths: Arc<[&str]> = open_routes.iter().map(|route| route.path).collect();
    let router =
        open_routes.into_iter().chain(table).fold(Router::new(), |router, Route { path, rows }| {
            router.route_service(path, Routed::new(app, path, rows))
        });
    let router = router.fallback(async || Problem::<D>::not_found(""));
    let open = around(understand::<D>).layer(router);
    let limited = ServiceBuilder::new()
        .load_shed()
        .layer(GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&app.requests)))
        .service(open.clone());
    let questions = {
        let app = Arc::clone(app);
        service_fn(move |request: Request| {
            if open_paths.contains(&request.uri().path()) {
                return Either::Left(open.clone().oneshot(request));
            }
            // Boxed, because the outer layers move the future.
            let (app, limited) = (Arc::clone(&app), limited.clone());
            Either::Right(Box::pin(identified::<D, _>(app, limited, request)))
        })
    };
    let prefix: Arc<str> = D::prefix(&app.options).trim_end_matches('/').into();
    let service = ServiceBuilder::new()
        .layer(around(respond::<D>(app)))
        .map_response(boxed)
        .layer(panics::catch(Problem::<D>::internal))
        .map_request(move |request| path::normalized(&prefix, D::IGNORES_LAST_SLASH, request))
        .service(questions);
    HttpService::new(service)
}

/// Writes problems in the form of the API, and adds the headers of every response.
fn respond<D: Dialect>(app: &Arc<App>) -> impl Fn(&mut Request) -> Before + Clone + use<D> {
    let (options, large_responses) = (Arc::clone(&app.options), Arc::clone(&app.large_responses));
    move |request| {
        let context = Arc::new(Context::<D>::of(request));
        request.extensions_mut().insert(Arc::clone(&context));
        let large_responses = Arc::clone(&large_responses);
        let then = move |response| {
            // The result of a write is always sent, however little room there is.
            let may_be_refused = context.method.is_safe();
            let admitted = large_responses.admit(written(response, &context), may_be_refused);
            admitted.unwrap_or_else(|refusal| {
                written(Problem::<D>::from(refusal).into_response(), &context)
            })
        };
        match intake::check_uri(request.uri(), &options) {
            Ok(()) => Ok(Box::new(then)),
            Err(error) => Err(Box::new(then(Problem::<D>::from(error).into_response()))),
        }
    }
}

fn written<D: Dialect>(mut response: Response, context: &Context<D>) -> Response {
    let mut cause = None;
    if let Some(problem) = response.extensions_mut().remove::<Problem<D>>() {
        cause.clone_from(&problem.cause);
        response = D::render(problem, context);
    }
    D::describe(context, response.headers_mut());
    let caller = context.caller();
    if let Some(caller) = caller {
        response.extensions_mut().insert(ResponseCaller(Arc::clone(caller)));
    }
    response.extensions_mut().insert(RequestInfo {
        version: D::version(context),
        user: caller.and_then(|caller| caller.user.clone()),
        project: caller.and_then(|caller| caller.project.clone()),
        route: context.route.get().copied(),
        cause,
    });
    response
}

/// Authenticates the caller, then calls `inner`, which takes one of `--max-requests`:
/// unauthenticated requests do not count. The only error of `inner` is that none is left.
async fn identified<D, S>(app: Arc<App>, inner: S, request: Request) -> Result<Response, Infallible>
where
    D: Dialect,
    S: Service<Request, Response = Response, Error = BoxError>,
{
    let (mut parts, body) = request.into_parts();
    if let Err(problem) = identify::<D>(&app, &mut parts).await {
        return Ok(problem.into_response());
    }
    let response = inner.oneshot(Request::from_parts(parts, body)).await;
    let busy = |_| {
        counter!("berth_requests_shed_total", "api" => D::NAME).increment(1);
        Problem::<D>::from(intake::busy(&app.options)).into_response()
    };
    Ok(response.unwrap_or_else(busy))
}

async fn identify<D: Dialect>(app: &App, request: &mut Parts) -> Result<(), Problem<D>> {
    let prefix = path::prefix(&request.extensions);
    let path = request.uri.path();
    let path = if prefix.is_empty() { Cow::from(path) } else { format!("{prefix}{path}").into() };
    let caller = app.identity.caller(request, &path).await?;
    let caller = D::caller(app, caller, request);
    if let Some(recorder) = request.extensions.get_mut::<Recorder>() {
        recorder.sent_by(caller.user.clone(), caller.project.clone());
    }
    let checked = app.rate_limits.check(caller.project.as_ref(), caller.user.as_ref());
    context::<D>(&request.extensions)?.caller.get_or_init(|| caller);
    Ok(checked?)
}

/// Makes the checks of every request, and rejects paths that cannot be decoded.
fn understand<D: Dialect>(request: &mut Request) -> Before {
    let understood = || {
        D::understand(context(request.extensions())?, request)?;
        match request.extensions().get::<UndecodablePath>() {
            Some(UndecodablePath(why)) => Err(Problem::bad_request(why)),
            // No route has an empty segment.
            None if request.uri().path().contains("//") => Err(Problem::not_found("")),
            None => Ok(()),
        }
    };
    match understood() {
        Ok(()) => Ok(Box::new(|response| response)),
        Err(problem) => Err(Box::new(Problem::<D>::into_response(problem))),
    }
}

/// Responds 503 while the database is not open.
pub(super) fn refuse<D: Dialect>(request: &Request, why: &str) -> Response {
    let context = Context::<D>::of(request);
    // Errors of the request are reported once the server is ready.
    drop(D::understand(&context, request));
    written(Problem::<D>::not_now(why).into_response(), &context)
}
