//! The conditions of a request, each of which can rule out hosts, and requests without some of them.

use std::fmt;

use uuid::Uuid;

use super::super::request::{Group, Policy, Request};

/// A condition of a request. `group` is the suffix of its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// Capacity for an amount of a class, at one provider.
    Class {
        /// The group.
        group: String,
        /// The resource class.
        class: String,
        /// The amount.
        amount: i64,
    },
    /// A clause of `required`: one of these traits.
    Required {
        /// The group.
        group: String,
        /// The traits.
        any: Vec<String>,
    },
    /// A trait that no provider of the group may have.
    Forbidden {
        /// The group.
        group: String,
        /// The trait.
        name: String,
    },
    /// A clause of `member_of`: one of these aggregates.
    MemberOf {
        /// The group.
        group: String,
        /// The aggregates.
        any: Vec<Uuid>,
    },
    /// An aggregate that no provider of the group may be in.
    NotMemberOf {
        /// The group.
        group: String,
        /// The aggregate.
        aggregate: Uuid,
    },
    /// `in_tree`.
    InTree {
        /// The group.
        group: String,
        /// A provider of the tree.
        provider: Uuid,
    },
    /// A trait that the root has (`root_required`).
    RootRequired(String),
    /// A trait that the root does not have (`root_required=!...`).
    RootForbidden(String),
    /// All conditions of a group together, though each could be met alone.
    Group(String),
    /// All groups together, with capacity for all amounts.
    Merge,
    /// The same with `group_policy=isolate`.
    Isolate,
    /// The same with `same_subtree`.
    SameSubtree,
    /// The same with at most one provider of each tree (before microversion 1.29).
    OnePerTree,
}

impl Condition {
    /// The suffix of its group; `None` if it concerns the whole request.
    pub fn group(&self) -> Option<&str> {
        match self {
            Self::Class { group, .. }
            | Self::Required { group, .. }
            | Self::Forbidden { group, .. }
            | Self::MemberOf { group, .. }
            | Self::NotMemberOf { group, .. }
            | Self::InTree { group, .. }
            | Self::Group(group) => Some(group),
            Self::RootRequired(_)
            | Self::RootForbidden(_)
            | Self::Merge
            | Self::Isolate
            | Self::SameSubtree
            | Self::OnePerTree => None,
        }
    }

    /// Returns whether it combines several conditions, each of which could be met.
    pub fn is_combined(&self) -> bool {
        match self {
            Self::Group(_) | Self::Merge | Self::Isolate | Self::SameSubtree | Self::OnePerTree => {
                true
            }
            Self::Class { .. }
            | Self::Required { .. }
            | Self::Forbidden { .. }
            | Self::MemberOf { .. }
            | Self::NotMemberOf { .. }
            | Self::InTree { .. }
            | Self::RootRequired(_)
            | Self::RootForbidden(_) => false,
        }
    }

    /// Returns whether another condition may be met without this one, whose removal leaves `rest` of its group.
    pub(super) fn is_part_of(&self, other: &Self, rest: GroupRemainder) -> bool {
        match (self, other) {
            // Giving up a whole group is not an option.
            _ if rest == GroupRemainder::Nothing => false,
            // Conditions on roots are not combined with others.
            (Self::Group(_) | Self::Merge | Self::RootRequired(_) | Self::RootForbidden(_), _)
            | (Self::Isolate | Self::SameSubtree | Self::OnePerTree, Self::Merge) => false,
            (_, Self::Group(group)) => self.group() == Some(group),
            // Forbidden traits and aggregates apply to the providers with all classes of the group.
            (Self::Class { group: own, .. }, Self::Forbidden { group, .. })
            | (Self::Class { group: own, .. }, Self::NotMemberOf { group, .. }) => own == group,
            // The tree restricts only providers that supply something.
            (Self::Class { group: own, .. }, Self::InTree { group, .. }) => {
                own == group && rest == GroupRemainder::NoResources
            }
            (_, other) => other.is_combined(),
        }
    }

    /// The conditions of a request, each of which can rule out hosts: those of the groups, in their order, and then
    /// those on roots.
    pub fn of(request: &Request) -> Vec<Self> {
        let roots = request.root_required.iter().cloned().map(Self::RootRequired);
        let not_roots = request.root_forbidden.iter().cloned().map(Self::RootForbidden);
        request.groups.iter().flat_map(Self::of_group).chain(roots).chain(not_roots).collect()
    }

    fn of_group(group: &Group) -> Vec<Self> {
        let suffix = || group.suffix.clone();
        let classes = group.resources.iter().map(|(class, amount)| Self::Class {
            group: suffix(),
            class: class.clone(),
            amount: *amount,
        });
        let required = group.required.iter();
        let required = required.map(|any| Self::Required { group: suffix(), any: any.clone() });
        let forbidden = group.forbidden.iter();
        let forbidden = forbidden.map(|it| Self::Forbidden { group: suffix(), name: it.clone() });
        let members = group.member_of.iter();
        let members = members.map(|any| Self::MemberOf { group: suffix(), any: any.clone() });
        let outside = group.not_member_of.iter();
        let outside = outside.map(|it| Self::NotMemberOf { group: suffix(), aggregate: *it });
        // A group without resources may have its provider in any tree.
        let tree = group.in_tree.filter(|_| !group.resources.is_empty());
        let tree = tree.map(|provider| Self::InTree { group: suffix(), provider });
        classes.chain(required).chain(forbidden).chain(members).chain(outside).chain(tree).collect()
    }
}

