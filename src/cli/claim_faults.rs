//! Describes the faults of a claim or another change.

use std::collections::BTreeMap;

use super::columns::or_dash;
use super::page::{Cell, Page, Tone};
use crate::http::operator::views::claim::{
    ClaimExplanation, ClaimFault, ClaimFaults, ClaimedInventory,
};

/// Prints the outcome of a claim check.
pub(super) fn explained(page: &mut Page, it: &ClaimExplanation) {
    match &it.refusal {
        None => page.toned(Tone::Good, format_args!("The claim would be allowed now.")),
        Some(refusal) => {
            let detail: Vec<&str> = refusal.detail.split_whitespace().collect();
            let status = refusal.status;
            page.toned(
                Tone::Heading,
                format_args!("The claim would be refused now with {status}:"),
            );
            page.line(format_args!("{}", detail.join(" ")));
            page.blank();
        }
    }
    faulty(page, &it.faults);
    for hold in &it.ended_holds {
        page.line(format_args!(
            "The capacity that placement {} held for consumer {} was released at {}: the consumer did not arrive in time \
             (--planner-hold-ttl).",
            hold.placement, hold.consumer, hold.ended_at
        ));
    }
    if it.inventories.is_empty() {
        return;
    }
    page.blank();
    let heads = ["PROVIDER", "CLASS", "WANTED", "GIVEN BACK", "USED", "CAPACITY", "HOLDERS"];
    let rows = it.inventories.iter().map(|it| {
        let numbers = [it.wanted, it.given_back, it.used, it.capacity, it.holders_count];
        let [wanted, given_back, used, capacity, holders] = numbers.map(|it| it.to_string());
        let name = it.name.as_ref().map_or_else(|| it.provider.clone(), Clone::clone);
        [name, it.resource_class.clone(), wanted, given_back, used, capacity, holders]
            .map(Cell::from)
    });
    page.table(heads, rows);
    let more = it.inventories_count.saturating_sub(it.inventories.len());
    if more > 0 {
        page.line(format_args!("and {more} more"));
    }
    for inventory in it.inventories.iter().filter(|held| is_short(held, &it.faults)) {
        holders(page, inventory);
    }
}

/// Returns whether too little of an inventory is left.
fn is_short(inventory: &ClaimedInventory, faults: &ClaimFaults) -> bool {
    faults.faults.iter().any(|fault| {
        matches!(fault, ClaimFault::Capacity { provider, resource_class, .. }
            if *provider == inventory.provider && *resource_class == inventory.resource_class)
    })
}

/// Prints the consumers that hold an inventory.
fn holders(page: &mut Page, it: &ClaimedInventory) {
    let provider = named(&it.provider, it.name.as_ref());
    let (shown, count, class) = (it.holders.len(), it.holders_count, &it.resource_class);
    let heads = ["  CONSUMER", "AMOUNT", "TYPE", "PROJECT", "USER", "SINCE"];
    let rows = it.holders.iter().map(|it| {
        [
            format!("  {}", it.consumer),
            it.amount.to_string(),
            or_dash(it.consumer_type.as_ref()),
            it.project_id.clone(),
            it.user_id.clone(),
            it.since.clone(),
        ]
        .map(Cell::from)
    });
    page.blank();
    page.toned(
        Tone::Heading,
        format_args!("{class} of {provider} is held by ({shown} of {count}):"),
    );
    page.table(heads, rows);
}

/// Prints the faults of a claim.
pub(super) fn faulty(page: &mut Page, faults: &ClaimFaults) {
    for fault in &faults.faults {
        page.toned(Tone::Bad, format_args!("{}", sentence(fault)));
    }
    let more = faults.count.saturating_sub(faults.faults.len());
    if more > 0 {
        page.line(format_args!("and {more} more"));
    }
}

fn named(provider: &str, name: Option<&String>) -> String {
    match name {
        Some(name) => format!("{name} ({provider})"),
        None => provider.to_owned(),
    }
}

