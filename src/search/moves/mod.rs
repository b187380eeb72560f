//! How to make room for a request: the fewest consumers that have to leave a host so that the request fits
//! there, and where they fit instead.
//!
//! First [`mod@targets`] finds the hosts where the request would fit if they were empty. Then, with the consumers
//! of some of them, [`plan`] tries one consumer of each host, then two, and so on. Whether the request fits
//! without them is decided by a search in a world in which they are gone ([`choice`]). Each of them has to fit
//! on another host as it is ([`relocation`]), in a world in which those before it have moved; if nothing is left for
//! one, those before it are tried elsewhere ([`placing`]).
//!
//! *Example.* A request for 8 VCPU fits nowhere. `cn1` has 6 free, and a consumer of 2 VCPU that fits on
//! `cn2`: one move makes room. That fewer do is impossible, so this is proven to be the fewest.

mod choice;
mod drain;
mod hypothetical;
mod placing;
mod question;
mod relocation;
mod step;
mod targets;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::choice::Choices;
pub use self::drain::{Drained, drain};
pub use self::question::{Leaving, Question};
pub use self::relocation::Keeping;
use self::relocation::Relocation;
use self::step::Progress;
pub use self::step::Step;
pub use self::targets::{Targets, targets};
use super::request::Unknown;
use crate::model::ProviderId;
use crate::model::consumer::ConsumerRow;
use crate::world::World;

/// The maximum number of consumers that leave.
pub const LEAVING_MAX: usize = 8;
/// The maximum number of hypothetical worlds that are searched.
const CHECKS_MAX: usize = 5000;
/// The maximum number of sets of consumers, whole or not, that are tried.
const TRIES_MAX: usize = 200_000;
/// The maximum number of places that are tried for consumers that have another one, which leaves nothing for others.
const PLACES_MAX: usize = 20_000;

/// A way to make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The host where the request fits then, by the root of its tree.
    pub target: ProviderId,
    /// Who leaves, in the order in which it is to be done.
    pub steps: Vec<Step>,
    /// Whether it is proven that no fewer consumers of one host suffice, if each moves directly; of victims, up
    /// to the priority of the last of them.
    pub is_proven: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The way with the fewest steps that was found.
    pub plan: Option<Plan>,
    /// If there is none, whether it is proven that no [`LEAVING_MAX`] consumers suffice.
    pub is_proven: bool,
    /// How many of the hosts were examined before the search ended, the first ones. With fewer than all, not
    /// even a single consumer of the others was tried.
    pub examined: usize,
}

/// Finds the fewest consumers that have to leave. `is_enough` is asked now and then; if it returns true,
/// the search ends.
///
/// # Errors
/// The request names something unknown.
pub fn plan(
    world: &Arc<World>,
    question: &Question<'_>,
    mut is_enough: impl FnMut() -> bool,
) -> Result<Found, Unknown> {
    let mut progress = Progress {
        checks_left: CHECKS_MAX,
        tries_left: TRIES_MAX,
        places_left: PLACES_MAX,
        is_exhaustive: question.is_needed && question.are_all_targets && question.are_all_consumers,
    };
    let tiers: Vec<usize> = match question.leaving {
        Leaving::Moves(_) => vec![0],
        Leaving::Victims(tiers) => {
            let mut tiers: Vec<usize> = tiers.iter().copied().flatten().collect();
            tiers.sort_unstable();
            tiers.dedup();
            tiers
        }
    };
    let relocation = match question.leaving {
        Leaving::Moves(keeping) => Some(Relocation::new(*keeping, BTreeSet::new())),
        Leaving::Victims(_) => None,
    };
    let known = known(world, question);
    progress.is_exhaustive &= known.len() == question.consumers.len();
    let all = question.targets.len();
    let mut examined = 0;
    for tier in tiers {
        let mut hosts = Vec::new();
        for target in question.targets {
            hosts.extend(Choices::of(world, question, &known, *target, tier)?);
        }
        for count in 1..=LEAVING_MAX {
            // One does not suffice where none does, so a single step needs no proof by exhaustion.
            let is_proven = progress.is_exhaustive || count == 1 && question.is_needed;
            for host in &mut hosts {
                let chosen =
                    host.find(world, count, relocation.as_ref(), &mut progress, &mut is_enough)?;
                if let Some((target, steps)) = chosen {
                    let plan = Some(Plan { target, steps, is_proven });
                    return Ok(Found { plan, is_proven, examined: all });
                }
                if progress.checks_left == 0 {
                    let before = question.targets.iter().take_while(|it| **it != host.target());
                    let examined = examined.max(before.count());
                    return Ok(Found { plan: None, is_proven: false, examined });
                }
            }
            examined = all;
        }
    }
    Ok(Found { plan: None, is_proven: progress.is_exhaustive, examined: all })
}

/// The positions of the consumers of which the world knows all that they hold. Consumers are read from the
/// database, so one of them may hold something that was created after the world was read, or deleted before.
/// What becomes of the others cannot be said, so they stay where they are.
fn known(world: &World, question: &Question<'_>) -> Vec<usize> {
    let consumers = question.consumers.iter().enumerate();
    let known = consumers.filter(|(_, consumer)| is_known(world, consumer));
    known.map(|(position, _)| position).collect()
}

/// Whether the world knows all that a consumer holds.
fn is_known(world: &World, consumer: &ConsumerRow) -> bool {
    consumer.allocations.iter().all(|(provider, class, _)| {
        world.provider_by_id(*provider).is_some() && world.class_name(*class).is_some()
    })
}
