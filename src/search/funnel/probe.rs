//! Tests of single providers, derived from the conditions of a request.

use uuid::Uuid;

use super::super::part::{Amount, and, and_not, carriers, members, or, range};
use super::super::query::tree_of;
use super::super::request::{Group, Request};
use super::condition::Condition;
use super::tally::{Failed, Lack, Limit, Shortage};
use crate::model::ClassId;
use crate::world::World;
use crate::world::column::Column;
use crate::world::set::{Set, Words};

/// The tests of all conditions of a request.
#[derive(Debug)]
pub(in crate::search) struct Probes {
    /// Tests of any provider of a host.
    pub(in crate::search) probes: Vec<Probe>,
    /// Tests of its root.
    pub(in crate::search) roots: Vec<RootTest>,
}

/// A test of one provider. A host passes if one of its providers does.
#[derive(Debug)]
pub(in crate::search) struct Probe {
    /// The position of its condition.
    pub(in crate::search) condition: usize,
    pub(in crate::search) test: Test,
}

#[derive(Debug)]
pub(in crate::search) enum Test {
    /// An amount fits. The provider that comes closest to it is searched for in this range of slots: those of the
    /// tree that the group is restricted to.
    Fits { amount: Amount, from: u32, to: u32 },
    /// The provider is in one of these sets.
    InAny(Vec<Set>),
    /// The provider is not in the set; applies only to providers with inventories of all these classes.
    Outside(Vec<Amount>, Set),
    /// Its slot is in this range. Sharing providers of the tree count if `may_share`.
    InTree { from: u32, to: u32, may_share: bool },
}

/// A test whether the root of a host is in a set.
#[derive(Debug)]
pub(in crate::search) struct RootTest {
    /// The position of its condition.
    pub(in crate::search) condition: usize,
    set: Set,
    /// Whether it must be in the set.
    must_contain: bool,
}

/// The state of a probe after some providers were tested.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeState {
    /// Whether a provider passed.
    pub(super) is_met: bool,
    /// Whether the probe applied to any provider.
    pub(super) is_present: bool,
    /// Whether a provider has too little of a class.
    is_short: bool,
    /// Of the providers with too little of a class, in the tree that the group is restricted to: the one with most
    /// of it.
    most: Option<Shortage>,
}

impl Probes {
    /// Creates the tests of these conditions of a request. Unknown names match no provider.
    pub(super) fn of(world: &World, request: &Request, conditions: &[Condition]) -> Self {
        let mut all = Self { probes: Vec::new(), roots: Vec::new() };
        for (number, condition) in conditions.iter().enumerate() {
            all.add(number, condition, world, request);
        }
        all
    }

