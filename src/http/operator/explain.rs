//! `/-/v1/explain`: explains the result of a candidate query.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};

use super::context::{Problem, RequestCaller, microversion};
use super::costly::{self, WORK_MAX};
use super::explanation::explained;
use super::views::Explanation;
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::placement::allocation_candidates::{keep_out, request, unknown};
use crate::http::placement::microversion::Microversion;
use crate::http::placement::query::Query;
use crate::search::explain::{Unexplained, explain};
use crate::search::{Request, budget, searched};
use crate::world::World;

/// The parameter for the number of near misses.
const NEAR_MISSES: &str = "near_misses";
/// Default and maximum number of near misses in a response.
const NEAR_MISSES_NAMED: usize = 10;
const NEAR_MISSES_MAX: usize = 1000;
/// The parameters besides those of the candidates.
pub(super) const OWN_QUERY: [Parameter; 1] = [Parameter::new(
    NEAR_MISSES,
    ParameterKind::Number(0, Some(NEAR_MISSES_MAX)),
    "Maximum number of near misses.",
)];

/// `GET /-/v1/explain`: takes the query of `GET /allocation_candidates`, at the microversion of the
/// header `OpenStack-API-Version`, or at the latest.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Reply, Problem> {
    let version = microversion(&headers)?;
    let query = Query::parse(uri.query().unwrap_or_default())?;
    let near_misses = query.number(NEAR_MISSES, NEAR_MISSES_NAMED, 0..=NEAR_MISSES_MAX)?;
    let (request, world) = prepared(&app, &query.without(NEAR_MISSES), version).await?;
    let work = move || explanation_of(&world, &request, near_misses).map(|view| Reply::json(&view));
    costly::run(&app, caller.requester(), work).await?
}

/// Returns the request of a query without the hosts that are kept for others, and the current world.
///
/// # Errors
/// The query is invalid, or the database is unavailable.
pub(in crate::http) async fn prepared(
    app: &App,
    query: &Query,
    version: Microversion,
) -> Result<(Request, Arc<World>), Problem> {
    let mut request = request(query, version, &app.options)?;
    let world = app.store.world().await?;
    if !app.store.report_only() {
        keep_out(&mut request, &world);
    }
    Ok((request, world))
}

/// Explains a request, on a thread for long work.
///
/// # Errors
/// The request names something unknown, or has too many conditions.
pub(in crate::http) fn explanation_of(
    world: &Arc<World>,
    request: &Request,
    near_misses: usize,
) -> Result<Explanation, Problem> {
    let world = searched(Arc::clone(world), request);
    let explanation = explain(&world, request, near_misses, budget(WORK_MAX));
    explanation.map(|explanation| explained(&explanation)).map_err(|error| match error {
        Unexplained::Unknown(name) => Problem::from(unknown(name)),
        Unexplained::TooManyConditions(_) => Problem::bad_request(format!("{error}.")),
    })
}
