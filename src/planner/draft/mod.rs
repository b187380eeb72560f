//! The desired state of a plan before hosts have been chosen: its servers, which of them may move, and which
//! placements are removed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::document::{Document, asks_the_same};
use super::failure::Failure;
use super::group::StoredGroup;
use super::ids::canonical;
use super::placement::{PlacedStack, SolvingTime, location, places};
use super::plan::{Placement, Plan};
use super::rejection::Rejection;
use super::resolve;
use super::rule_changes::has_changed_rules;
use super::stack::{Holder, HostNames, Present, Server, Stack, Surroundings};
use super::template::{Ignored, ServerEntry, Template};
use super::topology::Topology;
use crate::solver::groups::GroupError;
use crate::world::World;

/// A stored plan, and the state of the cloud when it was read.
#[derive(Debug)]
pub(crate) struct CurrentPlan {
    pub(crate) plan: Plan,
    pub(crate) document: Document,
    pub(crate) template: Template,
    /// Placements of servers that are part of the plan.
    pub(crate) placements: Vec<Placement>,
    /// Reserved placements whose servers have been removed from the plan.
    pub(crate) leaving: Vec<Placement>,
    /// All stored groups.
    pub(crate) groups: Vec<StoredGroup>,
    pub(crate) world: Arc<World>,
    /// The topology of `world`.
    pub(crate) topology: Topology,
}

impl CurrentPlan {
    /// The host of a placement.
    pub(crate) fn location(&self, placement: &Placement) -> Option<String> {
        location(&self.world, &self.topology, &placement.holds).map(str::to_owned)
    }

    /// Creates a draft that changes nothing: every server stays on its host.
    pub(crate) fn draft(&self) -> Result<Draft, Rejection> {
        self.reduced(self.document.clone(), &self.template)
    }

    /// Creates a draft of the plan with a part of its document; `template` is the content of `document`. The
    /// project may have lost its access to the groups.
    pub(crate) fn reduced(
        &self,
        document: Document,
        template: &Template,
    ) -> Result<Draft, Rejection> {
        let stack = resolve::stack(&document, template, &self.groups, None)?;
        Ok(Draft::of(self, document, template, stack))
    }

    /// Creates a draft of the plan with another document. The project must have access to its groups.
    pub(crate) fn changed(
        &self,
        document: Document,
        template: &Template,
    ) -> Result<Draft, Rejection> {
        let project = Some(self.plan.project.as_str());
        let stack = resolve::stack(&document, template, &self.groups, project)?;
        let before = resolve::stack(&self.document, &self.template, &self.groups, None)?;
        let draft = Draft::of(self, document, template, stack);
        let is_bound = !before.groups.is_empty() || !draft.stack.groups.is_empty();
        let deferred = is_bound.then_some(DeferredMoves::GroupsChanged { before });
        Ok(Draft { deferred, ..draft })
    }
}

/// The desired state of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) plan: Plan,
    /// Whether the plan is stored.
    pub(crate) exists: bool,
    /// The generation of each stored group when it was read.
    pub(crate) generations: Vec<(Uuid, i64)>,
    pub(crate) document: Document,
    pub(crate) stack: Stack,
    /// One for each server of `stack`, in the same order.
    pub(crate) servers: Vec<DraftServer>,
    /// Placements to delete, with the capacity held for them.
    pub(crate) removed: Vec<Placement>,
    /// Reserved placements whose servers leave the plan. They are kept, because their instances may be running.
    pub(crate) leaving: Vec<Placement>,
    /// Whether the name of the plan changes.
    pub(crate) renamed: bool,
    /// Whether unreserved servers may move if there is no solution otherwise.
    pub(crate) may_move_unreserved: bool,
    /// Moves that are computed later.
    pub(crate) deferred: Option<DeferredMoves>,
    /// Resources of the document that the plan is made without.
    pub(crate) ignored: Vec<Ignored>,
}

