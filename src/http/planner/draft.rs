//! A plan as it is to be, before it has places: its servers with what is known of them, which of them
//! may move, and what goes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::document::{Document, asks_the_same};
use super::problem::Problem;
use super::resolve;
use super::template::{ServerEntry, Template};
use crate::planner::group::StoredGroup;
use crate::planner::ids::canonical;
use crate::planner::stack::{HostNames, Present, Stack};
use crate::planner::topology::Topology;
use crate::planner::{location, rebound};
use crate::solver::groups::Senseless;
use crate::store::planner::plans::{PlacementRow, PlanRow};
use crate::world::World;

/// A plan as it stands, and what it stands on.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) plan: PlanRow,
    pub(super) document: Document,
    pub(super) template: Template,
    /// Those that are part of the plan.
    pub(super) placements: Vec<PlacementRow>,
    /// Those that are not any more.
    pub(super) leaving: Vec<PlacementRow>,
    pub(super) stored: Vec<StoredGroup>,
    pub(super) world: Arc<World>,
    /// Where the hosts of that world stand.
    pub(super) topology: Topology,
}

impl Current {
    /// The host that a placement is on.
    pub(super) fn location(&self, placement: &PlacementRow) -> Option<String> {
        location(&self.world, &self.topology, &placement.holds).map(str::to_owned)
    }

    /// The plan as it is, in which nobody moves.
    pub(super) fn draft(&self) -> Result<Draft, Problem> {
        let stack = resolve::stack(&self.document, &self.template, &self.stored, None)?;
        Ok(Draft::of(self, self.document.clone(), &self.template, stack))
    }

    /// The plan with less in it; `template` is what the document says.
    pub(super) fn reduced(
        &self,
        document: Document,
        template: &Template,
    ) -> Result<Draft, Problem> {
        let stack = resolve::stack(&document, template, &self.stored, None)?;
        Ok(Draft::of(self, document, template, stack))
    }

    /// The plan with another document, whose groups its project has to be allowed to use.
    pub(super) fn changed(
        &self,
        document: Document,
        template: &Template,
    ) -> Result<Draft, Problem> {
        let project = Some(self.plan.project.as_str());
        let stack = resolve::stack(&document, template, &self.stored, project)?;
        let before = resolve::stack(&self.document, &self.template, &self.stored, None)?;
        let draft = Draft::of(self, document, template, stack);
        let is_bound = !before.groups.is_empty() || !draft.stack.groups.is_empty();
        let pending = is_bound.then_some(Pending::Rebound { before });
        Ok(Draft { pending, ..draft })
    }
}

/// A plan as it is to be.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) plan: PlanRow,
    /// Whether it is stored.
    pub(super) exists: bool,
    /// Generations of the stored groups as it knows them.
    pub(super) generations: Vec<(Uuid, i64)>,
    pub(super) document: Document,
    pub(super) stack: Stack,
    /// One for each server of the stack.
    pub(super) slots: Vec<Slot>,
    /// Placements that go, with what is held for them.
    pub(super) removed: Vec<PlacementRow>,
    /// Placements that are to be no part of the plan any more, but stay.
    pub(super) leaving: Vec<PlacementRow>,
    /// Whether the plan gets another name.
    pub(super) renamed: bool,
    /// Whether, if it cannot be done otherwise, servers that nobody has reserved may move, too.
    pub(super) may_give_way: bool,
    /// What is still to be done to it.
    pub(super) pending: Option<Pending>,
}

/// Who may move as well. To know that, all groups are expanded, which takes longer than the request is
/// large: [`Draft::complete`] does it where places are looked for.
#[derive(Clone, Debug)]
pub(super) enum Pending {
    /// Servers that their groups bind otherwise than in the stack as it was.
    Rebound {
        /// The stack as it was.
        before: Stack,
    },
    /// Servers that have to be with one that moves.
    Mates {
        /// The server that moves.
        of: usize,
        /// Where none of them may go.
        excluded: HostNames,
    },
}

/// A server of a plan as it is to be.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) entry: ServerEntry,
    /// Its placement, if it has one.
    pub(super) row: Option<PlacementRow>,
    /// Whether it is to be reserved.
    pub(super) reserve: bool,
    /// Whether it has to be reserved again if it moves.
    pub(super) unlock: bool,
    /// The instance, if the request says.
    pub(super) resource_id: Option<String>,
}

impl Slot {
    /// Whether somebody has reserved it.
    pub(super) fn is_reserved(&self) -> bool {
        self.row.as_ref().is_some_and(|row| row.reserved == Some(true))
    }
}

impl Draft {
    /// A plan that does not exist yet.
    pub(super) fn new(
        plan: PlanRow,
        document: Document,
        template: &Template,
        stored: &[StoredGroup],
    ) -> Result<Self, Problem> {
        let stack = resolve::stack(&document, template, stored, Some(&plan.project))?;
        let slots = template.servers.iter().map(|entry| slot(entry.clone(), None)).collect();
        Ok(Self {
            plan,
            exists: false,
            generations: generations(stored),
            document,
            stack,
            slots,
            removed: Vec::new(),
            leaving: Vec::new(),
            renamed: false,
            may_give_way: false,
            pending: None,
        })
    }

