//! The remaining capacity of the pools, and the ways in which bundles draw on them.

#![expect(clippy::indexing_slicing, reason = "bundles, hosts and pools are numbered densely")]

use super::packing::{give, is_left, pack, take};
use crate::solver::budget::Budget;
use crate::solver::model::Model;
use crate::solver::model::{Demand, ServerOptions, Variant};

/// The remaining capacity of the pools.
///
/// Whenever a bundle comes to a host, the ways of the other bundles there may change to make room.
/// So whether a bundle fits depends on which bundles are on the host, and not on the ways that they
/// have at the moment. A bundle's draws on shared pools are its variant, which only the search
/// changes.
///
/// *Example.* A host has two NUMA nodes with 3 VCPU each. Servers of 1 VCPU are on both nodes, so 2
/// are left on each. For a server of 3 VCPU, one of them moves to the node of the other.
#[derive(Debug)]
pub(super) struct Capacity<'p> {
    model: &'p Model<'p>,
    left: Vec<u64>,
    /// For each shared pool, the maximum that one bundle draws.
    most: Vec<u64>,
    /// The shared pools that had less left than that before or after the last change: the slots of
    /// their hosts must be computed again.
    pub(super) tight: Vec<usize>,
    /// The bundles on each host that have a choice.
    with_choice: Vec<Vec<usize>>,
    chosen: Vec<Chosen>,
}

/// The ways of a bundle that has been placed.
#[derive(Clone, Debug, Default)]
struct Chosen {
    variant: usize,
    /// For each server the position among the ways of its variant.
    ways: Vec<usize>,
}

impl<'p> Capacity<'p> {
    pub(super) fn new(model: &'p Model<'p>, budget: &mut Budget<'_>) -> Self {
        let pools = &model.problem.pools;
        let mut most = vec![0; pools.len()];
        for load in &model.loads {
            load.most(&model.sizes.shared, &mut most, budget);
        }
        Self {
            model,
            left: pools.iter().map(|pool| pool.free).collect(),
            most,
            tight: Vec::new(),
            with_choice: vec![Vec::new(); model.problem.hosts.len()],
            chosen: vec![Chosen::default(); model.bundles.len()],
        }
    }

    /// An upper bound on how many bundles of a load fit on a host, which is zero exactly if not
    /// even one fits.
    pub(super) fn slots(&mut self, load: usize, host: usize, budget: &mut Budget<'_>) -> u16 {
        match self.model.loads[load].at(host) {
            Demand::Never => 0,
            Demand::Plain(draws) => {
                if !is_left(&self.left, draws) {
                    return 0;
                }
                // Shared pools change too often to be counted here.
                let own = draws.iter().filter(|(pool, _)| !self.model.sizes.shared[*pool]);
                let slots = own.map(|(pool, amount)| self.left[*pool] / amount).min();
                u16::try_from(slots.unwrap_or(u64::MAX)).unwrap_or(u16::MAX)
            }
            Demand::Choice(variants) => {
                let is_room =
                    variants.iter().any(|it| self.ways_beside(it, host, budget).is_some());
                if is_room { u16::MAX } else { 0 }
            }
        }
    }

    /// Takes what a variant of a bundle draws. Returns false if it does not fit.
    pub(super) fn take(
        &mut self,
        bundle: usize,
        host: usize,
        variant: usize,
        budget: &mut Budget<'_>,
    ) -> bool {
        self.tight.clear();
        match self.demand(bundle, host) {
            Demand::Never => false,
            Demand::Plain(draws) => {
                let fits = is_left(&self.left, draws);
                if fits {
                    take(&mut self.left, draws);
                    self.find_tight(draws);
                }
                fits
            }
            Demand::Choice(variants) => {
                let it = &variants[variant];
                let Some(ways) = self.ways_beside(it, host, budget) else { return false };
                let (own, others) = ways.split_at(it.members.len());
                self.choose_anew(host, others);
                take(&mut self.left, &it.shared);
                self.find_tight(&it.shared);
                take_all(&mut self.left, &it.members, own);
                self.with_choice[host].push(bundle);
                self.chosen[bundle] = Chosen { variant, ways: own.to_vec() };
                true
            }
        }
    }

