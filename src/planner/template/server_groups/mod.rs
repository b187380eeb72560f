//! Reads Nova's server groups: resources with a policy, which servers name in their scheduler hints. A
//! group is a group of the request at the level of hosts.

use std::collections::HashMap;

use serde_json::Value;
use uuid::Uuid;

use crate::model::GroupKind;
use crate::planner::ids::canonical;
use crate::planner::json::{NAME_MAX, read_text};
use crate::solver::groups::Terms;

/// The terms of a soft policy.
const SOFT: Terms = Terms { soft: Some(1), max_per_unit: None, max_skew: None };
/// Scheduler hints of Nova about hosts that the planner ignores.
const IGNORED_HINTS: [&str; 4] = ["build_near_host_ip", "different_host", "query", "same_host"];

/// The policy of a server group.
///
/// # Errors
/// The fault of the group.
pub(super) fn policy(properties: Option<&Value>) -> Result<(GroupKind, Terms), String> {
    let list = match property(properties, "policies") {
        None => &[][..],
        Some(Value::Array(list)) => list.as_slice(),
        Some(_) => return Err("policies: not of type array".to_owned()),
    };
    let policies: Vec<&Value> = list.iter().chain(property(properties, "policy")).collect();
    let policy = match policies.as_slice() {
        [] => return Err("has no policy".to_owned()),
        [policy] => read_text(policy, NAME_MAX).map_err(|fault| format!("policy: {fault}"))?,
        _ => return Err("has more than one policy".to_owned()),
    };
    match (policy, max_server_per_host(properties)?) {
        ("affinity", None) => Ok((GroupKind::Affinity, Terms::default())),
        ("anti-affinity", None | Some(1)) => Ok((GroupKind::Diversity, Terms::default())),
        ("anti-affinity", max_per_unit @ Some(_)) => {
            Ok((GroupKind::Diversity, Terms { max_per_unit, ..Terms::default() }))
        }
        ("soft-affinity", None) => Ok((GroupKind::Affinity, SOFT)),
        ("soft-anti-affinity", None) => Ok((GroupKind::Diversity, SOFT)),
        ("affinity" | "soft-affinity" | "soft-anti-affinity", Some(_)) => {
            Err("rules: max_server_per_host is for the policy anti-affinity only".to_owned())
        }
        _ => Err(format!(
            "policy '{policy}' is invalid: must be affinity, anti-affinity, soft-affinity or \
             soft-anti-affinity"
        )),
    }
}

/// `rules: {"max_server_per_host": N}`. Nova takes the number as text, too.
fn max_server_per_host(properties: Option<&Value>) -> Result<Option<u32>, String> {
    let Some(rules) = property(properties, "rules") else { return Ok(None) };
    let rules = rules.as_object().ok_or("rules: not a dictionary")?;
    if rules.keys().any(|key| key != "max_server_per_host") {
        return Err("rules: must have no keys but max_server_per_host".to_owned());
    }
    let Some(most) = rules.get("max_server_per_host").filter(|most| !most.is_null()) else {
        return Ok(None);
    };
    let number: Option<u32> = match most.as_str() {
        Some(text) => text.parse().ok(),
        None => most.as_u64().and_then(|it| it.try_into().ok()),
    };
    let number = number.filter(|it| *it > 0);
    number
        .map(Some)
        .ok_or_else(|| format!("rules: max_server_per_host: not an integer from 1 to {}", u32::MAX))
}

/// The name that Nova gives to a server group.
pub(super) fn nova_name(properties: Option<&Value>) -> Option<&str> {
    let name = read_text(property(properties, "name")?, NAME_MAX).ok()?;
    (!name.is_empty()).then_some(name)
}

/// A property, if it is present and not null.
fn property<'p>(properties: Option<&'p Value>, key: &str) -> Option<&'p Value> {
    properties?.get(key).filter(|value| !value.is_null())
}

/// The scheduler hints of a server.
pub(super) fn hints(properties: Option<&Value>) -> Option<&Value> {
    property(properties, "scheduler_hints")
}

/// The hints about hosts that the planner ignores.
pub(super) fn ignored_hints(hints: &Value) -> impl Iterator<Item = &'static str> {
    IGNORED_HINTS.into_iter().filter(|hint| hints.get(hint).is_some())
}

/// The server groups of a request: the position of each among the groups of the template; `None` if it
/// is malformed.
#[derive(Debug, Default)]
pub(super) struct ServerGroups {
    /// By orchestration id.
    ids: HashMap<String, Option<usize>>,
    /// By the other words for it: its names, and the id that Nova gave to it.
    others: HashMap<String, Option<usize>>,
}

impl ServerGroups {
    /// Adds a server group.
    pub(super) fn add<'w>(
        &mut self,
        id: &str,
        others: impl Iterator<Item = &'w str>,
        position: Option<usize>,
    ) {
        self.ids.insert(canonical(id), position);
        for word in others {
            self.others.entry(canonical(word)).or_insert(position);
        }
    }

    /// Finds the group in the hints of a server.
    ///
    /// # Errors
    /// The fault of the hints.
    pub(super) fn find<'h>(&self, hints: &'h Value) -> Result<GroupHint<'h>, String> {
        let hints = hints.as_object().ok_or("scheduler_hints: not a dictionary")?;
        let Some(group) = hints.get("group").filter(|group| !group.is_null()) else {
            return Ok(GroupHint::None);
        };
        let inner = group.get("get_resource");
        let name = inner.map_or_else(|| read_text(group, NAME_MAX), |id| read_text(id, NAME_MAX));
        let name = name.map_err(|fault| format!("scheduler_hints: group: {fault}"))?;
        let key = canonical(name);
        match self.ids.get(&key).or_else(|| self.others.get(&key)) {
            Some(position) => Ok(position.map_or(GroupHint::None, GroupHint::Group)),
            None if inner.is_none() && Uuid::try_parse(name).is_ok() => {
                Ok(GroupHint::Outside(name))
            }
            None => {
                Err(format!("scheduler_hints: group '{name}' is not a server group of the request"))
            }
        }
    }
}

/// The group in the scheduler hints of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupHint<'h> {
    /// No group, or a malformed group of the request.
    None,
    /// The group at this position among those of the template.
    Group(usize),
    /// A group with this id, which was created outside the request: only Nova knows its policy.
    Outside(&'h str),
}

#[cfg(test)]
mod tests;
