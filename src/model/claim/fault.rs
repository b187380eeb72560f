//! All faults of claims, with their numbers, and the facts behind other refusals. The judge refuses for the first
//! fault; a client that requests an explanation gets all of them.
//!
//! Example: a consumer wants 8 VCPU and 1 GB of disk of a provider with 6 VCPU left and no disk. The judge
//! refuses for the disk; the faults are the missing inventory, and that 2 VCPU are short.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::locked_state::{InventoryUsage, LockedState};
use super::request::{Claim, Reshaping};
use super::resolved::{ResolvedAmount, claimed_amount, held_by, resolved};
use crate::model::{ClassId, Expected, Generation, Inventory, ProviderId, Refusal};

/// Maximum number of listed faults.
pub const FAULTS_MAX: usize = 100;

/// A fault of a claim or another change.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A consumer is not at the generation that the client expects.
    ConsumerGeneration {
        /// Which consumer.
        consumer: Uuid,
        /// The generation that the client expects.
        expected: Expected,
        /// The generation; `None`: there is no such consumer.
        actual: Option<Generation>,
    },
    /// A provider of a reshaping is not at the generation that the client saw.
    ProviderGeneration {
        /// Which provider.
        provider: Uuid,
        /// The generation that the client gave.
        given: Generation,
        /// The generation.
        actual: Generation,
    },
    /// There is no such provider.
    UnknownProvider(Uuid),
    /// There is no such resource class.
    UnknownClass(String),
    /// A provider has no inventory of a class.
    NoInventory {
        /// Which provider.
        provider: Uuid,
        /// The name of the class.
        class: String,
    },
    /// An amount is less than `min_unit`, more than `max_unit`, or no multiple of `step_size`.
    Amount {
        /// Which provider.
        provider: Uuid,
        /// The name of the class.
        class: String,
        /// The amount of the allocation.
        amount: i64,
        /// The terms of the inventory.
        terms: Inventory,
    },
    /// An inventory has too little capacity left.
    Capacity {
        /// Which provider.
        provider: Uuid,
        /// The name of the class.
        class: String,
        /// The amount that all claims of the request want together.
        wanted: i64,
        /// The amount that the claiming consumers hold now and would release.
        given_back: i64,
        /// The amount in use now, including `given_back`.
        used: i64,
        /// The terms of the inventory.
        terms: Inventory,
    },
    /// A group has a provider exclusively, and a consumer is not in it. At most one is listed.
    Exclusive {
        /// Which provider.
        provider: Uuid,
        /// The name of the group.
        group: String,
        /// The host, rack or cluster.
        unit: String,
    },
    /// Inventories would be removed that are in use.
    InventoryInUse {
        /// Which provider.
        provider: Uuid,
        /// The names of the classes with the amounts that are in use.
        used: Vec<(String, i64)>,
    },
    /// A provider has an inventory of a class already.
    InventoryExists {
        /// Which provider.
        provider: Uuid,
        /// The name of the class.
        class: String,
    },
    /// A provider would be deleted that has allocations.
    ProviderInUse {
        /// Which provider.
        provider: Uuid,
        /// The names of the classes with the amounts that are in use.
        used: Vec<(String, i64)>,
    },
    /// A provider would be deleted that has children.
    ProviderHasChildren {
        /// Which provider.
        provider: Uuid,
        /// The names of some of them.
        children: Vec<String>,
    },
    /// There are no such traits; their names, separated by commas.
    UnknownTraits(String),
    /// A trait would be deleted that providers have.
    TraitInUse {
        /// The name of the trait.
        name: String,
        /// The names of some of the providers.
        providers: Vec<String>,
    },
    /// A resource class would be deleted of which there are inventories.
    ClassInUse {
        /// The name of the class.
        name: String,
        /// The names of some of the providers.
        providers: Vec<String>,
    },
}