    fn of(current: &Current, document: Document, template: &Template, mut stack: Stack) -> Self {
        let before_by_key = current.template.by_key();
        let mut rows: HashMap<&str, &PlacementRow> = HashMap::new();
        // Who comes back has the place that was kept.
        for row in current.placements.iter().chain(&current.leaving) {
            rows.entry(row.orchestration_key.as_str()).or_insert(row);
        }
        let mut slots = Vec::with_capacity(template.servers.len());
        for (entry, server) in template.servers.iter().zip(&mut stack.servers) {
            let row = rows.get(entry.key.as_str()).map(|row| (*row).clone());
            let before = before_by_key.get(entry.key.as_str());
            if let Some(row) = &row {
                let same = before.is_some_and(|before| asks_the_same(before, entry));
                let stays = before.is_some_and(|before| {
                    (&before.zone, &before.locations) == (&entry.zone, &entry.locations)
                });
                let ours = row.is_hold();
                server.present = Some(Present { holds: row.holds.clone(), ours });
                server.resized = !same;
                server.fixed = same && stays;
                // Its instance is gone, and it may come back by itself.
                server.absent = same && row.holds.is_empty() && row.reserved == Some(true);
            }
            let mut slot = slot(entry.clone(), row);
            // Whatever has been reserved since is newer.
            if before.is_some_and(|before| before.resource_id == entry.resource_id) {
                slot.resource_id = None;
            }
            slots.push(slot);
        }
        let kept: HashSet<&str> = template.servers.iter().map(|it| it.key.as_str()).collect();
        let is_kept = |it: &PlacementRow| kept.contains(it.orchestration_key.as_str());
        let gone: Vec<PlacementRow> =
            current.placements.iter().filter(|it| !is_kept(it)).cloned().collect();
        // What is reserved may be all that is known of a server that runs.
        let leaves = |it: &PlacementRow| it.is_hold() && it.reserved == Some(true);
        let (leaving, removed): (_, Vec<PlacementRow>) = gone.into_iter().partition(leaves);
        let holds = removed.iter().filter(|row| row.is_hold()).flat_map(|row| &row.holds);
        stack.given_up = holds.copied().collect();
        Self {
            plan: current.plan.clone(),
            exists: true,
            generations: generations(&current.stored),
            document,
            stack,
            slots,
            removed,
            leaving,
            renamed: false,
            may_give_way: false,
            pending: None,
        }
    }

    /// The position of a server, by the id of its instance, or else by the orchestrator's.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        let key = canonical(id);
        let row = |slot: &Slot| slot.row.as_ref().and_then(|row| row.resource_key.clone());
        let by_resource = self.slots.iter().position(|slot| row(slot).as_deref() == Some(&key));
        by_resource.or_else(|| self.slots.iter().position(|slot| slot.entry.key == key))
    }

    /// The position of a server, by the id of its placement.
    pub(super) fn find_placement(&self, id: Uuid) -> Option<usize> {
        let is_it = |slot: &Slot| slot.row.as_ref().is_some_and(|row| row.id == id);
        self.slots.iter().position(is_it)
    }

    /// Asks nothing for servers that have lost their places, but for one.
    pub(super) fn leave_lost(&mut self, but: Option<usize>) {
        for (nth, server) in self.stack.servers.iter_mut().enumerate() {
            let lost = server.present.as_ref().is_some_and(|it| it.holds.is_empty());
            server.absent = lost && Some(nth) != but;
        }
    }

    /// A server gets another host, and has to be reserved again.
    pub(super) fn moves(&mut self, mover: usize, excluded: &HostNames) {
        if let (Some(server), Some(slot)) =
            (self.stack.servers.get_mut(mover), self.slots.get_mut(mover))
        {
            server.fixed = false;
            server.excluded.push(Arc::clone(excluded));
            slot.unlock = true;
        }
    }

    /// Does what is [pending](Pending).
    ///
    /// # Errors
    /// The groups make no sense.
    pub(super) fn complete(&mut self, world: &World, topology: &Topology) -> Result<(), Senseless> {
        match self.pending.take() {
            None => {}
            Some(Pending::Rebound { before }) => self.loosen(&before, world, topology),
            Some(Pending::Mates { of, excluded }) => {
                for mate in self.stack.mates(of)?.into_iter().filter(|mate| *mate != of) {
                    self.moves(mate, &excluded);
                }
            }
        }
        Ok(())
    }

    /// Servers that are bound otherwise than before may move.
    fn loosen(&mut self, before: &Stack, world: &World, topology: &Topology) {
        let rebound = rebound(before, &self.stack);
        let servers = self.stack.servers.iter_mut().zip(&self.slots).zip(rebound);
        for ((server, slot), _) in servers.filter(|((server, _), rebound)| *rebound && server.fixed)
        {
            server.fixed = false;
            if let (Some(row), true) = (&slot.row, slot.is_reserved()) {
                // It stays where it is, but only if its new groups allow that.
                let home = location(world, topology, &row.holds).map(str::to_owned);
                let homes = home.into_iter().map(|home| Arc::new(HashSet::from([home])));
                server.locations = homes.collect();
            }
        }
    }

    /// Whether it takes a turn at finding places to settle it.
    pub(super) fn needs_turn(&self) -> bool {
        self.pending.is_some() || self.is_open()
    }

    /// Whether anybody needs a place.
    pub(super) fn is_open(&self) -> bool {
        self.stack.servers.iter().any(|server| {
            let has_place = server.present.as_ref().is_some_and(|it| !it.holds.is_empty());
            let stays = server.fixed && has_place;
            !server.absent && !stays
        })
    }
}

fn generations(stored: &[StoredGroup]) -> Vec<(Uuid, i64)> {
    stored.iter().map(|group| (group.id, group.generation)).collect()
}

fn slot(entry: ServerEntry, row: Option<PlacementRow>) -> Slot {
    let resource_id = entry.resource_id.clone();
    Slot { entry, row, reserve: false, unlock: false, resource_id }
}

#[cfg(test)]
mod tests;
