//! The response as types, for the API document. [`writing`](super::writing) writes it without them.

#![expect(dead_code, reason = "only their schemas are used")]

use std::collections::HashMap;

use schemars::JsonSchema;
use uuid::Uuid;

use crate::store::events::Inventory;

/// Resource providers with their details.
#[derive(JsonSchema)]
#[schemars(rename = "DetailedProviders")]
pub(in crate::http::operator) struct List {
    /// The number of the last event before the snapshot, if the server keeps events.
    number: Option<i64>,
    /// The number of providers.
    count: usize,
    providers: Vec<Provider>,
}

/// A resource provider with the requested details.
#[derive(JsonSchema)]
#[schemars(rename = "DetailedProvider")]
pub(in crate::http::operator) struct Provider {
    uuid: Uuid,
    name: String,
    generation: i64,
    parent_provider_uuid: Option<Uuid>,
    root_provider_uuid: Uuid,
    #[serde(skip_serializing_if = "HashMap::is_empty")]
    inventories: HashMap<String, Inventory>,
    #[serde(skip_serializing_if = "HashMap::is_empty")]
    usages: HashMap<String, i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traits: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aggregates: Vec<String>,
    /// Its allocations by consumer.
    #[serde(skip_serializing_if = "HashMap::is_empty")]
    allocations: HashMap<Uuid, Holding>,
}

/// The allocations of a consumer on a provider.
#[derive(JsonSchema)]
struct Holding {
    project_id: String,
    user_id: String,
    consumer_type: String,
    consumer_generation: i64,
    resources: HashMap<String, i64>,
}
