//! Makes room for a request: finds the fewest consumers that have to leave a host so that the request fits there,
//! and other hosts for them.
//!
//! First [`mod@targets`] finds the hosts where the request would fit if they were empty. Then, with the consumers
//! of some of them, [`plan`] tries one consumer of each host, then two, and so on. Whether the request fits without
//! them is decided by a search in a world in which they are gone ([`choice`]). Each of them has to fit unchanged on
//! another host ([`relocation`]), in a world in which those before it have moved; if there is no host for one,
//! those before it are tried elsewhere ([`placing`]).
//!
//! *Example.* A request for 8 VCPU fits nowhere. `cn1` has 6 free, and a consumer of 2 VCPU that fits on `cn2`: one
//! move makes room. Zero moves are impossible, so this is proven to be the fewest.

mod choice;
mod hypothetical;
mod parameters;
mod placing;
mod relocation;
mod step;
mod targets;

use std::sync::Arc;

use self::choice::Choices;
pub use self::hypothetical::without_shared;
pub use self::parameters::{Departure, RoomParameters};
use self::relocation::Relocation;
pub use self::relocation::{KeptProperties, kept_traits};
use self::step::Progress;
pub use self::step::Step;
pub use self::targets::{Targets, targets};
use super::request::Unknown;
use crate::model::ProviderId;
use crate::model::consumer::ConsumerRow;
use crate::world::World;

/// Maximum number of consumers that leave.
pub const LEAVING_MAX: usize = 8;
/// Maximum number of hypothetical worlds that are searched.
const CHECKS_MAX: usize = 5000;
/// Maximum number of sets of consumers, complete or not, that are tried.
const TRIES_MAX: usize = 200_000;
/// Maximum number of further hosts that are tried for consumers whose first host leaves no room for others.
const PLACES_MAX: usize = 20_000;

/// A way to make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The host where the request then fits, by the root of its tree.
    pub target: ProviderId,
    /// The consumers that leave, in order.
    pub steps: Vec<Step>,
    /// Whether it is proven that no fewer consumers of one host suffice, if each moves directly; for victims, up to
    /// the priority of the last of them.
    pub is_proven: bool,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomOutcome {
    /// The plan with the fewest steps that was found.
    pub plan: Option<Plan>,
    /// If there is no plan, whether it is proven that no [`LEAVING_MAX`] consumers suffice.
    pub is_proven: bool,
    /// Number of hosts examined before the search ended, in order. Of the remaining ones, not even a single
    /// consumer was tried.
    pub examined: usize,
}

/// Finds the fewest consumers that have to leave. `is_enough` is called now and then; if it returns true, the
/// search ends.
///
/// # Errors
/// The request names something unknown.
pub fn plan(
    world: &Arc<World>,
    parameters: &RoomParameters<'_>,
    mut is_enough: impl FnMut() -> bool,
) -> Result<RoomOutcome, Unknown> {
    let mut progress = Progress {
        checks_left: CHECKS_MAX,
        tries_left: TRIES_MAX,
        places_left: PLACES_MAX,
        is_exhaustive: parameters.is_needed
            && parameters.are_all_targets
            && parameters.are_all_consumers,
    };
    let tiers: Vec<usize> = match parameters.leaving {
        Departure::Moves(_) => vec![0],
        Departure::Victims(tiers) => {
            let mut tiers: Vec<usize> = tiers.iter().copied().flatten().collect();
            tiers.sort_unstable();
            tiers.dedup();
            tiers
        }
    };
    let relocation = match parameters.leaving {
        Departure::Moves(keeping) => Some(Relocation::new(*keeping)),
        Departure::Victims(_) => None,
    };
    let known = known(world, parameters);
    progress.is_exhaustive &= known.len() == parameters.consumers.len();
    let all = parameters.targets.len();
    let mut examined = 0;
    for tier in tiers {
        let mut hosts = Vec::new();
        for target in parameters.targets {
            hosts.extend(Choices::of(world, parameters, &known, *target, tier)?);
        }
        for count in 1..=LEAVING_MAX {
            // If zero consumers do not suffice, a single step needs no proof by exhaustion.
            let is_proven = progress.is_exhaustive || count == 1 && parameters.is_needed;
            for host in &mut hosts {
                let chosen =
                    host.find(world, count, relocation.as_ref(), &mut progress, &mut is_enough)?;
                if let Some((target, steps)) = chosen {
                    let plan = Some(Plan { target, steps, is_proven });
                    return Ok(RoomOutcome { plan, is_proven, examined: all });
                }
                if progress.checks_left == 0 {
                    let before = parameters.targets.iter().take_while(|it| **it != host.target());
                    let examined = examined.max(before.count());
                    return Ok(RoomOutcome { plan: None, is_proven: false, examined });
                }
            }
            examined = all;
        }
    }
    Ok(RoomOutcome { plan: None, is_proven: progress.is_exhaustive, examined: all })
}

/// The positions of the consumers all of whose providers and classes are in the world. Consumers are read from the
/// database, so one may have allocations at a provider that was created after the world was read, or deleted
/// before. The effect of moving such a consumer is unknown, so it stays.
fn known(world: &World, parameters: &RoomParameters<'_>) -> Vec<usize> {
    let consumers = parameters.consumers.iter().enumerate();
    let known = consumers.filter(|(_, consumer)| is_known(world, consumer));
    known.map(|(position, _)| position).collect()
}

/// Returns whether the world has all providers and classes of a consumer's allocations.
fn is_known(world: &World, consumer: &ConsumerRow) -> bool {
    consumer.allocations.iter().all(|(provider, class, _)| {
        world.provider_by_id(*provider).is_some() && world.class_name(*class).is_some()
    })
}
