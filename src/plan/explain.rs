//! Why nothing can be placed: the smallest set of demands found that contradict each other.

use super::units::Units;
use super::{Level, Outcome, Problem, Rule, solve};

/// Demands that cannot be met together; without any one of them the rest can be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflict {
    /// Rules, by their position in the problem.
    pub rules: Vec<usize>,
    /// Servers that are needed for the contradiction, by their position.
    pub servers: Vec<usize>,
    /// For each of these rules that keeps servers apart or together: its level, how many units it
    /// needs, and in how many of those one of its servers alone could be.
    pub counts: Vec<Count>,
}

/// What a rule needs and what there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The rule.
    pub rule: usize,
    /// What it is about.
    pub level: Level,
    /// Units it needs.
    pub needed: usize,
    /// Units in which one of its servers could be.
    pub available: usize,
    /// Those units, each by the first of its hosts where one of the servers could be.
    pub units: Vec<usize>,
}

/// The demands of an impossible problem that contradict each other. What is taken away stays away
/// if the rest is still impossible; what cannot be decided in time is kept.
pub fn explain(problem: &Problem, mut is_time_up: impl FnMut() -> bool) -> Conflict {
    let mut rules: Vec<usize> = (0..problem.rules.len()).collect();
    let mut servers: Vec<usize> = (0..problem.servers.len()).collect();
    for rule in 0..problem.rules.len() {
        let fewer: Vec<usize> = rules.iter().copied().filter(|it| *it != rule).collect();
        if is_impossible(problem, &fewer, &servers, &mut is_time_up) {
            rules = fewer;
        }
    }
    for server in 0..problem.servers.len() {
        let fewer: Vec<usize> = servers.iter().copied().filter(|it| *it != server).collect();
        if is_impossible(problem, &rules, &fewer, &mut is_time_up) {
            servers = fewer;
        }
    }
    let counts = rules.iter().filter_map(|rule| counted(problem, *rule)).collect();
    Conflict { rules, servers, counts }
}

fn is_impossible(
    problem: &Problem,
    rules: &[usize],
    servers: &[usize],
    is_time_up: &mut impl FnMut() -> bool,
) -> bool {
    let position = |server: &usize| servers.iter().position(|it| it == server);
    let kept = |list: &Vec<usize>| list.iter().filter_map(position).collect::<Vec<_>>();
    let rule = |rule: &Rule| match rule {
        Rule::Together(level, list) => Rule::Together(*level, kept(list)),
        Rule::Alone(level, list) => Rule::Alone(*level, kept(list)),
        Rule::Apart(level, parts) => Rule::Apart(*level, parts.iter().map(kept).collect()),
    };
    let part = Problem {
        hosts: problem.hosts.clone(),
        pools: problem.pools.clone(),
        servers: servers.iter().filter_map(|it| problem.servers.get(*it)).cloned().collect(),
        rules: rules.iter().filter_map(|it| problem.rules.get(*it)).map(rule).collect(),
        spread: problem.spread,
    };
    // Whether there is any way is the question, not which is best: the first one found ends it.
    let mut looks = 0_u32;
    let outcome = solve(&part, || {
        looks += 1;
        looks > LOOKS_MAX || is_time_up()
    });
    outcome == Outcome::Impossible
}

/// How long one set of demands is tried, in looks at the time.
const LOOKS_MAX: u32 = 500;

fn counted(problem: &Problem, number: usize) -> Option<Count> {
    let rule = problem.rules.get(number)?;
    let needed = match rule {
        Rule::Together(..) => 1,
        Rule::Apart(_, parts) => parts.iter().filter(|part| !part.is_empty()).count(),
        Rule::Alone(..) => return None,
    };
    let (units, level) = (Units::of(&problem.hosts), rule.level());
    let mut open: Vec<Option<usize>> = vec![None; units.count(level)];
    for server in rule.servers().iter().filter_map(|server| problem.servers.get(*server)) {
        for host in 0..problem.hosts.len() {
            let fits = server
                .ways
                .get(host)
                .is_some_and(|ways| ways.iter().any(|way| way.fits_in(&problem.pools)));
            let may = server.may_be_on.get(host).copied().unwrap_or(false);
            if let (true, Some(unit)) = (fits && may, units.unit(level, host))
                && let Some(open) = open.get_mut(unit)
            {
                *open = Some(open.map_or(host, |first| first.min(host)));
            }
        }
    }
    let units: Vec<usize> = open.into_iter().flatten().collect();
    Some(Count { rule: number, level, needed, available: units.len(), units })
}
