//! Checks one host after the other: which conditions of a request rule it out.
//!
//! Each condition becomes *probes* of single providers. A host meets a probe if one of its providers
//! does, or one that shares with its tree; what is shared is looked at once for all trees that share
//! with the same providers.

use std::collections::HashMap;

use super::super::part::{Amount, carriers, members};
use super::super::query::tree_of;
use super::super::request::{Group, Policy, Request};
use super::condition::{Condition, without};
use super::tally::{Failed, Failing, Lack, Limit, Shortage};
use super::tree_search::TreeSearch;
use crate::model::ClassId;
use crate::world::column::Column;
use crate::world::set::Set;
use crate::world::sharing::SignatureId;
use crate::world::{Provider, World};

/// The maximum number of searches without one condition that are kept.
const WITHOUT_MAX: usize = 64;
/// The maximum number of results for what is shared that are kept, in probes.
const SHARED_MAX: usize = 1 << 16;

/// The conditions of a request, to be checked of one host after the other.
#[derive(Debug)]
pub struct HostChecks<'w> {
    world: &'w World,
    request: Request,
    conditions: Vec<Condition>,
    probes: Vec<Probe>,
    /// Conditions on roots.
    roots: Vec<(usize, Set, bool)>,
    /// What sharing providers can do, by the signature of the trees that use them.
    shared: HashMap<SignatureId, Vec<Seen>>,
    /// The steps of combining conditions, in order: each group by itself, and all together.
    steps: Vec<Step>,
    without: HashMap<usize, TreeSearch>,
    work: usize,
}

/// A step of combining the conditions.
#[derive(Debug)]
struct Step {
    condition: usize,
    /// The suffix of the group, if it is about one.
    group: Option<String>,
    search: TreeSearch,
}

/// A question to one provider.
#[derive(Debug)]
struct Probe {
    condition: usize,
    test: Test,
}

#[derive(Debug)]
enum Test {
    /// Whether an amount fits.
    Fits(Amount),
    /// Whether it is in one of these sets.
    InAny(Vec<Set>),
    /// Whether it is not in the set, provided it has inventories of all these classes.
    Outside(Vec<Amount>, Set),
    /// Whether its slot is in this range. What is shared with the tree counts if `may_share`.
    InTree { from: u32, to: u32, may_share: bool },
}

/// What is known after some providers were looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Whether one meets the probe.
    is_met: bool,
    /// Whether there is one that the probe is about.
    is_present: bool,
    /// Of those that have too little of a class, the one with most of it.
    most: Option<Shortage>,
}

impl<'w> HostChecks<'w> {
    /// The checks for a request. Names that do not exist stand for something that no host has.
    pub fn new(world: &'w World, request: &Request) -> Self {
        let mut conditions = Condition::of(request);
        let mut checks = Self {
            world,
            request: request.clone(),
            conditions: Vec::new(),
            probes: Vec::new(),
            roots: Vec::new(),
            shared: HashMap::new(),
            steps: Vec::new(),
            without: HashMap::new(),
            work: 0,
        };
        for (number, condition) in conditions.iter().enumerate() {
            checks.add(number, condition);
        }
        for (condition, rest) in combined(request) {
            let group = condition.group().map(str::to_owned);
            let search = TreeSearch::new(world, &rest);
            checks.steps.push(Step { condition: conditions.len(), group, search });
            conditions.push(condition);
        }
        checks.conditions = conditions;
        checks
    }

    /// The conditions, by position.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The work that was done since this was last asked, in numbers read.
    pub fn take_work(&mut self) -> usize {
        let searches = self.steps.iter_mut().map(|step| &mut step.search);
        let searches = searches.chain(self.without.values_mut());
        let work: u64 = searches.map(|search| std::mem::take(&mut search.work)).sum();
        let work = usize::try_from(work).unwrap_or(usize::MAX);
        std::mem::take(&mut self.work).saturating_add(work)
    }

