//! Examines hosts of one provider outside of all sharing, a block of slots at a time.
//!
//! On such a host one provider has to supply everything, so a group can be met if each of its conditions is. Only
//! hosts that meet all conditions are searched, for the conditions that concern several groups.

use super::super::funnel::condition::asks_without_resources;
use super::super::funnel::nearest::Shortfall;
use super::super::funnel::probe::{Probe, Test, shortage};
use super::super::funnel::{Closest, HostChecks};
use super::super::part::{and, and_not, or, pop};
use super::super::request::{Policy, Request};
use super::conflict::Mask;
use super::survey::{Survey, bit, count_ones};
use crate::world::World;
use crate::world::set::{BLOCK, Set, Words};

/// The hosts.
pub(super) struct FlatHosts<'w> {
    world: &'w World,
    sharing: Set,
    /// Number of conditions other than steps of combining.
    singles: usize,
    /// Whether each group requests resources, and restricts to a tree only a group with resources: a group without
    /// resources may have its provider anywhere.
    has_resources: bool,
    /// Whether a host fits if it meets each condition.
    is_simple: bool,
}

impl<'w> FlatHosts<'w> {
    /// The hosts of a world, for a request with `singles` conditions.
    pub(super) fn new(world: &'w World, request: &Request, singles: usize) -> Self {
        let is_simple = request.groups.len() == 1
            && request.policy == Policy::None
            && request.same_subtree.is_empty();
        let has_resources = request.groups.iter().all(|group| {
            let may_lose_all = group.in_tree.is_some() && asks_without_resources(group);
            group.resources.len() > usize::from(may_lose_all)
        });
        Self { world, sharing: world.sharing(), singles, has_resources, is_simple }
    }

    /// The slots of the hosts in a block.
    pub(super) fn hosts(&self, block: u32) -> Words {
        if !self.has_resources {
            return [0; 4];
        }
        let alone = and_not(self.world.lone().words(block), self.world.anchored().words(block));
        let own = and_not(alone, self.sharing.words(block));
        and(own, self.world.having_inventory(block))
    }

    /// Adds these hosts of a block. Returns the work, in numbers read.
    pub(super) fn add(
        &self,
        block: u32,
        hosts: Words,
        checks: &mut HostChecks<'_>,
        survey: &mut Survey,
    ) -> usize {
        if hosts == [0; 4] {
            return 4;
        }
        let met = self.met(block, hosts, checks);
        let failing: Vec<Words> = met.iter().map(|met| and_not(hosts, *met)).collect();
        let [mut once, mut twice] = [[0; 4]; 2];
        for failing in &failing {
            twice = or(twice, and(once, *failing));
            once = or(once, *failing);
        }
        let by_one = and_not(once, twice);
        self.search(block, and_not(hosts, once), checks, survey);
        survey.tally.add_hosts(count_ones(once), 0);
        for (condition, failing) in failing.iter().enumerate() {
            let near = self.near(block, condition, and(*failing, by_one), checks);
            survey.tally.add_ruled_out(condition, count_ones(*failing), count_ones(near));
            let probe = checks.probes.iter().find(|probe| probe.condition == condition);
            if let Some(probe) = probe {
                self.add_shortages(block, *failing, probe, survey);
            }
            self.name(block, near, (condition, probe), survey);
        }
        add_masks(once, &failing, survey);
        BLOCK as usize / 8 * (failing.len() + 1) + 2 * count_ones(once)
    }

    /// For each condition, the hosts that meet it.
    fn met(&self, block: u32, hosts: Words, checks: &HostChecks<'_>) -> Vec<Words> {
        let mut met = vec![hosts; self.singles];
        for probe in &checks.probes {
            if let Some(met) = met.get_mut(probe.condition) {
                *met = probe.passing(block, *met);
            }
        }
        for test in &checks.roots {
            if let Some(met) = met.get_mut(test.condition) {
                *met = test.words(block, *met);
            }
        }
        met
    }

    /// Adds the hosts that meet each condition. Several groups together may still exceed their capacity.
    fn search(
        &self,
        block: u32,
        mut passing: Words,
        checks: &mut HostChecks<'_>,
        survey: &mut Survey,
    ) {
        if self.is_simple {
            let fitting = count_ones(passing);
            survey.tally.add_hosts(fitting, fitting);
            survey.add_failing(0, fitting);
            return;
        }
        while let Some(slot) = pop(&mut passing, block) {
            let failing = checks.combine(slot, Vec::new());
            survey.add(&self.world.occupied(slot), &failing, checks);
        }
    }

