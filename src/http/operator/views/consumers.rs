//! Consumers with what they hold: `GET /-/v1/consumers` and `POST /-/v1/allocations/get`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The answer of `GET /-/v1/consumers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumers {
    /// The consumers, ascending by UUID.
    pub consumers: Vec<Consumer>,
    /// The marker of the next page; `None`: this is the last one.
    pub next_marker: Option<Uuid>,
}

/// The answer of `POST /-/v1/allocations/get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocations {
    /// Those of the named consumers that hold something, ascending by UUID.
    pub consumers: Vec<Consumer>,
}

/// A consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumer {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its project.
    pub project_id: String,
    /// Its user.
    pub user_id: String,
    /// Its type; `unknown` if it was never said.
    pub consumer_type: String,
    /// Its generation.
    pub consumer_generation: i64,
    /// What it holds, by provider.
    pub allocations: BTreeMap<Uuid, Held>,
}

/// What a consumer holds on a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The generation of the provider.
    pub generation: i64,
    /// Amounts by resource class.
    pub resources: BTreeMap<String, i64>,
}