    /// The conditions that rule out the host with this root.
    pub fn failing(&mut self, root: &Provider<'_>) -> Failing {
        let slot = root.slot();
        let mut seen = self.shared_with(slot);
        let tree = slot..slot + self.world.place(slot).len;
        self.work += tree.len() * self.probes.len() + self.roots.len() + 8;
        for slot in tree {
            for (probe, seen) in self.probes.iter().zip(&mut seen) {
                probe.look(self.world, (slot, true), seen);
            }
        }
        let probed =
            self.probes.iter().zip(&seen).filter(|(_, seen)| seen.is_present && !seen.is_met);
        let mut failed: Vec<Failed> = probed.map(|(probe, seen)| probe.failed(seen)).collect();
        failed.dedup_by_key(|it| it.condition);
        let roots = self.roots.iter().filter(|(_, set, wanted)| set.contains(slot) != *wanted);
        failed.extend(roots.map(|(condition, ..)| Failed::other(*condition)));
        failed.sort_by_key(|it| it.condition);
        failed.dedup_by_key(|it| it.condition);
        self.combine(slot, failed)
    }

    /// Goes through the steps of combining conditions. Those of all groups together matter only if
    /// nothing else rules out the host.
    fn combine(&mut self, root: u32, mut failed: Vec<Failed>) -> Failing {
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

    /// Whether the host would fit without one of the conditions; `None` if this was not decided
    /// within the work for one host.
    pub fn fits_without(&mut self, root: &Provider<'_>, condition: usize) -> Option<bool> {
        let dropped = self.conditions.get(condition)?.clone();
        if matches!(dropped, Condition::Group(_) | Condition::Merge) {
            // It stands for several conditions.
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

    /// What the providers can do that share with a tree.
    fn shared_with(&mut self, root: u32) -> Vec<Seen> {
        let fresh = || self.probes.iter().map(Probe::unseen).collect();
        let Some(id) = self.world.signature_of(root) else { return fresh() };
        if let Some(known) = self.shared.get(&id) {
            return known.clone();
        }
        let mut seen: Vec<Seen> = fresh();
        let aggregates = self.world.signature(id).map(|it| it.aggregates.iter());
        let aggregates = aggregates.into_iter().flatten();
        let mut looked_at = 0;
        for aggregate in aggregates.filter_map(|it| self.world.aggregate(*it)) {
            for slot in aggregate.sharing.iter() {
                looked_at += self.probes.len();
                for (probe, seen) in self.probes.iter().zip(&mut seen) {
                    probe.look(self.world, (slot, false), seen);
                }
            }
        }
        self.work += looked_at;
        if (self.shared.len() + 1) * seen.len() > SHARED_MAX {
            self.shared.clear();
        }
        self.shared.insert(id, seen.clone());
        seen
    }

    /// Adds what has to be looked at for a condition.
    fn add(&mut self, number: usize, condition: &Condition) {
        let world = self.world;
        let one = |name: &String| match world.trait_id(name) {
            Some(id) => world.carriers(id),
            None => Set::default(),
        };
        let tests = match condition {
            Condition::Class { class, amount, .. } => {
                vec![Test::Fits(inventory(world, class, *amount))]
            }
            Condition::Required { any, .. } => vec![Test::InAny(carriers(world, any))],
            Condition::MemberOf { any, .. } => vec![Test::InAny(members(world, any))],
            Condition::Forbidden { group, name } => self.outside(group, &one(name)),
            Condition::NotMemberOf { group, aggregate } => {
                let set = world.members(*aggregate);
                if group.is_empty() {
                    self.roots.push((number, set.clone(), false));
                }
                self.outside(group, &set)
            }
            Condition::InTree { group, provider } => {
                let (from, to) = match world.provider(*provider) {
                    Some(provider) => tree_of(world, provider),
                    None => (0, 0),
                };
                vec![Test::InTree { from, to, may_share: !group.is_empty() }]
            }
            Condition::RootRequired(name) => {
                self.roots.push((number, one(name), true));
                Vec::new()
            }
            Condition::RootForbidden(name) => {
                self.roots.push((number, one(name), false));
                Vec::new()
            }
            Condition::Group(_)
            | Condition::Merge
            | Condition::Isolate
            | Condition::SameSubtree
            | Condition::OnePerTree => Vec::new(),
        };
        let probes = tests.into_iter().map(|test| Probe { condition: number, test });
        self.probes.extend(probes);
    }

    /// What has to be looked at for a set that providers of a group must be outside of. Each class of
    /// the unsuffixed group can be at another provider.
    fn outside(&self, group: &str, set: &Set) -> Vec<Test> {
        let is_it = |it: &&Group| it.suffix == group;
        let Some(group) = self.request.groups.iter().find(is_it) else { return Vec::new() };
        let classes = group.resources.iter();
        let classes = classes.map(|(class, amount)| inventory(self.world, class, *amount));
        if group.suffix.is_empty() {
            return classes.map(|class| Test::Outside(vec![class], set.clone())).collect();
        }
        vec![Test::Outside(classes.collect(), set.clone())]
    }
}

/// The steps of combining the conditions of a request, each with the request as far as that.
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

/// An amount of a class, which may not exist.
fn inventory(world: &World, class: &str, amount: i64) -> Amount {
    match world.class_id(class) {
        Some(id) => Amount::new(world, id, amount),
        None => {
            Amount { class: ClassId(0), units: amount, column: Column::default(), contended: None }
        }
    }
}

impl Probe {
    /// What is known before any provider was looked at.
    fn unseen(&self) -> Seen {
        // A host without a provider that could be outside lacks something else.
        let is_present = !matches!(self.test, Test::Outside(..));
        Seen { is_present, ..Seen::default() }
    }

    fn look(&self, world: &World, (slot, is_own): (u32, bool), seen: &mut Seen) {
        if seen.is_met {
            return;
        }
        match &self.test {
            Test::Fits(amount) => {
                let Some(shortage) = shortage(world, amount, slot) else {
                    seen.is_met = amount.column.fits(slot, amount.units);
                    return;
                };
                if seen.most.is_none_or(|most| shortage.available > most.available) {
                    seen.most = Some(shortage);
                }
            }
            Test::InAny(sets) => seen.is_met = sets.iter().any(|set| set.contains(slot)),
            Test::Outside(classes, set) => {
                if classes.iter().all(|class| class.column.get(slot).is_some()) {
                    seen.is_present = true;
                    seen.is_met = !set.contains(slot);
                }
            }
            Test::InTree { from, to, may_share } => {
                seen.is_met = (is_own || *may_share) && (*from..*to).contains(&slot);
            }
        }
    }

    fn failed(&self, seen: &Seen) -> Failed {
        let Test::Fits(Amount { units, .. }) = self.test else {
            return Failed::other(self.condition);
        };
        let lack = match seen.most {
            None => Lack::Everything { amount: units },
            Some(shortage) => Lack::Some { amount: units, shortage },
        };
        Failed { condition: self.condition, lack }
    }
}

impl Failed {
    /// A condition that asks for no amount.
    pub fn other(condition: usize) -> Self {
        Self { condition, lack: Lack::Other }
    }
}

/// Why an amount does not fit into an inventory; `None` if it does, or if there is no inventory.
fn shortage(world: &World, amount: &Amount, slot: u32) -> Option<Shortage> {
    let entry = amount.column.get(slot).filter(|_| !amount.column.fits(slot, amount.units))?;
    let row = world.at(slot)?.inventory(amount.class)?;
    let (capacity, used) = (row.terms.capacity(), row.used);
    let (free, terms) = (capacity.saturating_sub(used), row.terms);
    let limit = if amount.units > free {
        Limit::Free
    } else if amount.units > i64::from(terms.max_unit) {
        Limit::MaxUnit(i64::from(terms.max_unit))
    } else if amount.units < i64::from(terms.min_unit) {
        Limit::MinUnit(i64::from(terms.min_unit))
    } else {
        Limit::StepSize(i64::from(terms.step_size))
    };
    Some(Shortage { available: entry.available().max(0), capacity, used, limit })
}
