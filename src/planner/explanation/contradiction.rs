//! The content of a contradiction: rules, servers with their possible hosts, and conditions.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::case::Case;
use super::condition::{Condition, GroupNames};
use super::smallest::{Reduced, Smallest};
use super::survey::{SizedConditionCount, SizedConditionFunnel, Sort, Survey};
use crate::model::{ClassId, Level};
use crate::planner::compose::Composed;
use crate::planner::failure::{ConditionCount, Demand, HostCounts};
use crate::planner::stack::Group;
use crate::planner::topology::Topology;
use crate::search::funnel::Funnel;
use crate::solver::{Budget, Rule, UnitCount, count_units, hosts_for};

/// Maximum number of servers, and of units, listed in one demand.
const LISTED_MAX: usize = 1_000;
/// Maximum number of demands, and of sorts of servers, in a response.
const DEMANDS_MAX: usize = 200;

/// A contradiction.
pub(super) struct Contradiction<'c> {
    pub(super) case: &'c Case<'c>,
    pub(super) survey: Survey,
    /// The conditions that are part of the contradiction.
    pub(super) conditions: Vec<Condition>,
    /// The rules that are part of it.
    pub(super) rules: Vec<RuleFact<'c>>,
    /// For each sort of the survey, the possible hosts of its servers.
    pub(super) places: Vec<Places>,
    /// For each resource class among the conditions, the needed and the available amount.
    pub(super) amounts: Vec<AmountFact>,
    /// The hosts whose rack or cluster is unknown, if the rules apply to racks or clusters.
    pub(super) without_unit: Option<(Level, Vec<String>)>,
}

/// A rule, with its requirements.
pub(super) struct RuleFact<'c> {
    pub(super) group: &'c Group,
    /// The way it counts its servers, if it does.
    pub(super) counting: Option<Counting>,
    /// Its servers in the conflict.
    pub(super) servers: Vec<usize>,
    pub(super) needed: usize,
    /// The names of the units in which one of the servers could be; `None` if the time was up first.
    pub(super) units: Option<Vec<String>>,
}

/// The way a rule counts the servers of its group in each unit.
pub(super) enum Counting {
    /// Maximum number of servers in one unit.
    PerUnit(u32),
    /// Maximum difference between two units.
    Skew(u32),
}

impl Counting {
    fn of(rule: &Rule) -> Option<Self> {
        match rule {
            Rule::AtMost(_, most, _) => Some(Self::PerUnit(*most)),
            Rule::Skew(skew) => Some(Self::Skew(skew.most)),
            Rule::Together(..) | Rule::Apart(..) | Rule::Alone(..) => None,
        }
    }
}

/// The possible hosts of equal servers, by name; `None` if the time was up first.
pub(super) struct Places(pub(super) Option<Vec<String>>);

/// An amount of a resource class.
pub(super) struct AmountFact {
    pub(super) class: String,
    /// The total need of the servers.
    pub(super) needed: u64,
    /// The free amount on their possible hosts.
    pub(super) free: u64,
    /// The largest free amount of one provider.
    pub(super) most: u64,
}

impl<'c> Contradiction<'c> {
    pub(super) fn of(
        case: &'c Case<'c>,
        survey: Survey,
        smallest: Smallest,
        budget: &mut Budget<'_>,
    ) -> Self {
        let Smallest { conditions, problem } = smallest;
        let (servers, rules) = (case.conflict.servers.clone(), case.conflict.rules.clone());
        let view = match &problem {
            Some(Reduced { composed, servers, rules }) => {
                View { composed, servers: servers.clone(), rules: rules.clone() }
            }
            None => View { composed: case.composed, servers, rules },
        };
        let positions: HashMap<usize, usize> =
            case.conflict.servers.iter().copied().zip(view.servers.iter().copied()).collect();
        let hosts = |sort: &Sort| -> Option<Vec<usize>> {
            let first = sort.servers.first().and_then(|it| positions.get(it))?;
            let problem = &view.composed.problem;
            let hosts = hosts_for(problem, problem.servers.get(*first)?, budget);
            (!budget.is_spent()).then_some(hosts)
        };
        let hosts: Vec<Option<Vec<usize>>> = survey.sorts.iter().map(hosts).collect();
        let rules = view.rule_facts(case, budget);
        let amounts = view.amounts(case, &conditions, &hosts, budget);
        let without_unit = without_unit(view.composed, &rules);
        let names = |hosts: &Vec<usize>| view.units(Level::Host, hosts);
        let places = hosts.iter().map(|hosts| Places(hosts.as_ref().map(names))).collect();
        let conditions = conditions.into_iter().collect();
        Self { case, survey, conditions, rules, places, amounts, without_unit }
    }

