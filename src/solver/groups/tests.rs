//! Compares groups with a literal reading of nesting, and measures the work.

use proptest::prelude::{Just, ProptestConfig, Strategy, prop_assert_eq, prop_oneof, proptest};

use super::{
    GROUPS_MAX, Group, GroupError, GroupKind, Level, MEMBERS_MAX, Member, NESTING_MAX, Rule, Skew,
    SoftRule, SoftRuleKind, Terms,
};

const A: GroupKind = GroupKind::Affinity;
const D: GroupKind = GroupKind::Diversity;
const E: GroupKind = GroupKind::Exclusivity;

/// The rules of groups that have no soft rules.
fn rules(groups: &[Group], servers: usize) -> Result<Vec<(usize, Rule)>, GroupError> {
    super::rules(groups, servers).map(|found| {
        assert_eq!(found.soft_rules, []);
        found.rules
    })
}

fn s(server: usize) -> Member {
    Member::Server(server)
}

fn g(group: usize) -> Member {
    Member::Group(group)
}

fn groups(groups: &[(GroupKind, Level, &[Member])]) -> Vec<Group> {
    let group = |(kind, level, members): &(GroupKind, Level, &[Member])| Group {
        kind: *kind,
        level: *level,
        terms: Terms::default(),
        members: members.to_vec(),
    };
    groups.iter().map(group).collect()
}

/// Every nesting of two groups at one level: the rule of the outer group, which is the second.
#[test]
fn every_nesting_has_a_meaning() {
    let host = Level::Host;
    for inner in [A, D, E] {
        for outer in [A, D, E] {
            let nested = groups(&[(inner, host, &[s(0), s(1)]), (outer, host, &[g(0), s(2)])]);
            let found = rules(&nested, 3);
            let expected = match outer {
                GroupKind::Affinity => Rule::Together(host, vec![0, 1, 2]),
                GroupKind::Diversity => Rule::Apart(host, vec![vec![0, 1], vec![2]]),
                GroupKind::Exclusivity => Rule::Alone(host, vec![0, 1, 2]),
            };
            if (inner, outer) == (E, E) {
                assert_eq!(found, Err(GroupError::AloneTwice { server: 0 }));
            } else {
                assert_eq!(found.unwrap()[1], (1, expected), "{inner:?} in {outer:?}");
            }
        }
    }
}

/// A group inside of one with terms counts as all of its servers; with diversity, as one part.
#[test]
fn terms_have_a_meaning_for_every_nesting() {
    let rack = Level::Rack;
    let nested = |kind: GroupKind, terms: Terms| {
        let inner = [(A, Level::Host, &[s(0), s(1)][..]), (kind, rack, &[g(0), s(2)])];
        let mut groups = groups(&inner);
        groups[1].terms = terms;
        super::rules(&groups, 3).unwrap()
    };
    let inner = (0, Rule::Together(Level::Host, vec![0, 1]));
    let all = vec![0, 1, 2];
    let soft = |kind: GroupKind| nested(kind, Terms { soft: Some(7), ..Terms::default() });
    let rule = |kind: SoftRuleKind, parts| (1, SoftRule { kind, level: rack, weight: 7, parts });
    let found = soft(A);
    assert_eq!(found.rules, std::slice::from_ref(&inner));
    assert_eq!(found.soft_rules, [rule(SoftRuleKind::Together, vec![all.clone()])]);
    let found = soft(D);
    assert_eq!(found.soft_rules, [rule(SoftRuleKind::Apart, vec![vec![0, 1], vec![2]])]);
    let both = Terms { max_per_unit: Some(2), max_skew: Some(1), soft: None };
    let (servers, domains, absent) = (all.clone(), Vec::new(), 0);
    let skew = Skew { level: rack, most: 1, servers, domains, absent };
    let expected = [inner, (1, Rule::AtMost(rack, 2, all)), (1, Rule::Skew(skew))];
    assert_eq!(nested(D, both).rules, expected);
}

#[test]
fn meaningless_requests_are_refused() {
    let (host, rack) = (Level::Host, Level::Rack);
    for (message, why) in [
        (groups(&[(A, host, &[g(0)])]), GroupError::Cycle(0)),
        (
            groups(&[(A, host, &[g(1)]), (A, host, &[g(2)]), (D, host, &[s(0), g(0)])]),
            GroupError::Cycle(0),
        ),
        (groups(&[(A, host, &[s(9)])]), GroupError::Unknown(0)),
        (groups(&[(A, host, &[g(9)])]), GroupError::Unknown(0)),
        (
            groups(&[(A, host, &[g(1)]), (D, rack, &[s(0), s(1)])]),
            GroupError::HigherInside { inner: 1, outer: 0 },
        ),
        (
            groups(&[(D, host, &[s(0), g(1)]), (A, host, &[s(0), s(1)])]),
            GroupError::ApartFromItself { server: 0, group: 0 },
        ),
        (
            groups(&[(E, rack, &[s(0)]), (E, rack, &[s(0), s(1)])]),
            GroupError::AloneTwice { server: 0 },
        ),
    ] {
        assert_eq!(rules(&message, 2), Err(why), "{message:?}");
    }
}

