//! The domain of each kind: the hosts that are open to it, with the sums that bounds use.

#![expect(clippy::indexing_slicing, reason = "kinds, loads, hosts and units are numbered densely")]

use crate::solver::budget::Budget;
use crate::solver::model::{Model, Units};
use crate::solver::parallel::map_items;
use crate::solver::problem::Level;

/// For each kind and host, the number of reasons that rule the host out; for each load and host, the slots.
#[derive(Clone, Debug)]
pub(in crate::solver) struct Domains<'p> {
    model: &'p Model<'p>,
    blocked: Vec<u32>,
    slots: Vec<u16>,
    in_use: Vec<bool>,
    load_of: Vec<usize>,
    of_kind: Vec<Domain>,
}

/// Numbers about the hosts that are open to one kind.
#[derive(Clone, Debug, Default)]
pub(in crate::solver) struct Domain {
    /// Hosts.
    pub(in crate::solver) hosts: usize,
    /// Racks with such a host.
    pub(in crate::solver) racks: usize,
    /// Clusters with such a host.
    pub(in crate::solver) clusters: usize,
    /// Slots on all of these hosts.
    pub(in crate::solver) slots: usize,
    /// Slots on those of them that are in use.
    pub(in crate::solver) slots_in_use: usize,
    /// Such hosts in each rack, and in each cluster.
    pub(super) in_rack: Vec<u32>,
    in_cluster: Vec<u32>,
}

impl<'p> Domains<'p> {
    /// There are no slots until [`Self::set_all_slots`] sets them.
    pub(in crate::solver) fn new(model: &'p Model<'p>, budget: &mut Budget<'_>) -> Self {
        let (kinds, hosts) = (model.kinds.len(), model.problem.hosts.len());
        let mut blocked = vec![0; kinds * hosts];
        for (nth, kind) in model.kinds.iter().enumerate() {
            if budget.is_spent_after(hosts) {
                break;
            }
            let may = &model.bundles[kind.bundles[0]].allowed_hosts;
            for (host, blocked) in blocked[nth * hosts..].iter_mut().take(hosts).enumerate() {
                *blocked = u32::from(!may.has(host));
            }
        }
        let domain = Domain {
            in_rack: vec![0; model.units.count(Level::Rack)],
            in_cluster: vec![0; model.units.count(Level::Cluster)],
            ..Domain::default()
        };
        Self {
            model,
            blocked,
            slots: Vec::new(),
            in_use: model.problem.hosts.iter().map(|host| host.in_use).collect(),
            load_of: model.kinds.iter().map(|kind| kind.load).collect(),
            of_kind: vec![domain; kinds],
        }
    }

    /// Whether a host is open to a kind: nothing rules it out, and it has a slot.
    pub(in crate::solver) fn is_open(&self, kind: usize, host: usize) -> bool {
        self.blocked[self.at(kind, host)] == 0 && self.free_slots(kind, host) > 0
    }

    /// The slots of a kind on a host that is open to it.
    pub(in crate::solver) fn slots(&self, kind: usize, host: usize) -> usize {
        self.free_slots(kind, host).min(self.model.kinds[kind].most_on_host())
    }

    pub(in crate::solver) fn of_kind(&self, kind: usize) -> &Domain {
        &self.of_kind[kind]
    }

    /// Whether a host is in use, by others or by placed bundles.
    pub(in crate::solver) fn is_in_use(&self, host: usize) -> bool {
        self.in_use[host]
    }

    /// Adds a reason that rules a host out for a kind.
    pub(super) fn block(&mut self, kind: usize, host: usize) {
        if self.is_open(kind, host) {
            self.count(kind, host, false);
        }
        let at = self.at(kind, host);
        self.blocked[at] += 1;
    }

    /// Removes a reason that [`Self::block`] added.
    pub(super) fn unblock(&mut self, kind: usize, host: usize) {
        let at = self.at(kind, host);
        self.blocked[at] -= 1;
        if self.is_open(kind, host) {
            self.count(kind, host, true);
        }
    }

