//! Parses allocations in request bodies into claims.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;
use uuid::Uuid;

use crate::http::api::json::Ordered;
use crate::http::placement::body::Integer;
use crate::http::placement::microversion::{
    ALLOCATIONS_BY_PROVIDER, CONSUMER_GENERATION, CONSUMER_TYPE, Ladder, MAPPINGS, Microversion,
    PROJECT_AND_USER,
};
use crate::http::placement::names::{LONGEST, NAME, NAMED_GROUP, UUID};
use crate::http::placement::problem::Problem;
use crate::http::placement::schema::{
    Schema, Shape, any_type, array, integer, map, object, string, uuid,
};
use crate::http::placement::spelling::{consumer_uuid, dashed_uuid};
use crate::model::Expected;
use crate::model::effort::steps;
use crate::store::ConsumerClaim;

/// Project and user of consumers that are created without them, before microversion 1.8: the default of the
/// reference.
const NO_OWNER: &str = "00000000-0000-0000-0000-000000000000";

/// Schema of `PUT /allocations/{consumer}`.
pub(in crate::http::placement) static REPLACE_BODY: LazyLock<Ladder<Schema>> =
    LazyLock::new(|| {
        Ladder::from(object().require("allocations", as_list()).closed())
            .then(PROJECT_AND_USER, with_owner)
            .then(ALLOCATIONS_BY_PROVIDER, |_| of_consumer(1))
            .then(CONSUMER_GENERATION, |_| with_generation(of_consumer(0)))
            .then(MAPPINGS, with_mappings)
            .then(CONSUMER_TYPE, with_type)
            .map(Shape::for_bodies)
    });

/// Schema of `POST /allocations`.
pub(in crate::http::placement) static REPLACE_MANY_BODY: LazyLock<Ladder<Schema>> =
    LazyLock::new(|| by_consumer(1).map(Shape::for_bodies));

/// Allocations of at least `least` consumers, by consumer.
pub(in crate::http::placement) fn by_consumer(least: u8) -> Ladder<Shape> {
    let first = map().with("minProperties", least).closed();
    Ladder::from(of_consumer(0))
        .then(CONSUMER_GENERATION, with_generation)
        .then(MAPPINGS, with_mappings)
        .then(CONSUMER_TYPE, with_type)
        .map(|consumer| first.clone().each(UUID, consumer))
}

fn as_list() -> Shape {
    let provider = object().closed().require("uuid", uuid());
    let entry = object().require("resource_provider", provider).require("resources", resources());
    array().with("minItems", 1).of(entry.closed())
}

fn resources() -> Shape {
    let amount = integer().with("minimum", 1);
    map().with("minProperties", 1).each(NAME, amount).closed()
}

/// Allocations of one consumer, with at least `least` providers.
fn of_consumer(least: u8) -> Shape {
    let entry = object().allow("generation", integer()).require("resources", resources()).closed();
    let by_provider = map().with("minProperties", least).each(UUID, entry).closed();
    with_owner(object().closed().require("allocations", by_provider))
}

fn with_owner(body: Shape) -> Shape {
    let id = || string().length(1, LONGEST);
    body.require("project_id", id()).require("user_id", id())
}

fn with_generation(body: Shape) -> Shape {
    body.require("consumer_generation", any_type(&["integer", "null"]).closed())
}

fn with_mappings(body: Shape) -> Shape {
    let providers = array().with("minItems", 1).of(uuid());
    body.allow("mappings", map().with("minProperties", 1).each(NAMED_GROUP, providers))
}

fn with_type(body: Shape) -> Shape {
    body.require("consumer_type", string().with("pattern", NAME).length(1, LONGEST))
}

/// The allocations of one consumer in a body. `A` is the form of the allocations, [`List`] or
/// [`ByProvider`].
#[derive(Deserialize)]
pub(in crate::http::placement) struct AllocationsBody<A> {
    allocations: A,
    project_id: Option<String>,
    user_id: Option<String>,
    consumer_generation: Option<Integer>,
    consumer_type: Option<String>,
}

