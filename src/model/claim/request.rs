//! Requests to change the allocations of consumers.

use uuid::Uuid;

use crate::model::{Expected, Generation, Inventory};

/// The owner of a consumer, by the keys of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Key of the project.
    pub project: i64,
    /// Key of the user.
    pub user: i64,
    /// Key of the consumer type; `None` if no client has given one.
    pub consumer_type: Option<i64>,
}

/// All allocations that one consumer is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The consumer.
    pub consumer: Uuid,
    /// The generation that the client expects.
    pub expected: Expected,
    /// The new owner. Without a consumer type, an existing consumer keeps its type.
    pub owner: Owner,
    /// Provider, class name, amount (at least 1). Empty: the consumer gives up all allocations.
    pub wants: Vec<(Uuid, String, i64)>,
}

impl Claim {
    /// A claim by which the consumer gives up all allocations, whatever its generation. Its owner does not
    /// matter.
    pub fn giving_up(consumer: Uuid) -> Self {
        let owner = Owner { project: 0, user: 0, consumer_type: None };
        Self { consumer, expected: Expected::Any, owner, wants: Vec::new() }
    }
}

/// One request. All its claims are allowed, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Replaces the allocations of each of these consumers. No consumer is named twice.
    Replace(Vec<Claim>),
    /// Deletes all allocations of a consumer. No generation is compared, and none moves.
    Release(Uuid),
}

/// A new set of inventories for a provider, as a request to the reshaper has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshaping {
    /// The provider.
    pub provider: Uuid,
    /// The generation that the client saw.
    pub expected_generation: Generation,
    /// All its inventories from now on, by class name.
    pub inventories: Vec<(String, Inventory)>,
}
