//! Capacity that plans hold for servers which have not arrived, by the amounts of each server.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::consumers::HeldAmount;
use super::map::{Map, MapKey};
use crate::model::{ClassId, ConsumerId};

/// The allocations of a hold.
pub type HeldAmounts = Vec<HeldAmount>;

/// The sums of a hold by class, ascending.
type Demand = Arc<[(ClassId, i64)]>;

/// The holds of one demand.
type EqualHolds = Map<ConsumerId, Arc<HeldAmounts>>;

impl MapKey for ConsumerId {
    fn scatter(self) -> u64 {
        self.0.cast_unsigned()
    }
}

/// All holds. Copies share what they have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds {
    demands: Map<ConsumerId, Demand>,
    /// Ascending by demand; none is empty.
    by_demand: Arc<Vec<(Demand, EqualHolds)>>,
}

impl Holds {
    /// Returns whether no plan holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_demand.is_empty()
    }

    /// Sets the allocations of a hold; none if it has ended.
    pub(super) fn set(&mut self, hold: ConsumerId, amounts: HeldAmounts) {
        if let Some(before) = self.demands.get(hold).cloned() {
            self.demands.remove(hold);
            self.remove(hold, &before);
        }
        if amounts.is_empty() {
            return;
        }
        let demand = demand(&amounts);
        let holds = Arc::make_mut(&mut self.by_demand);
        let at = match holds.binary_search_by(|(other, _)| other.cmp(&demand)) {
            Ok(at) => at,
            Err(at) => {
                holds.insert(at, (Arc::clone(&demand), Map::default()));
                at
            }
        };
        if let Some((_, holds)) = holds.get_mut(at) {
            holds.insert(hold, Arc::new(amounts));
        }
        self.demands.insert(hold, demand);
    }

    fn remove(&mut self, hold: ConsumerId, demand: &Demand) {
        let holds = Arc::make_mut(&mut self.by_demand);
        let Ok(at) = holds.binary_search_by(|(other, _)| other.cmp(demand)) else { return };
        if let Some((_, holds)) = holds.get_mut(at) {
            holds.remove(hold);
        }
        holds.retain(|(_, holds)| holds.len() > 0);
    }

    /// Returns the number of holds that have exactly these amounts of these classes, and perhaps other classes.
    pub(crate) fn matching_len(&self, wanted: &BTreeMap<ClassId, i64>) -> usize {
        self.of_demand(wanted).map(Map::len).sum()
    }

    /// Returns the holds that have exactly these amounts of these classes, and perhaps other classes.
    pub(crate) fn matching(
        &self,
        wanted: &BTreeMap<ClassId, i64>,
    ) -> impl Iterator<Item = &Arc<HeldAmounts>> {
        self.of_demand(wanted).flat_map(|holds| holds.iter().map(|(_, amounts)| amounts))
    }

    fn of_demand(&self, wanted: &BTreeMap<ClassId, i64>) -> impl Iterator<Item = &EqualHolds> {
        let matches = |demand: &Demand| {
            let is_held = |(class, amount): (&ClassId, &i64)| {
                let at = demand.binary_search_by_key(class, |(class, _)| *class);
                at.is_ok_and(|at| demand.get(at).is_some_and(|(_, held)| held == amount))
            };
            !wanted.is_empty() && wanted.iter().all(is_held)
        };
        let entries = self.by_demand.iter();
        entries.filter(move |(demand, _)| matches(demand)).map(|(_, holds)| holds)
    }
}

fn demand(amounts: &HeldAmounts) -> Demand {
    let mut sums: BTreeMap<ClassId, i64> = BTreeMap::new();
    for (_, class, amount) in amounts {
        let sum = sums.entry(*class).or_default();
        *sum = sum.saturating_add(*amount);
    }
    sums.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::{ClassId, ConsumerId, HeldAmounts, Holds};
    use crate::model::ProviderId;

    const VCPU: ClassId = ClassId(0);
    const DISK: ClassId = ClassId(2);

    fn on(host: i64, vcpu: i64, disk: Option<i64>) -> HeldAmounts {
        let disk = disk.map(|disk| (ProviderId(99), DISK, disk));
        [(ProviderId(host), VCPU, vcpu)].into_iter().chain(disk).collect()
    }

    fn hosts(holds: &Holds, wanted: &[(ClassId, i64)]) -> Vec<i64> {
        let wanted = wanted.iter().copied().collect();
        let mut hosts: Vec<i64> = holds.matching(&wanted).map(|amounts| amounts[0].0.0).collect();
        hosts.sort_unstable();
        assert_eq!(hosts.len(), holds.matching_len(&wanted));
        hosts
    }

    #[test]
    fn holds_match_by_the_classes_that_are_wanted() {
        let mut holds = Holds::default();
        holds.set(ConsumerId(1), on(1, 2, None));
        holds.set(ConsumerId(2), on(2, 2, Some(10)));
        holds.set(ConsumerId(3), on(3, 4, Some(10)));
        assert_eq!(hosts(&holds, &[(VCPU, 2)]), [1, 2]);
        assert_eq!(hosts(&holds, &[(VCPU, 2), (DISK, 10)]), [2]);
        assert_eq!(hosts(&holds, &[(DISK, 10)]), [2, 3]);
        assert_eq!(hosts(&holds, &[(VCPU, 3)]), [0_i64; 0]);
        assert_eq!(hosts(&holds, &[]), [0_i64; 0]);
    }

    #[test]
    fn a_hold_moves_changes_and_ends() {
        let mut holds = Holds::default();
        holds.set(ConsumerId(1), on(1, 2, None));
        let before = holds.clone();
        holds.set(ConsumerId(1), on(2, 2, None));
        assert_eq!(hosts(&holds, &[(VCPU, 2)]), [2]);
        holds.set(ConsumerId(1), on(2, 4, None));
        assert_eq!(hosts(&holds, &[(VCPU, 2)]), [0_i64; 0]);
        holds.set(ConsumerId(1), Vec::new());
        holds.set(ConsumerId(7), Vec::new());
        assert!(holds.by_demand.is_empty());
        assert_eq!(hosts(&before, &[(VCPU, 2)]), [1]);
    }
}
