//! The demands of a consumer outside of plans on another host: the same amounts, those of one provider again from one
//! provider with the same traits. Amounts at a provider that other trees share stay where they are.

use std::collections::BTreeMap;

use crate::model::consumer::ConsumerRow;
use crate::model::{ProviderId, traits};
use crate::planner::demands::{NumberedGroup, ProviderDemands};
use crate::planner::flavor::Size;
use crate::planner::topology::Topology;
use crate::search::moves::{KeptProperties, kept_traits};
use crate::world::{Provider, World};

/// The size of a consumer on a host; `None` if it is on several hosts, as during a migration, or has allocations that
/// the world does not know yet.
pub(super) fn size(
    world: &World,
    topology: &Topology,
    consumer: &ConsumerRow,
    home: &Provider<'_>,
    keep: KeptProperties,
) -> Option<Size> {
    let kept = |provider: &Provider<'_>| {
        if keep.traits { kept_traits(world, provider) } else { Vec::new() }
    };
    let mut amounts: BTreeMap<ProviderId, BTreeMap<String, i64>> = BTreeMap::new();
    for (provider, class, amount) in &consumer.allocations {
        let class = world.class_name(*class)?.to_owned();
        amounts.entry(*provider).or_default().insert(class, *amount);
    }
    let mut size = Size::default();
    for (nth, (provider, needs)) in amounts.into_iter().enumerate() {
        let provider = world.provider_by_id(provider)?;
        let group = if provider.root() == *home {
            NumberedGroup {
                needs,
                required: kept(&provider).into_iter().collect(),
                ..NumberedGroup::default()
            }
        } else if topology.is_shared(&provider) {
            let in_tree = Some(provider.uuid());
            NumberedGroup {
                needs,
                providers: ProviderDemands { in_tree, ..ProviderDemands::default() },
                ..NumberedGroup::default()
            }
        } else {
            return None;
        };
        size.demands.groups.insert(format!("_{nth}"), group);
    }
    size.demands.root_required = kept(home).into_iter().collect();
    let is_known = |name: &&str| world.trait_id(name).is_some();
    let forbidden = [traits::EXCLUSIVE].into_iter().filter(is_known);
    size.demands.root_forbidden = forbidden.map(str::to_owned).collect();
    Some(size)
}
