//! Requests that were refused, or found nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Explanation;
use super::claim::ClaimFaults;

/// The answer of `GET /-/v1/refused`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefusedList {
    /// What the process keeps.
    pub kept: Kept,
    /// The requests, the newest first.
    pub requests: Vec<RefusedRequest>,
}

/// What a process keeps of refused requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Since when it does, as RFC 3339 has it.
    pub since: String,
    /// The number of requests.
    pub requests: usize,
    /// Their size, in bytes.
    pub bytes: usize,
    /// The maximum number.
    pub requests_max: usize,
    /// The maximum size, in bytes.
    pub bytes_max: usize,
    /// The maximum age, in seconds.
    pub age_max: u64,
    /// How many are not kept any more because they were too old.
    pub gone_by_age: u64,
    /// How many gave way to newer ones because of `requests_max`.
    pub gone_by_requests: u64,
    /// How many gave way to newer ones because of `bytes_max`.
    pub gone_by_bytes: u64,
    /// How many queries were not counted, because others were being counted.
    pub not_counted: u64,
}

/// A request that was refused, or found nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRequest {
    /// Its id.
    pub request_id: String,
    /// The id of the request on whose behalf the client has asked, if the client has said it.
    pub global_request_id: Option<String>,
    /// When it was answered, as RFC 3339 has it.
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
    /// The user who called.
    pub user_id: Option<String>,
    /// The status of its answer.
    pub status: u16,
    /// What the answer said, if it was an error.
    pub error: Option<String>,
}

/// The answer of `GET /-/v1/refused/{request_id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefusedFound {
    /// How many requests have the id.
    pub count: usize,
    /// The last of them, the newest first.
    pub requests: Vec<RefusedDetails>,
}

/// All that is kept of a refused request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefusedDetails {
    /// The request.
    #[serde(flatten)]
    pub request: RefusedRequest,
    /// Its body, if it had one that is kept.
    pub body: Option<Value>,
    /// The size of the body, in bytes.
    pub body_bytes: usize,
    /// For a query: what its conditions left when it was answered.
    pub explanation: Option<Explanation>,
    /// For a write: its faults, in the transaction that refused it.
    pub faults: Option<ClaimFaults>,
    /// Why neither is there: `pending`, `busy`, `too_large`, `failed`, `not_counted` or `in_error`.
    pub left_out: Option<String>,
}
