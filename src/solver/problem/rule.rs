//! The rules that bind servers to each other, and the soft rules, which may be broken at a cost.
//! [`evaluation`](crate::solver::evaluation) defines which placements satisfy them.

use crate::model::Level;

/// A rule that binds servers, given by their positions in the problem. All of its servers are in known units of its
/// level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Affinity: all servers are in one unit.
    Together(Level, Vec<usize>),
    /// Diversity: servers of different parts are in different units.
    Apart(Level, Vec<Vec<usize>>),
    /// Exclusivity: no other server of the problem is in a unit with one of these.
    Alone(Level, Vec<usize>),
    /// The maximum number of the servers in one unit.
    AtMost(Level, u32, Vec<usize>),
    /// The servers are distributed evenly over some units.
    Skew(Skew),
}

/// Servers that are distributed evenly: no domain has more than `most` servers more than another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skew {
    /// The units that the rule applies to.
    pub level: Level,
    /// The largest difference.
    pub most: u32,
    /// The servers.
    pub servers: Vec<usize>,
    /// The domains: units in which servers can be, and which count even if empty. Each is represented by one of its
    /// hosts. The servers are in domains only.
    pub domains: Vec<usize>,
    /// The number of further servers of the group outside the problem. The rule is satisfied if it can be with
    /// these in any domains.
    pub absent: u32,
}

/// A rule that may be broken. It costs `weight` for each pair of servers that breaks it: for affinity, two servers
/// in different units; for diversity, two servers of different parts in one unit.
///
/// If the rack or cluster of hosts is unknown, the worst case is assumed: for affinity, that each such host is in a
/// unit of its own; for diversity, that all are in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftRule {
    /// Affinity or diversity.
    pub kind: SoftRuleKind,
    /// The units that the rule applies to.
    pub level: Level,
    /// The cost of each pair.
    pub weight: u32,
    /// The servers. For affinity, there is one part.
    pub parts: Vec<Vec<usize>>,
}

/// The kind of a soft rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SoftRuleKind {
    /// Affinity.
    Together,
    /// Diversity.
    Apart,
}

/// The number of pairs among servers, which soft rules count.
pub(in crate::solver) fn pairs(servers: u64) -> u64 {
    servers * servers.saturating_sub(1) / 2
}

impl Rule {
    /// The units that the rule applies to.
    pub fn level(&self) -> Level {
        match self {
            Self::Together(level, _)
            | Self::Apart(level, _)
            | Self::Alone(level, _)
            | Self::AtMost(level, ..) => *level,
            Self::Skew(skew) => skew.level,
        }
    }

    /// The parts of the rule: for diversity those that are apart, otherwise one part with all servers.
    pub fn parts(&self) -> &[Vec<usize>] {
        match self {
            Self::Together(_, servers) | Self::Alone(_, servers) | Self::AtMost(_, _, servers) => {
                std::slice::from_ref(servers)
            }
            Self::Skew(skew) => std::slice::from_ref(&skew.servers),
            Self::Apart(_, parts) => parts,
        }
    }

    /// The size of the rule, for accounting: its servers, and one more for each part or domain.
    pub fn size(&self) -> usize {
        let servers = self.parts().iter().map(Vec::len).sum::<usize>();
        match self {
            Self::Together(..) | Self::Alone(..) | Self::AtMost(..) => servers,
            Self::Apart(_, parts) => servers + parts.len(),
            Self::Skew(skew) => servers + skew.domains.len(),
        }
    }

    /// The servers that the rule binds.
    pub fn servers(&self) -> Vec<usize> {
        self.parts().concat()
    }

    /// The rule in a problem with some of the servers. `position` is the new position of a server, or
    /// `None` if the problem does not have it.
    pub(in crate::solver) fn restricted(&self, position: impl Fn(usize) -> Option<usize>) -> Self {
        let kept = |servers: &Vec<usize>| -> Vec<usize> {
            servers.iter().filter_map(|it| position(*it)).collect()
        };
        match self {
            Self::Together(level, servers) => Self::Together(*level, kept(servers)),
            Self::Alone(level, servers) => Self::Alone(*level, kept(servers)),
            Self::AtMost(level, most, servers) => Self::AtMost(*level, *most, kept(servers)),
            Self::Apart(level, parts) => Self::Apart(*level, parts.iter().map(kept).collect()),
            Self::Skew(skew) => {
                let servers = kept(&skew.servers);
                let gone = u32::try_from(skew.servers.len() - servers.len()).unwrap_or(u32::MAX);
                let absent = skew.absent.saturating_add(gone);
                Self::Skew(Skew { servers, absent, ..skew.clone() })
            }
        }
    }
}

impl SoftRule {
    /// The rule in a problem with some of the servers, like [`Rule::restricted`].
    pub(in crate::solver) fn restricted(&self, position: impl Fn(usize) -> Option<usize>) -> Self {
        let kept = |part: &Vec<usize>| part.iter().filter_map(|it| position(*it)).collect();
        Self { parts: self.parts.iter().map(kept).collect(), ..self.clone() }
    }
}

impl Skew {
    /// The number of further servers needed so that no domain has too few, given the servers in each.
    pub(in crate::solver) fn missing(&self, counts: impl Iterator<Item = u64> + Clone) -> u64 {
        let least = counts.clone().max().unwrap_or(0).saturating_sub(u64::from(self.most));
        counts.map(|count| least.saturating_sub(count)).sum()
    }
}
