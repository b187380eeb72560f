//! The figures of the cloud under the names of openstack-exporter, from memory: what each provider has of
//! each class, and how much of it is used.
//!
//! The text is written in pieces while it is sent, so that the memory it takes does not grow with the number
//! of providers. All pieces are of one world.

use std::fmt::Write;
use std::sync::Arc;

use axum::body::Body;

use super::streamed;
use crate::model::provider::InventoryRow;
use crate::world::{Provider, World};

/// About how much is written at once, in bytes.
const PIECE: usize = 128 * 1024;

/// A metric: its name and type, its description, and its value.
///
/// The type of `_total` is that of the exporter's name and not of the value, which is no counter; Prometheus
/// stores no types.
type Figure = (&'static str, &'static str, fn(&mut String, &Provider<'_>, &InventoryRow));

const FIGURES: [Figure; 5] = [
    ("openstack_placement_resource_total", "Units that the provider has.", |text, _, row| {
        number(text, row.terms.total.into());
    }),
    (
        "openstack_placement_resource_reserved",
        "Units that are kept back from allocation.",
        |text, _, row| {
            number(text, row.terms.reserved.into());
        },
    ),
    (
        "openstack_placement_resource_allocation_ratio",
        "Factor by which units may be overcommitted.",
        |text, _, row| {
            ratio(text, row.terms.allocation_ratio);
        },
    ),
    (
        "openstack_placement_resource_generation",
        "Generation of the provider.",
        |text, provider, _| {
            number(text, provider.generation());
        },
    ),
    ("openstack_placement_resource_usage", "Units that are allocated.", |text, _, row| {
        number(text, row.used);
    }),
];

/// The figures of a world, in the text format of Prometheus.
pub(super) fn body(world: Arc<World>) -> Body {
    let mut writing = Writing { world, figure: 0, next: None };
    streamed::made_at_once(move || writing.piece().into())
}

/// How far the text has been written.
struct Writing {
    world: Arc<World>,
    /// The metric.
    figure: usize,
    /// The slot of the next provider; `None` before the head of the metric.
    next: Option<u32>,
}

impl Writing {
    /// The next piece; empty at the end.
    fn piece(&mut self) -> String {
        let mut text = String::with_capacity(PIECE + PIECE / 8);
        let (end, mut labels) = (self.world.end(), String::new());
        while text.len() < PIECE {
            let Some((name, what, value)) = FIGURES.get(self.figure) else { break };
            let mut slot = self.next.unwrap_or_else(|| {
                head(&mut text, name, what);
                0
            });
            while slot < end && text.len() < PIECE {
                if let Some(provider) = self.world.at(slot) {
                    label(&mut labels, provider.name());
                    for row in provider.inventories() {
                        text.push_str(name);
                        text.push_str(&labels);
                        // Names of classes have only letters, digits and underscores.
                        text.push_str(self.world.name_of_class(row.class));
                        text.push_str("\"} ");
                        value(&mut text, &provider, &row);
                        text.push('\n');
                    }
                }
                slot += 1;
            }
            self.next = Some(slot);
            if slot >= end {
                (self.figure, self.next) = (self.figure + 1, None);
            }
        }
        if text.is_empty() && self.figure == FIGURES.len() {
            // The exporter's sign that its scrape succeeded.
            self.figure += 1;
            text.push_str("# HELP openstack_placement_up Whether the figures could be read.\n");
            text.push_str("# TYPE openstack_placement_up gauge\nopenstack_placement_up 1\n");
        }
        text
    }
}

fn head(text: &mut String, name: &str, what: &str) {
    let kind = if name.ends_with("_total") { "untyped" } else { "gauge" };
    // Writing to a string does not fail.
    let _infallible = write!(text, "# HELP {name} {what}\n# TYPE {name} {kind}\n");
}

/// Writes the labels of a provider's series up to the name of the class.
fn label(labels: &mut String, provider: &str) {
    labels.clear();
    labels.push_str("{hostname=\"");
    escape(labels, provider);
    labels.push_str("\",resourcetype=\"");
}

/// Appends the value of a label.
fn escape(text: &mut String, value: &str) {
    if !value.bytes().any(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        text.push_str(value);
        return;
    }
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

fn number(text: &mut String, value: i64) {
    text.push_str(itoa::Buffer::new().format(value));
}

fn ratio(text: &mut String, value: f64) {
    let _infallible = write!(text, "{value}");
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn a_label_is_escaped() {
        let mut text = String::new();
        escape(&mut text, "a\\b\"c\nd");
        assert_eq!(text, "a\\\\b\\\"c\\nd");
    }
}
