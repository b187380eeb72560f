//! Adds up which conditions rule out which hosts.

use super::nearest::{NearMiss, Nearest, Shortfall};
use crate::model::ProviderId;

/// The conditions that rule out one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The conditions, ascending by position.
    pub conditions: Vec<Failed>,
    /// Whether it is known that these are all. If not, the work for one host was not enough.
    pub is_decided: bool,
}

/// A condition that rules out a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The position of the condition.
    pub condition: usize,
    /// What the host lacks.
    pub lack: Lack,
}

/// What a host lacks to meet a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// All of a requested amount: there is no inventory of the class.
    Everything {
        /// The amount.
        amount: i64,
    },
    /// A part of a requested amount.
    Some {
        /// The amount.
        amount: i64,
        /// What there is.
        shortage: Shortage,
    },
    /// A requested amount: the inventories of the class are outside the tree that the group asks for.
    OutsideTree {
        /// The amount.
        amount: i64,
    },
    /// Something that is no amount.
    Other,
}

/// The hosts that each condition rules out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Funnel<C> {
    /// The hosts that were examined.
    pub hosts: usize,
    /// Whether these are all hosts.
    pub is_complete: bool,
    /// The hosts that no condition rules out.
    pub fitting: usize,
    /// The hosts for which this could not be decided within the work for one host.
    pub undecided: usize,
    /// All conditions, with their counts.
    pub conditions: Vec<Counted<C>>,
    /// The number of hosts that lack one thing only.
    pub near: usize,
    /// Those of them that lack the least, in proportion to what is asked for: the nearest first.
    pub near_misses: Vec<NearMiss>,
}

impl<C> Funnel<C> {
    /// The funnel with other words for its conditions.
    pub fn map<D>(self, mut name: impl FnMut(C) -> D) -> Funnel<D> {
        let conditions = self.conditions.into_iter().map(|it| Counted {
            condition: name(it.condition),
            hosts: it.hosts,
            only: it.only,
            absent: it.absent,
            most: it.most,
        });
        Funnel {
            hosts: self.hosts,
            is_complete: self.is_complete,
            fitting: self.fitting,
            undecided: self.undecided,
            conditions: conditions.collect(),
            near: self.near,
            near_misses: self.near_misses,
        }
    }
}

/// A condition with the hosts that it rules out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted<C> {
    /// The condition.
    pub condition: C,
    /// The hosts that it rules out.
    pub hosts: usize,
    /// The hosts that do not fit, but would without it. It need not rule them out: they may fail what
    /// it is a part of.
    pub only: usize,
    /// If it asks for capacity: the hosts among them without any inventory of the class.
    pub absent: usize,
    /// If it asks for capacity: the host among them that comes closest.
    pub most: Option<Closest>,
}

/// The host that comes closest to what is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closest {
    /// The name of the host.
    pub host: String,
    /// What it has.
    pub shortage: Shortage,
}

/// How much of a class a host has at the provider that has most, which is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The largest amount that can be allocated in one piece.
    pub available: i64,
    /// The capacity of the provider.
    pub capacity: i64,
    /// The amount of it that is in use.
    pub used: i64,
    /// The amount that the provider has, with what is reserved.
    pub total: i64,
    /// The reserved amount, which cannot be allocated.
    pub reserved: i64,
    /// What the requested amount violates.
    pub limit: Limit,
}

/// What an amount that does not fit violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The capacity that is free.
    Free,
    /// `max_unit`.
    MaxUnit(i64),
    /// `min_unit`.
    MinUnit(i64),
    /// `step_size`.
    StepSize(i64),
}

/// A funnel in the making.
#[derive(Clone, Debug)]
pub struct Tally<C> {
    funnel: Funnel<C>,
    nearest: Nearest,
}

impl<C> Tally<C> {
    /// A tally of these conditions, which names so many near misses at the most.
    pub fn new(conditions: Vec<C>, near_misses_max: usize) -> Self {
        let counted = |condition| Counted { condition, hosts: 0, only: 0, absent: 0, most: None };
        let funnel = Funnel {
            hosts: 0,
            is_complete: true,
            fitting: 0,
            undecided: 0,
            conditions: conditions.into_iter().map(counted).collect(),
            near: 0,
            near_misses: Vec::new(),
        };
        Self { funnel, nearest: Nearest::new(near_misses_max) }
    }

