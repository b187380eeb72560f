//! Finds hosts for several consumers that leave one host at once: for each in turn, and other hosts for those
//! before it if it fits nowhere.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::hypothetical::changed;
use super::relocation::{Relocation, SearchEnd};
use super::step::Step;
use crate::model::{ClassId, ProviderId};
use crate::world::World;

/// Maximum number of hosts that are tried for the consumers of one set.
const PLACES_MAX: usize = 2000;

/// A consumer that moves: its position among the consumers, and its allocations.
pub(super) type Moving<'q> = (usize, &'q [(ProviderId, ClassId, i64)]);

/// The search for hosts for one set of consumers.
pub(super) struct Placing<'a> {
    relocation: &'a Relocation,
    target: ProviderId,
    /// Number of hosts that may still be tried for this set.
    left: usize,
    /// Number of further hosts, beyond the first of each consumer, that may still be tried for all sets.
    further_left: &'a mut usize,
    /// Whether a failed search proves that there is no solution.
    is_exhaustive: bool,
}

impl<'a> Placing<'a> {
    /// Creates a search for hosts other than the one to be left.
    pub(super) fn new(
        relocation: &'a Relocation,
        target: ProviderId,
        further_left: &'a mut usize,
    ) -> Self {
        Self { relocation, target, left: PLACES_MAX, further_left, is_exhaustive: true }
    }

    /// The steps by which all of these leave; otherwise whether it is proven that there is no way.
    pub(super) fn steps(
        mut self,
        world: &Arc<World>,
        all: &[Moving<'_>],
        is_enough: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Step>, bool> {
        let mut steps = Vec::new();
        if self.place(world, all, &mut steps, is_enough) {
            Ok(steps)
        } else {
            Err(self.is_exhaustive)
        }
    }

    /// Adds steps for the remaining consumers, in a world in which those before them have moved.
    fn place(
        &mut self,
        world: &Arc<World>,
        rest: &[Moving<'_>],
        steps: &mut Vec<Step>,
        is_enough: &mut dyn FnMut() -> bool,
    ) -> bool {
        let Some((&(consumer, held), rest)) = rest.split_first() else { return true };
        if is_enough() {
            self.is_exhaustive = false;
            return false;
        }
        let (relocation, target) = (self.relocation, self.target);
        let (mut is_first, mut is_done) = (true, false);
        let end = relocation.places(world, held, target, |place| {
            if !std::mem::take(&mut is_first) && !self.may_go_on(is_enough) {
                return ControlFlow::Break(());
            }
            self.left = self.left.saturating_sub(1);
            let then = if rest.is_empty() {
                Arc::clone(world)
            } else {
                Arc::new(changed(world, held, &place.allocations))
            };
            let (to, allocations) = (Some(place.host), place.allocations);
            steps.push(Step { consumer, to, allocations });
            is_done = self.place(&then, rest, steps, is_enough);
            if is_done {
                return ControlFlow::Break(());
            }
            steps.pop();
            self.is_exhaustive &= place.is_only;
            ControlFlow::Continue(())
        });
        self.is_exhaustive &= is_done || end != SearchEnd::Undecided;
        is_done
    }

    /// Returns whether another host may be tried for a consumer whose host leaves no room for those after it.
    fn may_go_on(&mut self, is_enough: &mut dyn FnMut() -> bool) -> bool {
        if self.left == 0 || *self.further_left == 0 || is_enough() {
            self.is_exhaustive = false;
            return false;
        }
        *self.further_left -= 1;
        true
    }
}