#[test]
fn members_count_once_and_empty_groups_not_at_all() {
    let message = groups(&[
        (A, Level::Rack, &[s(1), s(0), s(1), g(2)]),
        (D, Level::Host, &[s(1), s(1), s(0)]),
        (A, Level::Host, &[]),
    ]);
    let expected = vec![
        (0, Rule::Together(Level::Rack, vec![0, 1])),
        (1, Rule::Apart(Level::Host, vec![vec![0], vec![1]])),
    ];
    assert_eq!(rules(&message, 2), Ok(expected));
}

#[test]
fn a_group_in_several_groups_is_no_cycle() {
    let shared = groups(&[
        (A, Level::Host, &[s(0), s(1)]),
        (A, Level::Rack, &[g(0), s(2)]),
        (E, Level::Rack, &[g(0), g(1)]),
    ]);
    let found = rules(&shared, 3).unwrap();
    assert_eq!(found[2], (2, Rule::Alone(Level::Rack, vec![0, 1, 2])));
}

/// The same rules read literally: each group is expanded again wherever it is named, which takes exponential time.
mod literal {
    use super::{Group, GroupError, GroupKind, Level, Member, Rule};

    pub(super) fn rules(
        groups: &[Group],
        servers: usize,
    ) -> Result<Vec<(usize, Rule)>, GroupError> {
        let mut rules = Vec::new();
        let mut alone: Vec<(Level, usize)> = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            let mut parts = Vec::new();
            for member in &group.members {
                let part = below(groups, servers, (number, *member), &mut vec![number])?;
                if !part.is_empty() {
                    parts.push(part);
                }
            }
            let rule = match group.kind {
                GroupKind::Affinity => Rule::Together(group.level, ascending(parts.concat())),
                GroupKind::Exclusivity => Rule::Alone(group.level, ascending(parts.concat())),
                GroupKind::Diversity => {
                    parts.sort_unstable();
                    parts.dedup();
                    let mut all = parts.concat();
                    all.sort_unstable();
                    if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
                        let server = pair[0];
                        return Err(GroupError::ApartFromItself { server, group: number });
                    }
                    Rule::Apart(group.level, parts)
                }
            };
            let bound = rule.servers();
            if let Rule::Alone(level, _) = rule {
                for server in &bound {
                    if alone.contains(&(level, *server)) {
                        return Err(GroupError::AloneTwice { server: *server });
                    }
                    alone.push((level, *server));
                }
            }
            if !bound.is_empty() {
                rules.push((number, rule));
            }
        }
        Ok(rules)
    }

    fn below(
        groups: &[Group],
        servers: usize,
        (outer, member): (usize, Member),
        path: &mut Vec<usize>,
    ) -> Result<Vec<usize>, GroupError> {
        let inner = match member {
            Member::Server(server) if server < servers => return Ok(vec![server]),
            Member::Server(_) => return Err(GroupError::Unknown(outer)),
            Member::Group(inner) => inner,
        };
        if path.contains(&inner) {
            return Err(GroupError::Cycle(inner));
        }
        let group = groups.get(inner).ok_or(GroupError::Unknown(outer))?;
        if group.level > groups[outer].level {
            return Err(GroupError::HigherInside { inner, outer });
        }
        path.push(inner);
        let mut found = Vec::new();
        for member in &group.members {
            found.extend(below(groups, servers, (inner, *member), path)?);
        }
        path.pop();
        Ok(ascending(found))
    }

    fn ascending(mut servers: Vec<usize>) -> Vec<usize> {
        servers.sort_unstable();
        servers.dedup();
        servers
    }
}

fn member() -> impl Strategy<Value = Member> {
    prop_oneof![(0_usize..5).prop_map(s), (0_usize..7).prop_map(g)]
}