    pub(super) fn names(&self) -> GroupNames<'_> {
        GroupNames { stack: self.case.stack, around: self.case.around }
    }

    /// The demands that contradict each other: rules, conditions, servers.
    pub(super) fn demands(&self) -> Vec<Demand> {
        let rules = self.rules.iter().map(|rule| Demand {
            constraint: rule.group.kind.name(),
            group: Some(rule.group.name.clone()),
            level: rule.group.level.name(),
            needed: number(rule.needed),
            ..self.demand_of_units(&rule.servers, rule.units.as_deref())
        });
        let servers = self.survey.sorts.iter().zip(&self.places).map(|(sort, places)| Demand {
            constraint: if sort.stays { "stays" } else { "server" },
            needed: number(1),
            ..self.demand_of_units(&sort.servers, places.0.as_deref())
        });
        let conditions = self.conditions.iter().map(|condition| self.condition(condition));
        rules.chain(conditions).chain(servers).take(DEMANDS_MAX).collect()
    }

    fn condition(&self, condition: &Condition) -> Demand {
        let ConditionCount { constraint, name, group, .. } =
            condition.described(&self.names(), None);
        let sorts = self.survey.sorts.iter().filter(|sort| !sort.stays);
        let servers: Vec<usize> = sorts
            .filter(|sort| sort.asks(condition))
            .flat_map(|sort| sort.servers.iter().copied())
            .collect();
        let hosts = self.most_counted(condition).map(|(_, counted)| counted.hosts);
        let was_counted = self.survey.sorts.iter().all(|sort| sort.stays || sort.funnel.is_some());
        let of_class = |it: &&AmountFact| *condition == Condition::Class(it.class.clone());
        let amount = self.amounts.iter().find(of_class);
        Demand {
            constraint,
            name,
            group,
            needed: amount.map(|it| it.needed),
            available: amount.map(|it| it.free),
            hosts_eliminated: hosts.or(was_counted.then_some(0)),
            ..self.demand(&servers)
        }
    }

    /// The sort of servers for which a condition rules out most hosts, with the counts.
    pub(super) fn most_counted(
        &self,
        condition: &Condition,
    ) -> Option<(&Sort, &SizedConditionCount)> {
        let sorts = self.survey.sorts.iter();
        let counted = sorts.filter_map(|sort| Some((sort, sort.counted(condition)?)));
        counted.max_by_key(|(_, counted)| counted.hosts)
    }

    /// A demand of some servers.
    fn demand(&self, servers: &[usize]) -> Demand {
        Demand {
            level: Level::Host.name(),
            servers: self.ids(servers),
            server_count: servers.len(),
            ..Demand::default()
        }
    }

    /// The same for servers with possible units, if these are known.
    fn demand_of_units(&self, servers: &[usize], units: Option<&[String]>) -> Demand {
        let available = units.and_then(|units| number(units.len()));
        Demand { available, units: listed(units.unwrap_or_default()), ..self.demand(servers) }
    }

    /// The counts of hosts, for each sort of servers with counts.
    pub(super) fn host_counts(&self) -> Vec<HostCounts> {
        let counts = self.survey.sorts.iter().filter_map(|sort| {
            let funnel = sort.funnel.as_ref()?;
            Some(HostCounts {
                servers: self.ids(&sort.servers),
                server_count: sort.servers.len(),
                funnel: self.described(funnel),
            })
        });
        counts.collect()
    }

    fn described(&self, funnel: &SizedConditionFunnel) -> Funnel<ConditionCount> {
        funnel.clone().map(|(condition, needed)| condition.described(&self.names(), needed))
    }

    fn ids(&self, servers: &[usize]) -> Vec<String> {
        let id = |server: &usize| self.case.stack.servers.get(*server).map(|it| it.id.clone());
        servers.iter().take(LISTED_MAX).filter_map(id).collect()
    }
}

