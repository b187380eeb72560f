//! Quotas: rules that count servers in each unit, with the kinds that they bind.

use super::bundle_kind::BundleKind;
use super::units::Units;
use crate::solver::problem::{Level, PlacementProblem, Rule};

/// The maximum number of servers of a rule in each unit. An even distribution has such a limit, too: if the fullest
/// domain has `m` servers, each of the others has at least `m` less the allowed difference, and together they have
/// all.
#[derive(Clone, Debug)]
pub(in crate::solver) struct Quota {
    /// The rule, by its position.
    pub(in crate::solver) rule: usize,
    pub(in crate::solver) level: Level,
    pub(in crate::solver) most: u64,
    /// For an even distribution, the minimum number in each domain.
    pub(in crate::solver) least: u64,
    /// The servers of the rule.
    pub(in crate::solver) servers: u64,
    /// The kinds that the rule binds, with the number of its servers in one bundle.
    pub(in crate::solver) kinds: Vec<(usize, u64)>,
    /// For an even distribution, the domains, as units.
    pub(in crate::solver) domains: Vec<usize>,
}

impl Quota {
    /// The quotas of a problem. Each kind gets the positions of its quotas.
    pub(super) fn of(
        problem: &PlacementProblem,
        units: &Units,
        kinds: &mut [BundleKind],
    ) -> Vec<Self> {
        let mut quotas: Vec<Self> = Vec::new();
        for (rule, it) in problem.rules.iter().enumerate() {
            let servers = it.parts().iter().map(Vec::len).sum::<usize>() as u64;
            let (most, least, domains) = match it {
                Rule::Together(..) | Rule::Apart(..) | Rule::Alone(..) => continue,
                Rule::AtMost(_, most, _) => (u64::from(*most), 0, Vec::new()),
                Rule::Skew(skew) => {
                    let domains = skew.domains.iter();
                    let domains = domains.filter_map(|host| units.unit(skew.level, *host));
                    let mut domains: Vec<usize> = domains.collect();
                    domains.sort_unstable();
                    domains.dedup();
                    let (count, absent) = (domains.len() as u64, u64::from(skew.absent));
                    let others = count.saturating_sub(1) * u64::from(skew.most);
                    let most = (servers + absent + others).checked_div(count).unwrap_or(0);
                    let fullest = servers.div_ceil(count.max(1));
                    (most, fullest.saturating_sub(u64::from(skew.most) + absent), domains)
                }
            };
            let number = quotas.len();
            let mut bound = Vec::new();
            for (nth, kind) in kinds.iter_mut().enumerate() {
                let members = kind.members.iter().find(|(other, _)| *other == rule);
                if let Some((_, members)) = members.copied() {
                    bound.push((nth, members));
                    kind.quotas.push((number, members));
                    let of_host = most.checked_div(members).unwrap_or(0);
                    kind.most_on_host =
                        kind.most_on_host.min(usize::try_from(of_host).unwrap_or(usize::MAX));
                }
            }
            let level = it.level();
            quotas.push(Self { rule, level, most, least, servers, kinds: bound, domains });
        }
        quotas
    }
}
