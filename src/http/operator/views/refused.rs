//! Views of requests that were refused or found nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Explanation;
use super::claim::ClaimFaults;

/// The response of `GET /-/v1/refused`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedList {
    /// Statistics of what the process keeps.
    pub kept: RefusedStatistics,
    /// The requests, newest first.
    pub requests: Vec<RefusedRequest>,
}

/// Statistics of what a process keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedStatistics {
    /// Start of the process, in RFC 3339 form.
    pub since: String,
    /// The number of requests.
    pub requests: usize,
    /// Their size, in bytes.
    pub bytes: usize,
    /// Maximum number of requests.
    pub requests_max: usize,
    /// Maximum size, in bytes.
    pub bytes_max: usize,
    /// Maximum age, in seconds.
    pub age_max: u64,
    /// Number of requests dropped because of their age.
    pub gone_by_age: u64,
    /// Number of requests dropped because of `requests_max`.
    pub gone_by_requests: u64,
    /// Number of requests dropped because of `bytes_max`.
    pub gone_by_bytes: u64,
    /// Number of queries that were not counted because too many waited.
    pub not_counted: u64,
}

/// A request that was refused or found nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedRequest {
    /// Its id.
    pub request_id: String,
    /// The id of the client's own request, if it was sent.
    pub global_request_id: Option<String>,
    /// Time of the response, in RFC 3339 form.
    pub at: String,
    /// Its kind: `candidates`, `claim`, `reshape`, `provider`, `inventories`, `traits`, `aggregates` or
    /// `resource_classes`.
    pub kind: String,
    /// Its method.
    pub method: String,
    /// Its path, with the query.
    pub path: String,
    /// Its microversion.
    pub microversion: String,
    /// The project of the caller.
    pub project_id: Option<String>,
    /// The user.
    pub user_id: Option<String>,
    /// The status of the response.
    pub status: u16,
    /// The detail of the response, if it was an error.
    pub error: Option<String>,
}

/// The response of `GET /-/v1/refused/{request_id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoundRequests {
    /// Number of requests with the id.
    pub count: usize,
    /// The latest of them, newest first.
    pub requests: Vec<RefusedDetails>,
}

/// Details of a refused request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedDetails {
    /// The request.
    #[serde(flatten)]
    pub request: RefusedRequest,
    /// Its body, if it is kept and JSON.
    pub body: Option<Value>,
    /// The size of the body, in bytes.
    pub body_bytes: usize,
    /// For a query: the effect of its conditions at the time.
    pub explanation: Option<Explanation>,
    /// For a write: its faults, found by the transaction that refused it.
    pub faults: Option<ClaimFaults>,
    /// The reason why both are missing: `pending`, `busy`, `too_large`, `failed`, `not_counted` or `in_error`.
    pub left_out: Option<String>,
}
