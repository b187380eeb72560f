//! What binds servers of a stack to each other, compared between two versions of it.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::ids::canonical;
use super::stack::Stack;
use crate::plan::groups::Kind;
use crate::plan::{Level, Rule};

/// A rule, as far as it is about servers that are in both versions.
type Bond = (Option<Uuid>, u8, Level, BTreeSet<BTreeSet<String>>);

/// Whether each server of a stack that was in it before is bound otherwise now: in other groups, or to
/// others of those that were there. If the groups make no sense, all are.
pub fn rebound(before: &Stack, now: &Stack) -> Vec<bool> {
    let keys = |stack: &Stack| -> Vec<String> {
        stack.servers.iter().map(|server| canonical(&server.id)).collect()
    };
    let (known, servers) = (keys(before), keys(now));
    let is_known: BTreeSet<&String> = known.iter().collect();
    let both = servers.iter().filter(|key| is_known.contains(key)).collect();
    let (Some(was), Some(is)) = (bonds(before, &known, &both), bonds(now, &servers, &both)) else {
        return vec![true; servers.len()];
    };
    servers.iter().map(|key| both.contains(key) && was.get(key) != is.get(key)).collect()
}

fn bonds(
    stack: &Stack,
    keys: &[String],
    both: &BTreeSet<&String>,
) -> Option<HashMap<String, BTreeSet<Bond>>> {
    let mut found: HashMap<String, BTreeSet<Bond>> = HashMap::new();
    for (number, rule) in stack.rules().ok()? {
        let group = stack.groups.get(number)?;
        let parts = match &rule {
            Rule::Together(_, servers) | Rule::Alone(_, servers) => vec![servers.clone()],
            Rule::Apart(_, parts) => parts.clone(),
        };
        let named = |part: Vec<usize>| -> BTreeSet<String> {
            let keys = part.into_iter().filter_map(|server| keys.get(server));
            keys.filter(|key| both.contains(key)).cloned().collect()
        };
        let parts: BTreeSet<BTreeSet<String>> = parts.into_iter().map(named).collect();
        let kind = match group.kind {
            Kind::Affinity => 0,
            Kind::Diversity => 1,
            Kind::Exclusivity => 2,
        };
        let parts: BTreeSet<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        for key in parts.iter().flatten() {
            let bond = (group.stored, kind, group.level, parts.clone());
            found.entry(key.clone()).or_default().insert(bond);
        }
    }
    // Whom a group of the stack binds to nobody it does not bind.
    let binds = |(stored, kind, _, parts): &Bond| {
        stored.is_some() || *kind == 2 || parts.iter().map(BTreeSet::len).sum::<usize>() > 1
    };
    found.retain(|_, bonds| {
        bonds.retain(binds);
        !bonds.is_empty()
    });
    Some(found)
}
