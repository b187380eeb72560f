//! The form of effects in the history and the audit log.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use uuid::Uuid;

use super::effects::{Content, Effect, Kind, ObjectState};
use super::events::event::Inventory;
use crate::model::Generation;

/// Maximum number of inventories, allocations or names shown of one effect. Further ones are only counted.
const SHOWN_MAX: usize = 100;

/// A state, without the parts that the state before or after the effect has as well. The fields are those of the
/// content.
#[derive(Debug, Default, Serialize)]
#[expect(clippy::option_option, reason = "a state may have a null, which is shown")]
pub struct DescribedState<'e> {
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<Generation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Option<Uuid>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Option<&'e str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<Option<&'e str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inventories: Option<BTreeMap<&'e str, Inventory>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traits: Option<Vec<&'e str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregates: Option<Vec<&'e str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<&'e str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocations: Option<BTreeMap<Uuid, BTreeMap<&'e str, i64>>>,
    /// Number of items that are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<usize>,
}

/// Returns the states before and after an effect; of lists, only the differences. `None`: there was nothing, or nothing
/// is left.
pub fn states(effect: &Effect) -> (Option<DescribedState<'_>>, Option<DescribedState<'_>>) {
    let (before, after) = (effect.before.as_ref(), effect.after.as_ref());
    let kind = effect.kind;
    (
        before.map(|before| described(before, after, kind)),
        after.map(|after| described(after, before, kind)),
    )
}

/// Describes a state, without the parts that the other one has as well.
fn described<'e>(
    state: &'e ObjectState,
    other: Option<&'e ObjectState>,
    kind: Kind,
) -> DescribedState<'e> {
    let mut described =
        DescribedState { generation: state.generation, ..DescribedState::default() };
    let other = other.map(|other| &other.content);
    match &state.content {
        Content::Nothing => {}
        Content::Named(name) => described.name = Some(name),
        Content::Described(text) => described.description = Some(text.as_deref()),
        Content::Instance(instance) => described.instance = Some(instance.as_deref()),
        Content::Provider { name, parent } => {
            (described.name, described.parent) = (Some(name.as_str()), Some(*parent));
        }
        Content::Inventories(all) => {
            let other = match other {
                Some(Content::Inventories(other)) => Some(other),
                _ => None,
            };
            let few = described.few(differing(all, other));
            let few = few.into_iter().map(|(class, terms)| (class.as_str(), terms.into()));
            described.inventories = Some(few.collect());
        }
        Content::Names(all) => {
            let other = match other {
                Some(Content::Names(other)) => Some(other),
                _ => None,
            };
            described.names(all, other, kind);
        }
        Content::Allocations(all) => {
            let other = match other {
                Some(Content::Allocations(other)) => Some(other),
                _ => None,
            };
            let mut by_provider = BTreeMap::<Uuid, BTreeMap<&str, i64>>::new();
            for ((provider, class), amount) in described.few(differing(all, other)) {
                by_provider.entry(*provider).or_default().insert(class, *amount);
            }
            described.allocations = Some(by_provider);
        }
    }
    described
}

impl<'e> DescribedState<'e> {
    fn names(&mut self, all: &'e BTreeSet<String>, other: Option<&BTreeSet<String>>, kind: Kind) {
        let added = all.iter().filter(|name| other.is_none_or(|it| !it.contains(*name)));
        let few = Some(self.few(added.map(String::as_str)));
        match kind {
            Kind::ProviderTraits => self.traits = few,
            Kind::ProviderAggregates => self.aggregates = few,
            Kind::GroupMembers
            | Kind::Provider
            | Kind::Inventories
            | Kind::Consumer
            | Kind::Trait
            | Kind::Class
            | Kind::Group
            | Kind::Plan
            | Kind::Placement => self.members = few,
        }
    }

    /// Returns the first items, and counts the further ones.
    fn few<T>(&mut self, all: impl Iterator<Item = T>) -> Vec<T> {
        let mut all = all;
        let few: Vec<T> = all.by_ref().take(SHOWN_MAX).collect();
        let omitted = all.count();
        self.omitted = (omitted > 0).then_some(omitted);
        few
    }
}

/// Returns the values that the other map lacks, or has otherwise.
fn differing<'e, K: Ord, V: PartialEq>(
    all: &'e BTreeMap<K, V>,
    other: Option<&'e BTreeMap<K, V>>,
) -> impl Iterator<Item = (&'e K, &'e V)> {
    all.iter().filter(move |(key, value)| other.and_then(|it| it.get(*key)) != Some(*value))
}
