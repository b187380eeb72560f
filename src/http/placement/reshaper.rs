//! `/reshaper`: changes inventories and allocations together.

use std::sync::LazyLock;

use serde::Deserialize;

use super::allocations::{claim_refused, request};
use super::body::{Body, Integer};
use super::extract::no_provider;
use super::inventories::{self, InventoriesBody};
use super::microversion::{Ladder, Microversion};
use super::names::UUID;
use super::problem::{Code, Problem, RefusedAs as _};
use super::schema::{Schema, map, object};
use super::spelling::dashed_uuid;
use crate::http::api::extract::Changing;
use crate::http::api::json::Ordered;
use crate::http::api::reply::Reply;
use crate::model::Refusal;
use crate::model::claim::Reshaping;
use crate::model::effort::steps;
use crate::store::allocations::Reshape;

/// Schema of `POST /reshaper`.
pub(super) static BODY: LazyLock<Ladder<Schema>> = LazyLock::new(|| {
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
struct ReshaperBody {
    inventories: Ordered<InventoriesBody>,
    allocations: Ordered<request::AllocationsBody<request::ByProvider>>,
}

/// `POST /reshaper`: replaces the inventories of several providers and the allocations of several
/// consumers in one transaction. Compares the generation of each provider. Allocations are checked
/// against the new inventories, and an inventory that still has allocations afterwards cannot be
/// removed.
pub(super) async fn reshape(
    Changing { changes, .. }: Changing,
    microversion: Microversion,
    body: Body,
) -> Result<Reply, Problem> {
    let change = parse(&body, microversion)?;
    changes.commit(change).await.refused_as(refused)?;
    Ok(Reply::no_content())
}

fn parse(body: &Body, microversion: Microversion) -> Result<Reshape, Problem> {
    let body: ReshaperBody = body.parse(BODY.at(microversion))?;
    let mut inventories = Vec::with_capacity(body.inventories.0.len());
    for (text, body) in body.inventories.0 {
        steps(1);
        let provider = dashed_uuid(&text).ok_or_else(|| not_found(&text))?;
        let Integer(expected_generation) = body.resource_provider_generation;
        inventories.push(Reshaping {
            provider,
            expected_generation,
            inventories: body.inventories(),
        });
    }
    let claims = request::claims(body.allocations, microversion)?;
    Ok(Reshape { inventories, claims })
}

fn not_found(provider: &str) -> Problem {
    let why = no_provider(provider);
    let detail = format!("Resource provider {provider} in inventories not found: {why}");
    Problem::bad_request(detail).code(Code::ProviderNotFound)
}

fn refused(why: Refusal) -> Problem {
    match why {
        Refusal::ProviderNotFound(provider) => not_found(&provider.to_string()),
        Refusal::ProviderGeneration { provider, actual, given } => {
            let detail = format!(
                "resource provider generation conflict for provider {provider}: actual: {actual}, \
                 given: {given}"
            );
            Problem::conflict(detail).code(Code::ConcurrentUpdate)
        }
        Refusal::ClassNotFound(_) => {
            Problem::bad_request(format!("malformed reshaper data: {why}"))
        }
        Refusal::InventoryInUse { .. } => {
            Problem::conflict(format!("update conflict: {why}")).code(Code::InventoryInUse)
        }
        other => claim_refused(other),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::parse;
    use crate::http::placement::body::Body;
    use crate::http::placement::microversion::LATEST;
    use crate::model::effort::grows_evenly;

    /// Bodies of a megabyte, valid and with an error at the end: many providers, many inventories
    /// of one, and many consumers.
    #[test]
    fn reading_a_reshaping_takes_no_longer_than_the_body() {
        let uuid = |nth: usize| Uuid::from_u128(nth as u128);
        let provider = |nth: usize, stocks: &str| {
            let uuid = uuid(nth);
            format!(r#""{uuid}":{{"resource_provider_generation":0,"inventories":{{{stocks}}}}}"#)
        };
        let consumer = |nth: usize| {
            let (consumer, provider) = (uuid(1_000_000 + nth), uuid(nth));
            format!(
                r#""{consumer}":{{"allocations":{{"{provider}":{{"resources":{{"VCPU":1}}}}}},
                   "project_id":"p","user_id":"u","consumer_generation":1,"consumer_type":"T"}}"#
            )
        };
        let body = |inventories: &str, consumers: &str| -> Body {
            let text =
                format!(r#"{{"inventories":{{{inventories}}},"allocations":{{{consumers}}}}}"#);
            Body(text.into())
        };
        let joined = |count: usize, one: &dyn Fn(usize) -> String| {
            (0..count).map(one).collect::<Vec<_>>().join(",")
        };
        for total in [1, 0] {
            let stock = |nth: usize, count: usize| {
                let total = if nth + 1 == count { total } else { 1 };
                format!(r#""CUSTOM_{nth}":{{"total":{total}}}"#)
            };
            let run = |body: &Body| {
                assert_eq!(parse(body, LATEST).is_ok(), total == 1);
            };
            let of_providers = |count: usize| {
                body(&joined(count, &|nth| provider(nth, &stock(nth, count))), &consumer(0))
            };
            grows_evenly("providers", 8000, of_providers, run);
            let of_stocks = |count: usize| {
                let stocks = joined(count, &|nth| stock(nth, count));
                body(&provider(0, &stocks), &consumer(0))
            };
            grows_evenly("stocks", 36_000, of_stocks, run);
            let of_consumers =
                |count: usize| body(&provider(0, &stock(0, 1)), &joined(count, &consumer));
            grows_evenly("consumers", 4800, of_consumers, run);
        }
    }
}
