//! Counts the hosts that each condition rules out.

use super::nearest::{NearMiss, Nearest, Shortfall};
use crate::model::ProviderId;

/// The conditions that rule out one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The conditions, ascending by position.
    pub conditions: Vec<Failed>,
    /// Whether the list is complete. If not, the limit on the work for one host was reached.
    pub is_decided: bool,
}

/// A condition that rules out a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The position of the condition.
    pub condition: usize,
    /// The missing amount or property.
    pub lack: Lack,
}

/// The lack of a host in a condition.
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
        /// The available amount.
        shortage: Shortage,
    },
    /// A requested amount: the inventories of the class are outside the tree that the group is restricted to.
    OutsideTree {
        /// The amount.
        amount: i64,
    },
    /// A property other than an amount.
    Other,
}

/// The hosts that each condition rules out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Funnel<C> {
    /// The hosts that were examined.
    pub hosts: usize,
    /// Whether all hosts were examined.
    pub is_complete: bool,
    /// The hosts that no condition rules out.
    pub fitting: usize,
    /// The hosts for which the limit on the work for one host was reached.
    pub undecided: usize,
    /// All conditions, with their counts.
    pub conditions: Vec<Counted<C>>,
    /// Number of hosts that fail only one condition.
    pub near: usize,
    /// The hosts among them that lack the least, in proportion to the requested amount: the nearest first.
    pub near_misses: Vec<NearMiss>,
}

impl<C> Funnel<C> {
    /// Converts the conditions of the funnel.
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
    /// The hosts that would fit without it. It need not rule them out: they may fail a condition of which it is a
    /// part.
    pub only: usize,
    /// Number of these hosts without any inventory of the class, if it requests capacity.
    pub absent: usize,
    /// The closest of these hosts, if it requests capacity.
    pub most: Option<Closest>,
}

/// The host that comes closest to the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closest {
    /// The name of the host.
    pub host: String,
    /// Its capacity.
    pub shortage: Shortage,
}

/// The capacity of a class at the provider of a host that has most of it, which is too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Maximum amount of one allocation.
    pub available: i64,
    /// The capacity of the provider.
    pub capacity: i64,
    /// The amount of it that is in use.
    pub used: i64,
    /// The total amount of the provider, including the reserved amount.
    pub total: i64,
    /// The reserved amount, which cannot be allocated.
    pub reserved: i64,
    /// The limit that the requested amount violates.
    pub limit: Limit,
}

/// A limit that an amount violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The free capacity.
    Free,
    /// `max_unit`.
    MaxUnit(i64),
    /// `min_unit`.
    MinUnit(i64),
    /// `step_size`.
    StepSize(i64),
}

/// A funnel under construction.
#[derive(Clone, Debug)]
pub struct Tally<C> {
    funnel: Funnel<C>,
    nearest: Nearest,
}

impl<C> Tally<C> {
    /// Creates a tally of these conditions that keeps at most `near_misses_max` near misses.
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

    /// Adds a host with the conditions that rule it out, and those, by position, each of which it would fit
    /// without.
    pub fn add(&mut self, id: ProviderId, host: &str, failing: &Failing, dispensable: &[usize]) {
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
        self.add_near(id, host, failing, dispensable);
    }

    /// Adds a host that would fit without any one of some conditions.
    fn add_near(&mut self, id: ProviderId, host: &str, failing: &Failing, dispensable: &[usize]) {
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

    /// Adds hosts that one of the conditions rules out, and the number of those that fail nothing else.
    pub(in crate::search) fn add_ruled_out(&mut self, condition: usize, hosts: usize, only: usize) {
        if let Some(counted) = self.funnel.conditions.get_mut(condition) {
            counted.hosts += hosts;
            counted.only += only;
        }
        self.funnel.near += only;
    }

    /// Adds hosts without inventory of the class of a condition.
    pub(in crate::search) fn add_absent(&mut self, condition: usize, hosts: usize) {
        if let Some(counted) = self.funnel.conditions.get_mut(condition) {
            counted.absent += hosts;
        }
    }

    /// Adds hosts, some of which fit.
    pub(in crate::search) fn add_hosts(&mut self, hosts: usize, fitting: usize) {
        self.funnel.hosts += hosts;
        self.funnel.fitting += fitting;
    }

    /// The largest available amount for a condition among the hosts added.
    pub(in crate::search) fn most(&self, condition: usize) -> Option<i64> {
        let counted = self.funnel.conditions.get(condition)?;
        counted.most.as_ref().map(|it| it.shortage.available)
    }

    /// Records a host that comes closer to a condition than those before.
    pub(in crate::search) fn set_closest(&mut self, condition: usize, closest: Closest) {
        if let Some(counted) = self.funnel.conditions.get_mut(condition) {
            counted.most = Some(closest);
        }
    }

    /// The near misses to be listed.
    pub(in crate::search) fn nearest(&mut self) -> &mut Nearest {
        &mut self.nearest
    }

    /// Returns the funnel.
    pub fn finish(self) -> Funnel<C> {
        let Self { funnel, nearest } = self;
        Funnel { near_misses: nearest.into_sorted(), ..funnel }
    }
}
