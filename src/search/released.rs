//! Candidates for the servers of plans. A plan holds capacity for each of its servers until the server arrives, and
//! the server's own request for candidates must find it. So a search sees a host as if one hold of the
//! requested amounts were released there.
//!
//! Example: a host with 4 VCPU has two holds of 2 VCPU. It is a candidate for 2 VCPU, and not for 4. A claim of
//! another consumer there is refused, because it counts all holds.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::request::Request;
use crate::model::{ClassId, ProviderId};
use crate::world::{HeldAmounts, World};

/// Maximum number of holds that a thread which serves requests goes through.
const HOLDS_AT_ONCE: usize = 500;

/// The world with one hold of the requested amounts released on each host.
#[derive(Clone, Debug)]
pub(super) struct Released {
    pub(super) world: Arc<World>,
    /// The world as it is.
    actual: Arc<World>,
    /// The released holds, by each of their slots.
    holds: HashMap<u32, Vec<Arc<HeldAmounts>>>,
}

/// Returns whether a request matches many holds, which the search looks at before it starts.
pub fn starts_slowly(world: &World, request: &Request) -> bool {
    wanted(world, request).is_some_and(|wanted| world.holds().matching_len(&wanted) > HOLDS_AT_ONCE)
}

/// Returns the world in which a search for a request looks.
pub fn searched(world: Arc<World>, request: &Request) -> Arc<World> {
    Released::of(&world, request).map_or(world, |released| released.world)
}

/// Returns the amounts of a request by class; `None` if the search ignores holds, the world has none, or a class is
/// unknown.
fn wanted(world: &World, request: &Request) -> Option<BTreeMap<ClassId, i64>> {
    if !request.through_holds || world.holds().is_empty() {
        return None;
    }
    let mut wanted: BTreeMap<ClassId, i64> = BTreeMap::new();
    for (class, amount) in request.groups.iter().flat_map(|group| &group.resources) {
        let sum = wanted.entry(world.class_id(class)?).or_default();
        *sum = sum.saturating_add(*amount);
    }
    Some(wanted)
}

impl Released {
    /// Releases holds for a request; `None` if each of its holds also has as much free capacity beside it.
    pub(super) fn of(world: &Arc<World>, request: &Request) -> Option<Self> {
        let wanted = wanted(world, request)?;
        let mut holds: HashMap<u32, Vec<Arc<HeldAmounts>>> = HashMap::new();
        // Of several holds of one inventory, the greatest.
        let mut released: BTreeMap<(ProviderId, ClassId), i64> = BTreeMap::new();
        for hold in world.holds().matching(&wanted) {
            if hold.iter().all(|amount| has(world, *amount)) {
                continue;
            }
            for (provider, class, amount) in &**hold {
                let Some(slot) = world.slot_of(*provider) else { continue };
                let change = released.entry((*provider, *class)).or_default();
                *change = (*change).min(-amount);
                let here = holds.entry(slot).or_default();
                if here.last().is_none_or(|last| !Arc::ptr_eq(last, hold)) {
                    here.push(Arc::clone(hold));
                }
            }
        }
        if holds.is_empty() {
            return None;
        }
        let actual = Arc::clone(world);
        Some(Self { world: Arc::new(world.with_changed_use(&released)), actual, holds })
    }

    /// Returns whether amounts, each slot and class once, fit when one hold is released, and not several.
    pub(super) fn fits(&self, amounts: impl Iterator<Item = (u32, ClassId, i64)>) -> bool {
        let lacks = amounts.filter_map(|(slot, class, amount)| {
            let lack = amount.saturating_sub(self.actual.column(class)?.get(slot)?.free());
            (lack > 0).then_some((slot, class, lack))
        });
        let lacks: Vec<(u32, ClassId, i64)> = lacks.collect();
        // A shared provider has the holds of many hosts.
        let fewest = lacks.iter().map(|(slot, ..)| self.holds.get(slot));
        let Some(fewest) = fewest.min_by_key(|holds| holds.map(Vec::len)) else { return true };
        let of = |hold: &HeldAmounts, slot: u32, class: ClassId| -> i64 {
            let here = hold.iter().filter(|(provider, held, _)| {
                *held == class && self.actual.slot_of(*provider) == Some(slot)
            });
            here.map(|(.., amount)| *amount).sum()
        };
        fewest.is_some_and(|holds| {
            holds.iter().any(|hold| {
                lacks.iter().all(|(slot, class, lack)| of(hold, *slot, *class) >= *lack)
            })
        })
    }
}

/// Returns whether an inventory has an amount available; true if the provider is gone.
fn has(world: &World, (provider, class, amount): (ProviderId, ClassId, i64)) -> bool {
    let Some(slot) = world.slot_of(provider) else { return true };
    let inventory = world.column(class).and_then(|column| column.get(slot));
    inventory.is_some_and(|inventory| inventory.available() >= amount)
}
