//! Finds the servers of a stack whose rules differ from those in an earlier version of the stack.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::ids::canonical;
use super::stack::Stack;
use crate::model::{GroupKind, Level};
use crate::solver::Rule;
use crate::solver::groups::{GroupError, Terms};

/// A rule, reduced to servers that are in both versions: the stored group, kind, level, terms, and the parts that
/// it binds, in ascending order.
type RuleKey<'s> = (Option<Uuid>, GroupKind, Level, Terms, Vec<Vec<&'s str>>);

/// For each server, whether it was in the stack before and is bound by other rules now: by other groups, to other
/// servers of both versions, or to the first other server of a group. If the groups are invalid, all rules count as
/// changed.
pub(super) fn has_changed_rules(before: &Stack, now: &Stack) -> Vec<bool> {
    let (known, servers) = (keys(before), keys(now));
    let is_known: HashSet<&str> = known.iter().map(String::as_str).collect();
    let both: HashSet<&str> =
        servers.iter().map(String::as_str).filter(|key| is_known.contains(key)).collect();
    let mut rule_keys = RuleKeys { both: &both, numbers: HashMap::new() };
    let (Ok(was), Ok(is)) = (rule_keys.of(before, &known), rule_keys.of(now, &servers)) else {
        return vec![true; servers.len()];
    };
    let key = servers.iter().map(String::as_str);
    key.map(|key| both.contains(key) && was.get(key) != is.get(key)).collect()
}

fn keys(stack: &Stack) -> Vec<String> {
    stack.servers.iter().map(|server| canonical(&server.id)).collect()
}

/// Numbers for rules, so that a server has a short list instead of all members of its groups.
struct RuleKeys<'s> {
    /// The servers that are in both versions.
    both: &'s HashSet<&'s str>,
    /// The same rule has one number in both versions.
    numbers: HashMap<RuleKey<'s>, usize>,
}

impl<'s> RuleKeys<'s> {
    /// The numbers of the rules of each server, ascending. Servers without rules are missing.
    fn of(
        &mut self,
        stack: &Stack,
        keys: &'s [String],
    ) -> Result<HashMap<&'s str, Vec<usize>>, GroupError> {
        let mut found: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, rule) in stack.rules()?.rules {
            let group = stack.groups.get(number).ok_or(GroupError::Unknown(number))?;
            // A group of the stack with one server binds it only to a host that is in a unit.
            let is_kept = group.stored.is_some()
                || group.kind == GroupKind::Exclusivity
                || group.level != Level::Host;
            if !is_kept && rule.servers().len() < 2 {
                continue;
            }
            let parts = self.parts(rule, keys);
            let servers: Vec<&str> = parts.concat();
            let next = self.numbers.len();
            let rule_key = (group.stored, group.kind, group.level, group.terms, parts);
            let rule_key = *self.numbers.entry(rule_key).or_insert(next);
            for server in servers {
                found.entry(server).or_default().push(rule_key);
            }
        }
        for rule_keys in found.values_mut() {
            rule_keys.sort_unstable();
            rule_keys.dedup();
        }
        Ok(found)
    }

    /// The parts of a rule, reduced to servers of both versions.
    fn parts(&self, rule: Rule, keys: &'s [String]) -> Vec<Vec<&'s str>> {
        let parts = match rule {
            Rule::Together(_, servers) | Rule::Alone(_, servers) | Rule::AtMost(_, _, servers) => {
                vec![servers]
            }
            Rule::Skew(skew) => vec![skew.servers],
            Rule::Apart(_, parts) => parts,
        };
        let named = |part: Vec<usize>| {
            let keys = part.into_iter().filter_map(|server| keys.get(server));
            let keys = keys.map(String::as_str).filter(|key| self.both.contains(key));
            let mut keys: Vec<&str> = keys.collect();
            keys.sort_unstable();
            keys
        };
        let mut parts: Vec<Vec<&str>> = parts.into_iter().map(named).collect();
        parts.retain(|part| !part.is_empty());
        parts.sort_unstable();
        parts
    }
}
