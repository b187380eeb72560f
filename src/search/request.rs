//! A request for candidates: typed, and independent of microversions.

use uuid::Uuid;

use super::ranking::Ranking;

/// The suffix of a group of resources, as a regular expression.
pub const GROUP_SUFFIX: &str = "[a-zA-Z0-9_-]{1,64}";

/// A request for allocation candidates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The groups, in the order in which the query string first names them. Several providers may
    /// serve the group with the empty suffix; one provider serves each other group.
    pub groups: Vec<Group>,
    /// Whether suffixed groups may use the same provider.
    pub policy: Policy,
    /// Sets of suffixes: one of the providers of these groups is an ancestor of all others.
    pub same_subtree: Vec<Vec<String>>,
    /// Traits that the root of the tree has.
    pub root_required: Vec<String>,
    /// Traits that the root of the tree does not have.
    pub root_forbidden: Vec<String>,
    /// The maximum number of candidates to return.
    pub limit: Option<usize>,
    /// The maximum number of candidates to generate (`max_allocation_candidates`). Candidates that
    /// `nested` excludes are never generated.
    pub max_candidates: Option<usize>,
    /// Whether the candidates of a tree follow each other.
    pub strategy: Strategy,
    /// The order of the trees.
    pub order: Order,
    /// Whether one candidate may use several providers of a tree (microversion 1.29). If not,
    /// summaries contain only the providers used.
    pub nested: bool,
    /// Whether a host has room if one hold of the requested amounts is released there; see `released`.
    pub through_holds: bool,
}

/// A request group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The suffix of `resources`, `required`, ... in the query string; empty for the unsuffixed group.
    pub suffix: String,
    /// Amounts by class name, each class once, in the order of the query string.
    pub resources: Vec<(String, i64)>,
    /// Clauses of traits: the group has at least one trait of each clause.
    pub required: Vec<Vec<String>>,
    /// Traits that no provider of the group may have.
    pub forbidden: Vec<String>,
    /// Clauses of aggregates: the provider is in at least one aggregate of each clause.
    pub member_of: Vec<Vec<Uuid>>,
    /// Aggregates that no provider of the group may be in.
    pub not_member_of: Vec<Uuid>,
    /// A provider whose tree the group is restricted to.
    pub in_tree: Option<Uuid>,
}

/// `group_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Suffixed groups may use the same provider.
    #[default]
    None,
    /// Suffixed groups must use different providers.
    Isolate,
}

/// `allocation_candidates_generation_strategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// All candidates of one tree before those of the next.
    #[default]
    DepthFirst,
    /// One candidate of each tree in turn.
    BreadthFirst,
}

/// The order in which trees yield their candidates.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Order {
    /// The arbitrary order in memory.
    #[default]
    Stored,
    /// Random, from a seed, and, with a limit, a random selection. Trees are drawn one after the other, all equally
    /// likely, and then take turns; within a tree, the options of each group are tried in random order. No host is
    /// preferred, however many candidates it has. All possible trees are marked before the first is drawn, a few
    /// bits each.
    Random(u64),
    /// By the score of each tree, the highest first. Trees with equal scores are in arbitrary order; candidates of
    /// sharing providers alone come last.
    Ranked(Ranking),
}

/// An unknown name in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// A resource class.
    Class(String),
    /// Traits, ascending.
    Traits(Vec<String>),
    /// Traits of `root_required`, ascending.
    RootTraits(Vec<String>),
}
