//! Moves servers of several plans, and consumers outside of plans, at once: off some hosts, or so that more servers
//! fit. [`combination`] makes one stack of all of them. The solver places it with the fewest moves, and [`order`] puts
//! the moves into an order in which each is possible when it is carried out.

pub(crate) mod combination;
mod consumer;
mod order;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::combination::{Combination, Origin};
use self::order::{Mover, Order};
use super::compose::Composed;
use super::failure::Failure;
use super::placement::{First, Placed, Search, SolvingTime, placed};
use super::stack::{Stack, Surroundings};
use crate::model::{ClassId, ProviderId};
use crate::solver::Solution;
use crate::world::World;

/// Number of other placements that are tried if the moves of the first have no order.
const OTHERS: u32 = 3;

/// Moves in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relocation {
    /// The steps. The servers of a step are of one plan, and move together.
    pub(crate) steps: Vec<Vec<Moved>>,
    /// The hosts on which there is room for the additional servers, one for each of them.
    pub(crate) room: Vec<String>,
    /// Whether it is proven that no fewer moves suffice among the servers that may move.
    pub(crate) is_proven: bool,
}

/// A server that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// The position of the server in the combination.
    pub(crate) server: usize,
    /// The name of its current host.
    pub(crate) from: String,
    /// Its new place.
    pub(crate) to: Placed,
}

/// Finds the fewest moves that give every server of a combination a place; `None` if there are places, but no order was
/// found in which each move is possible.
///
/// # Errors
/// There are no such places, or none were found in time.
pub(crate) fn relocate(
    world: &Arc<World>,
    combination: &Combination,
    around: &Surroundings,
    time: &dyn SolvingTime,
) -> Result<Option<Relocation>, Failure> {
    let stack = Stack { alternatives: OTHERS as usize, ..combination.stack.clone() };
    let search = Search::new(&stack, around, time);
    let First { composed, found, kept } = search.first(world, &stack, around)?;
    let Some(mut solution) = found else {
        return Err(search.explained(world, &stack, around, (&composed, kept)));
    };
    let fewest = solution.bound.moved;
    let mut known = Vec::new();
    let mut share = 1;
    loop {
        if let Some(found) = ordered(world, combination, (&composed, &solution), time)? {
            return Ok(Some(Relocation { is_proven: solution.cost.moved == fewest, ..found }));
        }
        known.push(solution.hosts());
        share += 1;
        let is_last = share > OTHERS + 1;
        let other = if is_last { None } else { search.other(&composed.problem, &known, share) };
        match other {
            Some(other) => solution = other,
            None => return Ok(None),
        }
    }
}

/// The moves to a solution in an order; `None` if no order was found.
fn ordered(
    world: &World,
    combination: &Combination,
    (composed, solution): (&Composed, &Solution),
    time: &dyn SolvingTime,
) -> Result<Option<Relocation>, Failure> {
    let stack = &combination.stack;
    let places = placed(composed, stack, solution)?;
    let hosts = solution.hosts();
    let mut movers = Vec::new();
    for (server, (place, to)) in places.iter().zip(&hosts).enumerate() {
        let current = composed.problem.servers.get(server).and_then(|it| it.current_host);
        let present = stack.servers.get(server).and_then(|it| it.present.as_ref());
        let (Some(from), Some(present)) = (current.filter(|from| from != to), present) else {
            continue;
        };
        movers.push(Mover {
            server,
            from,
            to: *to,
            releases: present.holds.clone(),
            takes: taken(world, place),
            at_once: combination.moves_at_once(server),
        });
    }
    let sets = combination.sets(&movers.iter().map(|it| it.server).collect::<Vec<_>>())?;
    let mut is_up = || time.is_up(std::time::Duration::ZERO);
    let order = Order::new(world, &composed.problem, &movers, &hosts, sets);
    let Some(steps) = order.steps(&mut is_up) else { return Ok(None) };
    let moved = |mover: usize| {
        let it = movers.get(mover)?;
        let from = composed.hosts.get(it.from)?.name.to_string();
        Some(Moved { server: it.server, from, to: places.get(it.server)?.clone() })
    };
    let steps = steps.into_iter().map(|step| step.into_iter().filter_map(moved).collect());
    let room = combination.origins.iter().zip(&places);
    let room = room.filter(|(origin, _)| **origin == Origin::Room);
    Ok(Some(Relocation {
        steps: steps.collect(),
        room: room.map(|(_, place)| place.host.clone()).collect(),
        is_proven: false,
    }))
}

/// The allocations at a place.
fn taken(world: &World, place: &Placed) -> Vec<(ProviderId, ClassId, i64)> {
    let wants = place.wants.iter().flatten();
    let id = |(provider, class, amount): &(_, String, i64)| {
        Some((world.provider(*provider)?.id(), world.class_id(class)?, *amount))
    };
    wants.filter_map(id).collect()
}