/// Further servers that may move. Finding them means expanding all groups, which may cost more than the size of the
/// request suggests, so [`Draft::complete`] does it on the thread of the solver.
#[derive(Clone, Debug)]
pub(crate) enum DeferredMoves {
    /// Servers whose groups have changed.
    GroupsChanged {
        /// The stack before the change.
        before: Stack,
    },
    /// Servers in affinity groups with moving servers.
    AffinityMates {
        /// The moving servers.
        of: BTreeSet<usize>,
        /// Hosts that all of them must avoid.
        excluded: HostNames,
    },
}

/// The desired state of one server.
#[derive(Clone, Debug)]
pub(crate) struct DraftServer {
    pub(crate) entry: ServerEntry,
    /// Its stored placement, if it has one.
    pub(crate) placement: Option<Placement>,
    /// Whether to reserve it.
    pub(crate) reserve: bool,
    /// Whether to clear its reservation if it moves.
    pub(crate) clear_reservation: bool,
    /// The instance given in the request.
    pub(crate) resource_id: Option<String>,
}

impl DraftServer {
    fn new(entry: ServerEntry, placement: Option<Placement>) -> Self {
        let resource_id = entry.resource_id.clone();
        Self { entry, placement, reserve: false, clear_reservation: false, resource_id }
    }

    /// Returns whether its placement is reserved.
    pub(crate) fn is_reserved(&self) -> bool {
        self.placement.as_ref().is_some_and(|it| it.reserved == Some(true))
    }
}

impl Draft {
    /// A plan that is not stored yet.
    ///
    /// # Errors
    /// Those of [`resolve::stack`].
    pub(crate) fn new(
        plan: Plan,
        document: Document,
        template: &Template,
        stored: &[StoredGroup],
    ) -> Result<Self, Rejection> {
        let stack = resolve::stack(&document, template, stored, Some(&plan.project))?;
        let servers = template.servers.iter();
        let servers = servers.map(|entry| DraftServer::new(entry.clone(), None)).collect();
        let draft = Self::unchanged(plan, document, stack, servers, stored);
        Ok(Self { ignored: template.ignored.clone(), ..draft })
    }

    /// A draft that removes nothing.
    fn unchanged(
        plan: Plan,
        document: Document,
        stack: Stack,
        servers: Vec<DraftServer>,
        stored: &[StoredGroup],
    ) -> Self {
        Self {
            plan,
            exists: false,
            generations: stored.iter().map(|group| (group.id, group.generation)).collect(),
            document,
            stack,
            servers,
            removed: Vec::new(),
            leaving: Vec::new(),
            renamed: false,
            may_move_unreserved: false,
            deferred: None,
            ignored: Vec::new(),
        }
    }

    fn of(
        current: &CurrentPlan,
        document: Document,
        template: &Template,
        mut stack: Stack,
    ) -> Self {
        let before_by_key = current.template.by_key();
        let mut rows: HashMap<&str, &Placement> = HashMap::new();
        // A server that returns to the plan gets its kept placement back.
        for row in current.placements.iter().chain(&current.leaving) {
            rows.entry(row.orchestration_key.as_str()).or_insert(row);
        }
        let mut servers = Vec::with_capacity(template.servers.len());
        for (entry, server) in template.servers.iter().zip(&mut stack.servers) {
            let row = rows.get(entry.key.as_str()).map(|row| (*row).clone());
            let before = before_by_key.get(entry.key.as_str());
            if let Some(row) = &row {
                let same = before.is_some_and(|before| asks_the_same(before, entry));
                let stays = before.is_some_and(|before| {
                    (&before.zone, &before.locations) == (&entry.zone, &entry.locations)
                });
                let holder = if row.is_hold() { Holder::Plan } else { Holder::Instance };
                let (holds, groups) = (row.holds.clone(), row.groups.iter().copied().collect());
                server.present = Some(Present { holds, holder, groups });
                server.resized = !same;
                server.fixed = same && stays;
                // Its instance has no allocations at present, and may get them again without the planner.
                server.absent = same && row.holds.is_empty() && row.reserved == Some(true);
            }
            let mut target = DraftServer::new(entry.clone(), row);
            // The id from the creation of the plan takes precedence over one from a reservation.
            if before.is_some_and(|before| before.resource_id == entry.resource_id) {
                target.resource_id = None;
            }
            servers.push(target);
        }
        let kept: HashSet<&str> = template.servers.iter().map(|it| it.key.as_str()).collect();
        let is_kept = |it: &Placement| kept.contains(it.orchestration_key.as_str());
        let gone: Vec<Placement> =
            current.placements.iter().filter(|it| !is_kept(it)).cloned().collect();
        // A reserved hold may belong to an instance that is already running.
        let leaves = |it: &Placement| it.is_hold() && it.reserved == Some(true);
        let (leaving, removed): (_, Vec<Placement>) = gone.into_iter().partition(leaves);
        let holds = removed.iter().filter(|row| row.is_hold()).flat_map(|row| &row.holds);
        stack.given_up = holds.copied().collect();
        let plan = current.plan.clone();
        let draft = Self::unchanged(plan, document, stack, servers, &current.groups);
        let ignored = template.ignored.clone();
        Self { exists: true, removed, leaving, ignored, ..draft }
    }

