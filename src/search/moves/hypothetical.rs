//! Hypothetical worlds.

use std::collections::BTreeSet;

use crate::model::{ClassId, ProviderId, traits};
use crate::world::{Changes, Provider, World};

/// The world after amounts were released, and others were taken.
pub(super) fn changed(
    world: &World,
    released: &[(ProviderId, ClassId, i64)],
    taken: &[(ProviderId, ClassId, i64)],
) -> World {
    let mut providers: Vec<ProviderId> = released.iter().chain(taken).map(|it| it.0).collect();
    providers.sort_unstable();
    providers.dedup();
    let mut rows = Vec::with_capacity(providers.len());
    for id in providers {
        let Some(mut row) = world.provider_by_id(id).map(|provider| provider.row()) else {
            continue;
        };
        for inventory in &mut row.inventories {
            let sum = |amounts: &[(ProviderId, ClassId, i64)]| -> i64 {
                let mine = amounts.iter().filter(|it| (it.0, it.1) == (id, inventory.class));
                mine.map(|it| it.2).fold(0, i64::saturating_add)
            };
            let (more, less) = (sum(taken), sum(released));
            inventory.used = inventory.used.saturating_add(more).saturating_sub(less).max(0);
        }
        rows.push((id, Some(row)));
    }
    world.apply(Changes { providers: rows, ..Changes::default() })
}

/// The world without the sharing of some trees, given by their roots. They keep their traits and aggregates, which
/// determine the requirements of the consumers that leave them.
pub(super) fn without_shared(world: &World, trees: &BTreeSet<ProviderId>) -> World {
    let roots = trees.iter().filter_map(|root| world.provider_by_id(*root));
    let sharing = roots.flat_map(|root| root.tree()).filter(|it| is_sharing(world, it));
    let rows = sharing.map(|provider| {
        let mut row = provider.row();
        row.inventories.clear();
        (provider.id(), Some(row))
    });
    world.apply(Changes { providers: rows.collect(), ..Changes::default() })
}

/// Returns whether other trees can use a provider.
pub(super) fn is_sharing(world: &World, provider: &Provider<'_>) -> bool {
    let shares = world.trait_id(traits::SHARING);
    shares.is_some_and(|shares| provider.traits().contains(&shares))
}
