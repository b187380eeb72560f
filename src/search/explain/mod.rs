//! Explains a request: the providers and hosts that each of its conditions leaves, the smallest set of conditions
//! that contradict each other, and near misses: hosts that fail only one condition.
//!
//! Hosts, conditions and counts are those of the [`funnel`](super::funnel), and exact. [`flat`] examines hosts of
//! one provider 64 at a time; all others are examined one by one.
//!
//! *Example.* Of 40 hosts, 3 have `VCPU:8` free, and 5 others have a required trait. The first condition leaves 3
//! hosts, the second none; the two contradict each other.

mod conflict;
mod flat;
mod survey;

use std::collections::HashMap;

use self::conflict::smallest_hitting_set;
use self::flat::FlatHosts;
pub use self::survey::CONDITIONS_MAX;
use self::survey::{Survey, bit, count_ones};
use super::funnel::{Condition, Counted, Funnel, HostChecks, NearMiss, is_host};
use super::part::{and_not, pop};
use super::request::{Request, Unknown};
use super::steps::WORK_BETWEEN;
use crate::world::World;
use crate::world::set::{BLOCK, Words};

/// An explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The providers of the world.
    pub providers: usize,
    /// The hosts that were examined.
    pub hosts: usize,
    /// Whether all hosts were examined. If not, the limit on the work was reached, and counts are too small.
    pub is_complete: bool,
    /// The hosts that no condition rules out.
    pub fitting: usize,
    /// The hosts for which the limit on the work for one host was reached.
    pub undecided: usize,
    /// The conditions, in the order of the request.
    pub conditions: Vec<Explained>,
    /// Number of near misses.
    pub near: usize,
    /// The first of them.
    pub near_misses: Vec<NearMiss>,
    /// A set of conditions that no host meets entirely, if no host fits.
    pub conflict: Option<Conflict>,
}

/// A condition with the providers and hosts that it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The condition, with the hosts that it rules out.
    pub counted: Counted<Condition>,
    /// The providers that meet it and, in a suffixed group, the conditions of the group before it; `None` for a
    /// step of combining conditions.
    pub providers: Option<usize>,
    /// The hosts that neither it nor any condition before it rules out.
    pub left: usize,
}

/// Conditions that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Their positions, ascending. Each host fails at least one of them.
    pub conditions: Vec<usize>,
    /// Whether no smaller set of conditions rules out all hosts. If not, none of these is superfluous, but the
    /// search for a smaller set was cut short.
    pub is_smallest: bool,
}

/// A reason why a request is not explained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unexplained {
    /// It names an unknown class or trait.
    #[error("{0:?}")]
    Unknown(Unknown),
    /// It has more than [`CONDITIONS_MAX`] conditions.
    #[error("the request has {0} conditions, and at most {CONDITIONS_MAX} can be explained")]
    TooManyConditions(usize),
}

/// Explains a request, with at most `near_misses_max` near misses. `is_enough` receives the work since the last
/// call, in numbers read; if it returns true, the remaining hosts are skipped.
///
/// # Errors
/// The request names something unknown, or has too many conditions.
pub fn explain(
    world: &World,
    request: &Request,
    near_misses_max: usize,
    mut is_enough: impl FnMut(usize) -> bool,
) -> Result<Explanation, Unexplained> {
    check_names(world, request).map_err(Unexplained::Unknown)?;
    let mut checks = HostChecks::new(world, request);
    let conditions = checks.conditions().to_vec();
    if conditions.len() > CONDITIONS_MAX {
        return Err(Unexplained::TooManyConditions(conditions.len()));
    }
    let mut survey = Survey::new(&conditions, near_misses_max);
    let flat = FlatHosts::new(world, request, Condition::of(request).len());
    let is_host = is_host(world);
    let mut is_complete = true;
    'blocks: for block in 0..world.end().div_ceil(BLOCK) {
        let flat_hosts = flat.hosts(block);
        let mut work = flat.add(block, flat_hosts, &mut checks, &mut survey);
        let mut others = and_not(world.roots().words(block), flat_hosts);
        while let Some(slot) = pop(&mut others, block) {
            let root = world.occupied(slot);
            if is_host(&root) {
                let failing = checks.failing(&root);
                survey.add(&root, &failing, &mut checks);
            }
            work += 8 + checks.take_work();
            if work > WORK_BETWEEN && is_enough(std::mem::take(&mut work)) {
                is_complete = false;
                break 'blocks;
            }
        }
        if is_enough(work + checks.take_work()) {
            is_complete = block + 1 == world.end().div_ceil(BLOCK);
            break;
        }
    }
    let providers = providers(world, &checks, &conditions);
    Ok(explanation(survey, world.len(), &providers, is_complete))
}

