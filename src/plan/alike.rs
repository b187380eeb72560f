//! Hosts that are alike: as long as nothing has been placed on them, one can stand for the other.

#![expect(clippy::indexing_slicing, reason = "hosts and racks are numbered densely")]

use std::collections::HashMap;

use super::bundle::Bundle;
use super::clock::Clock;
use super::kind::Kind;
use super::load::Sizes;
use super::units::Units;
use super::{Level, Problem};

/// Groups of hosts. Two of one group can be exchanged if they are in one rack or in none and nothing
/// is on them; and so can those of two racks if nothing is in these, since all of one rack have their
/// like in the other.
#[derive(Debug)]
pub(super) struct Alike {
    /// The group of each host.
    of: Vec<usize>,
    hosts: Vec<Vec<usize>>,
}

impl Alike {
    pub(super) fn of(
        problem: &Problem,
        units: &Units,
        sizes: &Sizes<'_>,
        (kinds, bundles): (&[Kind], &[Bundle]),
        clock: &mut Clock<'_>,
    ) -> Self {
        let mut is_home = vec![false; problem.hosts.len()];
        for home in kinds.iter().flat_map(|kind| &kind.homes) {
            if let Some(is_home) = is_home.get_mut(home.0) {
                *is_home = true;
            }
        }
        let form = |host: usize, clock: &mut Clock<'_>| {
            let mut form = sizes.form(host);
            clock.is_up_after(sizes.count() + 4 * form.len() + kinds.len());
            let it = &problem.hosts[host];
            let number = |it: Option<usize>| it.map_or(0, |it| it as u64 + 1);
            form.extend(&it.free);
            // Whoever is at a host now makes it like no other.
            form.push(number(is_home[host].then_some(host)));
            form.push(number(units.unit(Level::Cluster, host)));
            form.push(u64::from(it.in_use));
            let open = |kind: &Kind| u64::from(bundles[kind.bundles[0]].may_be_on.has(host));
            // A bit each.
            let bits = |kinds: &[Kind]| kinds.iter().fold(0, |bits, kind| bits << 1 | open(kind));
            form.extend(kinds.chunks(64).map(bits));
            form
        };
        let mut known: HashMap<Vec<u64>, usize> = HashMap::new();
        let mut forms = vec![0; problem.hosts.len()];
        for (host, number) in forms.iter_mut().enumerate() {
            let form = form(host, clock);
            let (numbers, next) = (8 + form.len(), known.len());
            *number = *known.entry(form).or_insert(next);
            if clock.is_up_with(if *number == next { numbers } else { 1 }) {
                break;
            }
        }
        drop(known);
        let rack_form = |rack: usize| {
            let hosts = units.hosts(Level::Rack, rack);
            let mut forms: Vec<usize> = hosts.iter().map(|host| forms[*host]).collect();
            forms.sort_unstable();
            forms
        };
        let rack_forms = numbered((0..units.count(Level::Rack)).map(rack_form));
        let group = |host: usize| (forms[host], units.racks()[host].map(|rack| rack_forms[rack]));
        let of = numbered((0..problem.hosts.len()).map(group));
        let mut hosts = vec![Vec::new(); of.iter().max().map_or(0, |most| most + 1)];
        for (host, group) in of.iter().enumerate() {
            hosts[*group].push(host);
        }
        Self { of, hosts }
    }

    /// The hosts of the group of a host.
    pub(super) fn group(&self, host: usize) -> &[usize] {
        &self.hosts[self.of[host]]
    }
}

fn numbered<T: std::hash::Hash + Eq>(all: impl Iterator<Item = T>) -> Vec<usize> {
    let mut known = HashMap::new();
    all.map(|it| {
        let next = known.len();
        *known.entry(it).or_insert(next)
    })
    .collect()
}
