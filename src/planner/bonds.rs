//! What binds servers of a stack to each other, compared between two versions of it.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::ids::canonical;
use super::stack::Stack;
use crate::solver::groups::{Kind, Senseless};
use crate::solver::{Level, Rule};

/// A rule, as far as it is about servers that are in both versions: the stored group, what it asks, and
/// the parts that it binds, in ascending order.
type Bond<'s> = (Option<Uuid>, Kind, Level, Vec<Vec<&'s str>>);

/// Whether each server of a stack that was in it before is bound otherwise now: in other groups, or to
/// others of those that were there. If the groups make no sense, all are.
pub fn rebound(before: &Stack, now: &Stack) -> Vec<bool> {
    let (known, servers) = (keys(before), keys(now));
    let is_known: HashSet<&str> = known.iter().map(String::as_str).collect();
    let both: HashSet<&str> =
        servers.iter().map(String::as_str).filter(|key| is_known.contains(key)).collect();
    let mut bonds = Bonds { both: &both, numbers: HashMap::new() };
    let (Ok(was), Ok(is)) = (bonds.of(before, &known), bonds.of(now, &servers)) else {
        return vec![true; servers.len()];
    };
    let key = servers.iter().map(String::as_str);
    key.map(|key| both.contains(key) && was.get(key) != is.get(key)).collect()
}

fn keys(stack: &Stack) -> Vec<String> {
    stack.servers.iter().map(|server| canonical(&server.id)).collect()
}

/// Bonds by number, so that a server has a short list and not all that its groups bind.
struct Bonds<'s> {
    /// The servers that are in both versions.
    both: &'s HashSet<&'s str>,
    /// The same bond of either version has one number.
    numbers: HashMap<Bond<'s>, usize>,
}

impl<'s> Bonds<'s> {
    /// The bonds of each server of a stack, in ascending order. Servers without any are not in it.
    fn of(
        &mut self,
        stack: &Stack,
        keys: &'s [String],
    ) -> Result<HashMap<&'s str, Vec<usize>>, Senseless> {
        let mut found: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, rule) in stack.rules()? {
            let group = stack.groups.get(number).ok_or(Senseless::Unknown(number))?;
            let parts = self.parts(rule, keys);
            let servers: Vec<&str> = parts.concat();
            // Whom a group of the stack binds to nobody it does not bind.
            let is_bond = group.stored.is_some() || group.kind == Kind::Exclusivity;
            if !is_bond && servers.len() < 2 {
                continue;
            }
            let next = self.numbers.len();
            let bond = (group.stored, group.kind, group.level, parts);
            let bond = *self.numbers.entry(bond).or_insert(next);
            for server in servers {
                found.entry(server).or_default().push(bond);
            }
        }
        for bonds in found.values_mut() {
            bonds.sort_unstable();
            bonds.dedup();
        }
        Ok(found)
    }

    /// The parts of a rule, as far as they are about servers of both versions.
    fn parts(&self, rule: Rule, keys: &'s [String]) -> Vec<Vec<&'s str>> {
        let parts = match rule {
            Rule::Together(_, servers) | Rule::Alone(_, servers) => vec![servers],
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
