//! What a placement costs, in the order in which it counts.

use super::Problem;

/// What a placement costs: the first difference decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Servers that are not where they were.
    pub moved: u64,
    /// Hosts that were not in use before; with spreading, servers that share a host or did not get
    /// a new one.
    pub new_hosts: u64,
    /// Racks with a server of the problem; with spreading, servers less racks.
    pub racks: u64,
    /// How much room there is on the hosts that were chosen, counted once for each server, in
    /// thousandths of what is free on the roomiest; with spreading, how little.
    pub room: u64,
}

/// The most that one server's share of [`Cost::room`] can be for each resource class.
const ROOM_MAX: u64 = 1000;

/// How roomy each host is for the purposes of [`Cost::room`].
pub(super) fn rooms(problem: &Problem) -> Vec<u64> {
    let classes = problem.hosts.iter().map(|host| host.free.len()).max().unwrap_or(0);
    let most: Vec<u64> = (0..classes)
        .map(|class| problem.hosts.iter().filter_map(|host| host.free.get(class)).max().copied())
        .map(|most| most.unwrap_or(0).max(1))
        .collect();
    let thousandths = |free: u64, most: u64| {
        u64::try_from(u128::from(free) * u128::from(ROOM_MAX) / u128::from(most))
            .unwrap_or(ROOM_MAX)
    };
    let total = ROOM_MAX * u64::try_from(classes).unwrap_or(0);
    let room = |free: &[u64]| -> u64 {
        let room = free.iter().zip(&most).map(|(free, most)| thousandths(*free, *most)).sum();
        if problem.spread { total.saturating_sub(room) } else { room }
    };
    problem.hosts.iter().map(|host| room(&host.free)).collect()
}
