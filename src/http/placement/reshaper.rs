//! `/reshaper`: inventories and allocations move together.

use std::sync::LazyLock;

use serde::Deserialize;

use super::allocations::{claim_refused, request};
use super::body::{Ordered, Whole};
use super::call::{Call, no_provider};
use super::inventories::{self, All};
use super::microversion::Ladder;
use super::names::UUID;
use super::problem::{Code, Problem};
use super::reply::Reply;
use super::schema::{Schema, map, object};
use super::spelling::dashed_uuid;
use crate::model::Refusal;
use crate::model::claim::Reshaping;
use crate::store::Error;
use crate::store::allocations::Reshape;

/// What `POST /reshaper` accepts.
static BODY: LazyLock<Ladder<Schema>> = LazyLock::new(|| {
    request::by_consumer(0).map(|allocations| {
        let by_provider = map().each(UUID, inventories::replace_body());
        object()
            .require("inventories", by_provider.with("minProperties", 1).closed())
            .require("allocations", allocations)
            .closed()
            .for_bodies()
    })
});

#[derive(Deserialize)]
struct Wanted {
    inventories: Ordered<All>,
    allocations: Ordered<request::Wanted<request::ByProvider>>,
}

/// `POST /reshaper`
pub(super) async fn reshape(call: Call) -> Result<Reply, Problem> {
    let wanted: Wanted = call.body.parse(BODY.at(call.asked))?;
    let mut inventories = Vec::with_capacity(wanted.inventories.0.len());
    for (text, all) in wanted.inventories.0 {
        let provider = dashed_uuid(&text).ok_or_else(|| not_found(&text))?;
        let Whole(seen) = all.resource_provider_generation;
        inventories.push(Reshaping { provider, seen, inventories: all.inventories() });
    }
    let claims = request::claims(wanted.allocations, call.asked, &call.app.options)?;
    let committed = call.app.store.commit(Reshape { inventories, claims }).await;
    committed.map_err(refused)?;
    Ok(Reply::no_content())
}

fn not_found(provider: &str) -> Problem {
    let why = no_provider(provider);
    let detail = format!("Resource provider {provider} in inventories not found: {why}");
    Problem::bad_request(detail).code(Code::ProviderNotFound)
}

fn refused(error: Error) -> Problem {
    match error {
        Error::Refused(Refusal::ProviderNotFound(provider)) => not_found(&provider.to_string()),
        Error::Refused(Refusal::ProviderGeneration { provider, actual, given }) => {
            let detail = format!(
                "resource provider generation conflict for provider {provider}: actual: {actual}, \
                 given: {given}"
            );
            Problem::conflict(detail).code(Code::ConcurrentUpdate)
        }
        Error::Refused(why @ Refusal::ClassNotFound(_)) => {
            Problem::bad_request(format!("malformed reshaper data: {why}"))
        }
        Error::Refused(why @ Refusal::InventoryInUse { .. }) => {
            Problem::conflict(format!("update conflict: {why}")).code(Code::InventoryInUse)
        }
        Error::Refused(why) => claim_refused(why),
        other => other.into(),
    }
}
