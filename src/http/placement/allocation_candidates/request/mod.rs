//! Converts the query string of `GET /allocation_candidates` into a [`search::Request`].
//!
//! [`search::Request`]: Request

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::http::api::python::repr;
use crate::http::app::{CandidateOrder, Options};
use crate::http::placement::microversion::{
    CANDIDATES_IN_TREE, CANDIDATES_MEMBER_OF, FORBIDDEN_TRAITS, LIMIT, Ladder, Microversion,
    NAMED_GROUPS, NESTED_CANDIDATES, NUMBERED_GROUPS, REQUIRED_TRAITS, ROOT_REQUIRED, SAME_SUBTREE,
};
use crate::http::placement::names::{NAMED_GROUP, NUMBERED_GROUP};
use crate::http::placement::problem::{Code, Problem};
use crate::http::placement::query::{self, Grammar, Query};
use crate::http::placement::schema::{Schema, Shape, any_type, object, string};
use crate::model::effort::steps;
use crate::search::{Group, Order, Policy, Request};

/// Pattern of `limit`.
const LIMIT_PATTERN: &str = "^[1-9][0-9]*$";

/// Schema of the query.
pub(in crate::http::placement) static LIST_QUERY: LazyLock<Ladder<Schema>> = LazyLock::new(|| {
    let text = || any_type(&["string"]);
    let first = object().require("resources", string()).closed();
    Ladder::from(first)
        .then(LIMIT, |query| query.allow("limit", limit_shape()))
        .then(REQUIRED_TRAITS, |query| query.allow("required", text()))
        .then(CANDIDATES_MEMBER_OF, |query| query.allow("member_of", text()))
        .then(NUMBERED_GROUPS, |query| {
            let query = query.without("resources").without("required").without("member_of");
            let policy = string().with("enum", vec!["none", "isolate"]);
            groups(query, &["resources", "required", "member_of"], NUMBERED_GROUP)
                .allow("group_policy", policy)
        })
        .then(CANDIDATES_IN_TREE, |query| groups(query, &["in_tree"], NUMBERED_GROUP))
        .then(NAMED_GROUPS, |query| {
            let query = query.with("patternProperties", Map::new());
            groups(query, &["resources", "required", "member_of", "in_tree"], NAMED_GROUP)
        })
        .then(ROOT_REQUIRED, |query| query.allow("root_required", text()))
        .then(SAME_SUBTREE, |query| query.allow("same_subtree", text()))
        .map(Shape::for_queries)
});

fn limit_shape() -> Shape {
    any_type(&["integer", "string"])
        .with("pattern", LIMIT_PATTERN)
        .with("minimum", 1)
        .with("minLength", 1)
}

fn groups(query: Shape, names: &[&str], suffix: &str) -> Shape {
    names.iter().fold(query, |query, name| query.each(&format!("^{name}({suffix})?$"), string()))
}

/// Converts a query into a request.
pub(in crate::http) fn request(
    query: &Query,
    microversion: Microversion,
    options: &Options,
) -> Result<Request, Problem> {
    query.check(LIST_QUERY.at(microversion))?;
    let grammar = Grammar::at(microversion);
    let limit = limit(query)?;
    let root = root_traits(query, grammar)?;
    let same_subtree = same_subtree(query)?;
    let groups = collect_groups(query, grammar)?;
    if microversion.has(SAME_SUBTREE) {
        check_subtrees(&groups, &same_subtree)?;
    } else {
        check_orphans(&groups)?;
    }
    if microversion.has(FORBIDDEN_TRAITS) {
        check_conflicts(&groups)?;
    }
    // If the policy is repeated, the first one applies.
    let policy = query.all("group_policy").next().filter(|policy| !policy.is_empty());
    let suffixed = groups.iter().filter(|group| !group.suffix.is_empty()).count();
    if policy.is_none() && suffixed > 1 {
        return Err(Problem::bad_request(
            "The \"group_policy\" parameter is required when specifying more than one \
             \"resources{N}\" parameter.",
        ));
    }
    Ok(Request {
        groups,
        policy: if policy == Some("isolate") { Policy::Isolate } else { Policy::None },
        same_subtree,
        root_required: root.0,
        root_forbidden: root.1,
        limit,
        max_candidates: options.max_allocation_candidates,
        strategy: options.generation_strategy,
        order: order(&options.candidate_order),
        nested: microversion.has(NESTED_CANDIDATES),
        through_holds: options.planner.held_hosts,
    })
}

