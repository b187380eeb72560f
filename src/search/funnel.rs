//! Why a request has no candidate: a funnel. The search is repeated, each time with one more of the
//! request's conditions, and counts the possibilities that are left.
//!
//! *Example.* `VCPU left 40, required left 3, member_of left 0`: three providers have the capacity
//! and the traits, and none of them is in the aggregates.

use std::fmt;

use super::engine::{self, Engine};
use super::request::{Group, Policy, Request};
use super::steps::Progress;
use crate::world::World;

/// The highest count: only small numbers matter.
const COUNTED_MAX: usize = 1000;
/// The maximum time for one condition, in pauses of about a millisecond.
const PAUSES_MAX: usize = 20;
/// The maximum time for all conditions; later ones count as if they left one possibility.
const PAUSES_OF_ALL_MAX: usize = 400;

/// The possibilities left, condition by condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Funnel {
    /// Each group by itself.
    pub groups: Vec<GroupFunnel>,
    /// All groups together, if each by itself has a possibility; counts candidates.
    pub together: Vec<Step>,
}

/// The possibilities left for one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFunnel {
    /// The group's suffix.
    pub suffix: String,
    /// Its conditions, in the order in which they were added. Counts providers for a suffixed
    /// group, and combinations of providers for the unsuffixed one.
    pub steps: Vec<Step>,
}

/// A condition, and the possibilities it left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The condition that was added.
    pub condition: Condition,
    /// The possibilities left; 1000 stands for 1000 or more.
    pub left: usize,
}

/// A condition of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Capacity for the amount of a class.
    Class(String),
    /// `member_of`.
    MemberOf,
    /// `member_of=!...`.
    NotMemberOf,
    /// `required`.
    Required,
    /// `required=!...`.
    Forbidden,
    /// `in_tree`.
    InTree,
    /// `root_required`.
    RootRequired,
    /// All groups at one anchor, and capacity for all amounts together.
    Merge,
    /// `group_policy=isolate`.
    Isolate,
    /// `same_subtree`.
    SameSubtree,
    /// At most one provider of each tree (before microversion 1.29).
    OnePerTree,
}

/// Counts what the conditions of a request leave, one after the other.
pub fn funnel(world: &World, request: &Request) -> Funnel {
    let mut pauses = PAUSES_OF_ALL_MAX;
    let groups = request.groups.iter().map(|group| of_group(world, request, group, &mut pauses));
    let groups: Vec<GroupFunnel> = groups.collect();
    let void = groups.iter().any(|group| group.steps.iter().any(|step| step.left == 0));
    let together = if void { Vec::new() } else { of_all(world, request, &mut pauses) };
    Funnel { groups, together }
}

impl Funnel {
    /// The first condition that left nothing, with the suffix of its group unless it concerns all
    /// groups.
    pub fn culprit(&self) -> Option<(Option<&str>, &Condition)> {
        let groups = self
            .groups
            .iter()
            .flat_map(|group| group.steps.iter().map(|step| (Some(group.suffix.as_str()), step)));
        let mut all = groups.chain(self.together.iter().map(|step| (None, step)));
        all.find(|(_, step)| step.left == 0).map(|(suffix, step)| (suffix, &step.condition))
    }
}

fn of_group(world: &World, request: &Request, group: &Group, pauses: &mut usize) -> GroupFunnel {
    let mut part = Group { suffix: group.suffix.clone(), ..Group::default() };
    let mut steps = Vec::new();
    let mut add = |given: bool, condition: Condition, part: &Group, roots: bool| {
        if given {
            let mut alone =
                Request { groups: vec![part.clone()], nested: true, ..Request::default() };
            if roots {
                alone.root_required.clone_from(&request.root_required);
                alone.root_forbidden.clone_from(&request.root_forbidden);
            }
            steps.push(Step { condition, left: count(world, &alone, pauses) });
        }
    };
    for resource in &group.resources {
        part.resources.push(resource.clone());
        add(true, Condition::Class(resource.0.clone()), &part, false);
    }
    part.member_of.clone_from(&group.member_of);
    add(!part.member_of.is_empty(), Condition::MemberOf, &part, false);
    part.required.clone_from(&group.required);
    add(!part.required.is_empty(), Condition::Required, &part, false);
    part.not_member_of.clone_from(&group.not_member_of);
    add(!part.not_member_of.is_empty(), Condition::NotMemberOf, &part, false);
    part.forbidden.clone_from(&group.forbidden);
    add(!part.forbidden.is_empty(), Condition::Forbidden, &part, false);
    part.in_tree = group.in_tree;
    add(part.in_tree.is_some(), Condition::InTree, &part, false);
    let roots = !request.root_required.is_empty() || !request.root_forbidden.is_empty();
    add(roots, Condition::RootRequired, &part, true);
    GroupFunnel { suffix: part.suffix, steps }
}

fn of_all(world: &World, request: &Request, pauses: &mut usize) -> Vec<Step> {
    let mut all = Request {
        groups: request.groups.clone(),
        root_required: request.root_required.clone(),
        root_forbidden: request.root_forbidden.clone(),
        nested: true,
        ..Request::default()
    };
    let mut steps = Vec::new();
    let mut add = |given: bool, condition: Condition, all: &Request| {
        if given {
            steps.push(Step { condition, left: count(world, all, pauses) });
        }
    };
    add(true, Condition::Merge, &all);
    all.policy = request.policy;
    add(all.policy == Policy::Isolate, Condition::Isolate, &all);
    all.same_subtree.clone_from(&request.same_subtree);
    add(!all.same_subtree.is_empty(), Condition::SameSubtree, &all);
    all.nested = request.nested;
    add(!all.nested, Condition::OnePerTree, &all);
    steps
}

/// The number of candidates, as far as they are counted.
fn count(world: &World, request: &Request, pauses: &mut usize) -> usize {
    let request = Request { limit: Some(COUNTED_MAX), ..request.clone() };
    let Ok(query) = engine::resolve(world, &request) else { return 0 };
    let mut engine = Engine::default();
    let most = PAUSES_MAX.min(*pauses);
    let mut found = 0;
    let mut used = 0;
    loop {
        match engine.advance(world, &query) {
            Progress::Found(()) => found += 1,
            Progress::Paused if used < most => used += 1,
            Progress::Exhausted => break,
            // Without any time left, it is not known that there is no possibility.
            Progress::Paused => {
                found = found.max(usize::from(most == 0));
                break;
            }
        }
    }
    *pauses -= used;
    found
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Class(name) => name,
            Self::MemberOf => "member_of",
            Self::NotMemberOf => "member_of=!",
            Self::Required => "required",
            Self::Forbidden => "required=!",
            Self::InTree => "in_tree",
            Self::RootRequired => "root_required",
            Self::Merge => "all groups at one anchor",
            Self::Isolate => "group_policy=isolate",
            Self::SameSubtree => "same_subtree",
            Self::OnePerTree => "one provider per tree",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} left {}", self.condition, self.left)
    }
}

impl fmt::Display for Funnel {
    /// One line for the log.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |steps: &[Step]| steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        for group in &self.groups {
            write!(formatter, "group '{}': {}; ", group.suffix, list(&group.steps))?;
        }
        write!(formatter, "together: {}", list(&self.together))
    }
}