    /// The hosts, among those that fail one condition, that would fit without it.
    fn near(
        &self,
        block: u32,
        condition: usize,
        hosts: Words,
        checks: &mut HostChecks<'_>,
    ) -> Words {
        let mut near = hosts;
        let mut rest = if self.is_simple { absent(block, condition, hosts, checks) } else { hosts };
        while let Some(slot) = pop(&mut rest, block) {
            if checks.fits_without(&self.world.occupied(slot), condition) != Some(true) {
                near = and_not(near, only(block, slot));
            }
        }
        near
    }

    /// Adds the amounts of the requested class on these hosts.
    fn add_shortages(&self, block: u32, failing: Words, probe: &Probe, survey: &mut Survey) {
        let Some(amount) = probe.amount() else { return };
        let having = amount.column.having(block);
        survey.tally.add_absent(probe.condition, count_ones(and_not(failing, having)));
        let mut most = survey.tally.most(probe.condition);
        if most.is_some_and(|most| amount.column.most(block) <= most) {
            return;
        }
        let mut short = probe.nameable(block, and(failing, having));
        while let Some(slot) = pop(&mut short, block) {
            let available = amount.column.get(slot).map(|entry| entry.available().max(0));
            if available.is_none_or(|available| most.is_some_and(|most| available <= most)) {
                continue;
            }
            if let Some(shortage) = shortage(self.world, amount, slot) {
                most = available;
                let host = self.world.occupied(slot).name().to_owned();
                survey.tally.set_closest(probe.condition, Closest { host, shortage });
            }
        }
    }

    /// Adds near misses, if they are among the nearest.
    fn name(
        &self,
        block: u32,
        mut near: Words,
        (condition, probe): (usize, Option<&Probe>),
        survey: &mut Survey,
    ) {
        let nearest = survey.tally.nearest();
        let amount = probe.and_then(Probe::amount);
        let most = amount.map_or(0, |amount| amount.column.most(block).max(0));
        let least = match amount {
            None => Some(Shortfall::OTHER),
            // A host of the block with enough provides no information about those without.
            Some(amount) if most >= amount.units => None,
            Some(amount) => Some(Shortfall::of(amount.units, most)),
        };
        if least.is_some_and(|least| !nearest.may_take(least)) {
            return;
        }
        while let Some(slot) = pop(&mut near, block) {
            let shortfall = amount.map_or(Shortfall::OTHER, |amount| {
                let available = amount.column.get(slot).map_or(0, |entry| entry.available().max(0));
                Shortfall::of(amount.units, available)
            });
            if nearest.may_take(shortfall) {
                let host = self.world.occupied(slot);
                nearest.offer(shortfall, host.id(), condition, host.name());
            }
        }
    }
}

/// The hosts that have no inventory of the class of a condition. They were not checked for forbidden traits and
/// aggregates, which apply to providers with all classes of the group.
fn absent(block: u32, condition: usize, hosts: Words, checks: &HostChecks<'_>) -> Words {
    let forbids = checks.probes.iter().any(|probe| matches!(probe.test, Test::Outside(..)));
    let probe = checks.probes.iter().find(|probe| probe.condition == condition);
    match probe.and_then(Probe::amount).filter(|_| forbids) {
        Some(amount) => and_not(hosts, amount.column.having(block)),
        None => [0; 4],
    }
}

/// Counts the failing hosts by the conditions that they fail: each condition splits the hosts that have failed the
/// same ones so far.
fn add_masks(hosts: Words, failing: &[Words], survey: &mut Survey) {
    let mut groups: Vec<(Mask, Words)> = vec![(0, hosts)];
    let mut split = Vec::new();
    for (condition, failing) in failing.iter().enumerate() {
        for (mask, hosts) in &mut groups {
            let both = and(*hosts, *failing);
            if both == *hosts {
                *mask |= bit(condition);
            } else if both != [0; 4] {
                *hosts = and_not(*hosts, both);
                split.push((*mask | bit(condition), both));
            }
        }
        groups.append(&mut split);
    }
    for (mask, hosts) in groups {
        survey.add_failing(mask, count_ones(hosts));
    }
}

/// The words of a block with only one slot.
fn only(block: u32, slot: u32) -> Words {
    super::super::part::range(block, slot, slot + 1)
}
