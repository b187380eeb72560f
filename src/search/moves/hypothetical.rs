//! Worlds as they would be.

use crate::model::{ClassId, ProviderId};
use crate::world::{Changes, World};

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
    world.apply(Changes { catalogue: None, providers: rows })
}
