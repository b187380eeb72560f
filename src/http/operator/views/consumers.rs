//! Views of consumers with their allocations: `GET /-/v1/consumers` and `POST
//! /-/v1/allocations/get`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::store::events::ProviderAllocations;

/// The response of `GET /-/v1/consumers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Consumers {
    /// The consumers, ascending by UUID.
    pub consumers: Vec<Consumer>,
    /// The marker of the next page; `None` on the last one.
    pub next_marker: Option<Uuid>,
}

/// The response of `POST /-/v1/allocations/get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Allocations {
    /// The named consumers that have allocations, ascending by UUID.
    pub consumers: Vec<Consumer>,
}

/// A consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Consumer {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its project.
    pub project_id: String,
    /// Its user.
    pub user_id: String,
    /// Its type; `unknown` if it was never set.
    pub consumer_type: String,
    /// Its generation.
    pub consumer_generation: i64,
    /// Its allocations by provider.
    pub allocations: BTreeMap<Uuid, ProviderAllocations>,
}