    /// Returns what a bundle drew.
    pub(super) fn give_back(&mut self, bundle: usize, host: usize) {
        self.tight.clear();
        match self.demand(bundle, host) {
            Demand::Never => {}
            Demand::Plain(draws) => {
                self.find_tight(draws);
                give(&mut self.left, draws);
            }
            Demand::Choice(_) => {
                let variant = self.variant(bundle, host);
                let chosen = std::mem::take(&mut self.chosen[bundle]);
                self.with_choice[host].retain(|other| *other != bundle);
                self.find_tight(&variant.shared);
                give(&mut self.left, &variant.shared);
                give_all(&mut self.left, &variant.members, &chosen.ways);
            }
        }
    }

    /// The way of each server of a bundle, by its position in the problem.
    pub(super) fn ways(&self, bundle: usize, host: usize) -> Vec<usize> {
        match self.demand(bundle, host) {
            Demand::Choice(_) => {
                let members = &self.variant(bundle, host).members;
                let chosen = members.iter().zip(&self.chosen[bundle].ways);
                chosen.map(|(member, way)| member.ways[*way].0).collect()
            }
            Demand::Never | Demand::Plain(_) => {
                let sizes = &self.model.sizes;
                let servers = self.model.bundles[bundle].servers.iter();
                servers.map(|it| sizes.first_way(sizes.of[*it], host)).collect()
            }
        }
    }

    /// Ways for the servers of a variant together with the bundles on the host. If the ways of
    /// these bundles must change, they follow in the result.
    fn ways_beside(
        &mut self,
        variant: &Variant,
        host: usize,
        budget: &mut Budget<'_>,
    ) -> Option<Vec<usize>> {
        if !is_left(&self.left, &variant.shared) {
            return None;
        }
        let own: Vec<&ServerOptions> = variant.members.iter().collect();
        if let Some(ways) = pack(&own, &mut self.left, budget) {
            return Some(ways);
        }
        if self.with_choice[host].is_empty() {
            return None;
        }
        let (model, chosen) = (self.model, &self.chosen);
        let mut all = own;
        for other in &self.with_choice[host] {
            let members = &variant_of(model, chosen, *other, host).members;
            give_all(&mut self.left, members, &chosen[*other].ways);
            all.extend(members);
        }
        let packed = pack(&all, &mut self.left, budget);
        for other in &self.with_choice[host] {
            let members = &variant_of(model, chosen, *other, host).members;
            take_all(&mut self.left, members, &chosen[*other].ways);
        }
        packed
    }

    /// Changes the ways of the bundles on a host to these; an empty list changes nothing.
    fn choose_anew(&mut self, host: usize, ways: &[usize]) {
        if ways.is_empty() {
            return;
        }
        let mut ways = ways.iter().copied();
        for other in &self.with_choice[host] {
            let members = &variant_of(self.model, &self.chosen, *other, host).members;
            give_all(&mut self.left, members, &self.chosen[*other].ways);
        }
        for other in &self.with_choice[host] {
            let members = &variant_of(self.model, &self.chosen, *other, host).members;
            self.chosen[*other].ways = ways.by_ref().take(members.len()).collect();
            take_all(&mut self.left, members, &self.chosen[*other].ways);
        }
    }

    fn demand(&self, bundle: usize, host: usize) -> Demand<'p> {
        self.model.loads[self.model.bundles[bundle].load].at(host)
    }

    fn find_tight(&mut self, draws: &[(usize, u64)]) {
        let is_tight = |pool: &usize| self.left[*pool] < self.most[*pool];
        self.tight.extend(draws.iter().map(|(pool, _)| *pool).filter(is_tight));
    }

    fn variant(&self, bundle: usize, host: usize) -> &'p Variant {
        variant_of(self.model, &self.chosen, bundle, host)
    }
}

fn variant_of<'p>(
    model: &'p Model<'p>,
    chosen: &[Chosen],
    bundle: usize,
    host: usize,
) -> &'p Variant {
    const NONE: &Variant = &Variant { shared: Vec::new(), members: Vec::new() };
    match model.loads[model.bundles[bundle].load].at(host) {
        Demand::Choice(variants) => &variants[chosen[bundle].variant],
        Demand::Never | Demand::Plain(_) => NONE,
    }
}

fn take_all(left: &mut [u64], members: &[ServerOptions], ways: &[usize]) {
    members.iter().zip(ways).for_each(|(member, way)| take(left, &member.ways[*way].1));
}

fn give_all(left: &mut [u64], members: &[ServerOptions], ways: &[usize]) {
    members.iter().zip(ways).for_each(|(member, way)| give(left, &member.ways[*way].1));
}
