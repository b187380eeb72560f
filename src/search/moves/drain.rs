//! Decides whether the allocations on some hosts fit on others.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::hypothetical::{changed, without_shared};
use super::relocation::{KeptProperties, Relocation, RelocationPlace};
use crate::model::ProviderId;
use crate::model::consumer::ConsumerRow;
use crate::world::World;

/// The result for the consumers of drained hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainOutcome {
    /// Number of consumers that fit on other hosts, all at once.
    pub placed: usize,
    /// The positions of those for which no host was found beside the others.
    pub without_place: Vec<usize>,
    /// Whether all were examined, and each search for a host was completed.
    pub is_complete: bool,
}

/// Finds other hosts for all consumers of these hosts, one after the other, the largest first. Further trees can be
/// excluded, by their roots. `is_enough` is called before each consumer; if it returns true, the rest is skipped.
pub fn drain(
    world: &Arc<World>,
    hosts: &[ProviderId],
    gone: &[ProviderId],
    consumers: &[ConsumerRow],
    keeping: KeptProperties,
    mut is_enough: impl FnMut() -> bool,
) -> DrainOutcome {
    let closed: BTreeSet<ProviderId> = hosts.iter().chain(gone).copied().collect();
    let mut now = Arc::new(without_shared(world, &closed));
    let relocation = Relocation::new(keeping, closed);
    let mut order: Vec<usize> = (0..consumers.len()).collect();
    // With equal classes, the larger one is harder to place.
    let sizes = |position: &usize| {
        let amounts = consumers.get(*position).map(|consumer| {
            let amounts = consumer.allocations.iter();
            amounts.map(|(_, class, amount)| (*class, *amount)).collect::<BTreeSet<_>>()
        });
        std::cmp::Reverse(amounts)
    };
    order.sort_by_cached_key(sizes);
    let mut drained = DrainOutcome { is_complete: true, ..DrainOutcome::default() };
    for position in order {
        let Some(consumer) = consumers.get(position) else { continue };
        if is_enough() {
            drained.is_complete = false;
            break;
        }
        let held = &consumer.allocations;
        let leaving = hosts.iter().copied().find(|host| holds_on(world, consumer, *host));
        let place =
            leaving.map_or(RelocationPlace::Undecided, |it| relocation.place(&now, held, it));
        match place {
            RelocationPlace::On(_, allocations) => {
                now = Arc::new(changed(&now, held, &allocations));
                drained.placed += 1;
            }
            RelocationPlace::Nowhere => drained.without_place.push(position),
            RelocationPlace::Undecided => {
                drained.without_place.push(position);
                drained.is_complete = false;
            }
        }
    }
    drained.without_place.sort_unstable();
    drained
}

/// Returns whether a consumer has allocations on a host.
fn holds_on(world: &World, consumer: &ConsumerRow, host: ProviderId) -> bool {
    let mut providers = consumer.allocations.iter().filter_map(|it| world.provider_by_id(it.0));
    providers.any(|provider| provider.root().id() == host)
}
