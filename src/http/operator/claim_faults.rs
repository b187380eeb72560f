//! Views of the faults of claims and other changes.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::views::claim::{ClaimFault, ClaimFaults};
use crate::model::claim::{Fault, Faults};
use crate::model::{Expected, Inventory};
use crate::world::World;

/// Converts the faults of claims, with the names of providers in a world.
pub(in crate::http) fn claim_faults(world: &World, faults: &Faults) -> ClaimFaults {
    let written = faults.listed.iter().map(|fault| claim_fault(world, fault));
    ClaimFaults { count: faults.count, faults: written.collect() }
}

fn claim_fault(world: &World, fault: &Fault) -> ClaimFault {
    let name = |provider: &Uuid| world.provider(*provider).map(|it| it.name().to_owned());
    match fault {
        Fault::ConsumerGeneration { consumer, expected, actual } => {
            let given = match expected {
                Expected::Is(generation) => Some(*generation),
                Expected::Any | Expected::NoConsumer => None,
            };
            let (consumer, actual) = (consumer.to_string(), *actual);
            ClaimFault::ConsumerGeneration { consumer, given, actual }
        }
        Fault::ProviderGeneration { provider, given, actual } => ClaimFault::ProviderGeneration {
            provider: provider.to_string(),
            given: *given,
            actual: *actual,
        },
        Fault::UnknownProvider(provider) => {
            ClaimFault::UnknownProvider { provider: provider.to_string() }
        }
        Fault::UnknownClass(class) => ClaimFault::UnknownClass { resource_class: class.clone() },
        Fault::NoInventory { provider, class } => ClaimFault::NoInventory {
            provider: provider.to_string(),
            name: name(provider),
            resource_class: class.clone(),
        },
        Fault::Amount { provider, class, amount, terms } => {
            amount_fault((provider.to_string(), name(provider), class.clone()), *amount, terms)
        }
        Fault::Capacity { provider, class, wanted, given_back, used, terms } => {
            let inventory = (provider.to_string(), name(provider), class.clone());
            capacity_fault(inventory, [*wanted, *given_back, *used], terms)
        }
        Fault::Exclusive { provider, group, unit } => ClaimFault::Exclusive {
            provider: provider.to_string(),
            name: name(provider),
            group: group.clone(),
            unit: unit.clone(),
        },
        Fault::InventoryInUse { provider, used } => ClaimFault::InventoryInUse {
            provider: provider.to_string(),
            name: name(provider),
            resource_classes: class_names(used),
            used: amounts(used),
        },
        Fault::InventoryExists { provider, class } => ClaimFault::InventoryExists {
            provider: provider.to_string(),
            name: name(provider),
            resource_class: class.clone(),
        },
        Fault::ProviderInUse { provider, used } => ClaimFault::ProviderInUse {
            provider: provider.to_string(),
            name: name(provider),
            used: amounts(used),
        },
        Fault::ProviderHasChildren { provider, children } => ClaimFault::ProviderHasChildren {
            provider: provider.to_string(),
            name: name(provider),
            children: children.clone(),
        },
        Fault::UnknownTraits(names) => ClaimFault::UnknownTraits { traits: names.clone() },
        Fault::TraitInUse { name, providers } => {
            ClaimFault::TraitInUse { r#trait: name.clone(), providers: providers.clone() }
        }
        Fault::ClassInUse { name, providers } => {
            ClaimFault::ClassInUse { resource_class: name.clone(), providers: providers.clone() }
        }
    }
}

/// An inventory: provider, name of the provider, class.
type NamedInventory = (String, Option<String>, String);

fn amount_fault(
    (provider, name, resource_class): NamedInventory,
    amount: i64,
    terms: &Inventory,
) -> ClaimFault {
    let (limit, limit_value) = violated(amount, terms);
    let (limit, limit_value) = (limit.to_owned(), limit_value.into());
    ClaimFault::Amount { provider, name, resource_class, amount, limit, limit_value }
}

fn capacity_fault(
    (provider, name, resource_class): NamedInventory,
    [wanted, given_back, used]: [i64; 3],
    terms: &Inventory,
) -> ClaimFault {
    let capacity = terms.capacity();
    let after = (used - given_back).saturating_add(wanted);
    ClaimFault::Capacity {
        provider,
        name,
        resource_class,
        wanted,
        given_back,
        used,
        capacity,
        total: terms.total,
        reserved: terms.reserved,
        allocation_ratio: terms.allocation_ratio,
        // An inventory over its capacity may stay as full as it is.
        missing: after.saturating_sub(capacity.max(used)),
    }
}

/// `VCPU, VGPU`
fn class_names(used: &[(String, i64)]) -> String {
    let classes: Vec<&str> = used.iter().map(|(class, _)| class.as_str()).collect();
    classes.join(", ")
}

/// Amounts by class name.
fn amounts(used: &[(String, i64)]) -> BTreeMap<String, i64> {
    used.iter().cloned().collect()
}

/// Returns the limit that an amount violates.
fn violated(amount: i64, terms: &Inventory) -> (&'static str, i32) {
    if amount < i64::from(terms.min_unit) {
        ("min_unit", terms.min_unit)
    } else if amount > i64::from(terms.max_unit) {
        ("max_unit", terms.max_unit)
    } else {
        ("step_size", terms.step_size)
    }
}