/// Returns the order of the trees for one request.
pub(in crate::http) fn order(chosen: &CandidateOrder) -> Order {
    match chosen {
        CandidateOrder::Stored => Order::Stored,
        CandidateOrder::Random => {
            let (high, low) = Uuid::new_v4().as_u64_pair();
            Order::Random(high ^ low)
        }
        CandidateOrder::Ranked(ranking) => Order::Ranked(ranking.clone()),
    }
}

/// If `limit` is repeated, the first one applies, although the schema has checked the last.
fn limit(query: &Query) -> Result<Option<usize>, Problem> {
    let Some(first) = query.all("limit").next() else { return Ok(None) };
    let digits = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || first.starts_with('0') {
        return Err(Problem::bad_request(format!(
            "Invalid query string parameters: {} does not match {}",
            repr(&first.into()),
            repr(&LIMIT_PATTERN.into())
        )));
    }
    // A number that overflows is no limit.
    Ok(first.parse().ok())
}

/// Returns the traits that the root must have, and those it must not have.
fn root_traits(query: &Query, grammar: Grammar) -> Result<(Vec<String>, Vec<String>), Problem> {
    let mut values = query.all("root_required");
    let Some(value) = values.next() else { return Ok((Vec::new(), Vec::new())) };
    if values.next().is_some() {
        let detail = "Query parameter 'root_required' may be specified only once.";
        return Err(Problem::bad_request(detail).code(Code::DuplicateKey));
    }
    let grammar = Grammar { forbidden_traits: true, any_traits: false, ..grammar };
    let traits = query::trait_clauses(value, grammar)?;
    let required: Vec<String> = traits.required.into_iter().flatten().collect();
    let forbidden: HashSet<&String> = traits.forbidden.iter().collect();
    let both = required.iter().filter(|name| forbidden.contains(name));
    let mut both: Vec<&str> = both.map(String::as_str).collect();
    if !both.is_empty() {
        both.sort_unstable();
        both.dedup();
        let detail = format!(
            "Conflicting required and forbidden traits found in root_required: {}",
            both.join(", ")
        );
        return Err(Problem::bad_request(detail).code(Code::BadValue));
    }
    Ok((required, traits.forbidden))
}

fn same_subtree(query: &Query) -> Result<Vec<Vec<String>>, Problem> {
    let subtree = |value: &str| {
        let suffixes = query::distinct(value.split(',').map(|suffix| suffix.trim().to_owned()));
        if suffixes.iter().any(String::is_empty) {
            let detail = "Empty string (unsuffixed group) can not be specified in `same_subtree` ";
            return Err(Problem::bad_request(detail).code(Code::BadValue));
        }
        Ok(suffixes)
    };
    query.all("same_subtree").map(subtree).collect()
}

/// Returns the groups in the order in which the query first names them.
fn collect_groups(query: &Query, grammar: Grammar) -> Result<Vec<Group>, Problem> {
    #[expect(clippy::unwrap_used, reason = "the patterns are constants, and tests use them")]
    static KEYS: LazyLock<[Regex; 2]> = LazyLock::new(|| {
        [NUMBERED_GROUP, NAMED_GROUP].map(|suffix| {
            let names = "resources|required|member_of|in_tree";
            Regex::new(&format!("^({names})({suffix})?$")).unwrap()
        })
    });
    let [numbered, named] = &*KEYS;
    let keys = if grammar.named_groups { named } else { numbered };
    let mut gathering = Gathering { query, grammar, groups: Vec::new(), places: HashMap::new() };
    for (key, value) in query.pairs() {
        let Some(parts) = keys.captures(key) else { continue };
        let what = parts.get(1).map_or("", |it| it.as_str());
        let suffix = parts.get(2).map_or("", |it| it.as_str());
        gathering.add(what, suffix, value)?;
    }
    Ok(gathering.groups)
}

/// The groups of the parameters read so far.
struct Gathering<'q> {
    query: &'q Query,
    grammar: Grammar,
    groups: Vec<Group>,
    /// For each suffix: the position of its group, and which of its parameters were read.
    places: HashMap<String, Place>,
}

/// Position of a group, and whether its repeatable parameters were read.
struct Place {
    group: usize,
    required: bool,
    member_of: bool,
}

