//! Hypothetical worlds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{ClassId, ProviderId, traits};
use crate::world::{Changes, Provider, World};

/// The world after amounts were released, and others were taken.
pub(super) fn changed(
    world: &World,
    released: &[(ProviderId, ClassId, i64)],
    taken: &[(ProviderId, ClassId, i64)],
) -> World {
    let mut changes: BTreeMap<(ProviderId, ClassId), i64> = BTreeMap::new();
    for (provider, class, amount) in taken {
        let change = changes.entry((*provider, *class)).or_default();
        *change = change.saturating_add(*amount);
    }
    for (provider, class, amount) in released {
        let change = changes.entry((*provider, *class)).or_default();
        *change = change.saturating_sub(*amount);
    }
    world.with_changed_use(&changes)
}

/// The world without the sharing of some trees, given by their roots. They keep their traits and aggregates, which
/// determine the requirements of the consumers that leave them.
pub fn without_shared(world: Arc<World>, trees: &BTreeSet<ProviderId>) -> Arc<World> {
    let roots = trees.iter().filter_map(|root| world.provider_by_id(*root));
    let sharing = roots.flat_map(|root| root.tree()).filter(|it| is_sharing(&world, it));
    let rows = sharing.map(|provider| {
        let mut row = provider.row();
        row.inventories.clear();
        (provider.id(), Some(row))
    });
    let providers: Vec<_> = rows.collect();
    if providers.is_empty() {
        return world;
    }
    Arc::new(world.apply(Changes { providers, ..Changes::default() }))
}

/// Returns whether other trees can use a provider.
pub(super) fn is_sharing(world: &World, provider: &Provider<'_>) -> bool {
    let shares = world.trait_id(traits::SHARING);
    shares.is_some_and(|shares| provider.traits().contains(&shares))
}