    fn add(&mut self, number: usize, condition: &Condition, world: &World, request: &Request) {
        let one = |name: &String| match world.trait_id(name) {
            Some(id) => world.carriers(id),
            None => Set::default(),
        };
        let outside = |group: &str, set: &Set| {
            let is_it = |it: &&Group| it.suffix == group;
            let group = request.groups.iter().find(is_it);
            group.map_or_else(Vec::new, |group| outside(world, group, set))
        };
        let tree = |provider: Uuid| match world.provider(provider) {
            Some(provider) => tree_of(world, provider),
            None => (0, 0),
        };
        let tests = match condition {
            Condition::Class { group, class, amount } => {
                let group = request.groups.iter().find(|it| it.suffix == *group);
                let (from, to) = match group.and_then(|group| group.in_tree) {
                    Some(provider) => tree(provider),
                    None => (0, u32::MAX),
                };
                vec![Test::Fits { amount: inventory(world, class, *amount), from, to }]
            }
            Condition::Required { any, .. } => vec![Test::InAny(carriers(world, any))],
            Condition::MemberOf { any, .. } => vec![Test::InAny(members(world, any))],
            Condition::Forbidden { group, name } => outside(group, &one(name)),
            Condition::NotMemberOf { group, aggregate } => {
                let set = world.members(*aggregate);
                if group.is_empty() {
                    self.add_root(number, set.clone(), false);
                }
                outside(group, &set)
            }
            Condition::InTree { group, provider } => {
                let (from, to) = tree(*provider);
                vec![Test::InTree { from, to, may_share: !group.is_empty() }]
            }
            Condition::RootRequired(name) => {
                self.add_root(number, one(name), true);
                Vec::new()
            }
            Condition::RootForbidden(name) => {
                self.add_root(number, one(name), false);
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

    fn add_root(&mut self, condition: usize, set: Set, must_contain: bool) {
        self.roots.push(RootTest { condition, set, must_contain });
    }
}

/// The tests for a set that providers of a group must be outside of. Each class of the unsuffixed group can be at
/// another provider.
fn outside(world: &World, group: &Group, set: &Set) -> Vec<Test> {
    let classes = group.resources.iter();
    let classes = classes.map(|(class, amount)| inventory(world, class, *amount));
    if group.suffix.is_empty() {
        return classes.map(|class| Test::Outside(vec![class], set.clone())).collect();
    }
    vec![Test::Outside(classes.collect(), set.clone())]
}

/// Resolves an amount of a class, which may not exist.
fn inventory(world: &World, class: &str, amount: i64) -> Amount {
    match world.class_id(class) {
        Some(id) => Amount::new(world, id, amount),
        None => {
            Amount { class: ClassId(0), units: amount, column: Column::default(), contended: None }
        }
    }
}

impl RootTest {
    /// Returns whether the root in this slot passes.
    pub(super) fn admits(&self, root: u32) -> bool {
        self.set.contains(root) == self.must_contain
    }

    /// The slots of a block, among those given, that pass.
    pub(in crate::search) fn words(&self, block: u32, words: Words) -> Words {
        let set = self.set.words(block);
        if self.must_contain { and(words, set) } else { and_not(words, set) }
    }
}

impl Probe {
    /// The state before any provider was tested.
    pub(super) fn initial_state(&self) -> ProbeState {
        // A host without a provider to which this applies lacks something else.
        let is_present = !matches!(self.test, Test::Outside(..));
        ProbeState { is_present, ..ProbeState::default() }
    }

    pub(super) fn test(&self, world: &World, slot: u32, is_own: bool, state: &mut ProbeState) {
        if state.is_met {
            return;
        }
        match &self.test {
            Test::Fits { amount, from, to } => {
                let Some(shortage) = shortage(world, amount, slot) else {
                    state.is_met = amount.column.fits(slot, amount.units);
                    return;
                };
                state.is_short = true;
                let is_closer = state.most.is_none_or(|most| shortage.available > most.available);
                if is_closer && (*from..*to).contains(&slot) {
                    state.most = Some(shortage);
                }
            }
            Test::InAny(sets) => state.is_met = sets.iter().any(|set| set.contains(slot)),
            Test::Outside(classes, set) => {
                if classes.iter().all(|class| class.column.get(slot).is_some()) {
                    state.is_present = true;
                    state.is_met = !set.contains(slot);
                }
            }
            Test::InTree { from, to, may_share } => {
                state.is_met = (is_own || *may_share) && (*from..*to).contains(&slot);
            }
        }
    }

    /// The slots of a block, among those given, that do not fail: each is a host of one provider outside of all
    /// sharing.
    pub(in crate::search) fn passing(&self, block: u32, words: Words) -> Words {
        match &self.test {
            Test::Outside(classes, set) => {
                let present = classes.iter().map(|class| class.column.having(block));
                and_not(words, present.fold(set.words(block), and))
            }
            Test::Fits { .. } | Test::InAny(_) | Test::InTree { .. } => self.meeting(block, words),
        }
    }

    /// The slots of a block, among those given, whose providers pass, whatever else they have.
    pub(in crate::search) fn meeting(&self, block: u32, words: Words) -> Words {
        match &self.test {
            Test::Fits { amount, .. } => amount.column.fitting(block, words, amount.units),
            Test::InAny(sets) => {
                let any = sets.iter().map(|set| set.words(block)).fold([0; 4], or);
                and(words, any)
            }
            Test::Outside(_, set) => and_not(words, set.words(block)),
            Test::InTree { from, to, .. } => and(words, range(block, *from, *to)),
        }
    }

    pub(super) fn failed(&self, state: &ProbeState) -> Failed {
        let lack = match (self.amount(), state.most) {
            (None, _) => Lack::Other,
            (Some(Amount { units, .. }), None) if state.is_short => {
                Lack::OutsideTree { amount: *units }
            }
            (Some(Amount { units, .. }), None) => Lack::Everything { amount: *units },
            (Some(Amount { units, .. }), Some(shortage)) => Lack::Some { amount: *units, shortage },
        };
        Failed { condition: self.condition, lack }
    }

    /// The requested amount, if there is one.
    pub(in crate::search) fn amount(&self) -> Option<&Amount> {
        match &self.test {
            Test::Fits { amount, .. } => Some(amount),
            Test::InAny(_) | Test::Outside(..) | Test::InTree { .. } => None,
        }
    }

    /// The slots of a block, among those given, in which the closest provider is searched for.
    pub(in crate::search) fn nameable(&self, block: u32, words: Words) -> Words {
        match &self.test {
            Test::Fits { from, to, .. } => and(words, range(block, *from, *to)),
            Test::InAny(_) | Test::Outside(..) | Test::InTree { .. } => words,
        }
    }
}

/// The shortage of an amount in an inventory; `None` if the amount fits, or if there is no inventory.
pub(in crate::search) fn shortage(world: &World, amount: &Amount, slot: u32) -> Option<Shortage> {
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
    let (total, reserved) = (i64::from(terms.total), i64::from(terms.reserved));
    Some(Shortage { available: entry.available().max(0), capacity, used, total, reserved, limit })
}