    /// Adds a host with the conditions that rule it out, and those, by position, each of which it
    /// would fit without.
    pub fn add(
        &mut self,
        (id, host): (ProviderId, &str),
        failing: &Failing,
        dispensable: &[usize],
    ) {
        let Self { funnel, .. } = self;
        funnel.hosts += 1;
        funnel.undecided += usize::from(!failing.is_decided);
        funnel.fitting += usize::from(failing.is_decided && failing.conditions.is_empty());
        for failed in &failing.conditions {
            let Some(counted) = funnel.conditions.get_mut(failed.condition) else { continue };
            counted.hosts += 1;
            match failed.lack {
                Lack::Other | Lack::OutsideTree { .. } => {}
                Lack::Everything { .. } => counted.absent += 1,
                Lack::Some { shortage, .. } => {
                    let most = counted.most.as_ref().map(|it| it.shortage.available);
                    if most.is_none_or(|most| shortage.available > most) {
                        counted.most = Some(Closest { host: host.to_owned(), shortage });
                    }
                }
            }
        }
        self.add_near((id, host), failing, dispensable);
    }

    /// Adds a host that would fit without any one of some conditions.
    fn add_near(
        &mut self,
        (id, host): (ProviderId, &str),
        failing: &Failing,
        dispensable: &[usize],
    ) {
        let Self { funnel, nearest } = self;
        for position in dispensable {
            if let Some(counted) = funnel.conditions.get_mut(*position) {
                counted.only += 1;
            }
        }
        let Some(&condition) = dispensable.first() else { return };
        funnel.near += 1;
        let failed = failing.conditions.iter().find(|it| it.condition == condition);
        let shortfall = failed.map_or(Shortfall::OTHER, |failed| match failed.lack {
            Lack::Other => Shortfall::OTHER,
            Lack::Everything { amount } | Lack::OutsideTree { amount } => Shortfall::of(amount, 0),
            Lack::Some { amount, shortage } => Shortfall::of(amount, shortage.available),
        });
        nearest.offer(shortfall, id, condition, host);
    }

    /// Adds hosts that one of the conditions rules out, and how many of them lack nothing else.
    pub(in crate::search) fn add_ruled_out(&mut self, condition: usize, hosts: usize, only: usize) {
        if let Some(counted) = self.funnel.conditions.get_mut(condition) {
            counted.hosts += hosts;
            counted.only += only;
        }
        self.funnel.near += only;
    }

    /// Adds hosts that have no inventory of the class that a condition asks for.
    pub(in crate::search) fn add_absent(&mut self, condition: usize, hosts: usize) {
        if let Some(counted) = self.funnel.conditions.get_mut(condition) {
            counted.absent += hosts;
        }
    }

    /// Adds hosts, of which so many fit.
    pub(in crate::search) fn add_hosts(&mut self, hosts: usize, fitting: usize) {
        self.funnel.hosts += hosts;
        self.funnel.fitting += fitting;
    }

    /// What the host has that comes closest to a condition, of those that were added.
    pub(in crate::search) fn most(&self, condition: usize) -> Option<i64> {
        let counted = self.funnel.conditions.get(condition)?;
        counted.most.as_ref().map(|it| it.shortage.available)
    }

    /// Notes a host that comes closer to a condition than those before.
    pub(in crate::search) fn set_closest(&mut self, condition: usize, closest: Closest) {
        if let Some(counted) = self.funnel.conditions.get_mut(condition) {
            counted.most = Some(closest);
        }
    }

    /// The near misses that are named.
    pub(in crate::search) fn nearest(&mut self) -> &mut Nearest {
        &mut self.nearest
    }

    /// The funnel.
    pub fn finish(self) -> Funnel<C> {
        let Self { funnel, nearest } = self;
        Funnel { near_misses: nearest.into_sorted(), ..funnel }
    }
}