/// Checks that all names in a request exist.
///
/// # Errors
/// The first unknown names, in the order of the request.
pub fn check_names(world: &World, request: &Request) -> Result<(), Unknown> {
    let classes = request.groups.iter().flat_map(|group| &group.resources);
    for (class, _) in classes {
        if world.class_id(class).is_none() {
            return Err(Unknown::Class(class.clone()));
        }
    }
    let unknown = |names: &mut dyn Iterator<Item = &String>| -> Vec<String> {
        names.filter(|name| world.trait_id(name).is_none()).cloned().collect()
    };
    for group in &request.groups {
        let names = unknown(&mut group.required.iter().flatten().chain(&group.forbidden));
        if !names.is_empty() {
            return Err(Unknown::Traits(names));
        }
    }
    let names = unknown(&mut request.root_required.iter().chain(&request.root_forbidden));
    if names.is_empty() { Ok(()) } else { Err(Unknown::RootTraits(names)) }
}

/// For each condition, the providers that meet it and, in a suffixed group, those before it.
fn providers(
    world: &World,
    checks: &HostChecks<'_>,
    conditions: &[Condition],
) -> Vec<Option<usize>> {
    let mut counts: Vec<Option<usize>> =
        conditions.iter().map(|it| (!it.is_combined()).then_some(0)).collect();
    for block in 0..world.end().div_ceil(BLOCK) {
        let present = world.present(block);
        let mut of_group: HashMap<&str, Words> = HashMap::new();
        for (number, (condition, count)) in conditions.iter().zip(&mut counts).enumerate() {
            let Some(count) = count else { continue };
            let suffix = condition.group().filter(|suffix| !suffix.is_empty());
            let mut words =
                suffix.and_then(|suffix| of_group.get(suffix)).copied().unwrap_or(present);
            for probe in checks.probes.iter().filter(|probe| probe.condition == number) {
                words = probe.meeting(block, words);
            }
            for test in checks.roots.iter().filter(|test| test.condition == number) {
                words = test.words(block, words);
            }
            if let Some(suffix) = suffix {
                of_group.insert(suffix, words);
            }
            *count += count_ones(words);
        }
    }
    counts
}

/// Builds the explanation from the survey of hosts, and from the providers that meet each condition.
fn explanation(
    survey: Survey,
    providers: usize,
    met_by: &[Option<usize>],
    is_complete: bool,
) -> Explanation {
    let Survey { tally, by_failing } = survey;
    let funnel: Funnel<Condition> = tally.finish();
    let left_after = |position: usize| {
        let so_far = bit(position) | (bit(position) - 1);
        let left = by_failing.iter().filter(|(mask, _)| **mask & so_far == 0);
        left.map(|(_, hosts)| hosts).sum()
    };
    let is_impossible = is_complete && funnel.fitting == 0 && funnel.undecided == 0;
    let conflict = if is_impossible {
        smallest_hitting_set(by_failing.keys().copied()).map(|(mask, is_smallest)| Conflict {
            conditions: (0..CONDITIONS_MAX).filter(|nth| mask & bit(*nth) != 0).collect(),
            is_smallest,
        })
    } else {
        None
    };
    let explained = |(position, counted)| Explained {
        counted,
        providers: met_by.get(position).copied().flatten(),
        left: left_after(position),
    };
    Explanation {
        providers,
        hosts: funnel.hosts,
        is_complete,
        fitting: funnel.fitting,
        undecided: funnel.undecided,
        conditions: funnel.conditions.into_iter().enumerate().map(explained).collect(),
        near: funnel.near,
        near_misses: funnel.near_misses,
        conflict,
    }
}
