//! The contradiction in English. A client chooses how many servers and groups there are, so every list is
//! cut, and says how many more there are.

use super::condition::Condition;
use super::facts::{Facts, RuleFact};
use super::survey::{AskedCount, Sort};
use crate::model::GroupKind;
use crate::search::funnel::{Closest, Counted, Limit};

/// Servers, units, groups and conditions that a sentence names at the most; the rest are counted.
const NAMED_MAX: usize = 5;

impl Facts<'_> {
    /// The sentence.
    pub(super) fn sentence(&self) -> String {
        if let ([_], []) = (self.case.conflict.servers.as_slice(), self.rules.as_slice()) {
            return self.of_one();
        }
        let mut parts: Vec<String> =
            self.rules.iter().take(NAMED_MAX).map(|it| self.rule(it)).collect();
        let more = self.rules.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            parts.push(format!("{} more", counted(more, "group")));
        }
        parts.extend(if self.rules.is_empty() { vec![self.crowd()] } else { self.places() });
        parts.extend(self.amounts.iter().take(NAMED_MAX).map(|it| {
            format!(
                "{}: {} needed, {} free there, at most {} in one piece",
                it.class, it.needed, it.free, it.most
            )
        }));
        parts.extend(self.reasons());
        parts.extend(self.without_unit.as_ref().map(|(level, hosts)| {
            format!("hosts without a known {}: {}", level.name(), listed(hosts))
        }));
        parts.join("; ")
    }

    /// One server that fits nowhere.
    fn of_one(&self) -> String {
        let names = self.server_names(&self.case.conflict.servers);
        if self.survey.hosts == 0 {
            return format!("server {names} fits nowhere: there are no hosts");
        }
        let why: Vec<String> = self.phrases().into_iter().map(|(_, phrase)| phrase).collect();
        let hosts = counted(self.survey.hosts, "host");
        let all = format!("server {names} fits on none of {hosts}");
        if why.is_empty() { all } else { format!("{all}: {}", listed_of(&why, why.len())) }
    }

    fn rule(&self, rule: &RuleFact<'_>) -> String {
        let RuleFact { group, servers, needed, .. } = rule;
        let (name, unit) = (&group.name, group.level.name());
        let names = self.server_names(servers);
        match group.kind {
            GroupKind::Diversity => {
                format!("diversity group {name} needs {} for {names}", counted(*needed, unit))
            }
            GroupKind::Affinity => {
                format!("affinity group {name} needs 1 {unit} for {names} together")
            }
            GroupKind::Exclusivity => {
                format!("exclusivity group {name} allows no others in the {unit} of {names}")
            }
        }
    }

    /// Servers that no rule binds.
    fn crowd(&self) -> String {
        let servers = &self.case.conflict.servers;
        let mut hosts: Vec<String> = self.places.iter().flat_map(|it| it.0.clone()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        format!(
            "{} servers ({}) do not fit together on the {} that one of them fits on: {}",
            servers.len(),
            self.server_names(servers),
            counted(hosts.len(), "host"),
            listed(&hosts)
        )
    }

    /// Where the servers could be, each alone. A single rule counts its own units.
    fn places(&self) -> Vec<String> {
        let bound: usize = self.rules.iter().map(|rule| rule.servers.len()).sum();
        if let ([rule], true) = (self.rules.as_slice(), bound == self.case.conflict.servers.len()) {
            let who = if rule.servers.len() == 1 { "it fits" } else { "they fit" };
            return vec![format!("{who} {}", within(rule.group.level.name(), &rule.units))];
        }
        let sorts = self.survey.sorts.iter().zip(&self.places).take(NAMED_MAX);
        let place = |(sort, places): (&Sort, &super::facts::Places)| {
            let names = self.server_names(&sort.servers);
            match (sort.stays, sort.servers.len()) {
                (true, 1) => format!("{names} stays on {}", listed(&places.0)),
                (true, _) => format!("{names} stay on {}", listed(&places.0)),
                (false, 1) => format!("{names} fits {}", within("host", &places.0)),
                (false, _) => format!("{names} fit {}", within("host", &places.0)),
            }
        };
        let mut parts: Vec<String> = sorts.map(place).collect();
        let more = self.survey.sorts.iter().skip(NAMED_MAX);
        let more: usize = more.map(|sort| sort.servers.len()).sum();
        if more > 0 {
            parts.push(format!("{} more", counted(more, "server")));
        }
        parts
    }

    /// Why the servers could not be on other hosts.
    fn reasons(&self) -> Option<String> {
        let phrases = self.phrases();
        let movers = self.survey.sorts.iter().filter(|sort| !sort.stays).count();
        let told: Vec<String> = phrases
            .into_iter()
            .map(|(sort, phrase)| match movers {
                0 | 1 => phrase,
                _ => format!("{phrase} (for {})", self.server_names(&sort.servers)),
            })
            .collect();
        let hosts = counted(self.survey.hosts, "host");
        (!told.is_empty()).then(|| format!("of {hosts}, {}", listed_of(&told, told.len())))
    }

    /// What each condition rules out, for the sort of servers for which this is most.
    fn phrases(&self) -> Vec<(&Sort, String)> {
        let conditions = self.conditions.iter().chain(std::iter::once(&Condition::AllAtOnce));
        let counts = conditions.filter_map(|condition| {
            let (sort, counted) = self.most_counted(condition)?;
            Some((counted.hosts, sort, self.phrase(condition, sort, counted)))
        });
        let mut counts: Vec<_> = counts.collect();
        counts.sort_by_key(|(hosts, ..)| std::cmp::Reverse(*hosts));
        counts.into_iter().map(|(_, sort, phrase)| (sort, phrase)).collect()
    }

    fn phrase(&self, condition: &Condition, sort: &Sort, counted: &AskedCount) -> String {
        let count = counted.hosts;
        let are = if count == 1 { "is" } else { "are" };
        match condition {
            Condition::Zone(zone) => format!("{count} {are} not in availability zone {zone}"),
            Condition::Aggregates => {
                format!("{count} {are} not in aggregates with the metadata that the flavor demands")
            }
            Condition::Locations => format!("{count} {are} not among the locations"),
            Condition::Excluded => format!("{count} {are} excluded"),
            Condition::Enabled => format!("{count} {are} disabled"),
            Condition::Trait(any) => match any.as_slice() {
                [one] => format!("trait {one} is missing on {count}"),
                some => format!("all of the traits {} are missing on {count}", listed(some)),
            },
            Condition::NotTrait(name) => format!("forbidden trait {name} is on {count}"),
            Condition::Class(class) => short(class, counted),
            Condition::Group(group) => {
                let name = self.names().of(*group);
                let name = name.unwrap_or_else(|| group.to_string());
                let own = self.case.stack.groups.iter().find(|it| it.stored == Some(*group));
                match own.filter(|_| self.is_member(sort, *group)).map(|it| it.kind) {
                    Some(GroupKind::Affinity) => {
                        format!("{count} {are} not where affinity group {name} is")
                    }
                    Some(GroupKind::Diversity) => {
                        let have = if count == 1 { "has" } else { "have" };
                        format!("{count} {have} other servers of diversity group {name}")
                    }
                    Some(GroupKind::Exclusivity) => {
                        format!("{count} {are} used by others than exclusivity group {name}")
                    }
                    None => format!("{count} {are} kept for exclusivity group {name}"),
                }
            }
            Condition::Other(text) => format!("{text} rules out {count}"),
            Condition::AllAtOnce => {
                let have = if count == 1 { "has" } else { "have" };
                format!("{count} {have} all of this, but not at once")
            }
        }
    }

    fn is_member(&self, sort: &Sort, group: uuid::Uuid) -> bool {
        let groups = sort.servers.first().and_then(|it| self.case.composed.memberships.get(*it));
        groups.is_some_and(|groups| groups.contains(&group))
    }

    fn server_names(&self, servers: &[usize]) -> String {
        let first = servers.iter().take(NAMED_MAX);
        let name = |server: &usize| self.case.stack.servers.get(*server).map(|it| it.name.clone());
        listed_of(&first.filter_map(name).collect::<Vec<_>>(), servers.len())
    }
}

/// Hosts that have too little of a resource class.
fn short(class: &str, counted: &AskedCount) -> String {
    let Counted { condition: (_, needed), hosts, most, .. } = counted;
    let needed = needed.map_or_else(String::new, |needed| format!("{needed} needed"));
    let Some(Closest { host, shortage }) = most else {
        return format!("{class} is missing on {hosts} ({needed})");
    };
    let why = match shortage.limit {
        Limit::Free => {
            format!("at most {} of {} free, on {host}", shortage.available, shortage.capacity)
        }
        Limit::MaxUnit(most) => format!("at most {most} in one piece, on {host}"),
        Limit::MinUnit(least) => format!("at least {least} in one piece, on {host}"),
        Limit::StepSize(step) => format!("only multiples of {step}, on {host}"),
    };
    format!("{class} is short on {hosts} ({needed}, {why})")
}

/// `on 2 hosts: h1, h2`
fn within(level: &str, units: &[String]) -> String {
    let on = if level == "host" { "on" } else { "in" };
    match units.len() {
        0 => format!("{on} no {level}"),
        count => format!("{on} {}: {}", counted(count, level), listed(units)),
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
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