fn unmet(consumer: &str, given: Option<i64>, actual: Option<i64>) -> String {
    let expects = match given {
        Some(given) => format!("generation {given}"),
        None => "that it does not exist".to_owned(),
    };
    let is = match actual {
        Some(actual) => format!("it is at generation {actual}"),
        None => "it does not exist".to_owned(),
    };
    format!("consumer {consumer}: the claim expects {expects}, and {is}")
}

fn sentence(fault: &ClaimFault) -> String {
    match fault {
        ClaimFault::ConsumerGeneration { consumer, given, actual } => {
            unmet(consumer, *given, *actual)
        }
        ClaimFault::ProviderGeneration { provider, given, actual } => {
            format!(
                "provider {provider}: the request expects generation {given}, and it is {actual}"
            )
        }
        ClaimFault::UnknownProvider { provider } => format!("provider {provider} does not exist"),
        ClaimFault::UnknownClass { resource_class } => {
            format!("resource class {resource_class} does not exist")
        }
        ClaimFault::NoInventory { provider, name, resource_class } => {
            format!("{}: no inventory of {resource_class}", named(provider, name.as_ref()))
        }
        ClaimFault::Amount { provider, name, resource_class, amount, limit, limit_value } => {
            let provider = named(provider, name.as_ref());
            let words = violation(limit);
            format!("{provider}: {resource_class}: {amount} {words} {limit_value}")
        }
        ClaimFault::Capacity {
            provider,
            name,
            resource_class,
            wanted,
            given_back,
            used,
            capacity,
            total,
            reserved,
            allocation_ratio,
            missing,
        } => {
            let provider = named(provider, name.as_ref());
            let back = by_claiming_consumers(*given_back);
            format!(
                "{provider}: {resource_class}: {missing} short: {wanted} wanted, {used} of {capacity} \
                 used{back} (total {total}, reserved {reserved}, allocation ratio {allocation_ratio})"
            )
        }
        ClaimFault::Exclusive { provider, name, group, unit } => {
            format!("{}: group {group} has {unit} to itself", named(provider, name.as_ref()))
        }
        ClaimFault::InventoryInUse { provider, name, used, .. } => {
            let provider = named(provider, name.as_ref());
            format!("{provider}: {} in use, and would be removed", amounts(used))
        }
        ClaimFault::InventoryExists { provider, name, resource_class } => {
            format!("{}: there is an inventory of {resource_class}", named(provider, name.as_ref()))
        }
        ClaimFault::ProviderInUse { provider, name, used } => {
            format!("{}: {} in use", named(provider, name.as_ref()), amounts(used))
        }
        ClaimFault::ProviderHasChildren { provider, name, children } => {
            let provider = named(provider, name.as_ref());
            format!("{provider}: has children, such as {}", children.join(", "))
        }
        ClaimFault::UnknownTraits { traits } => format!("no such traits: {traits}"),
        ClaimFault::TraitInUse { r#trait, providers } => {
            format!("trait {}: providers have it, such as {}", r#trait, providers.join(", "))
        }
        ClaimFault::ClassInUse { resource_class, providers } => format!(
            "resource class {resource_class}: providers have inventories of it, such as {}",
            providers.join(", ")
        ),
    }
}

/// Describes how an amount violates a limit.
fn violation(limit: &str) -> &'static str {
    match limit {
        "min_unit" => "is less than min_unit",
        "max_unit" => "is more than max_unit",
        _ => "is not a multiple of step_size",
    }
}

/// Describes the part of the usage that the claim's consumers give back, if any.
fn by_claiming_consumers(given_back: i64) -> String {
    if given_back == 0 {
        return String::new();
    }
    format!(", {given_back} of them by the claiming consumers")
}

