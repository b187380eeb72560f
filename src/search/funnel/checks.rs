//! Checks hosts one after the other: finds the conditions of a request that rule each out.
//!
//! A host meets a [probe](Probe) if one of its providers does, or a sharing provider of its tree; sharing providers
//! are examined once for all trees that use the same ones.

use std::collections::HashMap;

use super::super::request::{Group, Policy, Request};
use super::condition::{Condition, GroupRemainder, without};
use super::probe::{Probe, ProbeState, Probes, RootTest};
use super::tally::{Failed, Failing, Lack};
use super::tree_search::TreeSearch;
use crate::world::sharing::SignatureId;
use crate::world::{Provider, World};

/// Maximum number of cached searches without one condition.
const WITHOUT_MAX: usize = 128;
/// The work after which no further conditions of a host are dropped, in numbers read: about 20 ms.
const WORK_MAX: u64 = 4_000_000;
/// Maximum number of cached results for sharing providers, in probes.
const SHARED_MAX: usize = 1 << 16;

/// The conditions of a request, to be checked for one host after the other.
#[derive(Debug)]
pub struct HostChecks<'w> {
    world: &'w World,
    request: Request,
    conditions: Vec<Condition>,
    /// The remainder of each condition's group without the condition.
    rests: Vec<GroupRemainder>,
    pub(in crate::search) probes: Vec<Probe>,
    pub(in crate::search) roots: Vec<RootTest>,
    /// The results for sharing providers, by the signature of the trees that use them.
    shared: HashMap<SignatureId, Vec<ProbeState>>,
    /// The steps of combining conditions, in order: each group alone, and all together.
    steps: Vec<Step>,
    without: HashMap<usize, TreeSearch>,
    work: usize,
}

/// A step of combining the conditions.
#[derive(Debug)]
struct Step {
    condition: usize,
    /// The suffix of the group, if the step is for one.
    group: Option<String>,
    search: TreeSearch,
}

impl<'w> HostChecks<'w> {
    /// Creates the checks for a request. Unknown names match no host.
    pub fn new(world: &'w World, request: &Request) -> Self {
        let mut conditions = Condition::of(request);
        let Probes { probes, roots } = Probes::of(world, request, &conditions);
        let mut checks = Self {
            world,
            request: request.clone(),
            conditions: Vec::new(),
            rests: Vec::new(),
            probes,
            roots,
            shared: HashMap::new(),
            steps: Vec::new(),
            without: HashMap::new(),
            work: 0,
        };
        for (condition, rest) in combined(request) {
            let group = condition.group().map(str::to_owned);
            let search = TreeSearch::new(world, &rest);
            checks.steps.push(Step { condition: conditions.len(), group, search });
            conditions.push(condition);
        }
        checks.rests = conditions.iter().map(|it| GroupRemainder::of(request, it)).collect();
        checks.conditions = conditions;
        checks
    }

    /// The conditions, by position.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Returns the work since the last call, in numbers read.
    pub fn take_work(&mut self) -> usize {
        let searches = self.steps.iter_mut().map(|step| &mut step.search);
        let searches = searches.chain(self.without.values_mut());
        let work: u64 = searches.map(|search| std::mem::take(&mut search.work)).sum();
        let work = usize::try_from(work).unwrap_or(usize::MAX);
        std::mem::take(&mut self.work).saturating_add(work)
    }

    /// Finds the conditions that rule out the host with this root.
    pub fn failing(&mut self, root: &Provider<'_>) -> Failing {
        let slot = root.slot();
        let mut state = self.shared_with(slot);
        let tree = slot..slot + self.world.place(slot).len;
        self.work += tree.len() * self.probes.len() + self.roots.len() + 8;
        for slot in tree {
            for (probe, state) in self.probes.iter().zip(&mut state) {
                probe.test(self.world, slot, true, state);
            }
        }
        let probed =
            self.probes.iter().zip(&state).filter(|(_, state)| state.is_present && !state.is_met);
        let mut failed: Vec<Failed> = probed.map(|(probe, state)| probe.failed(state)).collect();
        failed.dedup_by_key(|it| it.condition);
        let roots = self.roots.iter().filter(|test| !test.admits(slot));
        failed.extend(roots.map(|test| Failed::other(test.condition)));
        failed.sort_by_key(|it| it.condition);
        failed.dedup_by_key(|it| it.condition);
        self.combine(slot, failed)
    }

    /// Goes through the steps of combining conditions. The steps for all groups together run only if nothing else
    /// rules out the host.
    pub(in crate::search) fn combine(&mut self, root: u32, mut failed: Vec<Failed>) -> Failing {
        let Self { conditions, steps, world, .. } = self;
        let mut is_decided = true;
        let singles = failed.len();
        for step in steps {
            let own = failed.iter().take(singles).filter_map(|it| conditions.get(it.condition));
            let is_known = match &step.group {
                Some(group) => own.into_iter().any(|it| it.group() == Some(group)),
                None => !failed.is_empty(),
            };
            if is_known {
                continue;
            }
            match step.search.has_candidate(world, root) {
                Some(true) => {}
                Some(false) => failed.push(Failed::other(step.condition)),
                None => is_decided = false,
            }
        }
        Failing { conditions: failed, is_decided }
    }

