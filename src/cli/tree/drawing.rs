//! Draws trees of providers as text.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use crate::cli::providers::{Inventory, Provider};
use crate::cli::terminal::{Colours, bar};
use crate::observe::printable::escaped;

/// Width of a bar, in characters.
const BAR: usize = 20;

/// Draws trees of providers; parents come before their children.
pub(super) fn draw(providers: &[Provider], colours: Colours) -> String {
    let mut children: HashMap<&str, Vec<&Provider>> = HashMap::new();
    let mut known: HashSet<&str> = HashSet::new();
    let mut roots = Vec::new();
    for provider in providers {
        match provider.parent_provider_uuid.as_deref().filter(|parent| known.contains(parent)) {
            Some(parent) => children.entry(parent).or_default().push(provider),
            None => roots.push(provider),
        }
        known.insert(&provider.uuid);
    }
    let mut text = String::new();
    // Each with the prefixes of its first line, and of all further lines.
    let mut open: Vec<(&Provider, String, String)> =
        roots.into_iter().rev().map(|root| (root, String::new(), String::new())).collect();
    while let Some((provider, first, rest)) = open.pop() {
        let below = children.remove(provider.uuid.as_str()).into_iter().flatten();
        let below: Vec<&Provider> = below.collect();
        line(&mut text, format_args!("{first}{}  {}", escaped(&provider.name), provider.uuid));
        let beside = if below.is_empty() { "  " } else { "│ " };
        for detail in details(provider, colours) {
            line(&mut text, format_args!("{rest}{beside}{detail}"));
        }
        for (from_last, child) in below.into_iter().rev().enumerate() {
            let (branch, under) =
                if from_last == 0 { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            open.push((child, format!("{rest}{branch}"), format!("{rest}{under}")));
        }
    }
    text
}

/// Appends a line.
pub(in crate::cli) fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{words}");
}

/// The lines about a provider below its name.
pub(in crate::cli) fn details(provider: &Provider, colours: Colours) -> Vec<String> {
    let width = provider.inventories.keys().map(String::len).fold(0, usize::max);
    let mut lines = Vec::new();
    for (class, inventory) in &provider.inventories {
        let used = provider.usages.get(class).copied();
        lines.push(inventory_line(class, inventory, used, width, colours));
    }
    for (title, names) in [("traits", &provider.traits), ("aggregates", &provider.aggregates)] {
        if !names.is_empty() {
            lines.push(format!("{title}: {}", escaped(&names.join(", "))));
        }
    }
    lines
}

fn inventory_line(
    class: &str,
    inventory: &Inventory,
    used: Option<i64>,
    width: usize,
    colours: Colours,
) -> String {
    let Inventory { total, reserved, allocation_ratio } = *inventory;
    let capacity = inventory.capacity();
    // A service shows a usage for each inventory.
    let Some(used) = used else { return format!("{}: capacity {capacity}", escaped(class)) };
    let bar = bar(used, capacity, BAR, colours);
    let mut line = format!("{class:width$}  {bar}  {used} of {capacity}");
    let mut terms = Vec::new();
    if reserved != 0 {
        terms.push(format!("{reserved} reserved"));
    }
    if (allocation_ratio - 1.0).abs() > f64::EPSILON {
        terms.push(format!("ratio {allocation_ratio}"));
    }
    if !terms.is_empty() {
        terms.insert(0, format!("total {total}"));
        // Writing to a string cannot fail.
        let _ = write!(line, " ({})", terms.join(", "));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::cli::providers::{Inventory, Provider};
    use crate::cli::terminal::Colours;

    fn provider(name: &str, parent: Option<&str>, classes: &[(&str, Inventory, i64)]) -> Provider {
        Provider {
            uuid: format!("uuid-{name}"),
            name: name.to_owned(),
            generation: 1,
            parent_provider_uuid: parent.map(|name| format!("uuid-{name}")),
            root_provider_uuid: None,
            inventories: classes.iter().map(|(class, it, _)| ((*class).to_owned(), *it)).collect(),
            usages: classes.iter().map(|(class, _, used)| ((*class).to_owned(), *used)).collect(),
            traits: Vec::new(),
            aggregates: Vec::new(),
        }
    }

    fn inventory(total: i32) -> Inventory {
        Inventory { total, reserved: 0, allocation_ratio: 1.0 }
    }

    #[test]
    fn a_tree_has_bars_traits_and_aggregates() {
        let disk = Inventory { total: 100, reserved: 10, allocation_ratio: 1.5 };
        let mut host = provider("host", None, &[("DISK_GB", disk, 0)]);
        host.traits = vec!["HW_X".to_owned(), "HW_Y".to_owned()];
        host.aggregates = vec!["rack-1".to_owned()];
        let numa = |name: &str, used| {
            provider(
                name,
                Some("host"),
                &[("VCPU", inventory(8), used), ("MEMORY_MB", inventory(64), 64)],
            )
        };
        let card = provider("card", Some("numa-0"), &[("VF", inventory(4), 4)]);
        let trees = [host, numa("numa-0", 2), card, numa("numa-1", 0), provider("pool", None, &[])];
        insta::assert_snapshot!(draw(&trees, Colours::None), @r"
        host  uuid-host
        │ DISK_GB  ░░░░░░░░░░░░░░░░░░░░  0 of 135 (total 100, 10 reserved, ratio 1.5)
        │ traits: HW_X, HW_Y
        │ aggregates: rack-1
        ├─ numa-0  uuid-numa-0
        │  │ MEMORY_MB  ████████████████████  64 of 64
        │  │ VCPU       █████░░░░░░░░░░░░░░░  2 of 8
        │  └─ card  uuid-card
        │       VF  ████████████████████  4 of 4
        └─ numa-1  uuid-numa-1
             MEMORY_MB  ████████████████████  64 of 64
             VCPU       ░░░░░░░░░░░░░░░░░░░░  0 of 8
        pool  uuid-pool
        ");
    }
}
