//! What is left in the pools, and the ways of those that draw on them.

#![expect(clippy::indexing_slicing, reason = "bundles, hosts and pools are numbered densely")]

use super::Problem;
use super::bundle::Bundle;
use super::clock::Clock;
use super::load::{Demand, Load, Member, Sizes, Variant};
use super::packing::{give, is_left, pack, take};

/// What is left in the pools.
///
/// Which way a bundle with a choice has may change whenever another comes to its host: whether there
/// is room for one depends on who is there, never on the ways they have at the moment. What is drawn
/// on pools of several hosts does not change behind a bundle's back: that is its variant.
#[derive(Debug)]
pub(super) struct Stock<'p> {
    sizes: &'p Sizes<'p>,
    loads: &'p [Load],
    bundles: &'p [Bundle],
    left: Vec<u64>,
    /// The bundles on each host that have a choice.
    guests: Vec<Vec<usize>>,
    chosen: Vec<Chosen>,
}

/// The ways of a bundle that has been placed.
#[derive(Clone, Debug, Default)]
struct Chosen {
    variant: usize,
    /// For each server the position among the ways of its variant.
    ways: Vec<usize>,
}

impl<'p> Stock<'p> {
    pub(super) fn new(
        problem: &Problem,
        sizes: &'p Sizes<'p>,
        loads: &'p [Load],
        bundles: &'p [Bundle],
    ) -> Self {
        Self {
            sizes,
            loads,
            bundles,
            left: problem.pools.iter().map(|pool| pool.free).collect(),
            guests: vec![Vec::new(); problem.hosts.len()],
            chosen: vec![Chosen::default(); bundles.len()],
        }
    }

    /// Whether there is room for a load on a host beside those that are there.
    pub(super) fn has_room(&mut self, load: usize, host: usize, clock: &mut Clock<'_>) -> bool {
        match self.loads[load].at(host) {
            Demand::Never => false,
            Demand::Plain(draws) => is_left(&self.left, draws),
            Demand::Choice(variants) => {
                variants.iter().any(|it| self.ways_beside(it, host, clock).is_some())
            }
        }
    }

    /// Takes what a variant of a bundle draws, if there is room for it.
    pub(super) fn take(
        &mut self,
        bundle: usize,
        host: usize,
        variant: usize,
        clock: &mut Clock<'_>,
    ) -> bool {
        match self.loads[self.bundles[bundle].load].at(host) {
            Demand::Never => false,
            Demand::Plain(draws) => {
                let fits = is_left(&self.left, draws);
                if fits {
                    take(&mut self.left, draws);
                }
                fits
            }
            Demand::Choice(variants) => {
                let it = &variants[variant];
                let Some(ways) = self.ways_beside(it, host, clock) else { return false };
                let (own, others) = ways.split_at(it.members.len());
                self.choose_anew(host, others);
                take(&mut self.left, &it.shared);
                take_all(&mut self.left, &it.members, own);
                self.guests[host].push(bundle);
                self.chosen[bundle] = Chosen { variant, ways: own.to_vec() };
                true
            }
        }
    }

    /// Gives back what a bundle drew.
    pub(super) fn give_back(&mut self, bundle: usize, host: usize) {
        match self.loads[self.bundles[bundle].load].at(host) {
            Demand::Never => {}
            Demand::Plain(draws) => give(&mut self.left, draws),
            Demand::Choice(_) => {
                let variant = self.variant(bundle, host);
                let chosen = std::mem::take(&mut self.chosen[bundle]);
                self.guests[host].retain(|guest| *guest != bundle);
                give(&mut self.left, &variant.shared);
                give_all(&mut self.left, &variant.members, &chosen.ways);
            }
        }
    }

    /// The way of each server of a bundle, by its position in the problem.
    pub(super) fn ways(&self, bundle: usize, host: usize) -> Vec<usize> {
        match self.loads[self.bundles[bundle].load].at(host) {
            Demand::Choice(_) => {
                let members = &self.variant(bundle, host).members;
                let chosen = members.iter().zip(&self.chosen[bundle].ways);
                chosen.map(|(member, way)| member.ways[*way].0).collect()
            }
            Demand::Never | Demand::Plain(_) => {
                let servers = self.bundles[bundle].servers.iter();
                servers.map(|it| self.sizes.first_way(self.sizes.of[*it], host)).collect()
            }
        }
    }

    /// The ways of a variant beside those that are on the host: of its servers, and of all that are
    /// there if they have to change.
    fn ways_beside(
        &mut self,
        variant: &Variant,
        host: usize,
        clock: &mut Clock<'_>,
    ) -> Option<Vec<usize>> {
        if !is_left(&self.left, &variant.shared) {
            return None;
        }
        let own: Vec<&Member> = variant.members.iter().collect();
        if let Some(ways) = pack(&own, &mut self.left, clock) {
            return Some(ways);
        }
        if self.guests[host].is_empty() {
            return None;
        }
        let (loads, bundles, chosen) = (self.loads, self.bundles, &self.chosen);
        let mut all = own;
        for guest in &self.guests[host] {
            let members = &variant_of(loads, bundles, chosen, *guest, host).members;
            give_all(&mut self.left, members, &chosen[*guest].ways);
            all.extend(members);
        }
        let packed = pack(&all, &mut self.left, clock);
        for guest in &self.guests[host] {
            let members = &variant_of(loads, bundles, chosen, *guest, host).members;
            take_all(&mut self.left, members, &chosen[*guest].ways);
        }
        packed
    }

    /// Gives those on a host other ways; none leave them as they are.
    fn choose_anew(&mut self, host: usize, ways: &[usize]) {
        if ways.is_empty() {
            return;
        }
        let mut ways = ways.iter().copied();
        for guest in &self.guests[host] {
            let members = &variant_of(self.loads, self.bundles, &self.chosen, *guest, host).members;
            give_all(&mut self.left, members, &self.chosen[*guest].ways);
        }
        for guest in &self.guests[host] {
            let members = &variant_of(self.loads, self.bundles, &self.chosen, *guest, host).members;
            self.chosen[*guest].ways = ways.by_ref().take(members.len()).collect();
            take_all(&mut self.left, members, &self.chosen[*guest].ways);
        }
    }

    fn variant(&self, bundle: usize, host: usize) -> &'p Variant {
        variant_of(self.loads, self.bundles, &self.chosen, bundle, host)
    }
}

fn variant_of<'p>(
    loads: &'p [Load],
    bundles: &[Bundle],
    chosen: &[Chosen],
    bundle: usize,
    host: usize,
) -> &'p Variant {
    const NONE: &Variant = &Variant { shared: Vec::new(), members: Vec::new() };
    match loads[bundles[bundle].load].at(host) {
        Demand::Choice(variants) => &variants[chosen[bundle].variant],
        Demand::Never | Demand::Plain(_) => NONE,
    }
}

fn take_all(left: &mut [u64], members: &[Member], ways: &[usize]) {
    members.iter().zip(ways).for_each(|(member, way)| take(left, &member.ways[*way].1));
}

fn give_all(left: &mut [u64], members: &[Member], ways: &[usize]) {
    members.iter().zip(ways).for_each(|(member, way)| give(left, &member.ways[*way].1));
}
