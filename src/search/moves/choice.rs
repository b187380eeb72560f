//! The consumers of one host that may leave, and the sets of them that make room.

#![expect(clippy::indexing_slicing, reason = "kinds are numbered densely")]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::engine;
use super::super::fit::fits_on;
use super::super::request::{Request, Unknown};
use super::hypothetical::changed;
use super::parameters::{Departure, RoomParameters};
use super::placing::{Moving, Placing};
use super::relocation::{Relocation, RelocationPlace};
use super::step::{Progress, Step};
use crate::model::consumer::ConsumerRow;
use crate::model::{ClassId, ProviderId};
use crate::world::World;

/// Number of tries between calls of `is_enough`.
const PAUSE: usize = 1024;

/// Amounts on providers.
type Amounts = Vec<(ProviderId, ClassId, i64)>;

/// Consumers with equal allocations.
struct Kind {
    /// The amounts that become free without one of them.
    released: Amounts,
    /// The same by class, on this host.
    by_class: BTreeMap<ClassId, i64>,
    /// Positions among the consumers.
    consumers: Vec<usize>,
    /// Whether another host was found for one, if one was searched for.
    is_movable: Option<bool>,
}

/// The consumers of a host that may leave.
pub(super) struct Choices<'q> {
    target: ProviderId,
    request: &'q Request,
    consumers: &'q [ConsumerRow],
    kinds: Vec<Kind>,
    /// The missing amount of each class on the host, added up over its pieces.
    missing: Vec<(ClassId, i64)>,
}

impl<'q> Choices<'q> {
    /// Collects the consumers of a host, among those at some positions; `None` if the host is gone. Victims are
    /// those up to a tier.
    ///
    /// # Errors
    /// The request names something unknown.
    pub(super) fn of(
        world: &World,
        parameters: &RoomParameters<'q>,
        positions: &[usize],
        target: ProviderId,
        tier: usize,
    ) -> Result<Option<Self>, Unknown> {
        let Some(root) = world.provider_by_id(target) else { return Ok(None) };
        let is_here = |id: &ProviderId| {
            world.provider_by_id(*id).is_some_and(|provider| provider.root() == root)
        };
        let mut kinds: BTreeMap<Amounts, Kind> = BTreeMap::new();
        for position in positions.iter().copied() {
            let Some(consumer) = parameters.consumers.get(position) else { continue };
            let here = consumer.allocations.iter().filter(|it| is_here(&it.0)).copied();
            let here: Amounts = here.collect();
            let may_leave = match parameters.leaving {
                Departure::Moves(_) => true,
                Departure::Victims(tiers) => {
                    tiers.get(position).copied().flatten().is_some_and(|it| it <= tier)
                }
            };
            if here.is_empty() || !may_leave {
                continue;
            }
            let mut by_class = BTreeMap::new();
            for (_, class, amount) in &here {
                *by_class.entry(*class).or_insert(0) += *amount;
            }
            let released = match parameters.leaving {
                Departure::Moves(_) => here,
                Departure::Victims(_) => consumer.allocations.clone(),
            };
            let new = || Kind { released, by_class, consumers: Vec::new(), is_movable: None };
            let kind = kinds.entry(consumer.allocations.clone()).or_insert_with(new);
            kind.consumers.push(position);
        }
        let mut kinds: Vec<Kind> = kinds.into_values().collect();
        let missing = missing(world, parameters.request, root.slot())?;
        // The kinds that free most of the missing amounts come first.
        let freed = |kind: &Kind| -> i64 {
            let freed = missing.iter().filter_map(|(class, missing)| {
                kind.by_class.get(class).map(|amount| (*amount).min(*missing))
            });
            freed.fold(0, i64::saturating_add)
        };
        kinds.sort_by_cached_key(|kind| {
            (std::cmp::Reverse(freed(kind)), kind.consumers.first().copied())
        });
        let RoomParameters { request, consumers, .. } = *parameters;
        Ok(Some(Self { target, request, consumers, kinds, missing }))
    }

    /// The host, by the root of its tree.
    pub(super) fn target(&self) -> ProviderId {
        self.target
    }

    /// Finds a set of `count` consumers whose departure makes room; returns the host, and the steps.
    pub(super) fn find(
        &mut self,
        world: &Arc<World>,
        count: usize,
        relocation: Option<&Relocation>,
        progress: &mut Progress,
        is_enough: &mut impl FnMut() -> bool,
    ) -> Result<Option<(ProviderId, Vec<Step>)>, Unknown> {
        // For each consumer of the set its kind, ascending.
        let mut chosen: Vec<usize> = Vec::new();
        let mut next = 0;
        loop {
            progress.tries_left = progress.tries_left.saturating_sub(1);
            let is_pause = progress.tries_left.is_multiple_of(PAUSE);
            if progress.tries_left == 0 || progress.checks_left == 0 || is_pause && is_enough() {
                (progress.checks_left, progress.is_exhaustive) = (0, false);
                return Ok(None);
            }
            if chosen.len() < count {
                if next < self.kinds.len() && self.may_suffice(&chosen, next, count) {
                    if self.has_another(&chosen, next) {
                        chosen.push(next);
                    } else {
                        next += 1;
                    }
                    continue;
                }
            } else {
                if is_enough() {
                    progress.checks_left = 0;
                    continue;
                }
                progress.checks_left -= 1;
                let makes_room = self.makes_room(world, &chosen)?;
                progress.is_exhaustive &= makes_room.is_some();
                if makes_room == Some(true) {
                    match self.steps(world, &chosen, relocation, progress, is_enough) {
                        Some(steps) => return Ok(Some((self.target, steps))),
                        // A kind that cannot move is excluded from now on.
                        None if self.kinds.iter().any(|kind| kind.is_movable == Some(false)) => {
                            self.kinds.retain(|kind| kind.is_movable != Some(false));
                            (chosen, next) = (Vec::new(), 0);
                            continue;
                        }
                        None => {}
                    }
                }
            }
            let Some(last) = chosen.pop() else { return Ok(None) };
            next = last + 1;
        }
    }

