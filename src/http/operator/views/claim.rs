//! The faults of a claim or another change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The faults of a claim or another change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimFaults {
    /// How many there are.
    pub count: usize,
    /// The first 100.
    pub faults: Vec<ClaimFault>,
}

/// What is wrong. Providers and consumers are named by their UUIDs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ClaimFault {
    /// A consumer is at another generation.
    ConsumerGeneration {
        /// Which consumer.
        consumer: String,
        /// What the claim says; `None`: that there is no such consumer.
        given: Option<i64>,
        /// The generation; `None`: there is no such consumer.
        actual: Option<i64>,
    },
    /// A provider is at another generation.
    ProviderGeneration {
        /// Which provider.
        provider: String,
        /// What the request says.
        given: i64,
        /// The generation.
        actual: i64,
    },
    /// There is no such provider.
    UnknownProvider {
        /// Which provider.
        provider: String,
    },
    /// There is no such resource class.
    UnknownClass {
        /// Its name.
        resource_class: String,
    },
    /// A provider has no inventory of a class.
    NoInventory {
        /// Which provider.
        provider: String,
        /// Its name.
        name: Option<String>,
        /// The resource class.
        resource_class: String,
    },
    /// An amount cannot be allocated in one piece.
    Amount {
        /// Which provider.
        provider: String,
        /// Its name.
        name: Option<String>,
        /// The resource class.
        resource_class: String,
        /// The amount.
        amount: i64,
        /// What it violates: `min_unit`, `max_unit` or `step_size`.
        limit: String,
        /// The value of that.
        limit_value: i64,
    },
    /// Too little is left.
    Capacity {
        /// Which provider.
        provider: String,
        /// Its name.
        name: Option<String>,
        /// The resource class.
        resource_class: String,
        /// What the whole claim wants of it.
        wanted: i64,
        /// What the claiming consumers have of it, and give back.
        given_back: i64,
        /// What is in use, with what is given back.
        used: i64,
        /// What may be in use: the total without what is reserved, times the allocation ratio.
        capacity: i64,
        /// How much of the inventory there is.
        total: i32,
        /// How much of that is reserved.
        reserved: i32,
        /// The factor by which it may be overcommitted.
        allocation_ratio: f64,
        /// How much less must be wanted, or in use, for the claim to be allowed.
        missing: i64,
    },
    /// A group of the planner has a provider exclusively.
    Exclusive {
        /// Which provider.
        provider: String,
        /// Its name.
        name: Option<String>,
        /// The name of the group.
        group: String,
        /// The host, rack or cluster.
        unit: String,
    },
    /// Inventories would be removed that are in use.
    InventoryInUse {
        /// Which provider.
        provider: String,
        /// Its name.
        name: Option<String>,
        /// The names of the classes.
        resource_classes: String,
        /// The amounts in use by class.
        used: BTreeMap<String, i64>,
    },
    /// A provider has an inventory of a class already.
    InventoryExists {
        /// Which provider.
        provider: String,
        /// Its name.
        name: Option<String>,
        /// The resource class.
        resource_class: String,
    },
    /// A provider would be deleted that has allocations.
    ProviderInUse {
        /// Which provider.
        provider: String,
        /// Its name.
        name: Option<String>,
        /// The amounts in use by class.
        used: BTreeMap<String, i64>,
    },
    /// A provider would be deleted that has children.
    ProviderHasChildren {
        /// Which provider.
        provider: String,
        /// Its name.
        name: Option<String>,
        /// The names of up to ten children.
        children: Vec<String>,
    },
    /// There are no such traits.
    UnknownTraits {
        /// Their names, separated by commas.
        traits: String,
    },
    /// A trait would be deleted that providers have.
    TraitInUse {
        /// Its name.
        r#trait: String,
        /// The names of up to ten of the providers.
        providers: Vec<String>,
    },
    /// A resource class would be deleted of which there are inventories.
    ClassInUse {
        /// Its name.
        resource_class: String,
        /// The names of up to ten of the providers with such an inventory.
        providers: Vec<String>,
    },
}

/// The answer of `POST /-/v1/explain`: what would come of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimExplanation {
    /// Whether it would be allowed.
    pub allowed: bool,
    /// How it would be refused.
    pub refusal: Option<ClaimRefusal>,
    /// All that is wrong with it.
    #[serde(flatten)]
    pub faults: ClaimFaults,
    /// The inventories that it draws upon, those that are in the way first: 50 at the most.
    pub inventories: Vec<ClaimedInventory>,
    /// How many there are.
    pub inventories_count: usize,
}

/// How a claim would be refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRefusal {
    /// The status of the answer.
    pub status: u16,
    /// What the answer would say.
    pub detail: String,
}

/// An inventory that a claim draws upon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimedInventory {
    /// The provider.
    pub provider: String,
    /// Its name.
    pub name: Option<String>,
    /// The resource class.
    pub resource_class: String,
    /// What the whole claim wants of it.
    pub wanted: i64,
    /// What the claiming consumers have of it, and give back.
    pub given_back: i64,
    /// What is in use, with what is given back.
    pub used: i64,
    /// What may be in use.
    pub capacity: i64,
    /// How much of it there is.
    pub total: i32,
    /// How much of that is reserved.
    pub reserved: i32,
    /// The factor by which it may be overcommitted.
    pub allocation_ratio: f64,
    /// The smallest amount in one piece.
    pub min_unit: i32,
    /// The largest amount in one piece.
    pub max_unit: i32,
    /// What each amount must be a multiple of.
    pub step_size: i32,
    /// How many consumers hold something of it.
    pub holders_count: i64,
    /// Those that hold most of it, in descending order.
    pub holders: Vec<Holder>,
}

/// A consumer that holds something of an inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The consumer.
    pub consumer: String,
    /// The amount.
    pub amount: i64,
    /// The generation of the consumer.
    pub generation: i64,
    /// Its type; `None` if it was never said.
    pub consumer_type: Option<String>,
    /// Its project.
    pub project_id: String,
    /// Its user.
    pub user_id: String,
    /// Since when it holds this amount, as RFC 3339 has it.
    pub since: String,
}
