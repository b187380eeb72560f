//! The faults of a claim or another change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The faults of a claim or another change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimFaults {
    /// Number of faults.
    pub count: usize,
    /// The first 100.
    pub faults: Vec<ClaimFault>,
}

/// A fault. Providers and consumers are given by their UUIDs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ClaimFault {
    /// The generation of a consumer differs.
    ConsumerGeneration {
        /// The consumer.
        consumer: String,
        /// The generation in the claim; `None`: the consumer should not exist.
        given: Option<i64>,
        /// The current generation; `None`: the consumer does not exist.
        actual: Option<i64>,
    },
    /// The generation of a provider differs.
    ProviderGeneration {
        /// The provider.
        provider: String,
        /// The generation in the request.
        given: i64,
        /// The current generation.
        actual: i64,
    },
    /// The provider does not exist.
    UnknownProvider {
        /// The provider.
        provider: String,
    },
    /// The resource class does not exist.
    UnknownClass {
        /// The resource class.
        resource_class: String,
    },
    /// The provider has no inventory of the class.
    NoInventory {
        /// The provider.
        provider: String,
        /// The name of the provider.
        name: Option<String>,
        /// The resource class.
        resource_class: String,
    },
    /// The amount violates a limit of a single allocation.
    Amount {
        /// The provider.
        provider: String,
        /// The name of the provider.
        name: Option<String>,
        /// The resource class.
        resource_class: String,
        /// The amount.
        amount: i64,
        /// The violated limit: `min_unit`, `max_unit` or `step_size`.
        limit: String,
        /// The value of the limit.
        limit_value: i64,
    },
    /// The capacity is exceeded.
    Capacity {
        /// The provider.
        provider: String,
        /// The name of the provider.
        name: Option<String>,
        /// The resource class.
        resource_class: String,
        /// The amount that the whole claim requests.
        wanted: i64,
        /// The amount that its consumers have now and release.
        given_back: i64,
        /// The amount in use, including what is released.
        used: i64,
        /// The amount that may be in use: total minus reserved, times the allocation ratio.
        capacity: i64,
        /// The total of the inventory.
        total: i32,
        /// The reserved part of the total.
        reserved: i32,
        /// The factor of overcommitment.
        allocation_ratio: f64,
        /// The amount by which the request, or the use, must decrease for the claim to be allowed.
        missing: i64,
    },
    /// A group of the planner uses the provider exclusively.
    Exclusive {
        /// The provider.
        provider: String,
        /// The name of the provider.
        name: Option<String>,
        /// The name of the group.
        group: String,
        /// The host, rack or cluster.
        unit: String,
    },
    /// An inventory in use cannot be removed.
    InventoryInUse {
        /// The provider.
        provider: String,
        /// The name of the provider.
        name: Option<String>,
        /// The names of the classes.
        resource_classes: String,
        /// The amounts in use by class.
        used: BTreeMap<String, i64>,
    },
    /// The provider already has an inventory of the class.
    InventoryExists {
        /// The provider.
        provider: String,
        /// The name of the provider.
        name: Option<String>,
        /// The resource class.
        resource_class: String,
    },
    /// A provider with allocations cannot be deleted.
    ProviderInUse {
        /// The provider.
        provider: String,
        /// The name of the provider.
        name: Option<String>,
        /// The amounts in use by class.
        used: BTreeMap<String, i64>,
    },
    /// A provider with children cannot be deleted.
    ProviderHasChildren {
        /// The provider.
        provider: String,
        /// The name of the provider.
        name: Option<String>,
        /// The names of up to ten children.
        children: Vec<String>,
    },
    /// The traits do not exist.
    UnknownTraits {
        /// Their names, separated by commas.
        traits: String,
    },
    /// A trait in use cannot be deleted.
    TraitInUse {
        /// The trait.
        r#trait: String,
        /// The names of up to ten of the providers.
        providers: Vec<String>,
    },
    /// A resource class with inventories cannot be deleted.
    ClassInUse {
        /// The resource class.
        resource_class: String,
        /// The names of up to ten of the providers with such an inventory.
        providers: Vec<String>,
    },
}

/// The response of `POST /-/v1/explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimExplanation {
    /// Whether the claim would be allowed.
    pub allowed: bool,
    /// The refusal, if it would be refused.
    pub refusal: Option<ClaimRefusal>,
    /// All faults of the claim.
    #[serde(flatten)]
    pub faults: ClaimFaults,
    /// The inventories of the claim, those with faults first: at most 50.
    pub inventories: Vec<ClaimedInventory>,
    /// The number of inventories.
    pub inventories_count: usize,
    /// The holds for the consumers that have ended because they did not arrive.
    #[serde(default)]
    pub ended_holds: Vec<EndedHold>,
}

/// A hold that has ended because its consumer did not arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndedHold {
    /// The consumer.
    pub consumer: String,
    /// The placement of the plan.
    pub placement: String,
    /// The time of its end.
    pub ended_at: String,
}

/// The refusal of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRefusal {
    /// The status of the response.
    pub status: u16,
    /// The detail of the response.
    pub detail: String,
}

/// An inventory of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimedInventory {
    /// The provider.
    pub provider: String,
    /// The name of the provider.
    pub name: Option<String>,
    /// The resource class.
    pub resource_class: String,
    /// The amount that the whole claim requests.
    pub wanted: i64,
    /// The amount that its consumers have now and release.
    pub given_back: i64,
    /// The amount in use, including what is released.
    pub used: i64,
    /// The amount that may be in use.
    pub capacity: i64,
    /// The total of the inventory.
    pub total: i32,
    /// The reserved part of the total.
    pub reserved: i32,
    /// The factor of overcommitment.
    pub allocation_ratio: f64,
    /// Minimum amount of an allocation.
    pub min_unit: i32,
    /// Maximum amount of an allocation.
    pub max_unit: i32,
    /// Step of the amounts.
    pub step_size: i32,
    /// Number of consumers with an allocation.
    pub holders_count: i64,
    /// The consumers with the largest allocations, in descending order.
    pub holders: Vec<Holder>,
}

/// A consumer with an allocation of an inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// The consumer.
    pub consumer: String,
    /// The amount.
    pub amount: i64,
    /// The generation of the consumer.
    pub generation: i64,
    /// Its type; `None` if it was never set.
    pub consumer_type: Option<String>,
    /// Its project.
    pub project_id: String,
    /// Its user.
    pub user_id: String,
    /// The time from which it has this amount, in RFC 3339 form.
    pub since: String,
}