impl Fault {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all that the others know is in their sentences"
    )]
    fn of(refusal: &Refusal) -> Option<Self> {
        Some(match refusal.clone() {
            Refusal::ProviderGeneration { provider, actual, given } => {
                Self::ProviderGeneration { provider, given, actual }
            }
            Refusal::ProviderNotFound(provider) | Refusal::AllocationProviderNotFound(provider) => {
                Self::UnknownProvider(provider)
            }
            Refusal::ClassNotFound(class) => Self::UnknownClass(class),
            Refusal::TraitsNotFound(names) => Self::UnknownTraits(names),
            Refusal::InventoryExists { provider, class } => {
                Self::InventoryExists { provider, class }
            }
            Refusal::InventoryInUse { provider, used } => Self::InventoryInUse { provider, used },
            Refusal::ProviderInUse { provider, used } => Self::ProviderInUse { provider, used },
            Refusal::ProviderHasChildren { provider, children } => {
                Self::ProviderHasChildren { provider, children }
            }
            Refusal::TraitInUse { name, providers } => Self::TraitInUse { name, providers },
            Refusal::ClassInUse { name, providers } => Self::ClassInUse { name, providers },
            _ => return None,
        })
    }
}

/// The faults of claims and other changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// The first [`FAULTS_MAX`].
    pub listed: Vec<Fault>,
    /// Number of all faults.
    pub count: usize,
}

impl Faults {
    /// Returns the facts behind a refusal: none if its sentence has them all.
    pub fn of(refusal: &Refusal) -> Self {
        Fault::of(refusal)
            .map_or_else(Self::default, |fault| Self { listed: vec![fault], count: 1 })
    }

    fn add(&mut self, fault: Fault) {
        self.count += 1;
        if self.listed.len() < FAULTS_MAX {
            self.listed.push(fault);
        }
    }
}

/// An obstacle to allocating an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// There is no such inventory.
    NoInventory,
    /// It cannot be allocated in one piece, whatever is free.
    Amount,
    /// Too little is left.
    Capacity,
}

/// Returns the obstacle to an amount of an inventory, if any. The request wants `requested` of the inventory so far,
/// this amount included, and its consumers release `freed`.
///
/// An inventory may stay over its capacity if its use does not grow.
pub(super) fn obstacle(
    inventory: Option<&InventoryUsage>,
    amount: i64,
    requested: i64,
    freed: i64,
) -> Option<Obstacle> {
    let Some(inventory) = inventory else { return Some(Obstacle::NoInventory) };
    if !inventory.terms.allows_amount(amount) {
        return Some(Obstacle::Amount);
    }
    let used = (inventory.used - freed).saturating_add(requested);
    let is_over = used > inventory.terms.capacity() && used > inventory.used;
    is_over.then_some(Obstacle::Capacity)
}

/// Returns all faults of claims, judged on this state. There is one exactly if [`judge`](super::judge) refuses them.
pub fn faults(state: &LockedState, claims: &[Claim]) -> Faults {
    let mut faults = Faults::default();
    for claim in claims {
        let actual = state.consumer(claim.consumer).map(|now| now.generation);
        if !claim.expected.met_by(actual) {
            let (consumer, expected) = (claim.consumer, claim.expected);
            faults.add(Fault::ConsumerGeneration { consumer, expected, actual });
        }
    }
    let wants = || claims.iter().flat_map(|claim| claim.wants.iter().map(move |it| (claim, it)));
    let mut unknown = BTreeSet::new();
    for (_, (provider, ..)) in wants() {
        if !state.providers.contains_key(provider) && unknown.insert(provider) {
            faults.add(Fault::UnknownProvider(*provider));
        }
    }
    let mut unknown = BTreeSet::new();
    for (_, (_, class, _)) in wants() {
        if !state.classes.contains_key(class) && unknown.insert(class) {
            faults.add(Fault::UnknownClass(class.clone()));
        }
    }
    let rows: Vec<ResolvedAmount<'_>> =
        wants().filter_map(|(claim, want)| resolved(state, claim, want).ok()).collect();
    let held = held_by(state, claims);
    add_rows(&mut faults, state, &rows, &held);
    // The check records reported claims in a copy.
    let mut exclusivity = state.exclusivity.clone();
    if let Err(Refusal::Exclusive { provider, group, unit }) =
        exclusivity.check(rows.iter().map(claimed_amount), &held)
    {
        faults.add(Fault::Exclusive { provider, group, unit });
    }
    faults
}

