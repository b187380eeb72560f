//! Describes the contradiction in English. A client chooses the number of servers and groups, so every list is cut,
//! and states the number of further items.

use super::condition::Condition;
use super::contradiction::{Contradiction, Counting, Places, RuleFact};
use super::survey::{SizedConditionCount, Sort};
use crate::model::GroupKind;
use crate::planner::stack::Group;
use crate::search::funnel::{Closest, Counted, Limit, Shortage};

/// Maximum number of servers, units, groups and conditions named in a sentence; the rest are counted.
const NAMED_MAX: usize = 5;

impl Contradiction<'_> {
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
        let all = match self.survey.hosts {
            Some(0) => return format!("server {names} fits nowhere: there are no hosts"),
            Some(hosts) => format!("server {names} fits on none of {}", counted(hosts, "host")),
            None => format!("server {names} fits on no host"),
        };
        let why: Vec<String> = self.phrases().into_iter().map(|(_, phrase)| phrase).collect();
        if why.is_empty() { all } else { format!("{all}: {}", listed_of(&why, why.len())) }
    }

    fn rule(&self, rule: &RuleFact<'_>) -> String {
        let RuleFact { group, counting, servers, needed, units } = rule;
        let (who, unit) = (group_words(group), group.level.name());
        let names = self.server_names(servers);
        match (group.kind, counting) {
            (_, Some(Counting::PerUnit(most))) => {
                let needed = counted(*needed, unit);
                let term =
                    if group.is_server_group { "max_server_per_host" } else { "max_per_unit" };
                format!("{who} needs {needed} for {names} ({term} {most})")
            }
            (_, Some(Counting::Skew(most))) => {
                let on = if unit == "host" { "on" } else { "in" };
                let even = format!(
                    "{who} needs {names} distributed evenly, with at most {most} more {on} one {unit} \
                     than {on} another (max_skew {most})"
                );
                match units {
                    Some(units) => format!("{even}, {}", within(unit, units)),
                    None => even,
                }
            }
            (GroupKind::Diversity, None) => {
                format!("{who} needs {} for {names}", counted(*needed, unit))
            }
            (GroupKind::Affinity, None) => format!("{who} needs 1 {unit} for {names} together"),
            (GroupKind::Exclusivity, None) => {
                format!("{who} allows no others in the {unit} of {names}")
            }
        }
    }

    /// Servers that no rule binds.
    fn crowd(&self) -> String {
        let servers = &self.case.conflict.servers;
        let names = self.server_names(servers);
        let all = format!("{} servers ({names}) do not fit together", servers.len());
        let known: Option<Vec<&Vec<String>>> = self.places.iter().map(|it| it.0.as_ref()).collect();
        let Some(known) = known else { return all };
        let mut hosts: Vec<String> = known.into_iter().flatten().cloned().collect();
        hosts.sort_unstable();
        hosts.dedup();
        let count = counted(hosts.len(), "host");
        format!("{all} on the {count} that one of them fits on: {}", listed(&hosts))
    }

    /// The possible hosts of the servers, each alone. A single rule counts its own units.
    fn places(&self) -> Vec<String> {
        let bound: usize = self.rules.iter().map(|rule| rule.servers.len()).sum();
        if let ([rule], true) = (self.rules.as_slice(), bound == self.case.conflict.servers.len())
            && !matches!(rule.counting, Some(Counting::Skew(_)))
        {
            let who = if rule.servers.len() == 1 { "it fits" } else { "they fit" };
            let units = rule.units.iter();
            let unit = rule.group.level.name();
            return units.map(|units| format!("{who} {}", within(unit, units))).collect();
        }
        let sorts = self.survey.sorts.iter().zip(&self.places).take(NAMED_MAX);
        let place = |(sort, places): (&Sort, &Places)| {
            let names = self.server_names(&sort.servers);
            let hosts = places.0.as_ref()?;
            Some(match (sort.stays, sort.servers.len()) {
                (true, 1) => format!("{names} stays on {}", listed(hosts)),
                (true, _) => format!("{names} stay on {}", listed(hosts)),
                (false, 1) => format!("{names} fits {}", within("host", hosts)),
                (false, _) => format!("{names} fit {}", within("host", hosts)),
            })
        };
        let mut parts: Vec<String> = sorts.filter_map(place).collect();
        let more = self.survey.sorts.iter().skip(NAMED_MAX);
        let more: usize = more.map(|sort| sort.servers.len()).sum();
        if more > 0 {
            parts.push(format!("{} more", counted(more, "server")));
        }
        parts
    }

    /// The reasons why the servers could not be on other hosts.
    fn reasons(&self) -> Option<String> {
        let movers = self.survey.sorts.iter().filter(|sort| !sort.stays);
        let movers: usize = movers.map(|sort| sort.servers.len()).sum();
        let with_servers = |(servers, phrase): (Vec<usize>, String)| {
            if servers.len() == movers {
                phrase
            } else {
                format!("{phrase} (for {})", self.server_names(&servers))
            }
        };
        let phrases: Vec<String> = self.phrases().into_iter().map(with_servers).collect();
        let hosts = counted(self.survey.hosts?, "host");
        (!phrases.is_empty()).then(|| format!("of {hosts}, {}", listed_of(&phrases, phrases.len())))
    }

    /// The hosts that each condition rules out for the sort of servers with the most, with all servers for which
    /// the number is the same.
    fn phrases(&self) -> Vec<(Vec<usize>, String)> {
        let conditions = self.conditions.iter().chain(std::iter::once(&Condition::AllAtOnce));
        let counts = conditions.filter_map(|condition| {
            let (sort, counted) = self.most_counted(condition)?;
            let phrase = self.phrase(condition, sort, counted);
            let equals = self.survey.sorts.iter().filter(|other| {
                other
                    .counted(condition)
                    .is_some_and(|counted| self.phrase(condition, other, counted) == phrase)
            });
            let mut servers: Vec<usize> = equals.flat_map(|it| it.servers.clone()).collect();
            servers.sort_unstable();
            Some((counted.hosts, servers, phrase))
        });
        let mut counts: Vec<_> = counts.collect();
        counts.sort_by_key(|(hosts, ..)| std::cmp::Reverse(*hosts));
        counts.into_iter().map(|(_, servers, phrase)| (servers, phrase)).collect()
    }

    fn phrase(&self, condition: &Condition, sort: &Sort, counted: &SizedConditionCount) -> String {
        let count = counted.hosts;
        let are = are(count);
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
            Condition::Group(group) => self.group_phrase(*group, sort, count),
            Condition::Other(text) => format!("{text} rules out {count}"),
            Condition::AllAtOnce => {
                let have = if count == 1 { "has" } else { "have" };
                format!("{count} {have} all of this, but not at once")
            }
        }
    }

    /// The hosts that a stored group rules out: those in unknown units, and others.
    fn group_phrase(&self, group: uuid::Uuid, sort: &Sort, count: usize) -> String {
        let name = self.names().of(group).unwrap_or_else(|| group.to_string());
        let own = self.case.stack.groups.iter().find(|it| it.stored == Some(group));
        let Some(own) = own.filter(|_| self.is_member(sort, group)) else {
            return format!("{count} {} kept for exclusivity group {name}", are(count));
        };
        let lost = self.survey.lost.iter().find(|(level, _)| *level == own.level);
        let lost = lost.map_or(0, |(_, hosts)| *hosts).min(count);
        let others = count - lost;
        let elsewhere = match own.kind {
            GroupKind::Affinity => {
                format!("{others} {} not where affinity group {name} is", are(others))
            }
            GroupKind::Diversity => {
                let have = if others == 1 { "has" } else { "have" };
                format!("{others} {have} other servers of diversity group {name}")
            }
            GroupKind::Exclusivity => {
                format!("{others} {} used by others than exclusivity group {name}", are(others))
            }
        };
        let (kind, unit) = (own.kind.name(), own.level.name());
        let unknown =
            format!("the {unit} of {lost}, which {kind} group {name} needs, is not known");
        match (others, lost) {
            (_, 0) => elsewhere,
            (0, _) => unknown,
            _ => format!("{elsewhere}, {unknown}"),
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

/// The name of a group in a sentence.
fn group_words(group: &Group) -> String {
    let kind = if group.is_server_group { "server" } else { group.kind.name() };
    format!("{kind} group {}", group.name)
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// The hosts with too little of a resource class.
fn short(class: &str, counted: &SizedConditionCount) -> String {
    let Counted { condition: (_, needed), hosts, most, .. } = counted;
    let needed = needed.map_or_else(String::new, |needed| format!("{needed} needed"));
    let Some(Closest { host, shortage }) = most else {
        return format!("{class} is missing on {hosts} ({needed})");
    };
    let why = match shortage.limit {
        Limit::Free => {
            let Shortage { available, capacity, total, reserved, .. } = shortage;
            let reserved = match reserved {
                0 => String::new(),
                some => format!(", {some} of {total} reserved"),
            };
            format!("at most {available} of {capacity} free{reserved}, on {host}")
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

/// The same for `count` names, of which only the first are given.
fn listed_of(names: &[String], count: usize) -> String {
    let first = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match count.checked_sub(NAMED_MAX) {
        None | Some(0) => first,
        Some(more) => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::condition::Condition;
    use super::short;
    use crate::search::funnel::{Closest, Counted, Limit, Shortage};

    #[test]
    fn the_reserved_amount_of_the_closest_host_is_named() {
        let shortage = Shortage {
            available: 0,
            capacity: 0,
            used: 0,
            total: 8,
            reserved: 8,
            limit: Limit::Free,
        };
        let counted = Counted {
            condition: (Condition::Class("VCPU".to_owned()), Some(4)),
            hosts: 1,
            only: 1,
            absent: 0,
            most: Some(Closest { host: "h1".to_owned(), shortage }),
        };
        assert_eq!(
            short("VCPU", &counted),
            "VCPU is short on 1 (4 needed, at most 0 of 0 free, 8 of 8 reserved, on h1)"
        );
    }
}
