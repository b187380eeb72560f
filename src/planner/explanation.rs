//! Explains why there is no solution: a sentence that names the smallest set found of demands that
//! contradict each other, and the counts behind it.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::compose::Composed;
use super::failure::{Demand, Explanation};
use super::host_filter::Reason;
use super::stack::Stack;
use crate::model::Level;
use crate::solver::{AllowedHosts, Conflict, UnitCount};

/// Units and servers that a sentence names at the most; the rest are counted.
const NAMED_MAX: usize = 5;

/// Explains a conflict.
pub(super) fn explanation(composed: &Composed, stack: &Stack, conflict: &Conflict) -> Explanation {
    let names = stack.servers.iter().map(|it| (it.id.as_str(), it.name.as_str())).collect();
    let explainer = Explainer { composed, stack, conflict, names };
    let mut demands: Vec<Demand> = explainer.of_rules();
    if demands.is_empty() {
        demands.push(explainer.of_room());
    }
    let mut sentences: Vec<String> =
        demands.iter().map(|demand| explainer.sentence(demand)).collect();
    sentences.extend(explainer.hosts_without_unit(&demands));
    Explanation { sentence: sentences.join("; "), demands }
}

struct Explainer<'s> {
    composed: &'s Composed,
    stack: &'s Stack,
    conflict: &'s Conflict,
    /// The names of servers by what the orchestrator calls them.
    names: HashMap<&'s str, &'s str>,
}

