//! What is asked for: typed, and free of API versions.

use uuid::Uuid;

/// A whole request for allocation candidates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Groups in the order in which the query first names them. The one with the empty suffix may
    /// be spread over providers; each other one is served by a single provider.
    pub groups: Vec<Group>,
    /// Whether suffixed groups may share a provider.
    pub policy: Policy,
    /// Each set of suffixes whose providers lie below one of themselves.
    pub same_subtree: Vec<Vec<String>>,
    /// Traits the anchor's root has.
    pub root_required: Vec<String>,
    /// Traits the anchor's root has not.
    pub root_forbidden: Vec<String>,
    /// Candidates to return at the most, chosen from all there are.
    pub limit: Option<usize>,
    /// Candidates to generate at the most (`max_allocation_candidates`). Those that `nested`
    /// excludes are never generated.
    pub max_candidates: Option<usize>,
    /// In which order candidates are generated, unless the order is random.
    pub strategy: Strategy,
    /// Seed of a random order, and with a bound of a random choice: trees are drawn one after the
    /// other, each as likely as any other, and then take turns; in a tree the options of each
    /// group are tried in random order. So no host is preferred, however many candidates it has.
    /// All trees that may come into question are marked, at a few bits each, before the first is drawn.
    pub random_seed: Option<u64>,
    /// Whether one candidate may use several providers of a tree (microversion 1.29). When not,
    /// summaries name only the providers used.
    pub nested: bool,
}

/// One request group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// What follows `resources`, `required`, ... in the query; empty for the unsuffixed group.
    pub suffix: String,
    /// Amounts by class name, each class once, in the query's order.
    pub resources: Vec<(String, i64)>,
    /// Every clause is met by any one of its traits.
    pub required: Vec<Vec<String>>,
    /// Traits no provider used may have.
    pub forbidden: Vec<String>,
    /// Every clause is met by any one of its aggregates.
    pub member_of: Vec<Vec<Uuid>>,
    /// Aggregates no provider used may be in.
    pub not_member_of: Vec<Uuid>,
    /// A provider whose tree the group is confined to.
    pub in_tree: Option<Uuid>,
}

/// `group_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Suffixed groups may meet on a provider.
    #[default]
    None,
    /// They may not.
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

/// A name in the request that nothing in the catalogue has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// A resource class.
    Class(String),
    /// Traits, ascending.
    Traits(Vec<String>),
    /// Traits of `root_required`, ascending.
    RootTraits(Vec<String>),
}