    /// The conditions, by position, each of which the failing host is known to fit without: a failed condition, or
    /// a part of all failed ones.
    pub fn dispensable(&mut self, root: &Provider<'_>, failing: &Failing) -> Vec<usize> {
        if !failing.is_decided {
            return Vec::new();
        }
        let tried = self.shared_by(&failing.conditions);
        self.work += failing.conditions.len() * (self.conditions.len() + tried.len());
        let mut found = Vec::new();
        let mut work = 0;
        for position in tried {
            let before = self.without.get(&position).map_or(0, |search| search.work);
            if self.fits_without(root, position) == Some(true) {
                found.push(position);
            }
            work += self.without.get(&position).map_or(0, |it| it.work.saturating_sub(before));
            if work > WORK_MAX {
                break;
            }
        }
        // Giving up an amount is the last resort.
        let is_amount =
            |at: &usize| matches!(self.conditions.get(*at), Some(Condition::Class { .. }));
        found.sort_by_key(is_amount);
        found
    }

    /// The conditions, by position, without each of which all of these may be met.
    fn shared_by(&self, failed: &[Failed]) -> Vec<usize> {
        let Some(last) = failed.iter().map(|it| it.condition).max() else { return Vec::new() };
        let concerns = |at: usize, it: &Condition, rest: GroupRemainder| {
            failed.iter().all(|Failed { condition, .. }| {
                let other = self.conditions.get(*condition);
                *condition == at || other.is_some_and(|other| it.is_part_of(other, rest))
            })
        };
        let conditions = self.conditions.iter().zip(&self.rests).enumerate().take(last + 1);
        let concerned = conditions.filter(|(at, (it, rest))| concerns(*at, it, **rest));
        concerned.map(|(at, _)| at).collect()
    }

    /// Returns whether the host would fit without one of the conditions; `None` if the limit on the work for one
    /// host was reached.
    pub fn fits_without(&mut self, root: &Provider<'_>, condition: usize) -> Option<bool> {
        let dropped = self.conditions.get(condition)?.clone();
        if matches!(dropped, Condition::Group(_) | Condition::Merge) {
            // It combines several conditions.
            return Some(false);
        }
        if !self.without.contains_key(&condition) {
            if self.without.len() >= WITHOUT_MAX {
                self.work = self.take_work();
                self.without.clear();
            }
            self.work += 8 * self.conditions.len();
            let rest = without(&self.request, &dropped);
            self.without.insert(condition, TreeSearch::new(self.world, &rest));
        }
        self.without.get_mut(&condition)?.has_candidate(self.world, root.slot())
    }

    /// The results for the sharing providers of a tree.
    fn shared_with(&mut self, root: u32) -> Vec<ProbeState> {
        let fresh = || self.probes.iter().map(Probe::initial_state).collect();
        let Some(id) = self.world.signature_of(root) else { return fresh() };
        if let Some(known) = self.shared.get(&id) {
            return known.clone();
        }
        let mut state: Vec<ProbeState> = fresh();
        let mut looked_at = 0;
        for slot in self.world.sharing_with(id) {
            looked_at += self.probes.len();
            for (probe, state) in self.probes.iter().zip(&mut state) {
                probe.test(self.world, slot, false, state);
            }
        }
        self.work += looked_at;
        if (self.shared.len() + 1) * state.len() > SHARED_MAX {
            self.shared.clear();
        }
        self.shared.insert(id, state.clone());
        state
    }
}

/// The steps of combining the conditions of a request, each with the request up to that step.
fn combined(request: &Request) -> Vec<(Condition, Request)> {
    let alone = |group: &Group| {
        let groups = vec![group.clone()];
        let rest = Request { groups, nested: true, ..Request::default() };
        (Condition::Group(group.suffix.clone()), rest)
    };
    let mut steps: Vec<(Condition, Request)> = request.groups.iter().map(alone).collect();
    let mut all = Request {
        groups: request.groups.clone(),
        root_required: request.root_required.clone(),
        root_forbidden: request.root_forbidden.clone(),
        nested: true,
        ..Request::default()
    };
    if request.groups.len() > 1 {
        steps.push((Condition::Merge, all.clone()));
    }
    all.policy = request.policy;
    if all.policy == Policy::Isolate {
        steps.push((Condition::Isolate, all.clone()));
    }
    all.same_subtree.clone_from(&request.same_subtree);
    if !all.same_subtree.is_empty() {
        steps.push((Condition::SameSubtree, all.clone()));
    }
    if !request.nested {
        all.nested = false;
        steps.push((Condition::OnePerTree, all));
    }
    steps
}

impl Failed {
    /// Creates a failed condition without an amount.
    pub fn other(condition: usize) -> Self {
        Self { condition, lack: Lack::Other }
    }
}