/// The problem of a contradiction.
struct View<'v> {
    composed: &'v Composed,
    /// The servers of the conflict, by their positions in the problem.
    servers: Vec<usize>,
    /// The rules of the conflict, by their positions.
    rules: Vec<usize>,
}

impl View<'_> {
    fn rule_facts<'c>(&self, case: &'c Case<'c>, budget: &mut Budget<'_>) -> Vec<RuleFact<'c>> {
        let counts = count_units(&self.composed.problem, &self.rules, &self.servers, budget);
        let is_known = !budget.is_spent();
        let counts: HashMap<usize, &UnitCount> = counts.iter().map(|it| (it.rule, it)).collect();
        let original: HashMap<usize, usize> =
            self.servers.iter().copied().zip(case.conflict.servers.iter().copied()).collect();
        let fact = |rule: &usize| {
            let it = self.composed.problem.rules.get(*rule)?;
            let group = case.stack.groups.get(*self.composed.groups.get(*rule)?)?;
            let count = counts.get(rule);
            let mut servers: Vec<usize> =
                it.servers().iter().filter_map(|it| original.get(it)).copied().collect();
            servers.sort_unstable();
            servers.dedup();
            let (counting, needed) = (Counting::of(it), count.map_or(1, |it| it.needed));
            let units = count.filter(|_| is_known).map(|it| self.units(group.level, &it.units));
            Some(RuleFact { group, counting, servers, needed, units })
        };
        self.rules.iter().filter_map(fact).collect()
    }

    /// For each class among the conditions, the need of the servers and the free amount on their possible hosts.
    fn amounts(
        &self,
        case: &Case<'_>,
        conditions: &BTreeSet<Condition>,
        hosts: &[Option<Vec<usize>>],
        budget: &mut Budget<'_>,
    ) -> Vec<AmountFact> {
        let Composed { world, pools, problem, .. } = self.composed;
        let topology = Topology::of(world, case.around.racks_by_names);
        let mut open = vec![false; self.composed.hosts.len()];
        for host in hosts.iter().flatten().flatten() {
            open.iter_mut().skip(*host).take(1).for_each(|it| *it = true);
        }
        let open = self.composed.hosts.iter().zip(open).filter(|(_, open)| *open);
        let open: HashSet<_> = open.map(|(host, _)| host.root).collect();
        let mut free: HashMap<ClassId, (u64, u64)> = HashMap::new();
        for ((provider, class), pool) in pools.iter().zip(&problem.pools) {
            if budget.is_spent_after(8) {
                return Vec::new();
            }
            let Some(provider) = world.provider_by_id(*provider) else { continue };
            if topology.is_shared(&provider) || open.contains(&provider.root().id()) {
                let (sum, most) = free.entry(*class).or_insert((0, 0));
                (*sum, *most) = (sum.saturating_add(pool.free), (*most).max(pool.free));
            }
        }
        let movers = case.conflict.servers.iter().filter_map(|it| case.stack.servers.get(*it));
        let movers: Vec<_> = movers.filter(|server| !server.is_fixed()).collect();
        let amount = |condition: &Condition| {
            let Condition::Class(class) = condition else { return None };
            let needs =
                movers.iter().filter_map(|it| it.size.amounts().get(class.as_str()).copied());
            let needed = needs.fold(0_u64, |sum, it| sum.saturating_add(it.unsigned_abs()));
            let (free, most) = *free.get(&world.class_id(class)?)?;
            Some(AmountFact { class: class.clone(), needed, free, most })
        };
        conditions.iter().filter_map(amount).collect()
    }

    /// The names of the units of hosts.
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
}

/// The hosts that count for no rule because their rack or cluster is unknown.
fn without_unit(composed: &Composed, rules: &[RuleFact<'_>]) -> Option<(Level, Vec<String>)> {
    let mut levels = [Level::Rack, Level::Cluster].into_iter();
    let level = levels.find(|level| rules.iter().any(|rule| rule.group.level == *level))?;
    let lost = composed.hosts.iter();
    let lost = lost.filter(|host| host.location.unit(level, &host.name).is_none());
    let lost: Vec<String> = lost.map(|host| host.name.to_string()).collect();
    (!lost.is_empty()).then_some((level, lost))
}

fn number(count: usize) -> Option<u64> {
    u64::try_from(count).ok()
}

fn listed(names: &[String]) -> Vec<String> {
    names.iter().take(LISTED_MAX).cloned().collect()
}