fn group() -> impl Strategy<Value = Group> {
    let kind = prop_oneof![Just(A), Just(D), Just(E)];
    let level = prop_oneof![Just(Level::Host), Just(Level::Rack)];
    let members = proptest::collection::vec(member(), 0..4);
    (kind, level, members).prop_map(|(kind, level, members)| Group {
        kind,
        level,
        terms: Terms::default(),
        members,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn rules_are_those_of_a_literal_reading(
        groups in proptest::collection::vec(group(), 1..7),
        servers in 3_usize..6,
    ) {
        prop_assert_eq!(rules(&groups, servers), literal::rules(&groups, servers));
    }
}

/// Layers of two groups each; both contain both groups of the layer below, and those of the lowest layer both
/// servers.
fn layers(count: usize) -> Vec<Group> {
    let group = |nth: usize| {
        let members = match (nth / 2).checked_sub(1) {
            None => vec![s(0), s(1)],
            Some(layer) => vec![g(2 * layer), g(2 * layer + 1)],
        };
        Group { kind: A, level: Level::Host, terms: Terms::default(), members }
    };
    (0..2 * count).map(group).collect()
}

/// A chain of groups, each inside of the one before; the last has a server.
fn chain(count: usize) -> Vec<Group> {
    let member = |nth: usize| if nth + 1 == count { s(0) } else { g(nth + 1) };
    let group = |nth| Group {
        kind: A,
        level: Level::Host,
        terms: Terms::default(),
        members: vec![member(nth)],
    };
    (0..count).map(group).collect()
}

/// Number of allocations while groups are expanded: each expansion of a group creates a list of its servers.
fn effort(groups: &[Group], servers: usize) -> u64 {
    let mut found = None;
    let counted = allocation_counter::measure(|| found = Some(rules(groups, servers)));
    assert!(found.unwrap().is_ok());
    counted.count_total
}

#[test]
fn a_group_that_is_in_many_is_expanded_once() {
    for groups in [layers(40), layers(40).into_iter().rev().collect::<Vec<_>>()] {
        // In reverse order, the numbers are reversed as well.
        let turned = groups.first().is_some_and(|group| group.members[0] != s(0));
        let last = groups.len() - 1;
        let turn = |member: &Member| match member {
            Member::Group(group) if turned => g(last - group),
            Member::Group(_) | Member::Server(_) => *member,
        };
        let groups: Vec<Group> = groups
            .iter()
            .map(|it| Group { members: it.members.iter().map(turn).collect(), ..it.clone() })
            .collect();
        let found = rules(&groups, 2).unwrap();
        assert_eq!(found.len(), 80);
        assert!(found.iter().all(|(_, rule)| rule.servers() == [0, 1]));
    }
    let (few, many) = (effort(&layers(16), 2), effort(&layers(32), 2));
    assert!(many <= 2 * few + 16, "{few} for 16 layers, {many} for 32");
}

#[test]
fn groups_are_nested_so_deep_and_no_deeper() {
    for count in [1, NESTING_MAX] {
        assert_eq!(rules(&chain(count), 1).unwrap().len(), count);
    }
    let too_deep = chain(NESTING_MAX + 1);
    assert_eq!(rules(&too_deep, 1), Err(GroupError::TooDeep(0)));
    // The result is the same from either end.
    let member = |nth: usize| if nth == 0 { s(0) } else { g(nth - 1) };
    let group = |nth| Group {
        kind: D,
        level: Level::Host,
        terms: Terms::default(),
        members: vec![member(nth)],
    };
    let other: Vec<Group> = (0..=NESTING_MAX).map(group).collect();
    assert_eq!(rules(&other, 1), Err(GroupError::TooDeep(NESTING_MAX)));
    assert_eq!(rules(&chain(GROUPS_MAX), 1), Err(GroupError::TooDeep(0)));
}

#[test]
fn there_are_so_many_groups_and_no_more() {
    let group = Group { kind: A, level: Level::Host, terms: Terms::default(), members: vec![s(0)] };
    assert_eq!(rules(&vec![group.clone(); GROUPS_MAX], 1).unwrap().len(), GROUPS_MAX);
    for count in [GROUPS_MAX + 1, 9_900] {
        let found = rules(&vec![group.clone(); count], 1);
        assert_eq!(found, Err(GroupError::TooMany(GROUPS_MAX)));
    }
    assert_eq!(rules(&chain(9_900), 1), Err(GroupError::TooMany(GROUPS_MAX)));
}

#[test]
fn all_groups_together_have_so_many_members_and_no_more() {
    let servers = MEMBERS_MAX / 100;
    let group = |members| Group { kind: A, level: Level::Host, terms: Terms::default(), members };
    let whole = group((0..servers).map(s).collect());
    // The first group, and 99 with all of its servers.
    let within: Vec<Group> =
        std::iter::once(whole).chain((1..100).map(|_| group(vec![g(0)]))).collect();
    assert_eq!(rules(&within, servers).unwrap().len(), 100);
    let with = |more: Group| within.iter().cloned().chain([more]).collect::<Vec<_>>();
    for more in [vec![s(0)], vec![g(0)]] {
        assert_eq!(rules(&with(group(more)), servers), Err(GroupError::TooLarge(100)));
    }
    // Groups without servers count as well, so that naming them is bounded.
    let empty = |count| vec![group(Vec::new()), group(vec![g(0); count])];
    assert_eq!(rules(&empty(MEMBERS_MAX), 0), Ok(Vec::new()));
    assert_eq!(rules(&empty(MEMBERS_MAX + 1), 0), Err(GroupError::TooLarge(1)));
}
