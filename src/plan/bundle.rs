//! Servers that can only be placed as one, and what is known of them before the search.

use super::units::Units;
use super::{Level, Problem, Rule};

/// Servers that must be on one host.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    /// The servers.
    pub(super) servers: Vec<usize>,
    /// What they need together.
    pub(super) needs: Vec<u64>,
    /// For each host, whether all of them may be there.
    pub(super) may_be_on: Vec<bool>,
    /// Where each of them is at present.
    pub(super) are_on: Vec<Option<usize>>,
    /// The rules it is bound by, each with the part of it that it is in.
    pub(super) rules: Vec<(usize, usize)>,
    /// Bundles with the same kind can be exchanged in every placement.
    pub(super) kind: usize,
}

/// The bundles of a problem, and for each of its servers the bundle.
///
/// `None` if the rules contradict each other whatever the hosts are.
pub(super) fn bundles(problem: &Problem, units: &Units) -> Option<Vec<Bundle>> {
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
    let mut bundles: Vec<Bundle> = Vec::new();
    let mut bundle_of = vec![usize::MAX; problem.servers.len()];
    for server in 0..problem.servers.len() {
        let first = find(&leader, server);
        if first == server {
            let alike = |other: &usize| find(&leader, *other) == server;
            let servers: Vec<usize> = (0..problem.servers.len()).filter(alike).collect();
            for member in &servers {
                if let Some(bundle) = bundle_of.get_mut(*member) {
                    *bundle = bundles.len();
                }
            }
            bundles.push(bundle(problem, servers));
        }
    }
    for (number, rule) in problem.rules.iter().enumerate() {
        bind(&mut bundles, &bundle_of, number, rule)?;
        if rule.level() != Level::Host {
            let bound = bundles.iter_mut().filter(|it| it.rules.iter().any(|(r, _)| *r == number));
            for bundle in bound {
                for (host, may) in bundle.may_be_on.iter_mut().enumerate() {
                    *may &= units.unit(rule.level(), host).is_some();
                }
            }
        }
    }
    name_kinds(problem, &mut bundles);
    Some(bundles)
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

fn bundle(problem: &Problem, servers: Vec<usize>) -> Bundle {
    let members = || servers.iter().filter_map(|server| problem.servers.get(*server));
    let classes = members().map(|server| server.needs.len()).max().unwrap_or(0);
    let need = |class: usize| {
        members()
            .filter_map(|it| it.needs.get(class))
            .fold(0, |sum: u64, it| sum.saturating_add(*it))
    };
    let needs: Vec<u64> = (0..classes).map(need).collect();
    let fits = |free: &[u64]| {
        needs.iter().enumerate().all(|(nth, need)| *need <= free.get(nth).copied().unwrap_or(0))
    };
    let may_be_on = problem
        .hosts
        .iter()
        .enumerate()
        .map(|(nth, host)| {
            fits(&host.free) && members().all(|it| it.may_be_on.get(nth).copied().unwrap_or(false))
        })
        .collect();
    let are_on = members().map(|server| server.is_on).collect();
    Bundle { servers, needs, may_be_on, are_on, rules: Vec::new(), kind: 0 }
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

fn name_kinds(problem: &Problem, bundles: &mut [Bundle]) {
    type Kind = (Vec<u64>, Vec<bool>, Vec<Option<usize>>, Vec<(usize, Option<usize>)>);
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
        (bundle.needs.clone(), bundle.may_be_on.clone(), are_on, roles)
    };
    let mut kinds: Vec<Kind> = Vec::new();
    for bundle in bundles.iter_mut() {
        let it = kind(bundle);
        bundle.kind = kinds.iter().position(|known| *known == it).unwrap_or_else(|| {
            kinds.push(it);
            kinds.len() - 1
        });
    }
}