/// `2 VCPU, 1 VGPU`
fn amounts(used: &BTreeMap<String, i64>) -> String {
    let amounts = used.iter().map(|(class, amount)| format!("{amount} {class}"));
    amounts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::faulty;
    use crate::cli::page::Page;
    use crate::cli::terminal::Colours;
    use crate::http::operator::views::claim::{ClaimFault, ClaimFaults};

    /// The description of faults.
    fn described(faults: Vec<ClaimFault>) -> String {
        let mut page = Page::new(Colours::None);
        faulty(&mut page, &ClaimFaults { count: faults.len(), faults });
        page.finish()
    }

    /// A provider with its name.
    fn named() -> (String, Option<String>) {
        ("p1".to_owned(), Some("cn1".to_owned()))
    }

    #[test]
    fn every_fault_of_a_claim_has_a_sentence() {
        let (provider, name) = named();
        let amount = |limit: &str, limit_value| ClaimFault::Amount {
            provider: provider.clone(),
            name: name.clone(),
            resource_class: "VCPU".to_owned(),
            amount: 5,
            limit: limit.to_owned(),
            limit_value,
        };
        let generation = |given, actual| ClaimFault::ConsumerGeneration {
            consumer: "c1".to_owned(),
            given,
            actual,
        };
        let faults = vec![
            generation(None, Some(3)),
            generation(Some(3), None),
            ClaimFault::UnknownProvider { provider: provider.clone() },
            ClaimFault::UnknownClass { resource_class: "CUSTOM_X".to_owned() },
            ClaimFault::NoInventory {
                provider: provider.clone(),
                name: None,
                resource_class: "VCPU".to_owned(),
            },
            amount("min_unit", 6),
            amount("max_unit", 4),
            amount("step_size", 2),
            ClaimFault::Exclusive {
                provider: provider.clone(),
                name: name.clone(),
                group: "gold".to_owned(),
                unit: "rack 1".to_owned(),
            },
        ];
        insta::assert_snapshot!(described(faults), @"
        consumer c1: the claim expects that it does not exist, and it is at generation 3
        consumer c1: the claim expects generation 3, and it does not exist
        provider p1 does not exist
        resource class CUSTOM_X does not exist
        p1: no inventory of VCPU
        cn1 (p1): VCPU: 5 is less than min_unit 6
        cn1 (p1): VCPU: 5 is more than max_unit 4
        cn1 (p1): VCPU: 5 is not a multiple of step_size 2
        cn1 (p1): group gold has rack 1 to itself
        ");
    }

    #[test]
    fn every_fault_of_another_write_has_a_sentence() {
        let (provider, name) = named();
        let used = BTreeMap::from([("VCPU".to_owned(), 2), ("VGPU".to_owned(), 1)]);
        let providers = vec!["cn1".to_owned()];
        let faults = vec![
            ClaimFault::ProviderGeneration { provider: provider.clone(), given: 3, actual: 4 },
            ClaimFault::InventoryInUse {
                provider: provider.clone(),
                name: name.clone(),
                resource_classes: "VCPU, VGPU".to_owned(),
                used: used.clone(),
            },
            ClaimFault::InventoryExists {
                provider: provider.clone(),
                name: name.clone(),
                resource_class: "VCPU".to_owned(),
            },
            ClaimFault::ProviderInUse { provider: provider.clone(), name: name.clone(), used },
            ClaimFault::ProviderHasChildren {
                provider,
                name,
                children: vec!["numa0".to_owned(), "numa1".to_owned()],
            },
            ClaimFault::UnknownTraits { traits: "CUSTOM_A, CUSTOM_B".to_owned() },
            ClaimFault::TraitInUse { r#trait: "CUSTOM_A".to_owned(), providers: providers.clone() },
            ClaimFault::ClassInUse { resource_class: "CUSTOM_X".to_owned(), providers },
        ];
        insta::assert_snapshot!(described(faults), @"
        provider p1: the request expects generation 3, and it is 4
        cn1 (p1): 2 VCPU, 1 VGPU in use, and would be removed
        cn1 (p1): there is an inventory of VCPU
        cn1 (p1): 2 VCPU, 1 VGPU in use
        cn1 (p1): has children, such as numa0, numa1
        no such traits: CUSTOM_A, CUSTOM_B
        trait CUSTOM_A: providers have it, such as cn1
        resource class CUSTOM_X: providers have inventories of it, such as cn1
        ");
    }
}