fn add_rows(
    faults: &mut Faults,
    state: &LockedState,
    rows: &[ResolvedAmount<'_>],
    held: &BTreeMap<(ProviderId, ClassId), i64>,
) {
    let mut requested: BTreeMap<(ProviderId, ClassId), i64> = BTreeMap::new();
    for row in rows {
        let sum = requested.entry(row.inventory).or_insert(0);
        *sum = sum.saturating_add(row.amount);
    }
    let mut short = BTreeSet::new();
    for row in rows {
        let (provider, class) = (row.provider, row.class.to_owned());
        let inventory = state.inventories.get(&row.inventory);
        let of = |amounts: &BTreeMap<_, i64>| amounts.get(&row.inventory).copied().unwrap_or(0);
        let (wanted, given_back) = (of(&requested), of(held));
        match (obstacle(inventory, row.amount, wanted, given_back), inventory) {
            (None, _) => {}
            (Some(Obstacle::Amount), Some(InventoryUsage { terms, .. })) => {
                faults.add(Fault::Amount { provider, class, amount: row.amount, terms: *terms });
            }
            (Some(Obstacle::Capacity), Some(InventoryUsage { terms, used, .. })) => {
                if short.insert(row.inventory) {
                    let (terms, used) = (*terms, *used);
                    faults.add(Fault::Capacity {
                        provider,
                        class,
                        wanted,
                        given_back,
                        used,
                        terms,
                    });
                }
            }
            (Some(_), _) => faults.add(Fault::NoInventory { provider, class }),
        }
    }
}

/// Returns the faults of a refused reshaping, as far as they can be judged. The state is the one that
/// [`reshape`](super::reshape) has left.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the refusals that are not of claims do not come from the judge"
)]
pub fn reshape_faults(
    state: &LockedState,
    reshapings: &[Reshaping],
    claims: &[Claim],
    refusal: &Refusal,
) -> Faults {
    let is_by_generation = |fault: &Fault| {
        matches!(fault, Fault::ConsumerGeneration { .. } | Fault::UnknownProvider(_))
    };
    match refusal {
        Refusal::ProviderGeneration { .. } | Refusal::ProviderNotFound(_) => {
            other_providers(state, reshapings)
        }
        // The new inventories are not in the state yet, so that nothing else can be judged.
        Refusal::ConsumerGeneration { .. } | Refusal::AllocationProviderNotFound(_) => {
            let mut all = faults(state, claims);
            all.listed.retain(is_by_generation);
            all.count = all.listed.len();
            all
        }
        // The claims have been written into the state before inventories are removed.
        Refusal::ClassNotFound(_) | Refusal::InventoryInUse { .. } => Faults::of(refusal),
        _ => faults(state, claims),
    }
}

/// Returns the providers that do not exist or are at other generations.
fn other_providers(state: &LockedState, reshapings: &[Reshaping]) -> Faults {
    let mut faults = Faults::default();
    for reshaping in reshapings {
        let (provider, given) = (reshaping.provider, reshaping.expected_generation);
        match state.providers.get(&provider).map(|locked| locked.generation) {
            None => faults.add(Fault::UnknownProvider(provider)),
            Some(actual) if actual != given => {
                faults.add(Fault::ProviderGeneration { provider, given, actual });
            }
            Some(_) => {}
        }
    }
    faults
}