    /// The positions of servers, each by the id of its instance, or by that of the orchestrator.
    ///
    /// # Errors
    /// The first id that is unknown.
    pub(crate) fn find_all<'i>(&self, ids: &'i [String]) -> Result<Vec<usize>, &'i str> {
        let (mut by_instance, mut by_key) = (HashMap::new(), HashMap::new());
        for (nth, server) in self.servers.iter().enumerate() {
            let instance = server.placement.as_ref().and_then(|it| it.resource_key.as_deref());
            if let Some(instance) = instance {
                by_instance.entry(instance).or_insert(nth);
            }
            by_key.entry(server.entry.key.as_str()).or_insert(nth);
        }
        let position = |id: &'i String| {
            let key = canonical(id);
            let found = by_instance.get(key.as_str()).or_else(|| by_key.get(key.as_str()));
            found.copied().ok_or(id.as_str())
        };
        ids.iter().map(position).collect()
    }

    /// The position of a server, by the id of its placement.
    pub(crate) fn find_placement(&self, id: Uuid) -> Option<usize> {
        let is_it = |it: &DraftServer| it.placement.as_ref().is_some_and(|it| it.id == id);
        self.servers.iter().position(is_it)
    }

    /// Skips servers whose instances have lost their allocations, except for these.
    pub(crate) fn skip_lost(&mut self, except: &BTreeSet<usize>) {
        for (nth, server) in self.stack.servers.iter_mut().enumerate() {
            let lost = server.present.as_ref().is_some_and(|it| it.holds.is_empty());
            server.absent = lost && !except.contains(&nth);
        }
    }

    /// Lets a server move, except to these hosts, and clears its reservation if it does.
    pub(crate) fn let_move(&mut self, server: usize, excluded: &HostNames) {
        if let (Some(demand), Some(target)) =
            (self.stack.servers.get_mut(server), self.servers.get_mut(server))
        {
            demand.fixed = false;
            demand.excluded.push(Arc::clone(excluded));
            target.clear_reservation = true;
        }
    }

    /// Applies the [deferred moves](DeferredMoves).
    ///
    /// # Errors
    /// The groups are invalid.
    pub(crate) fn complete(
        &mut self,
        world: &World,
        topology: &Topology,
    ) -> Result<(), GroupError> {
        match self.deferred.take() {
            None => {}
            Some(DeferredMoves::GroupsChanged { before }) => self.loosen(&before, world, topology),
            Some(DeferredMoves::AffinityMates { of, excluded }) => {
                for mate in self.stack.mates(&of)?.difference(&of) {
                    self.let_move(*mate, &excluded);
                }
            }
        }
        Ok(())
    }

    /// Lets servers move whose groups have changed. A reserved one stays on its host, but only if its new groups
    /// allow that.
    fn loosen(&mut self, before: &Stack, world: &World, topology: &Topology) {
        let changed = has_changed_rules(before, &self.stack);
        let servers = self.stack.servers.iter_mut().zip(&self.servers).zip(changed);
        for ((server, target), _) in
            servers.filter(|((server, _), changed)| *changed && server.fixed)
        {
            server.fixed = false;
            let row = target.placement.as_ref().filter(|_| target.is_reserved());
            if let Some(home) = row.and_then(|row| location(world, topology, &row.holds)) {
                server.pin_to(home.to_owned());
            }
        }
    }

    /// Returns whether the solver is needed.
    pub(crate) fn needs_turn(&self) -> bool {
        self.deferred.is_some() || self.is_open()
    }

    /// Returns whether a server needs a host.
    pub(crate) fn is_open(&self) -> bool {
        self.open_servers() > 0
    }

    /// The number of servers that need a host, as far as it is known before [`Self::complete`].
    pub(crate) fn open_servers(&self) -> usize {
        let is_open = |server: &&Server| {
            let has_place = server.present.as_ref().is_some_and(|it| !it.holds.is_empty());
            let stays = server.fixed && has_place;
            !server.absent && !stays
        };
        self.stack.servers.iter().filter(is_open).count()
    }

    /// Finds hosts for all servers. If there is no solution and unreserved servers may move, tries again with those
    /// free to move. `None`: no server needs a host.
    ///
    /// # Errors
    /// Those of [`places`].
    pub(crate) fn solve(
        &mut self,
        world: &Arc<World>,
        around: &Surroundings,
        time: &dyn SolvingTime,
    ) -> Result<Option<PlacedStack>, Failure> {
        let topology = Topology::of(world, around.racks_by_names);
        if let Err(why) = self.complete(world, &topology) {
            return Err(Failure::Invalid(self.stack.describe(why)));
        }
        if !self.is_open() {
            return Ok(None);
        }
        let first = places(world, &self.stack, around, time, !self.may_move_unreserved);
        if !self.may_move_unreserved || !matches!(first, Err(Failure::NoPlaces(_))) {
            return first.map(Some);
        }
        for (server, target) in self.stack.servers.iter_mut().zip(&self.servers) {
            server.fixed = server.fixed && target.is_reserved();
        }
        places(world, &self.stack, around, time, true).map(Some)
    }

    /// The current and previous stored groups of its servers.
    pub(crate) fn stored_groups(&self) -> Vec<Uuid> {
        let now = self.stack.groups.iter().filter_map(|group| group.stored);
        let placements = self.servers.iter().filter_map(|server| server.placement.as_ref());
        let gone = self.removed.iter().chain(&self.leaving);
        let before = placements.chain(gone).flat_map(|it| it.groups.iter().copied());
        now.chain(before).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The placements that the draft decides on. Those that are [leaving](Self::leaving) stay unchanged, so rules
    /// treat them like placements of other plans.
    pub(crate) fn decided_placements(&self) -> Vec<Uuid> {
        let placements = self.servers.iter().filter_map(|server| server.placement.as_ref());
        placements.chain(&self.removed).map(|it| it.id).collect()
    }

    /// The name of the host of each server: the chosen one, or the current one.
    pub(crate) fn hosts(
        &self,
        solution: Option<&PlacedStack>,
        world: &World,
        host_names: bool,
    ) -> Vec<Option<String>> {
        if let Some(solution) = solution {
            let places = solution.places.iter();
            return places.map(|it| it.as_ref().map(|it| it.host.clone())).collect();
        }
        let topology = Topology::of(world, host_names);
        let host = |server: &DraftServer| {
            let placement = server.placement.as_ref()?;
            location(world, &topology, &placement.holds).map(str::to_owned)
        };
        self.servers.iter().map(host).collect()
    }
}

#[cfg(test)]
pub(super) mod tests;
#[cfg(test)]
mod updates;
