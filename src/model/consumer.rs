//! A consumer with all that it holds.

use uuid::Uuid;

use super::{ClassId, Generation, ProviderId};

/// A consumer, as far as somebody who wants to move it has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRow {
    /// Public identity.
    pub uuid: Uuid,
    /// Counter of changes.
    pub generation: Generation,
    /// Owner, as clients name it.
    pub project: String,
    /// Owner, as clients name it.
    pub user: String,
    /// Its type; `None` if it was never said.
    pub consumer_type: Option<String>,
    /// What it holds: provider, class, amount; ascending.
    pub allocations: Vec<(ProviderId, ClassId, i64)>,
}