/// Until 1.11.
pub(super) type List = Vec<Entry>;

/// From 1.12.
pub(in crate::http::placement) type ByProvider = Ordered<Resources>;

#[derive(Deserialize)]
pub(super) struct Entry {
    resource_provider: ProviderOfEntry,
    resources: Ordered<Integer>,
}

#[derive(Deserialize)]
struct ProviderOfEntry {
    uuid: String,
}

#[derive(Deserialize)]
pub(in crate::http::placement) struct Resources {
    resources: Ordered<Integer>,
}

impl From<AllocationsBody<List>> for AllocationsBody<ByProvider> {
    /// If a provider is repeated, the last entry applies.
    fn from(listed: AllocationsBody<List>) -> Self {
        let mut by_provider: Vec<(String, Resources)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for Entry { resource_provider, resources } in listed.allocations {
            steps(1);
            let entry = Resources { resources };
            let place = places.get(&resource_provider.uuid);
            if let Some(known) = place.and_then(|at| by_provider.get_mut(*at)) {
                known.1 = entry;
            } else {
                places.insert(resource_provider.uuid.clone(), by_provider.len());
                by_provider.push((resource_provider.uuid, entry));
            }
        }
        Self {
            allocations: Ordered(by_provider),
            project_id: listed.project_id,
            user_id: listed.user_id,
            consumer_generation: listed.consumer_generation,
            consumer_type: listed.consumer_type,
        }
    }
}

impl AllocationsBody<ByProvider> {
    /// Converts the body into a claim of the consumer.
    pub(in crate::http::placement) fn into_claim(
        self,
        consumer: Uuid,
        microversion: Microversion,
    ) -> Result<ConsumerClaim, Problem> {
        let mut wants = Vec::new();
        for (provider, Resources { resources }) in self.allocations.0 {
            let uuid = dashed_uuid(&provider).ok_or_else(|| no_such_provider(&provider))?;
            let amounts = resources.0.into_iter();
            wants.extend(amounts.map(|(class, Integer(amount))| (uuid, class, amount)));
        }
        let expected = match self.consumer_generation {
            _ if !microversion.has(CONSUMER_GENERATION) => Expected::Any,
            Some(Integer(generation)) => Expected::Is(generation),
            None => Expected::NoConsumer,
        };
        Ok(ConsumerClaim {
            consumer,
            expected,
            project: self.project_id.unwrap_or_else(|| NO_OWNER.to_owned()),
            user: self.user_id.unwrap_or_else(|| NO_OWNER.to_owned()),
            consumer_type: self.consumer_type,
            wants,
        })
    }
}

/// Returns the claims in a body with several consumers.
pub(in crate::http::placement) fn claims(
    bodies: Ordered<AllocationsBody<ByProvider>>,
    microversion: Microversion,
) -> Result<Vec<ConsumerClaim>, Problem> {
    let mut claims: Vec<ConsumerClaim> = Vec::with_capacity(bodies.0.len());
    let mut consumers = HashSet::with_capacity(bodies.0.len());
    for (text, body) in bodies.0 {
        steps(1);
        let consumer = consumer_uuid(&text).ok_or_else(|| malformed_consumer(&text))?;
        if !consumers.insert(consumer) {
            return Err(Problem::bad_request(format!("Consumer {consumer} is named twice")));
        }
        claims.push(body.into_claim(consumer, microversion)?);
    }
    Ok(claims)
}

/// Returns the problem of a consumer that is not a UUID.
pub(super) fn malformed_consumer(text: &str) -> Problem {
    Problem::bad_request(format!("Malformed consumer_uuid: {text}"))
}

fn no_such_provider(text: &str) -> Problem {
    Problem::bad_request(format!("Allocation for resource provider '{text}' that does not exist."))
}

#[cfg(test)]
mod tests;