/// Returns a request without one of its conditions. A group that becomes empty is dropped.
pub fn without(request: &Request, condition: &Condition) -> Request {
    let mut rest = request.clone();
    match condition {
        Condition::RootRequired(name) => rest.root_required.retain(|it| it != name),
        Condition::RootForbidden(name) => rest.root_forbidden.retain(|it| it != name),
        Condition::Isolate => rest.policy = Policy::None,
        Condition::SameSubtree => rest.same_subtree.clear(),
        Condition::OnePerTree => rest.nested = true,
        Condition::Group(_) | Condition::Merge => {}
        Condition::Class { .. }
        | Condition::Required { .. }
        | Condition::Forbidden { .. }
        | Condition::MemberOf { .. }
        | Condition::NotMemberOf { .. }
        | Condition::InTree { .. } => {
            let own = |it: &&mut Group| Some(it.suffix.as_str()) == condition.group();
            if let Some(group) = rest.groups.iter_mut().find(own) {
                loosen(group, condition);
            }
            rest.groups.retain(asks_for_something);
        }
    }
    rest
}

/// The remainder of a condition's group without the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::search) enum GroupRemainder {
    /// Nothing: the group is dropped.
    Nothing,
    /// A group without resources.
    NoResources,
    /// A group with resources, or the condition is one of the whole request.
    Resources,
}

impl GroupRemainder {
    /// Computes the remainder without one condition of a request.
    pub(in crate::search) fn of(request: &Request, condition: &Condition) -> Self {
        let own = |it: &&Group| Some(it.suffix.as_str()) == condition.group();
        let Some(group) = request.groups.iter().find(own) else { return Self::Resources };
        let mut group = group.clone();
        loosen(&mut group, condition);
        match asks_for_something(&group) {
            false => Self::Nothing,
            true if group.resources.is_empty() => Self::NoResources,
            true => Self::Resources,
        }
    }
}

/// Returns whether a group needs a provider: it has resources, or it is a suffixed group with a positive condition.
fn asks_for_something(group: &Group) -> bool {
    !group.resources.is_empty() || asks_without_resources(group)
}

/// Returns whether a group needs a provider even without resources.
pub(in crate::search) fn asks_without_resources(group: &Group) -> bool {
    let positive = !group.required.is_empty() || !group.member_of.is_empty();
    !group.suffix.is_empty() && positive
}

/// Removes a condition from its group.
fn loosen(group: &mut Group, condition: &Condition) {
    match condition {
        Condition::Class { class, .. } => group.resources.retain(|(it, _)| it != class),
        Condition::Required { any, .. } => group.required.retain(|it| it != any),
        Condition::Forbidden { name, .. } => group.forbidden.retain(|it| it != name),
        Condition::MemberOf { any, .. } => group.member_of.retain(|it| it != any),
        Condition::NotMemberOf { aggregate, .. } => {
            group.not_member_of.retain(|it| it != aggregate);
        }
        Condition::InTree { .. } => group.in_tree = None,
        Condition::RootRequired(_)
        | Condition::RootForbidden(_)
        | Condition::Group(_)
        | Condition::Merge
        | Condition::Isolate
        | Condition::SameSubtree
        | Condition::OnePerTree => {}
    }
}

impl fmt::Display for Condition {
    /// Formats the condition as in a query string.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = |ids: &[Uuid]| ids.iter().map(Uuid::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::Class { group, class, amount } => {
                write!(formatter, "resources{group}={class}:{amount}")
            }
            Self::Required { group, any } => match any.as_slice() {
                [one] => write!(formatter, "required{group}={one}"),
                some => write!(formatter, "required{group}=in:{}", some.join(",")),
            },
            Self::Forbidden { group, name } => write!(formatter, "required{group}=!{name}"),
            Self::MemberOf { group, any } => write!(formatter, "member_of{group}=in:{}", ids(any)),
            Self::NotMemberOf { group, aggregate } => {
                write!(formatter, "member_of{group}=!{aggregate}")
            }
            Self::InTree { group, provider } => write!(formatter, "in_tree{group}={provider}"),
            Self::RootRequired(name) => write!(formatter, "root_required={name}"),
            Self::RootForbidden(name) => write!(formatter, "root_required=!{name}"),
            Self::Group(group) => write!(formatter, "all conditions of group '{group}' at once"),
            Self::Merge => formatter.write_str("all groups at once"),
            Self::Isolate => formatter.write_str("group_policy=isolate"),
            Self::SameSubtree => formatter.write_str("same_subtree"),
            Self::OnePerTree => formatter.write_str("one provider of each tree"),
        }
    }
}