    /// Returns whether there is another consumer of a kind.
    fn has_another(&self, chosen: &[usize], kind: usize) -> bool {
        let taken = chosen.iter().filter(|it| **it == kind).count();
        taken < self.kinds[kind].consumers.len()
    }

    /// Returns whether the amounts could suffice if the rest of the set is of this kind or later ones.
    fn may_suffice(&self, chosen: &[usize], from: usize, count: usize) -> bool {
        self.missing.iter().all(|(class, missing)| {
            let amount = |kind: &Kind| kind.by_class.get(class).copied().unwrap_or(0);
            let sum: i64 = chosen.iter().map(|kind| amount(&self.kinds[*kind])).sum();
            let most = self.kinds[from..].iter().map(amount).max().unwrap_or(0);
            let rest = i64::try_from(count - chosen.len()).unwrap_or(i64::MAX);
            sum.saturating_add(most.saturating_mul(rest)) >= *missing
        })
    }

    /// Returns whether the request fits on the host without these; `None` if the search was abandoned.
    fn makes_room(&self, world: &World, chosen: &[usize]) -> Result<Option<bool>, Unknown> {
        let released: Amounts =
            chosen.iter().flat_map(|kind| self.kinds[*kind].released.iter().copied()).collect();
        let without = changed(world, &released, &[]);
        let Some(root) = without.provider_by_id(self.target) else {
            return Ok(Some(false));
        };
        let query = engine::resolve(&without, self.request)?;
        Ok(fits_on(&without, &query, root.slot()))
    }

    /// The steps by which these leave; `None` if one of them fits on no other host.
    fn steps(
        &mut self,
        world: &Arc<World>,
        chosen: &[usize],
        relocation: Option<&Relocation>,
        progress: &mut Progress,
        is_enough: &mut impl FnMut() -> bool,
    ) -> Option<Vec<Step>> {
        let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
        let mut leaving: Vec<usize> = Vec::new();
        for kind in chosen {
            let already = taken.entry(*kind).or_insert(0);
            leaving.push(*self.kinds[*kind].consumers.get(*already)?);
            *already += 1;
        }
        let Some(relocation) = relocation else {
            let step = |consumer| Step { consumer, to: None, allocations: Vec::new() };
            return Some(leaving.into_iter().map(step).collect());
        };
        for kind in taken.into_keys() {
            if !self.can_move(kind, world, relocation, progress) {
                return None;
            }
        }
        let moving: Vec<Moving<'_>> =
            leaving.iter().map(|it| (*it, self.consumers[*it].allocations.as_slice())).collect();
        let placing = Placing::new(relocation, self.target, &mut progress.places_left);
        match placing.steps(world, &moving, is_enough) {
            Ok(steps) => Some(steps),
            Err(is_proven) => {
                progress.is_exhaustive &= is_proven;
                None
            }
        }
    }

    /// Returns whether there is another host for a consumer of a kind before anything has moved.
    fn can_move(
        &mut self,
        kind: usize,
        world: &Arc<World>,
        relocation: &Relocation,
        progress: &mut Progress,
    ) -> bool {
        if let Some(known) = self.kinds[kind].is_movable {
            return known;
        }
        let Some(consumer) = self.kinds[kind].consumers.first() else { return false };
        let held = &self.consumers[*consumer].allocations;
        let place = relocation.place(world, held, self.target);
        // If the search was abandoned, there might be one.
        progress.is_exhaustive &= !matches!(place, RelocationPlace::Undecided);
        let is_movable = matches!(place, RelocationPlace::On(..));
        self.kinds[kind].is_movable = Some(is_movable);
        is_movable
    }
}

/// The missing amount of each class on a host, added up over its pieces. Sharing providers may make up for it, so
/// classes that any provider shares are left out.
fn missing(world: &World, request: &Request, root: u32) -> Result<Vec<(ClassId, i64)>, Unknown> {
    let query = engine::resolve(world, request)?;
    let mut missing = Vec::new();
    for (class, units) in query.totals() {
        let Some(column) = world.column(class) else { continue };
        if query.sharing.iter().any(|slot| column.get(slot).is_some()) {
            continue;
        }
        let slots = root..root + world.place(root).len;
        let free = slots.filter_map(|slot| column.get(slot)).map(|entry| entry.free());
        // A piece with too much in use lacks more than its free capacity says.
        let free = free.map(|free| free.max(0)).fold(0, i64::saturating_add);
        if units > free {
            missing.push((class, units - free));
        }
    }
    Ok(missing)
}
