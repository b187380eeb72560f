//! Servers that can only be placed as one, and what is known of them before the search.

use std::collections::HashMap;

use super::clock::Clock;
use super::load::{Demand, Load, Sizes};
use super::units::Units;
use super::{Level, Problem, Rule};

/// Servers that must be on one host.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    /// The servers, in the order of their sizes.
    pub(super) servers: Vec<usize>,
    /// What they draw on together, by its position.
    pub(super) load: usize,
    /// For each host, whether all of them may be there.
    pub(super) may_be_on: Vec<bool>,
    /// Where each of them is at present.
    pub(super) are_on: Vec<Option<usize>>,
    /// The rules it is bound by, each with the part of it that it is in.
    pub(super) rules: Vec<(usize, usize)>,
    /// Bundles with the same kind can be exchanged in every placement.
    pub(super) kind: usize,
}

/// The bundles of a problem, and their loads.
///
/// `None` if the rules contradict each other whatever the hosts are. It is of no use once the time is
/// up.
pub(super) fn bundles(
    problem: &Problem,
    units: &Units,
    sizes: &Sizes<'_>,
    clock: &mut Clock<'_>,
) -> Option<(Vec<Bundle>, Vec<Load>)> {
    let members = members(problem);
    let mut loads = Vec::new();
    let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
    let mut bundle_of = vec![usize::MAX; problem.servers.len()];
    let mut bundles: Vec<Bundle> = Vec::new();
    for mut servers in members {
        let size = |server: &usize| sizes.of.get(*server).copied().unwrap_or_default();
        servers.sort_by_key(size);
        for server in &servers {
            if let Some(bundle) = bundle_of.get_mut(*server) {
                *bundle = bundles.len();
            }
        }
        let load =
            *known.entry(servers.iter().map(size).collect()).or_insert_with_key(|sizes_of| {
                loads.push(sizes.load(sizes_of, clock));
                loads.len() - 1
            });
        clock.is_up_after(problem.hosts.len() * servers.len());
        bundles.push(bundle(problem, servers, load, loads.get(load)?));
    }
    for (number, rule) in problem.rules.iter().enumerate() {
        bind(&mut bundles, &bundle_of, number, rule)?;
        if rule.level() != Level::Host {
            let bound = bundles.iter_mut().filter(|it| it.rules.iter().any(|(r, _)| *r == number));
            for bundle in bound {
                clock.is_up_after(problem.hosts.len());
                for (host, may) in bundle.may_be_on.iter_mut().enumerate() {
                    *may &= units.unit(rule.level(), host).is_some();
                }
            }
        }
    }
    name_kinds(problem, &mut bundles, clock);
    Some((bundles, loads))
}

/// The servers of each bundle.
fn members(problem: &Problem) -> Vec<Vec<usize>> {
    let mut leader: Vec<usize> = (0..problem.servers.len()).collect();
    for rule in &problem.rules {
        if let Rule::Together(Level::Host, servers) = rule {
            for pair in servers.windows(2) {
                if let [one, other] = pair {
                    join(&mut leader, *one, *other);
                }
            }
        }
    }
    let mut members = vec![Vec::new(); problem.servers.len()];
    for server in 0..problem.servers.len() {
        if let Some(members) = members.get_mut(find(&leader, server)) {
            members.push(server);
        }
    }
    members.retain(|servers| !servers.is_empty());
    members
}

fn find(leader: &[usize], server: usize) -> usize {
    let mut at = server;
    while let Some(next) = leader.get(at).filter(|next| **next != at) {
        at = *next;
    }
    at
}

fn join(leader: &mut [usize], one: usize, other: usize) {
    let (one, other) = (find(leader, one), find(leader, other));
    // The smallest leads, so that the answer does not depend on the order of the rules.
    if let Some(entry) = leader.get_mut(one.max(other)) {
        *entry = one.min(other);
    }
}

fn bundle(problem: &Problem, servers: Vec<usize>, number: usize, load: &Load) -> Bundle {
    let members = || servers.iter().filter_map(|server| problem.servers.get(*server));
    let may_be_on = (0..problem.hosts.len())
        .map(|host| {
            !matches!(load.at(host), Demand::Never)
                && members().all(|it| it.may_be_on.get(host).copied().unwrap_or(false))
        })
        .collect();
    let are_on = members().map(|server| server.is_on).collect();
    Bundle { servers, load: number, may_be_on, are_on, rules: Vec::new(), kind: 0 }
}

fn bind(bundles: &mut [Bundle], bundle_of: &[usize], number: usize, rule: &Rule) -> Option<()> {
    let whole = |servers: &Vec<usize>| vec![servers.clone()];
    let parts = match rule {
        Rule::Together(_, servers) | Rule::Alone(_, servers) => whole(servers),
        Rule::Apart(_, parts) => parts.clone(),
    };
    for (part, servers) in parts.iter().enumerate() {
        for server in servers {
            let bundle = bundles.get_mut(*bundle_of.get(*server)?)?;
            match bundle.rules.iter().find(|(known, _)| *known == number) {
                // On one host, and in different units?
                Some((_, other)) if *other != part => return None,
                Some(_) => {}
                None => bundle.rules.push((number, part)),
            }
            // Alone, and on one host with a stranger?
            if let Rule::Alone(_, members) = rule
                && bundle.servers.iter().any(|server| !members.contains(server))
            {
                return None;
            }
        }
    }
    Some(())
}

fn name_kinds(problem: &Problem, bundles: &mut [Bundle], clock: &mut Clock<'_>) {
    type Kind = (usize, Vec<bool>, Vec<Option<usize>>, Vec<(usize, Option<usize>)>);
    let kind = |bundle: &Bundle| -> Kind {
        let role = |(number, part): &(usize, usize)| {
            let alone_in_part = match problem.rules.get(*number) {
                Some(Rule::Apart(_, parts)) => parts.get(*part).is_some_and(|servers| {
                    servers.iter().all(|server| bundle.servers.contains(server))
                }),
                _ => false,
            };
            (*number, if alone_in_part { None } else { Some(*part) })
        };
        let mut are_on = bundle.are_on.clone();
        are_on.sort_unstable();
        let roles = bundle.rules.iter().map(role).collect();
        (bundle.load, bundle.may_be_on.clone(), are_on, roles)
    };
    let mut kinds: HashMap<Kind, usize> = HashMap::new();
    for bundle in bundles.iter_mut() {
        clock.is_up_after(bundle.may_be_on.len());
        let next = kinds.len();
        bundle.kind = *kinds.entry(kind(bundle)).or_insert(next);
    }
}
