//! What is left in the pools, and the ways of those that draw on them.

#![expect(clippy::indexing_slicing, reason = "bundles, hosts and pools are numbered densely")]

use super::budget::Budget;
use super::load::{Demand, ServerOptions, Variant};
use super::model::Model;
use super::packing::{give, is_left, pack, take};

/// What is left in the pools.
///
/// Which way a bundle with a choice has may change whenever another comes to its host: whether there
/// is room for one depends on who is there, never on the ways they have at the moment. What is drawn
/// on pools of several hosts does not change behind a bundle's back: that is its variant.
#[derive(Debug)]
pub(super) struct Capacity<'p> {
    model: &'p Model<'p>,
    left: Vec<u64>,
    /// How much one bundle draws at the most on each pool that hosts share.
    most: Vec<u64>,
    /// Shared pools of which there was, before or after the last change, less than that.
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

    /// How many of a load there is room for on a host, as far as can be said: none only if there is
    /// no room for one, and never too few.
    pub(super) fn slots(&mut self, load: usize, host: usize, budget: &mut Budget<'_>) -> u16 {
        match self.model.loads[load].at(host) {
            Demand::Never => 0,
            Demand::Plain(draws) => {
                if !is_left(&self.left, draws) {
                    return 0;
                }
                // Of a shared pool it changes too often.
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

    /// Takes what a variant of a bundle draws, if there is room for it.
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

    /// Gives back what a bundle drew.
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

    /// The ways of a variant beside those that are on the host: of its servers, and of all that are
    /// there if they have to change.
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

    /// Gives those on a host other ways; none leave them as they are.
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