impl Gathering<'_> {
    /// Applies a parameter to its group. If `resources` or `in_tree` is repeated, the last one
    /// applies. The values of other parameters are all read at the first occurrence, because the
    /// reference reports their errors there; later occurrences are skipped, or a query would be
    /// read as many times as it has parameters.
    fn add(&mut self, what: &str, suffix: &str, value: &str) -> Result<(), Problem> {
        steps(1);
        let next = self.groups.len();
        let place = self.places.entry(suffix.to_owned());
        let place = place.or_insert(Place { group: next, required: false, member_of: false });
        if place.group == next {
            self.groups.push(Group { suffix: suffix.to_owned(), ..Group::default() });
        }
        let Some(group) = self.groups.get_mut(place.group) else { return Ok(()) };
        match what {
            "resources" => group.resources = query::resources(value)?,
            "required" if !std::mem::replace(&mut place.required, true) => {
                let traits = query::traits(self.query, suffix, self.grammar)?;
                (group.required, group.forbidden) = (traits.required, traits.forbidden);
            }
            "member_of" if !std::mem::replace(&mut place.member_of, true) => {
                let aggregates = query::member_of(self.query, suffix, self.grammar)?;
                (group.member_of, group.not_member_of) =
                    (aggregates.required, aggregates.forbidden);
            }
            "in_tree" => group.in_tree = Some(query::in_tree(value)?),
            _ => {}
        }
        Ok(())
    }
}

/// From 1.36, a group may have no resources if `same_subtree` names it.
fn check_subtrees(groups: &[Group], same_subtree: &[Vec<String>]) -> Result<(), Problem> {
    let in_subtree: HashSet<&String> = same_subtree.iter().flatten().collect();
    let resourceless = || groups.iter().filter(|group| group.resources.is_empty());
    if resourceless().count() == groups.len() {
        let detail = "There must be at least one resources or resources[$S] parameter.";
        return Err(Problem::bad_request(detail).code(Code::MissingValue));
    }
    let alone =
        resourceless().map(|group| &group.suffix).filter(|suffix| !in_subtree.contains(suffix));
    let alone: Vec<_> = alone.cloned().map(Value::from).collect();
    if !alone.is_empty() {
        let detail = format!(
            "Resourceless suffixed group request should be specified in `same_subtree` query param: \
             bad group(s) - {}.",
            repr(&alone.into())
        );
        return Err(Problem::bad_request(detail).code(Code::BadValue));
    }
    let real: HashSet<&String> = groups.iter().map(|group| &group.suffix).collect();
    let unreal = same_subtree.iter().flatten().filter(|suffix| !real.contains(suffix));
    let unreal: Vec<Value> =
        query::distinct(unreal.cloned()).into_iter().map(Value::from).collect();
    if !unreal.is_empty() {
        let suffixes: Vec<_> =
            groups.iter().map(|group| Value::from(group.suffix.clone())).collect();
        let detail = format!(
            "Real suffixes should be specified in `same_subtree`: {} not found in {}.",
            repr(&unreal.into()),
            repr(&suffixes.into())
        );
        return Err(Problem::bad_request(detail).code(Code::BadValue));
    }
    Ok(())
}

/// Before 1.36, every group needs resources.
fn check_orphans(groups: &[Group]) -> Result<(), Problem> {
    let orphans = |what: &str, is: fn(&Group) -> bool| {
        let without = groups.iter().filter(|group| group.resources.is_empty() && is(group));
        without.map(|group| format!("{what}{}", group.suffix)).collect::<Vec<_>>().join(", ")
    };
    let traits = orphans("required", |group| !group.required.is_empty());
    let aggregates = orphans("member_of", |group| {
        !group.member_of.is_empty() || !group.not_member_of.is_empty()
    });
    let detail = if !traits.is_empty() {
        format!(
            "All traits parameters must be associated with resources.  Found the following orphaned \
             traits keys: {traits}"
        )
    } else if !aggregates.is_empty() {
        format!(
            "All member_of parameters must be associated with resources. Found the following \
             orphaned member_of keys: {aggregates}"
        )
    } else if groups.iter().any(|group| group.resources.is_empty()) {
        "All request groups must specify resources.".to_owned()
    } else if groups.is_empty() {
        "At least one request group (`resources` or `resources{$S}`) is required.".to_owned()
    } else {
        return Ok(());
    };
    Err(Problem::bad_request(detail))
}

/// A clause of required traits must not consist of forbidden traits only.
fn check_conflicts(groups: &[Group]) -> Result<(), Problem> {
    let mut conflicts = Vec::new();
    for group in groups {
        let forbidden: HashSet<&String> = group.forbidden.iter().collect();
        for clause in &group.required {
            steps(clause.len());
            if clause.iter().all(|name| forbidden.contains(name)) {
                let mut names = clause.clone();
                names.sort();
                conflicts.push(format!("required{}: ({})", group.suffix, names.join(", ")));
            }
        }
    }
    if conflicts.is_empty() {
        return Ok(());
    }
    conflicts.sort();
    Err(Problem::bad_request(format!(
        "Conflicting required and forbidden traits found in the following traits keys: {}",
        conflicts.join(", ")
    )))
}

#[cfg(test)]
mod tests;
