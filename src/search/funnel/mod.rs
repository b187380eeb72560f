//! Explains why a request has no candidate: finds the conditions of the request that rule out each host.
//!
//! A *host* is a tree with inventory of its own. A condition rules a host out if the host cannot meet
//! it even alone, whatever the other conditions are. Several conditions can rule out one host, so the
//! counts may add up to more than the hosts. If each condition could be met but not all at once, the
//! first failing [step of combining them](Condition::Group) rules the host out. All counts are exact.
//!
//! *Example.* Of 40 hosts, `VCPU:8` rules out 37, 35 of which would fit without it, and a required trait
//! rules out 5, of which 3 have the capacity. So 35 hosts would fit a smaller server, and 3 hosts
//! would fit without the trait.
//!
//! | module | does |
//! |---|---|
//! | [`condition`] | lists the conditions of a request, and drops one |
//! | [`probe`] | tests of single providers, derived from conditions |
//! | [`checks`] | checks one host after the other |
//! | [`tree_search`] | decides whether one tree has a candidate |
//! | [`tally`] | counts the hosts that each condition rules out |
//! | [`nearest`] | keeps the hosts that lack the least |

mod checks;
pub(super) mod condition;
pub(super) mod nearest;
pub(super) mod probe;
mod tally;
mod tree_search;

use std::fmt;

pub use checks::HostChecks;
pub use condition::{Condition, without};
pub use nearest::NearMiss;
pub use tally::{Closest, Counted, Failed, Failing, Funnel, Lack, Limit, Shortage, Tally};

use super::request::Request;
use crate::model::traits;
use crate::world::{Provider, World};

/// Maximum number of near misses in a funnel.
const NEAR_MISSES_MAX: usize = 10;

/// The trees with inventory of their own that they do not share.
pub fn hosts(world: &World) -> impl Iterator<Item = Provider<'_>> {
    let is_host = is_host(world);
    world.trees().filter(move |root| is_host(root))
}

/// Returns a test whether the tree with a root is a host.
pub(super) fn is_host(world: &World) -> impl Fn(&Provider<'_>) -> bool + use<> {
    let shares = world.trait_id(traits::SHARING);
    let is_own = move |provider: &Provider<'_>| {
        provider.inventories().next().is_some()
            && shares.is_none_or(|shares| !provider.traits().contains(&shares))
    };
    move |root| root.tree().any(|provider| is_own(&provider))
}

/// Counts the hosts that each condition of a request rules out. `is_enough` receives the
/// work since the last call, in numbers read; if it returns true, the remaining hosts are skipped.
pub fn funnel(
    world: &World,
    request: &Request,
    mut is_enough: impl FnMut(usize) -> bool,
) -> Funnel<Condition> {
    let mut checks = HostChecks::new(world, request);
    let mut tally = Tally::new(checks.conditions().to_vec(), NEAR_MISSES_MAX);
    for root in hosts(world) {
        let failing = checks.failing(&root);
        let dispensable = checks.dispensable(&root, &failing);
        tally.add(root.id(), root.name(), &failing, &dispensable);
        if is_enough(checks.take_work()) {
            return Funnel { is_complete: false, ..tally.finish() };
        }
    }
    tally.finish()
}

impl<C: fmt::Display> fmt::Display for Funnel<C> {
    /// Formats the funnel as one line for the log.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = if self.is_complete { "" } else { "the first " };
        write!(formatter, "{} of {all}{} hosts fit", self.fitting, self.hosts)?;
        for counted in self.conditions.iter().filter(|it| it.hosts > 0) {
            let Counted { condition, hosts, only, most, .. } = counted;
            write!(formatter, "; {condition} rules out {hosts}, {only} would fit without it")?;
            if let Some(most) = most {
                write!(formatter, " (at most {} on {})", most.shortage.available, most.host)?;
            }
        }
        Ok(())
    }
}
