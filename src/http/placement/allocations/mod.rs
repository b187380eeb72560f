//! `/allocations`, `/allocations/{consumer}` and `/resource_providers/{uuid}/allocations`.

pub(super) mod request;
mod response;

use std::sync::Arc;

use axum::extract::State;
use uuid::Uuid;

use self::request::{AllocationsBody, ByProvider, List, REPLACE_BODY, REPLACE_MANY_BODY};
pub(super) use self::response::{OfConsumer, OfProvider};
use super::body::Body;
use super::extract::{ConsumerPath, ProviderPath};
use super::microversion::{ALLOCATIONS_BY_PROVIDER, Microversion};
use super::problem::{Code, Problem, RefusedAs as _};
use super::spelling::{any_uuid, consumer_uuid};
use crate::http::api::extract::Changing;
use crate::http::api::json::Ordered;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::model::Refusal;
use crate::store::ConsumerClaim;

/// `GET /allocations/{consumer}`: the allocations of the consumer by provider; empty if it does not
/// exist.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    microversion: Microversion,
    ConsumerPath(consumer): ConsumerPath,
) -> Result<Reply, Problem> {
    let held = match consumer_uuid(&consumer) {
        Some(consumer) => app.store.consumer_allocations(consumer).await?,
        None => None,
    };
    Ok(match &held {
        Some(held) => Reply::json(&OfConsumer::of(held, microversion)).modified(held.updated_at),
        None => Reply::json(&OfConsumer::default()).modified(app.now()),
    })
}

/// `PUT /allocations/{consumer}`: replaces the allocations of the consumer. From 1.28 the
/// generation of the consumer is compared. Every amount must fit the inventory (unit, step,
/// capacity); the consumer's current allocations count as free. Increments the generations of the
/// consumer and of all providers with old or new allocations.
pub(super) async fn replace(
    Changing { changes, .. }: Changing,
    microversion: Microversion,
    ConsumerPath(consumer): ConsumerPath,
    body: Body,
) -> Result<Reply, Problem> {
    let claims = claims_of(&body, Some(&consumer), microversion)?;
    let named = claims.first().map(|claim| claim.consumer);
    changes.replace_allocations(claims).await.refused_as(|why| refused(why, named))?;
    Ok(Reply::no_content())
}

/// `POST /allocations`: the same for several consumers in one transaction: all claims are accepted,
/// or none.
pub(super) async fn replace_many(
    Changing { changes, .. }: Changing,
    microversion: Microversion,
    body: Body,
) -> Result<Reply, Problem> {
    let claims = claims_of(&body, None, microversion)?;
    changes.replace_allocations(claims).await.refused_as(|why| refused(why, None))?;
    Ok(Reply::no_content())
}

/// Parses the claims in a body of `PUT /allocations/{consumer}` or, without a consumer, of `POST
/// /allocations`.
pub(in crate::http) fn claims_of(
    body: &Body,
    consumer: Option<&str>,
    microversion: Microversion,
) -> Result<Vec<ConsumerClaim>, Problem> {
    let Some(text) = consumer else {
        let body: Ordered<AllocationsBody<ByProvider>> =
            body.parse(REPLACE_MANY_BODY.at(microversion))?;
        return request::claims(body, microversion);
    };
    let consumer = any_uuid(text).ok_or_else(|| request::malformed_consumer(text))?;
    let schema = REPLACE_BODY.at(microversion);
    let body: AllocationsBody<ByProvider> = if microversion.has(ALLOCATIONS_BY_PROVIDER) {
        body.parse(schema)?
    } else {
        body.parse::<AllocationsBody<List>>(schema)?.into()
    };
    Ok(vec![body.into_claim(consumer, microversion)?])
}

/// `DELETE /allocations/{consumer}`: deletes the allocations of the consumer, without comparing its
/// generation, and the consumer.
pub(super) async fn delete(
    Changing { changes, .. }: Changing,
    ConsumerPath(consumer): ConsumerPath,
) -> Result<Reply, Problem> {
    let text = consumer.as_str();
    let nothing = || Problem::not_found(Refusal::NoAllocations(text.to_owned()).to_string());
    let consumer = consumer_uuid(text).ok_or_else(nothing)?;
    let committed = changes.delete_allocations(consumer).await;
    committed.refused_as(|why| match why {
        Refusal::NoAllocations(_) => nothing(),
        other => other.into(),
    })?;
    Ok(Reply::no_content())
}

/// `GET /resource_providers/{uuid}/allocations`: the allocations on the provider, by consumer.
pub(super) async fn list_of_provider(
    State(app): State<Arc<App>>,
    microversion: Microversion,
    path: ProviderPath,
) -> Result<Reply, Problem> {
    let not_found = |missing: &str| format!("Resource provider '{}' not found: {missing}", path.0);
    let uuid = path.uuid().ok_or_else(|| path.not_found(not_found))?;
    // The generation is not newer than the allocations, so a client that writes with it cannot miss a change.
    let (world, held) = app.store.provider_allocations(uuid).await?;
    let generation = path.provider_or(&world, not_found)?.generation();
    let view = OfProvider::of(&held.consumers, generation, microversion);
    Ok(Reply::json(&view).modified(held.updated_at.unwrap_or(app.now())))
}

/// Returns the problem of a refused claim; `consumer` if the request was for a single one.
pub(in crate::http) fn refused(why: Refusal, consumer: Option<Uuid>) -> Problem {
    match why {
        Refusal::ClassNotFound(_) => Problem::bad_request(match consumer {
            Some(consumer) => {
                format!("Unable to allocate inventory for consumer {consumer}: {why}")
            }
            None => format!("Unable to allocate inventory {why}"),
        }),
        other => claim_refused(other),
    }
}

/// Returns the problem of a refused claim, whatever the request.
pub(super) fn claim_refused(why: Refusal) -> Problem {
    match why {
        Refusal::AllocationProviderNotFound(_) => Problem::bad_request(why.to_string()),
        Refusal::ConsumerGeneration { .. } => {
            Problem::conflict(why.to_string()).code(Code::ConcurrentUpdate)
        }
        Refusal::InvalidInventory { .. }
        | Refusal::CapacityExceeded { .. }
        | Refusal::ConstraintsViolated { .. }
        | Refusal::Exclusive { .. } => {
            Problem::conflict(format!("Unable to allocate inventory: {why}"))
        }
        Refusal::ProviderGeneration { .. } => Problem::conflict(format!(
            "Inventory and/or allocations changed while attempting to allocate: {why}"
        ))
        .code(Code::ConcurrentUpdate),
        other => other.into(),
    }
}
