//! `/allocations`, `/allocations/{consumer}` and `/resource_providers/{uuid}/allocations`.

pub(super) mod request;
mod response;

use uuid::Uuid;

use self::request::{ByProvider, List, REPLACE_BODY, REPLACE_MANY_BODY, Wanted};
use self::response::{OfConsumer, OfProvider};
use super::body::Ordered;
use super::call::{Call, no_provider};
use super::microversion::ALLOCATIONS_BY_PROVIDER;
use super::problem::{Code, Problem};
use super::reply::Reply;
use super::spelling::{any_uuid, dashed_uuid};
use crate::model::Refusal;
use crate::store::Error;

/// `GET /allocations/{consumer}`: of a consumer that nobody knows, nothing.
pub(super) async fn show(call: Call) -> Result<Reply, Problem> {
    let held = match dashed_uuid(call.part("consumer")) {
        Some(consumer) => call.app.store.consumer_allocations(consumer).await?,
        None => None,
    };
    Ok(match &held {
        Some(held) => Reply::json(&OfConsumer::of(held, call.asked)).modified(held.updated_at),
        None => Reply::json(&OfConsumer::default()).modified(call.now()),
    })
}

/// `PUT /allocations/{consumer}`
pub(super) async fn replace(call: Call) -> Result<Reply, Problem> {
    let text = call.part("consumer");
    let consumer = any_uuid(text).ok_or_else(|| request::malformed_consumer(text))?;
    let schema = REPLACE_BODY.at(call.asked);
    let wanted: Wanted<ByProvider> = if call.asked.has(ALLOCATIONS_BY_PROVIDER) {
        call.body.parse(schema)?
    } else {
        call.body.parse::<Wanted<List>>(schema)?.into()
    };
    let claims = vec![wanted.into_claim(consumer, call.asked, &call.app.options)?];
    let committed = call.app.store.replace_allocations(claims).await;
    committed.map_err(|error| refused(error, Some(consumer)))?;
    Ok(Reply::no_content())
}

/// `POST /allocations`
pub(super) async fn replace_many(call: Call) -> Result<Reply, Problem> {
    let wanted: Ordered<Wanted<ByProvider>> = call.body.parse(REPLACE_MANY_BODY.at(call.asked))?;
    let claims = request::claims(wanted, call.asked, &call.app.options)?;
    let committed = call.app.store.replace_allocations(claims).await;
    committed.map_err(|error| refused(error, None))?;
    Ok(Reply::no_content())
}

/// `DELETE /allocations/{consumer}`
pub(super) async fn delete(call: Call) -> Result<Reply, Problem> {
    let text = call.part("consumer");
    let nothing = || Problem::not_found(Refusal::NoAllocations(text.to_owned()).to_string());
    let consumer = dashed_uuid(text).ok_or_else(nothing)?;
    let committed = call.app.store.delete_allocations(consumer).await;
    committed.map_err(|error| match error {
        Error::Refused(Refusal::NoAllocations(_)) => nothing(),
        other => other.into(),
    })?;
    Ok(Reply::no_content())
}

/// `GET /resource_providers/{uuid}/allocations`
pub(super) async fn list_of_provider(call: Call) -> Result<Reply, Problem> {
    let world = call.app.store.world().await?;
    let (id, generation) = {
        let text = call.part("uuid");
        let provider = call.provider(&world).map_err(|_| {
            Problem::not_found(format!(
                "Resource provider '{text}' not found: {}",
                no_provider(text)
            ))
        })?;
        // Older than what is held, so that a client that writes under it cannot miss a change.
        (provider.id(), provider.generation())
    };
    let (held, modified) = call.app.store.provider_allocations(id).await?;
    let view = OfProvider::of(&held, generation, call.asked);
    Ok(Reply::json(&view).modified(modified.unwrap_or(call.now())))
}

/// What a refused claim is told; `consumer` if the request was about one only.
fn refused(error: Error, consumer: Option<Uuid>) -> Problem {
    match error {
        Error::Refused(why @ Refusal::ClassNotFound(_)) => Problem::bad_request(match consumer {
            Some(consumer) => {
                format!("Unable to allocate inventory for consumer {consumer}: {why}")
            }
            None => format!("Unable to allocate inventory {why}"),
        }),
        Error::Refused(why) => claim_refused(why),
        other => other.into(),
    }
}

/// What a refused claim is told, wherever it was made.
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
        other => Error::Refused(other).into(),
    }
}
