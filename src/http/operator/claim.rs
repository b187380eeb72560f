//! `POST /-/v1/explain`: tests a claim. Also converts the faults of claims and other changes into
//! views.

use std::sync::Arc;

use axum::extract::{Request, State};
use uuid::Uuid;

use super::claim_faults::claim_faults;
use super::context::{Problem, RequestCaller, microversion};
use super::costly;
use super::refused::rfc_3339;
use super::requests::only_known;
use super::views::claim::{ClaimExplanation, ClaimRefusal, ClaimedInventory, EndedHold, Holder};
use crate::http::api::in_turn::work_in;
use crate::http::api::intake;
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::placement::allocations::{claims_of, refused};
use crate::http::placement::body::Body;
use crate::http::placement::query::Query;
use crate::model::Refusal;
use crate::store::claim_check;
use crate::world::World;

/// Default and maximum number of holders of an inventory in a response.
const HOLDERS: u32 = 10;
const HOLDERS_MAX: u32 = 1000;
/// The parameters of the query.
pub(super) const QUERY: [Parameter; 2] = [
    Parameter::new(
        "consumer",
        ParameterKind::Text,
        "The consumer, if the body is that of `PUT /allocations/{consumer}`.",
    ),
    Parameter::new(
        "holders",
        ParameterKind::Number(1, Some(HOLDERS_MAX as usize)),
        "Maximum number of consumers listed for an inventory.",
    ),
];

/// `POST /-/v1/explain`: takes the body of `PUT /allocations/{consumer}` with the parameter
/// `consumer`, or that of `POST /allocations`, and returns whether it would be refused. Writes
/// nothing.
pub(super) async fn explain(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    request: Request,
) -> Result<Reply, Problem> {
    let (parts, body) = request.into_parts();
    let version = microversion(&parts.headers)?;
    let query = Query::parse(parts.uri.query().map_or("", |query| query))?;
    only_known(&query, &QUERY)?;
    let holders = query.number("holders", HOLDERS, 1..=HOLDERS_MAX)?;
    let body = Body(intake::read(body, &app.options).await?);
    let consumer = query.once("consumer")?;
    let claims = claims_of(&body, consumer, version)?;
    let named = claims.first().map(|claim| claim.consumer).filter(|_| consumer.is_some());
    let turn = costly::turn(&app, caller.requester()).await?;
    let checked = app.store.check_claims(&claims, holders).await?;
    let world = app.store.known_world();
    let write = move || {
        let refusal = checked.refusal.map(|refusal| claim_refusal(refusal, named));
        let inventories = checked.inventories.iter().map(|it| claimed_inventory(&world, it));
        Reply::json(&ClaimExplanation {
            allowed: refusal.is_none(),
            refusal,
            faults: claim_faults(&world, &checked.faults),
            inventories: inventories.collect(),
            inventories_count: checked.inventories_count,
            ended_holds: checked.ended_holds.iter().map(ended_hold).collect(),
        })
    };
    work_in(turn, write).await
}

/// Returns the response of the Placement API.
fn claim_refusal(refusal: Refusal, consumer: Option<Uuid>) -> ClaimRefusal {
    let problem = refused(refusal, consumer);
    ClaimRefusal { status: problem.status.as_u16(), detail: problem.detail }
}

fn ended_hold(it: &claim_check::EndedHold) -> EndedHold {
    EndedHold {
        consumer: it.consumer.to_string(),
        placement: it.placement.to_string(),
        ended_at: rfc_3339(it.ended_at),
    }
}

fn claimed_inventory(world: &World, it: &claim_check::ClaimedInventory) -> ClaimedInventory {
    let terms = &it.terms;
    let holder = |it: &claim_check::Holder| Holder {
        consumer: it.consumer.to_string(),
        amount: it.amount,
        generation: it.generation,
        consumer_type: it.consumer_type.clone(),
        project_id: it.project.clone(),
        user_id: it.user.clone(),
        since: rfc_3339(it.since),
    };
    ClaimedInventory {
        provider: it.provider.to_string(),
        name: world.provider(it.provider).map(|it| it.name().to_owned()),
        resource_class: it.class.clone(),
        wanted: it.wanted,
        given_back: it.given_back,
        used: it.used,
        capacity: terms.capacity(),
        total: terms.total,
        reserved: terms.reserved,
        allocation_ratio: terms.allocation_ratio,
        min_unit: terms.min_unit,
        max_unit: terms.max_unit,
        step_size: terms.step_size,
        holders_count: it.holders_count,
        holders: it.holders.iter().map(holder).collect(),
    }
}
