//! The allocations that a consumer is to have.

use uuid::Uuid;

use crate::model::Expected;

/// All allocations that one consumer is to have, in the names that clients use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerClaim {
    /// The consumer.
    pub consumer: Uuid,
    /// The generation that the client expects.
    pub expected: Expected,
    /// Owner, as the client names it.
    pub project: String,
    /// Owner, as the client names it.
    pub user: String,
    /// Consumer type (microversion 1.38); `None` keeps an existing one.
    pub consumer_type: Option<String>,
    /// Provider, class name, amount (at least 1); empty: the consumer gives up everything.
    pub wants: Vec<(Uuid, String, i64)>,
}
