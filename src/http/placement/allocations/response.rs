//! Views of allocations.

use schemars::JsonSchema;
use serde::Serialize;

use crate::http::api::json::Ordered;
use crate::http::placement::microversion::{
    ALLOCATIONS_BY_PROVIDER, CONSUMER_GENERATION, CONSUMER_TYPE, Microversion,
};
use crate::http::placement::since::Since;
use crate::model::Generation;
use crate::store::reads::{ConsumerAllocations, HeldByConsumer, HeldOnProvider};

/// The allocations of a consumer, by provider. Without any, the consumer is not shown.
#[derive(Default, JsonSchema, Serialize)]
#[schemars(rename = "AllocationsByProvider")]
pub(in crate::http::placement) struct OfConsumer<'a> {
    allocations: Ordered<ProviderEntry>,
    #[serde(skip_serializing_if = "Since::is_hidden")]
    project_id: Since<{ ALLOCATIONS_BY_PROVIDER.minor() }, &'a str>,
    #[serde(skip_serializing_if = "Since::is_hidden")]
    user_id: Since<{ ALLOCATIONS_BY_PROVIDER.minor() }, &'a str>,
    #[serde(skip_serializing_if = "Since::is_hidden")]
    consumer_generation: Since<{ CONSUMER_GENERATION.minor() }, Generation>,
    #[serde(skip_serializing_if = "Since::is_hidden")]
    consumer_type: Since<{ CONSUMER_TYPE.minor() }, &'a str>,
}

/// Allocated amounts on a provider, by resource class.
#[derive(JsonSchema, Serialize)]
struct ProviderEntry {
    resources: Ordered<i64>,
    generation: Generation,
}

/// Amounts allocated by a consumer, by resource class.
#[derive(JsonSchema, Serialize)]
struct ConsumerEntry {
    resources: Ordered<i64>,
    #[serde(skip_serializing_if = "Since::is_hidden")]
    consumer_generation: Since<{ CONSUMER_GENERATION.minor() }, Generation>,
}

impl<'a> OfConsumer<'a> {
    /// Returns the view at a version.
    pub(super) fn of(held: &'a ConsumerAllocations, microversion: Microversion) -> Self {
        let by_provider = held.providers.iter().map(|held| {
            let HeldOnProvider { provider, generation, resources } = held;
            let entry =
                ProviderEntry { resources: Ordered(resources.clone()), generation: *generation };
            (provider.to_string(), entry)
        });
        let kind = held.consumer_type.as_deref().unwrap_or("unknown");
        Self {
            allocations: Ordered(by_provider.collect()),
            project_id: Since::at(microversion, &held.project),
            user_id: Since::at(microversion, &held.user),
            consumer_generation: Since::at(microversion, held.generation),
            consumer_type: Since::at(microversion, kind),
        }
    }
}

/// The allocations on a provider, by consumer.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "AllocationsByConsumer")]
pub(in crate::http::placement) struct OfProvider {
    allocations: Ordered<ConsumerEntry>,
    resource_provider_generation: Generation,
}

impl OfProvider {
    /// Returns the view at a version.
    pub(super) fn of(
        held: &[HeldByConsumer],
        generation: Generation,
        microversion: Microversion,
    ) -> Self {
        let entry = |held: &HeldByConsumer| {
            let entry = ConsumerEntry {
                resources: Ordered(held.resources.clone()),
                consumer_generation: Since::at(microversion, held.generation),
            };
            (held.consumer.to_string(), entry)
        };
        let allocations = Ordered(held.iter().map(entry).collect());
        Self { allocations, resource_provider_generation: generation }
    }
}
