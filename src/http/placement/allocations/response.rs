//! Views of allocations.

use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::http::placement::microversion::{
    ALLOCATIONS_BY_PROVIDER, CONSUMER_GENERATION, CONSUMER_TYPE, Microversion,
};
use crate::model::Generation;
use crate::store::reads::{ConsumerAllocations, HeldByConsumer, HeldOnProvider};

/// The allocations of a consumer. Without any, the consumer is not shown.
#[derive(Default, Serialize)]
pub(super) struct OfConsumer<'a> {
    allocations: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_generation: Option<Generation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_type: Option<&'a str>,
}

impl<'a> OfConsumer<'a> {
    /// Returns the view at a version.
    pub(super) fn of(held: &'a ConsumerAllocations, microversion: Microversion) -> Self {
        let by_provider = held.providers.iter().map(|held| {
            let HeldOnProvider { provider, generation, resources } = held;
            let resources = resources.iter().map(|(class, used)| (class.clone(), (*used).into()));
            let resources: Map<_, _> = resources.collect();
            let entry = serde_json::json!({ "resources": resources, "generation": generation });
            (provider.to_string(), entry)
        });
        let kind = held.consumer_type.as_deref().unwrap_or("unknown");
        Self {
            allocations: by_provider.collect(),
            project_id: microversion.show(ALLOCATIONS_BY_PROVIDER, &held.project),
            user_id: microversion.show(ALLOCATIONS_BY_PROVIDER, &held.user),
            consumer_generation: microversion.show(CONSUMER_GENERATION, held.generation),
            consumer_type: microversion.show(CONSUMER_TYPE, kind),
        }
    }
}

/// The allocations on a provider.
#[derive(Serialize)]
pub(super) struct OfProvider {
    allocations: Map<String, Value>,
    resource_provider_generation: Generation,
}

impl OfProvider {
    /// Returns the view at a version.
    pub(super) fn of(
        held: &[HeldByConsumer],
        generation: Generation,
        microversion: Microversion,
    ) -> Self {
        let holding = |held: &HeldByConsumer| {
            let resources = held.resources.iter();
            let resources = resources.map(|(class, used)| (class.clone(), Value::from(*used)));
            let mut holding = Map::new();
            holding.insert("resources".to_owned(), Value::Object(resources.collect()));
            if let Some(generation) = microversion.show(CONSUMER_GENERATION, held.generation) {
                holding.insert("consumer_generation".to_owned(), generation.into());
            }
            (consumer_key(held.consumer), Value::Object(holding))
        };
        let allocations = held.iter().map(holding).collect();
        Self { allocations, resource_provider_generation: generation }
    }
}

fn consumer_key(consumer: Uuid) -> String {
    consumer.to_string()
}
