//! The slots of a kind, unit by unit.

#![expect(clippy::indexing_slicing, reason = "hosts and units are numbered densely")]

use crate::solver::state::State;

/// Sets the slots of a kind in each unit: those on the hosts that are open to it. `unit` gives the unit
/// of a host; hosts without one do not count.
pub(super) fn slots_by_unit(
    state: &State<'_>,
    kind: usize,
    unit: impl Fn(usize) -> Option<usize>,
    slots: &mut [usize],
) {
    slots.fill(0);
    for host in 0..state.model.problem.hosts.len() {
        if let Some(unit) = unit(host)
            && state.domains.is_open(kind, host)
        {
            slots[unit] += state.domains.slots(kind, host);
        }
    }
}
