//! The capacity that servers of a plan draw on: which amounts of which providers.

use std::collections::HashMap;

use uuid::Uuid;

use super::draft::{Draft, DraftServer};
use super::placement::PlacedStack;
use super::plan::Placement;
use crate::model::{ClassId, ProviderId};
use crate::world::World;

/// Provider, name of the resource class, amount.
pub(crate) type Amounts = Vec<(Uuid, String, i64)>;

/// The capacity that a server draws on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    /// The placement; `None` for a new one of a dry run.
    pub(crate) placement: Option<Uuid>,
    /// The amounts by provider and class.
    pub(crate) amounts: Amounts,
}

impl Draw {
    /// Returns the draw of a stored placement. Providers that are no longer in the world are left out.
    pub(crate) fn of(row: &Placement, world: &World) -> Self {
        let amounts = row.holds.iter().filter_map(|held| amount_of(world, held));
        Self { placement: Some(row.id), amounts: amounts.collect() }
    }
}

/// Returns the draw of each server of a draft. `new` has the ids of new placements by orchestration key.
pub(crate) fn draws(
    draft: &Draft,
    solution: Option<&PlacedStack>,
    new: &HashMap<&str, Uuid>,
    world: &World,
) -> Vec<Draw> {
    let draw = |(nth, server): (usize, &DraftServer)| {
        let placed = solution.and_then(|solution| solution.places.get(nth)?.as_ref());
        let stored = server.placement.as_ref().map(|row| Draw::of(row, world));
        let placement = stored.as_ref().and_then(|stored| stored.placement);
        let placement = placement.or_else(|| new.get(server.entry.key.as_str()).copied());
        let wants = placed.and_then(|placed| placed.wants.clone());
        let amounts = match (wants, stored) {
            (Some(wants), _) => wants,
            (None, Some(stored)) => stored.amounts,
            (None, None) => Amounts::new(),
        };
        Draw { placement, amounts }
    };
    draft.servers.iter().enumerate().map(draw).collect()
}

/// Returns an amount with the names of its provider and class; `None` if one is no longer in the world.
pub(super) fn amount_of(
    world: &World,
    (provider, class, amount): &(ProviderId, ClassId, i64),
) -> Option<(Uuid, String, i64)> {
    let provider = world.provider_by_id(*provider)?.uuid();
    Some((provider, world.class_name(*class)?.to_owned(), *amount))
}
