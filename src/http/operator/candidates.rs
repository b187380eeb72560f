//! `/-/v1/allocation_candidates`: allocation candidates in an order chosen by the request.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};

use super::context::{Problem, RequestCaller, microversion};
use super::requests::query_of;
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::api::reply::Reply;
use crate::http::app::{App, CandidateOrder};
use crate::http::placement::allocation_candidates::{order, request, respond};
use crate::http::placement::query::Query;
use crate::search::Ranking;
use crate::search::ranking::{Subject, Weight};
use crate::world::World;

/// The parameters of the order.
const ORDER: &str = "order";
const WEIGHT: &str = "weight";
/// Maximum number of weights in a request.
const WEIGHTS_MAX: usize = 32;
/// The parameters besides those of the candidates.
pub(super) const OWN_QUERY: [Parameter; 2] = [
    Parameter::new(
        ORDER,
        ParameterKind::Word(&["none", "pack", "spread", "random", "weights"]),
        "The order of the candidates.",
    ),
    Parameter::new(
        WEIGHT,
        ParameterKind::Texts,
        "A class, trait or aggregate and its weight, for the order `weights`.",
    ),
];

/// `GET /-/v1/allocation_candidates`: takes the query of `GET /allocation_candidates`, with `order`
/// and `weight`, and returns its response.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Reply, Problem> {
    let version = microversion(&headers)?;
    let query = query_of(&uri)?;
    let chosen = chosen(&query)?;
    let query = query.without(ORDER).without(WEIGHT);
    let mut request = request(&query, version, &app.options)?;
    if let Some(chosen) = &chosen {
        check_names(chosen, &*app.store.world().await?)?;
        request.order = order(chosen);
    }
    let (reply, _) = respond(&app, version, &caller, &request).await?;
    Ok(reply)
}

/// Returns the order of the query; `None`: the server's default.
fn chosen(query: &Query) -> Result<Option<CandidateOrder>, Problem> {
    let weights: Vec<Weight> = query
        .all(WEIGHT)
        .map(|text| text.parse().map_err(|why| Problem::bad_request(format!("weight: {why}"))))
        .collect::<Result<_, _>>()?;
    if weights.len() > WEIGHTS_MAX {
        let detail =
            format!("weight can be given at most {WEIGHTS_MAX} times, not {}", weights.len());
        return Err(Problem::bad_request(detail));
    }
    let has_weights = !weights.is_empty();
    let chosen = match query.once(ORDER)? {
        Some("weights") if has_weights => {
            return Ok(Some(CandidateOrder::Ranked(Ranking::Weights(weights.into()))));
        }
        Some("weights") => {
            return Err(Problem::bad_request("order=weights needs weight".to_owned()));
        }
        None => None,
        Some("none") => Some(CandidateOrder::Stored),
        Some("random") => Some(CandidateOrder::Random),
        Some("pack") => Some(CandidateOrder::Ranked(Ranking::Pack)),
        Some("spread") => Some(CandidateOrder::Ranked(Ranking::Spread)),
        Some(other) => {
            return Err(Problem::bad_request(format!(
                "order must be none, pack, spread, random or weights, not {other}"
            )));
        }
    };
    if has_weights {
        return Err(Problem::bad_request("weight needs order=weights".to_owned()));
    }
    Ok(chosen)
}

/// Checks that the classes and traits of weights exist. Any UUID may be an aggregate.
fn check_names(chosen: &CandidateOrder, world: &World) -> Result<(), Problem> {
    let CandidateOrder::Ranked(Ranking::Weights(weights)) = chosen else { return Ok(()) };
    for Weight { subject, .. } in weights.iter() {
        let (kind, name) = match subject {
            Subject::Class(name) if world.class_id(name).is_none() => ("resource class", name),
            Subject::Trait(name) if world.trait_id(name).is_none() => ("trait", name),
            Subject::Class(_) | Subject::Trait(_) | Subject::Aggregate(_) => continue,
        };
        return Err(Problem::bad_request(format!("weight: there is no {kind} {name}")));
    }
    Ok(())
}
