//! The units and loads that the policy counts in a partial placement.

#![expect(clippy::indexing_slicing, reason = "kinds, units and classes are numbered densely")]

use crate::solver::model::Model;
use crate::solver::problem::Goal;
use crate::solver::solution::{Cost, Counts};

/// For each level that the policy counts, its units.
#[derive(Clone, Debug)]
pub(in crate::solver) struct Score<'p> {
    model: &'p Model<'p>,
    levels: Vec<LevelScore>,
}

/// The units of one level.
#[derive(Clone, Debug)]
struct LevelScore {
    /// The servers of the problem in each unit.
    servers: Vec<u64>,
    /// The units with servers, in the order in which they were opened.
    open: Vec<usize>,
    /// With balancing: the utilisation by unit and class, and the added load.
    used: Vec<u64>,
    load: u64,
}

impl<'p> Score<'p> {
    pub(super) fn new(model: &'p Model<'p>) -> Self {
        let level = |nth: usize| LevelScore {
            servers: vec![0; model.counted[nth].count()],
            open: Vec::new(),
            used: model.utilisation.get(nth).map_or_else(Vec::new, |it| it.initial.clone()),
            load: 0,
        };
        Self { model, levels: (0..model.counted.len()).map(level).collect() }
    }

    /// The servers in the unit of a host, at a level that the policy counts.
    pub(in crate::solver) fn servers(&self, level: usize, unit: usize) -> u64 {
        self.levels[level].servers[unit]
    }

    /// The units with servers.
    pub(in crate::solver) fn open_units(&self, level: usize) -> &[usize] {
        &self.levels[level].open
    }

    /// The utilisation of the units, by class.
    pub(in crate::solver) fn used(&self, level: usize) -> &[u64] {
        &self.levels[level].used
    }

    /// The number of placed servers in each unit.
    pub(super) fn counts(&self, level: usize) -> Counts {
        let level = self.levels.get(level);
        Counts::of(level.into_iter().flat_map(|it| it.open.iter().map(|unit| it.servers[*unit])))
    }

    /// Adds or removes a bundle of a kind on a host.
    pub(super) fn change(&mut self, kind: usize, host: usize, is_in: bool) {
        let it = &self.model.kinds[kind];
        for (nth, level) in self.levels.iter_mut().enumerate() {
            let unit = self.model.counted[nth].unit(host);
            let servers = &mut level.servers[unit];
            if is_in {
                if *servers == 0 {
                    level.open.push(unit);
                }
                *servers += it.servers;
            } else {
                *servers -= it.servers;
                if *servers == 0 {
                    level.open.retain(|open| *open != unit);
                }
            }
            let Some(utilisation) = self.model.utilisation.get(nth) else { continue };
            let is_counted = |home: usize| home == host;
            if is_in {
                let at = (unit, level.used.as_slice());
                level.load += utilisation.added(at, 0, &it.additions, is_counted);
            }
            for class in 0..utilisation.classes() {
                let share = utilisation.shares(unit, class, &it.additions, is_counted);
                let used = &mut level.used[unit * utilisation.classes() + class];
                *used = if is_in { *used + share } else { *used - share };
            }
            if !is_in {
                let at = (unit, level.used.as_slice());
                level.load -= utilisation.added(at, 0, &it.additions, is_counted);
            }
        }
    }

    /// Sets the components of a cost that the policy counts, except the counts of servers.
    pub(super) fn write(&self, cost: &mut Cost) {
        match self.model.problem.policy.goal {
            Goal::Pack => cost.units = self.levels.first().map_or(0, |it| it.open.len() as u64),
            Goal::Spread => {}
            Goal::Balance => {
                cost.load = self.levels.first().map_or(0, |it| it.load);
                cost.host_load = self.levels.get(1).map_or(0, |it| it.load);
            }
        }
    }

    /// The cost that a bundle of a kind adds at a level: with packing, whether it opens a unit; with spreading, the
    /// resulting number of servers in the unit; with balancing, the load. Zero if the policy does not count the
    /// level.
    pub(super) fn added(&self, level: usize, kind: usize, host: usize) -> u64 {
        let (Some(it), Some(units)) = (self.levels.get(level), self.model.counted.get(level))
        else {
            return 0;
        };
        let unit = units.unit(host);
        let servers = it.servers[unit];
        let kind = &self.model.kinds[kind];
        match self.model.problem.policy.goal {
            Goal::Pack => u64::from(servers == 0),
            Goal::Spread => servers + kind.servers,
            Goal::Balance => {
                let utilisation = &self.model.utilisation[level];
                utilisation.added((unit, &it.used), 0, &kind.additions, |home| home == host)
            }
        }
    }
}