    /// Sets the slots: an upper bound on the number of further bundles of a load that fit on a host. It is 0 only
    /// if not even one fits.
    pub(super) fn set_slots(&mut self, load: usize, host: usize, slots: u16) {
        let at = load * self.in_use.len() + host;
        if self.slots[at] == slots {
            return;
        }
        let model = self.model;
        for kind in &model.kinds_of_load[load] {
            if self.is_open(*kind, host) {
                self.count(*kind, host, false);
            }
        }
        self.slots[at] = slots;
        for kind in &model.kinds_of_load[load] {
            if self.is_open(*kind, host) {
                self.count(*kind, host, true);
            }
        }
    }

    /// Sets the slots of each load on each host, load by load. There have been no slots so far.
    pub(super) fn set_all_slots(&mut self, slots: Vec<u16>, budget: &mut Budget<'_>) {
        let hosts = self.in_use.len();
        self.slots = slots;
        let kinds: Vec<usize> = (0..self.of_kind.len()).collect();
        let counted = map_items(&kinds, hosts, budget, |kind, budget| {
            let mut domain = self.of_kind[*kind].clone();
            budget.is_spent_after(4 * hosts);
            for host in (0..hosts).filter(|host| self.is_open(*kind, *host)) {
                let slots = (self.slots(*kind, host), self.in_use[host]);
                domain.count(&self.model.units, host, slots, true);
            }
            domain
        });
        for (of_kind, counted) in self.of_kind.iter_mut().zip(counted) {
            // The budget is spent if a kind is missing.
            let Some(counted) = counted else { return };
            *of_kind = counted;
        }
    }

    /// Sets whether a host is in use.
    pub(super) fn set_in_use(&mut self, host: usize, is_in_use: bool) {
        self.in_use[host] = is_in_use;
        for kind in 0..self.of_kind.len() {
            if self.is_open(kind, host) {
                let slots = self.slots(kind, host);
                let sum = &mut self.of_kind[kind].slots_in_use;
                *sum = if is_in_use { *sum + slots } else { *sum - slots };
            }
        }
    }

    fn at(&self, kind: usize, host: usize) -> usize {
        kind * self.in_use.len() + host
    }

    fn free_slots(&self, kind: usize, host: usize) -> usize {
        usize::from(self.slots[self.load_of[kind] * self.in_use.len() + host])
    }

    /// Counts a host that opens or closes for a kind.
    fn count(&mut self, kind: usize, host: usize, is_in: bool) {
        let slots = (self.slots(kind, host), self.in_use[host]);
        self.of_kind[kind].count(&self.model.units, host, slots, is_in);
    }
}

impl Domain {
    /// Counts a host that opens or closes, with its slots and whether it is in use.
    fn count(
        &mut self,
        units: &Units,
        host: usize,
        (slots, is_in_use): (usize, bool),
        is_in: bool,
    ) {
        let (rack, cluster) = (units.unit(Level::Rack, host), units.unit(Level::Cluster, host));
        let in_use = if is_in_use { slots } else { 0 };
        if is_in {
            self.hosts += 1;
            self.slots += slots;
            self.slots_in_use += in_use;
        } else {
            self.hosts -= 1;
            self.slots -= slots;
            self.slots_in_use -= in_use;
        }
        if let Some(rack) = rack {
            count_unit(&mut self.in_rack[rack], &mut self.racks, is_in);
        }
        if let Some(cluster) = cluster {
            count_unit(&mut self.in_cluster[cluster], &mut self.clusters, is_in);
        }
    }
}

fn count_unit(hosts: &mut u32, units: &mut usize, is_in: bool) {
    if is_in {
        *units += usize::from(*hosts == 0);
        *hosts += 1;
    } else {
        *hosts -= 1;
        *units -= usize::from(*hosts == 0);
    }
}
