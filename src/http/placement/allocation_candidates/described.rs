//! The response as types, for the API document. [`response`](super::response) writes it without them.

#![expect(dead_code, reason = "only their schemas are used")]

use std::collections::HashMap;

use schemars::JsonSchema;
use uuid::Uuid;

use crate::http::placement::microversion::{
    ALLOCATIONS_BY_PROVIDER, MAPPINGS, NESTED_CANDIDATES, REQUIRED_TRAITS,
};
use crate::http::placement::since::Since;

/// The ways to allocate the requested resources, and the resource providers in them.
#[derive(JsonSchema)]
#[schemars(rename = "AllocationCandidates")]
pub(in crate::http) struct Candidates {
    allocation_requests: Vec<Candidate>,
    provider_summaries: HashMap<Uuid, ProviderSummary>,
}

/// A way to allocate the requested resources.
#[derive(JsonSchema)]
#[schemars(rename = "AllocationRequest")]
struct Candidate {
    allocations: CandidateAllocations,
    /// The resource providers of each group, by the suffix of the group.
    #[serde(skip_serializing_if = "Since::is_hidden")]
    mappings: Since<{ MAPPINGS.minor() }, HashMap<String, Vec<Uuid>>>,
}

/// The allocations of a candidate: by resource provider, before 1.12 as a list.
#[derive(JsonSchema)]
#[serde(untagged)]
enum CandidateAllocations {
    ByProvider(Since<{ ALLOCATIONS_BY_PROVIDER.minor() }, HashMap<Uuid, RequestedResources>>),
    List(Vec<ListedAllocation>),
}

/// Amounts by resource class.
#[derive(JsonSchema)]
struct RequestedResources {
    resources: HashMap<String, i64>,
}

/// Amounts on a resource provider, by resource class.
#[derive(JsonSchema)]
struct ListedAllocation {
    resource_provider: ListedProvider,
    resources: HashMap<String, i64>,
}

#[derive(JsonSchema)]
struct ListedProvider {
    uuid: Uuid,
}

/// A resource provider in one of the candidates.
#[derive(JsonSchema)]
struct ProviderSummary {
    resources: HashMap<String, ProviderCapacity>,
    #[serde(skip_serializing_if = "Since::is_hidden")]
    traits: Since<{ REQUIRED_TRAITS.minor() }, Vec<String>>,
    #[serde(skip_serializing_if = "Since::is_hidden")]
    parent_provider_uuid: Since<{ NESTED_CANDIDATES.minor() }, Option<Uuid>>,
    #[serde(skip_serializing_if = "Since::is_hidden")]
    root_provider_uuid: Since<{ NESTED_CANDIDATES.minor() }, Uuid>,
}

/// Capacity and use of a resource class.
#[derive(JsonSchema)]
struct ProviderCapacity {
    capacity: i64,
    used: i64,
}
