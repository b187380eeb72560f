//! Checks whether the pools suffice for a placement, by trying every choice of ways.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::super::{Conditions, Draws, PlacementProblem, Server, Source, Supply, Way};

/// Decides for which placements the pools suffice, by trying every choice of ways.
///
/// Servers are placed host by host. Choices with equal remainders are followed once, and so are those of servers
/// that come first in several placements. The remainder of a pool counts only while there are hosts that draw on
/// it: otherwise the choices of all hosts would be multiplied.
pub(super) struct Room {
    /// For each server and host, the possible draws of the server there.
    draws: Vec<Vec<Vec<Draws>>>,
    /// For each pool, the last host on which a server can draw on it.
    last: Vec<usize>,
    /// By the hosts of the first servers, and these servers.
    left: HashMap<Vec<(usize, usize)>, Rc<Leftovers>>,
}

/// All possible remainders of the pools.
type Leftovers = HashSet<Vec<u64>>;

impl Room {
    pub(super) fn of(problem: &PlacementProblem) -> Self {
        let on = |server: &Server, host| server.ways.on(host).map_or_else(Vec::new, all_draws);
        let hosts = 0..problem.hosts.len();
        let of_server = |server| hosts.clone().map(|host| on(server, host)).collect();
        let draws: Vec<Vec<Vec<Draws>>> = problem.servers.iter().map(of_server).collect();
        let mut last = vec![0; problem.pools.len()];
        for of_server in &draws {
            for (host, draws) in of_server.iter().enumerate() {
                for (pool, _) in draws.iter().flatten() {
                    last[*pool] = host.max(last[*pool]);
                }
            }
        }
        let free = problem.pools.iter().map(|pool| pool.free).collect();
        let left = HashMap::from([(Vec::new(), Rc::new(HashSet::from([free])))]);
        Self { draws, last, left }
    }

    pub(super) fn is_enough(&mut self, places: &[usize]) -> bool {
        let mut by_host: Vec<(usize, usize)> = places.iter().copied().zip(0..).collect();
        by_host.sort_unstable();
        !self.left(&by_host).is_empty()
    }

    fn left(&mut self, by_host: &[(usize, usize)]) -> Rc<Leftovers> {
        if let Some(known) = self.left.get(by_host) {
            return Rc::clone(known);
        }
        let ((host, server), others) = by_host.split_last().unwrap();
        let before = self.left(others);
        let still_counts = |left: &Vec<u64>| {
            let pools = left.iter().zip(&self.last);
            pools.map(|(left, last)| if last < host { 0 } else { *left }).collect()
        };
        let before: Leftovers = before.iter().map(still_counts).collect();
        let draws = &self.draws[*server][*host];
        let after =
            |left: &Vec<u64>| draws.iter().filter_map(|it| drawn(left, it)).collect::<Vec<_>>();
        let left: Rc<Leftovers> = Rc::new(before.iter().flat_map(after).collect());
        self.left.insert(by_host.to_vec(), Rc::clone(&left));
        left
    }
}

/// The remainder of the pools after these draws, if they suffice.
fn drawn(left: &[u64], draws: &Draws) -> Option<Vec<u64>> {
    let mut left = left.to_vec();
    for (pool, amount) in draws {
        left[*pool] = left[*pool].checked_sub(*amount)?;
    }
    Some(left)
}

/// The possible draws of a server: for each choice of ways that meets the conditions, the amount of each pool.
/// Equal draws count once.
fn all_draws(supply: &Supply) -> Vec<Draws> {
    let choice = match supply {
        Supply::One(draws) => return vec![draws.clone()],
        Supply::Choice(choice) => choice,
    };
    let mut chosen: Vec<Vec<&Way>> = vec![Vec::new()];
    for ways in choice.parts.iter() {
        let pairs = chosen.iter().flat_map(|so_far| ways.iter().map(move |way| (so_far, way)));
        chosen = pairs.map(|(so_far, way)| [so_far.as_slice(), &[way]].concat()).collect();
    }
    let is_within = |ways: &[&Way]| {
        choice.limits.iter().all(|(pool, most)| {
            let draws = ways.iter().flat_map(|way| &way.draws).filter(|(it, _)| it == pool);
            draws.map(|(_, amount)| amount).sum::<u64>() <= *most
        })
    };
    chosen.retain(|ways| are_allowed(&choice.conditions, ways) && is_within(ways));
    let draws = |ways: Vec<&Way>| {
        let mut amounts: BTreeMap<usize, u64> = BTreeMap::new();
        for (pool, amount) in ways.iter().flat_map(|way| &way.draws) {
            *amounts.entry(*pool).or_default() += amount;
        }
        amounts.into_iter().collect::<Draws>()
    };
    let all: HashSet<Draws> = chosen.into_iter().map(draws).collect();
    all.into_iter().collect()
}

/// A literal reading of the conditions on the ways of all parts.
fn are_allowed(conditions: &Conditions, ways: &[&Way]) -> bool {
    let isolated = &conditions.isolated;
    let apart = isolated.iter().all(|one| {
        isolated.iter().all(|other| one == other || ways[*one].provider != ways[*other].provider)
    });
    let below_one = |set: &Vec<usize>| {
        set.is_empty()
            || set.iter().any(|top| {
                let top = ways[*top];
                set.iter().all(|it| (top.provider..=top.last).contains(&ways[*it].provider))
            })
    };
    let all_inside = ways.iter().all(|way| way.source != Source::Foreign);
    let on_host = all_inside || ways.iter().any(|way| way.source == Source::Own);
    (0..conditions.clauses).all(|clause| ways.iter().any(|way| way.meets[clause]))
        && apart
        && conditions.subtrees.iter().all(below_one)
        && (on_host || !conditions.needs_own)
}