impl Explainer<'_> {
    fn of_rules(&self) -> Vec<Demand> {
        let members: HashSet<usize> = self.conflict.servers.iter().copied().collect();
        let counts = self.conflict.counts.iter().map(|count| (count.rule, count));
        let counts: HashMap<usize, &UnitCount> = counts.collect();
        let demand = |rule: &usize| {
            let it = self.composed.problem.rules.get(*rule)?;
            let group = self.stack.groups.get(*self.composed.groups.get(*rule)?)?;
            let mut servers = it.servers();
            servers.retain(|server| members.contains(server));
            servers.sort_unstable();
            servers.dedup();
            let count = counts.get(rule);
            let hosts = count.map(|count| count.units.as_slice()).unwrap_or_default();
            Some(Demand {
                constraint: group.kind.name(),
                group: Some(group.name.clone()),
                level: group.level.name(),
                servers: self.ids(&servers),
                needed: count.map_or(1, |count| count.needed),
                available: count.map_or(0, |count| count.available),
                units: self.units(group.level, hosts),
                hosts_eliminated: self.eliminated(&servers),
            })
        };
        self.conflict.rules.iter().filter_map(demand).collect()
    }

    /// The demand of servers without rules: capacity and single hosts.
    fn of_room(&self) -> Demand {
        let servers = &self.conflict.servers;
        let open = self.open_hosts(servers);
        Demand {
            constraint: self.main_reason(servers).name(),
            group: None,
            level: Level::Host.name(),
            servers: self.ids(servers),
            needed: servers.len(),
            available: open.len(),
            units: self.units(Level::Host, &open),
            hosts_eliminated: self.eliminated(servers),
        }
    }

    /// The hosts that one of the servers may be on. Equal servers share the list, which is read once.
    fn open_hosts(&self, servers: &[usize]) -> Vec<usize> {
        let mut looked_at: HashSet<*const bool> = HashSet::new();
        let mut open = vec![false; self.composed.hosts.len()];
        for server in servers.iter().filter_map(|it| self.composed.problem.servers.get(*it)) {
            match &server.allowed_hosts {
                AllowedHosts::Only(host) => {
                    open.iter_mut().skip(*host).take(1).for_each(|it| *it = true);
                }
                AllowedHosts::These(hosts) if looked_at.insert(hosts.as_ptr()) => {
                    open.iter_mut().zip(hosts.iter()).for_each(|(open, may)| *open |= may);
                }
                AllowedHosts::These(_) => {}
            }
        }
        (0..open.len()).zip(open).filter_map(|(host, open)| open.then_some(host)).collect()
    }

    /// The reason that rules out most hosts for these servers.
    fn main_reason(&self, servers: &[usize]) -> Reason {
        let most =
            self.reasons(servers).into_iter().max_by_key(|(reason, count)| (*count, *reason));
        most.map_or(Reason::Room, |(reason, _)| reason)
    }

    fn eliminated(&self, servers: &[usize]) -> BTreeMap<&'static str, usize> {
        let reasons = self.reasons(servers).into_iter();
        reasons.map(|(reason, count)| (reason.name(), count)).collect()
    }

    /// For each reason, for how many hosts it rules out a server, summed over the servers.
    fn reasons(&self, servers: &[usize]) -> BTreeMap<Reason, usize> {
        let mut sums: BTreeMap<Reason, usize> = BTreeMap::new();
        for by_server in servers.iter().filter_map(|it| self.composed.ruled_out.get(*it)) {
            for (reason, count) in by_server {
                *sums.entry(*reason).or_insert(0) += count;
            }
            if self.composed.too_small > 0 {
                *sums.entry(Reason::Room).or_insert(0) += self.composed.too_small;
            }
        }
        sums
    }

    fn ids(&self, servers: &[usize]) -> Vec<String> {
        let id = |server: &usize| self.stack.servers.get(*server).map(|it| it.id.clone());
        servers.iter().filter_map(id).collect()
    }

    /// The names of the units that hosts are in.
    fn units(&self, level: Level, hosts: &[usize]) -> Vec<String> {
        let unit = |host: &usize| {
            let host = self.composed.hosts.get(*host)?;
            host.location.unit(level, &host.name).map(str::to_owned)
        };
        let mut units: Vec<String> = hosts.iter().filter_map(unit).collect();
        units.sort_unstable();
        units.dedup();
        units
    }

    fn sentence(&self, demand: &Demand) -> String {
        let names = self.names(demand);
        let one = demand.level;
        let fit = match demand.available {
            0 => format!("fit in no {one}"),
            _ => format!("fit in {}: {}", demand.available, listed(&demand.units)),
        };
        let why = reasons(&demand.hosts_eliminated);
        let Some(group) = &demand.group else {
            return match demand.servers.len() {
                1 => format!("server {names} fits on none of {}{why}", self.hosts()),
                count if demand.available == 0 => {
                    format!("{count} servers ({names}) fit on none of {}{why}", self.hosts())
                }
                count => format!(
                    "{count} servers ({names}) do not fit together on the {} hosts that one of them \
                     fits on: {}",
                    demand.available,
                    listed(&demand.units)
                ),
            };
        };
        let needs = match demand.needed {
            1 => format!("1 {one}"),
            many => format!("{many} {one}s"),
        };
        match demand.constraint {
            "diversity" => {
                format!("diversity group {group} needs {needs}; servers of this size {fit}{why}")
            }
            "affinity" => format!(
                "affinity group {group} needs 1 {one} for {names} together; each alone would {fit}{why}"
            ),
            _ => {
                format!("exclusivity group {group} needs {needs} to itself; its servers {fit}{why}")
            }
        }
    }

    fn hosts(&self) -> String {
        match self.composed.hosts.len() + self.composed.too_small {
            1 => "1 host".to_owned(),
            count => format!("{count} hosts"),
        }
    }

    fn names(&self, demand: &Demand) -> String {
        let name = |id: &String| {
            let name = self.names.get(id.as_str()).copied().unwrap_or(id.as_str());
            name.to_owned()
        };
        let first = demand.servers.iter().take(NAMED_MAX).map(name).collect::<Vec<_>>();
        listed_of(&first, demand.servers.len())
    }

    /// The hosts whose rack or cluster is not known, if that matters.
    fn hosts_without_unit(&self, demands: &[Demand]) -> Option<String> {
        let level = [Level::Rack, Level::Cluster]
            .into_iter()
            .find(|level| demands.iter().any(|demand| demand.level == level.name()))?;
        let lost = self.composed.hosts.iter();
        let lost = lost.filter(|host| host.location.unit(level, &host.name).is_none());
        let lost: Vec<String> = lost.map(|host| host.name.clone()).collect();
        let level = level.name();
        (!lost.is_empty()).then(|| format!("hosts without a known {level}: {}", listed(&lost)))
    }
}

/// The reasons with their counts, in brackets.
fn reasons(eliminated: &BTreeMap<&'static str, usize>) -> String {
    let told: Vec<String> =
        eliminated.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if told.is_empty() { String::new() } else { format!(" (ruled out: {})", told.join(", ")) }
}

fn listed(names: &[String]) -> String {
    listed_of(names, names.len())
}

/// The same for `count` names, of which only the first need to be given.
fn listed_of(names: &[String], count: usize) -> String {
    let first = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match count.checked_sub(NAMED_MAX) {
        None | Some(0) => first,
        Some(more) => format!("{first} and {more} more"),
    }
}
