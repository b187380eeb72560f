//! A consumer with all its allocations.

use uuid::Uuid;

use super::{ClassId, Generation, ProviderId};

/// A consumer, with the facts needed to move it.
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
    /// Its type; `None` if no client has given one.
    pub consumer_type: Option<String>,
    /// Its allocations, as provider, class and amount; ascending.
    pub allocations: Vec<(ProviderId, ClassId, i64)>,
}
