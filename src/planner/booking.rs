//! The writes that store or delete a plan: the plan and its placements, the capacity held for them, and the units
//! that exclusivity groups take. [`write_draft`] derives them from a [`Draft`] and the chosen hosts, [`delete`]
//! from a stored plan. The store applies them in one transaction.

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::draft::{Draft, DraftServer};
use super::draw::{self, Amounts};
use super::group::StoredGroup;
use super::ids::canonical;
use super::placement::{Placed, PlacedStack, providers_of};
use super::plan::{Placement, Plan};
use crate::model::{Bug, ExclusiveHost, Refusal};
use crate::world::World;

/// A change to a plan and its holds, to be written atomically.
#[derive(Clone, Debug)]
pub struct BookingPlan {
    /// The new plan, with the generation that was read.
    pub plan: Plan,
    /// The change to the plan itself.
    pub write: PlanWrite,
    /// The stored groups concerned, each with the generation at which hosts were chosen.
    pub groups: Vec<(Uuid, i64)>,
    /// Placements to create or to write.
    pub placements: Vec<PlacementWrite>,
    /// Placements to delete.
    pub removed: Vec<Uuid>,
    /// The amounts to hold for placements, each by a consumer with the id of the placement. Without amounts, the
    /// hold is released.
    pub holds: Vec<(Uuid, Amounts)>,
    /// Hosts of the units that groups take.
    pub units: Vec<ExclusiveHost>,
    /// Every provider of the hosts in those units.
    pub unit_providers: Vec<Uuid>,
}

/// A change to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanWrite {
    /// Create it.
    Create,
    /// Update it.
    Update,
    /// Delete it.
    Delete,
}

/// A placement to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementWrite {
    /// The new placement, except for `holds`, which are as read. If the consumer that is to take over the hold
    /// (`ticket`) already has allocations on the host of the hold, it takes over at once.
    pub new: Placement,
    /// The `consumer` and `ticket` that were read; `None`: the placement is new.
    pub seen: Option<(Uuid, Option<Uuid>)>,
}

impl BookingPlan {
    /// Returns the ids of placements by the orchestration keys of their servers.
    pub(crate) fn placement_ids(&self) -> HashMap<&str, Uuid> {
        let ids = self.placements.iter();
        ids.map(|it| (it.new.orchestration_key.as_str(), it.new.id)).collect()
    }
}

impl PlacementWrite {
    /// A stored placement as it is.
    fn unchanged(row: &Placement) -> Self {
        Self { new: row.clone(), seen: Some((row.consumer, row.ticket)) }
    }

    /// Returns whether it belonged to an instance when it was read, and no longer does. The instance keeps its
    /// allocations.
    pub fn leaves_instance(&self) -> bool {
        self.seen
            .is_some_and(|(consumer, _)| consumer != self.new.id && consumer != self.new.consumer)
    }

    /// Returns whether the plan held capacity for it when it was read.
    pub fn was_held(&self) -> bool {
        self.seen.is_some_and(|(consumer, _)| consumer == self.new.id) && !self.new.holds.is_empty()
    }
}

/// Returns whether a refused booking may succeed when hosts are chosen again in the current state. If no hosts were
/// `chosen`, the same capacity would be requested again.
#[expect(clippy::wildcard_enum_match_arm, reason = "every other refusal is final")]
pub(crate) fn may_succeed_again(refusal: &Refusal, chosen: bool) -> bool {
    match refusal {
        Refusal::CapacityExceeded { .. }
        | Refusal::ConstraintsViolated { .. }
        | Refusal::InvalidInventory { .. } => chosen,
        Refusal::AllocationProviderNotFound(_)
        | Refusal::ClassNotFound(_)
        | Refusal::Exclusive { .. }
        | Refusal::UnitTaken(_)
        | Refusal::PlanChanged => true,
        _ => false,
    }
}

/// A reason why there is no booking.
#[derive(Debug)]
pub(crate) enum BookingError {
    /// The world has changed since the plan was read; the missing item.
    Stale(String),
    /// The program is at fault.
    Bug(Bug),
}

impl From<Bug> for BookingError {
    fn from(bug: Bug) -> Self {
        Self::Bug(bug)
    }
}

/// Derives the booking of a draft with the hosts in `solution`, which is `None` if no server needed a host. `None`:
/// there is nothing to write.
///
/// # Errors
/// A provider with a hold is no longer in the world, or servers and places differ in number.
pub(crate) fn write_draft(
    draft: &Draft,
    solution: Option<&PlacedStack>,
    world: &World,
) -> Result<Option<BookingPlan>, BookingError> {
    let mut booking = Builder::new(draft, world);
    let servers = draft.servers.len();
    if let Some(solution) = solution.filter(|solution| solution.places.len() != servers) {
        let count = solution.places.len();
        return Err(Bug::new(format!("{servers} servers have {count} places")).into());
    }
    for (nth, server) in draft.servers.iter().enumerate() {
        let placed = solution.and_then(|solution| solution.places.get(nth)?.as_ref());
        booking.add_server(nth, server, placed)?;
    }
    for row in &draft.removed {
        booking.groups.extend(&row.groups);
        booking.removed.push(row.id);
        if row.is_hold() {
            booking.hold(row.id, Vec::new());
        }
    }
    for row in &draft.leaving {
        let mut write = PlacementWrite::unchanged(row);
        write.new.leaving = true;
        booking.placements.push(write);
    }
    let units = solution.map(|solution| solution.units.clone()).unwrap_or_default();
    booking.finish(units)
}

/// Derives the booking that deletes a plan. Its holds are released; instances keep their allocations.
pub(crate) fn delete(plan: &Plan, placements: &[Placement], stored: &[StoredGroup]) -> BookingPlan {
    let groups: BTreeSet<Uuid> =
        placements.iter().flat_map(|row| row.groups.iter().copied()).collect();
    let groups = stored.iter().filter(|group| groups.contains(&group.id));
    let holds = placements.iter().filter(|row| row.is_hold());
    BookingPlan {
        plan: plan.clone(),
        write: PlanWrite::Delete,
        groups: groups.map(|group| (group.id, group.generation)).collect(),
        placements: Vec::new(),
        removed: Vec::new(),
        holds: holds.map(|row| (row.id, Vec::new())).collect(),
        units: Vec::new(),
        unit_providers: Vec::new(),
    }
}

/// Builds a booking.
struct Builder<'b> {
    draft: &'b Draft,
    world: &'b World,
    /// Stored groups that servers join, leave, or move in: other plans that use them are planned again.
    groups: BTreeSet<Uuid>,
    placements: Vec<PlacementWrite>,
    removed: Vec<Uuid>,
    holds: Vec<(Uuid, Amounts)>,
    /// The placements of `holds`.
    held: HashSet<Uuid>,
}

impl<'b> Builder<'b> {
    fn new(draft: &'b Draft, world: &'b World) -> Self {
        Self {
            draft,
            world,
            groups: BTreeSet::new(),
            placements: Vec::new(),
            removed: Vec::new(),
            holds: Vec::new(),
            held: HashSet::new(),
        }
    }

    fn hold(&mut self, placement: Uuid, amounts: Amounts) {
        self.held.insert(placement);
        self.holds.push((placement, amounts));
    }

    /// Adds one server with its chosen host.
    fn add_server(
        &mut self,
        nth: usize,
        server: &DraftServer,
        placed: Option<&Placed>,
    ) -> Result<(), BookingError> {
        let groups: Option<Vec<Uuid>> = placed.map(|it| it.groups.iter().copied().collect());
        let position = i32::try_from(nth)
            .map_err(|_| Bug::new(format!("server {nth} of a plan has no position")))?;
        let Some(row) = &server.placement else {
            let Some(wants) = placed.and_then(|placed| placed.wants.clone()) else { return Ok(()) };
            let new = new_placement(&self.draft.plan, server, position, groups.unwrap_or_default());
            self.groups.extend(&new.groups);
            let planned_on = placed.map(|placed| placed.root);
            let new = Placement { planned_on, ..new };
            self.hold(new.id, wants);
            self.placements.push(PlacementWrite { new, seen: None });
            return Ok(());
        };
        let mut write = PlacementWrite::unchanged(row);
        let new = &mut write.new;
        new.position = position;
        new.leaving = false;
        new.name.clone_from(&server.entry.name);
        new.metadata = serde_json::Value::from(server.entry.metadata.clone()).to_string();
        if let Some(groups) = groups {
            new.groups = groups;
        }
        if server.resource_id.is_some() {
            new.resource_id.clone_from(&server.resource_id);
            new.resource_key = server.resource_id.as_deref().map(canonical);
        }
        let wants =
            placed.and_then(|placed| placed.wants.clone()).filter(|wants| !wants.is_empty());
        let moved = placed.is_some_and(|placed| placed.moved);
        let resized = self.draft.stack.servers.get(nth).is_some_and(|server| server.resized);
        let claimed = match wants {
            Some(wants)
                if moved
                    || resized
                    || row.holds.is_empty()
                    || !are_equal(&wants, &self.present_amounts(row)?) =>
            {
                Some(wants)
            }
            _ => None,
        };
        if claimed.is_some() || new.groups != row.groups {
            self.groups.extend(row.groups.iter().chain(&new.groups));
        }
        if let Some(wants) = claimed {
            self.hold(row.id, wants);
            new.consumer = row.id;
            new.planned_on = placed.map(|placed| placed.root);
            // A migrated server is running, and its scheduler reserves it again.
            new.ticket = row.ticket.filter(|_| !server.clear_reservation);
            if moved && server.clear_reservation {
                new.reserved = Some(false);
            }
        }
        if server.reserve {
            self.reserve(row, new)?;
        }
        if is_change(row, new) || self.held.contains(&row.id) {
            self.placements.push(write);
        }
        Ok(())
    }

    /// Marks a placement as reserved. If the plan holds its capacity, the instance gets a ticket to take over the
    /// hold.
    fn reserve(&mut self, row: &Placement, new: &mut Placement) -> Result<(), BookingError> {
        new.reserved = Some(true);
        let instance = new.resource_id.as_deref().and_then(instance);
        let instance = instance.filter(|instance| new.consumer != *instance);
        if !new.is_hold() || instance.is_none() {
            return Ok(());
        }
        new.ticket = instance;
        if !self.held.contains(&row.id) {
            // Claims the same amounts again, so that the hold certainly exists when the ticket is issued.
            let held = self.present_amounts(row)?;
            self.hold(row.id, held);
        }
        Ok(())
    }

    /// The amounts that the consumer of a placement currently holds.
    fn present_amounts(&self, row: &Placement) -> Result<Amounts, BookingError> {
        let gone = || BookingError::Stale(format!("the hold of {} is gone", row.name));
        row.holds.iter().map(|held| draw::amount_of(self.world, held).ok_or_else(gone)).collect()
    }

    fn finish(self, units: Vec<ExclusiveHost>) -> Result<Option<BookingPlan>, BookingError> {
        let document = self.draft.document.text()?;
        let plan = Plan { document, ..self.draft.plan.clone() };
        let same =
            self.draft.exists && !self.draft.renamed && plan.document == self.draft.plan.document;
        if same && self.placements.is_empty() && self.removed.is_empty() {
            return Ok(None);
        }
        let generations = self.draft.generations.iter().copied();
        let groups = generations.filter(|(group, _)| self.groups.contains(group)).collect();
        let units: Vec<ExclusiveHost> =
            units.into_iter().filter(|unit| self.groups.contains(&unit.group)).collect();
        Ok(Some(BookingPlan {
            plan,
            write: if self.draft.exists { PlanWrite::Update } else { PlanWrite::Create },
            groups,
            placements: self.placements,
            removed: self.removed,
            holds: self.holds,
            unit_providers: providers_of(self.world, &units),
            units,
        }))
    }
}

/// Returns whether two consumers hold the same, in any order.
fn are_equal(one: &Amounts, other: &Amounts) -> bool {
    let sorted = |amounts: &Amounts| {
        let mut sorted = amounts.clone();
        sorted.sort_unstable();
        sorted
    };
    sorted(one) == sorted(other)
}

/// The consumer of an instance, if its id is a UUID.
fn instance(resource_id: &str) -> Option<Uuid> {
    Uuid::parse_str(&canonical(resource_id)).ok()
}

/// Creates the placement of a new server.
fn new_placement(plan: &Plan, server: &DraftServer, position: i32, groups: Vec<Uuid>) -> Placement {
    let id = Uuid::new_v4();
    Placement {
        id,
        plan: plan.id,
        project: plan.project.clone(),
        position,
        orchestration_id: server.entry.id.clone(),
        orchestration_key: server.entry.key.clone(),
        name: server.entry.name.clone(),
        resource_id: server.resource_id.clone(),
        resource_key: server.resource_id.as_deref().map(canonical),
        reserved: None,
        consumer: id,
        // The request may name the instance of a new server, which then needs no reservation.
        ticket: server.resource_id.as_deref().and_then(instance),
        metadata: serde_json::Value::from(server.entry.metadata.clone()).to_string(),
        leaving: false,
        groups,
        planned_on: None,
        holds: Vec::new(),
    }
}

/// Returns whether a placement has to be written. Another spelling of the same instance is no change.
fn is_change(row: &Placement, new: &Placement) -> bool {
    Placement { resource_id: row.resource_id.clone(), ..new.clone() } != *row
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use uuid::Uuid;

    use super::{PlanWrite, delete, may_succeed_again, write_draft};
    use crate::model::{ProviderId, Refusal};
    use crate::planner::change::PlanChange;
    use crate::planner::draft::Draft;
    use crate::planner::draft::tests::{current, servers};
    use crate::planner::plan::Plan;
    use crate::planner::{Placed, PlacedStack};
    use crate::solver::Cost;
    use crate::world::World;

    const PROVIDER: Uuid = Uuid::from_u128(3);

    fn solution(count: usize) -> PlacedStack {
        let server = Placed {
            host: "h".to_owned(),
            root: ProviderId(3),
            wants: Some(vec![(PROVIDER, "VCPU".to_owned(), 1)]),
            moved: true,
            groups: BTreeSet::new(),
        };
        let places = vec![Some(server); count];
        PlacedStack {
            places,
            units: Vec::new(),
            broken: Vec::new(),
            cost: Cost::default(),
            bound: Cost::default(),
            stopped: None,
            alternatives: Vec::new(),
        }
    }

    #[test]
    fn a_new_plan_has_a_placement_and_a_hold_for_each_server() {
        let stored = current(servers(2));
        let plan = Plan::new("p", "p", "project", "user");
        let draft = Draft::new(plan, stored.document, &stored.template, &[]).unwrap();
        let booking = write_draft(&draft, Some(&solution(2)), &World::default()).unwrap().unwrap();
        assert_eq!(booking.write, PlanWrite::Create);
        let placements: Vec<Uuid> = booking.placements.iter().map(|it| it.new.id).collect();
        let held: Vec<Uuid> = booking.holds.iter().map(|hold| hold.0).collect();
        assert_eq!((placements.len(), &placements), (2, &held));
        assert!(booking.placements.iter().all(|it| it.seen.is_none() && it.new.is_hold()));
        assert_eq!(booking.holds[0].1, [(PROVIDER, "VCPU".to_owned(), 1)]);
    }

    #[test]
    fn an_answer_has_a_place_for_each_server() {
        let draft = current(servers(2)).draft().unwrap();
        assert!(write_draft(&draft, Some(&solution(1)), &World::default()).is_err());
    }

    #[test]
    fn unchanged_rows_are_not_written() {
        let mut current = current(servers(2));
        current.plan.document = current.document.text().unwrap();
        let draft = current.draft().unwrap();
        assert!(write_draft(&draft, None, &World::default()).unwrap().is_none());
        let renamed = Draft { renamed: true, ..draft };
        let booking = write_draft(&renamed, None, &World::default()).unwrap().unwrap();
        assert_eq!(booking.write, PlanWrite::Update);
        assert_eq!((booking.placements.len(), booking.holds.len()), (0, 0));
    }

    #[test]
    fn a_reservation_gives_the_instance_a_ticket_for_the_hold() {
        let current = current(servers(2));
        let (placement, instance) = (current.placements[0].id, Uuid::from_u128(5));
        let reserve = PlanChange::Reserve {
            placement,
            resource_id: Some(instance.to_string()),
            locations: None,
            replan: false,
        };
        let draft = reserve.draft(&current, None, &[]).unwrap();
        let booking = write_draft(&draft, Some(&solution(2)), &World::default()).unwrap().unwrap();
        let written = booking.placements.iter().find(|it| it.new.id == placement).unwrap();
        assert_eq!((written.new.reserved, written.new.ticket), (Some(true), Some(instance)));
        assert_eq!(written.seen, Some((placement, None)));
    }

    #[test]
    fn a_plan_that_ends_gives_up_its_holds_and_no_instance_of_its_own() {
        let mut current = current(servers(2));
        current.placements[1].consumer = Uuid::from_u128(5);
        let booking = delete(&current.plan, &current.placements, &[]);
        assert_eq!(booking.write, PlanWrite::Delete);
        let given_up: Vec<Uuid> = booking.holds.iter().map(|hold| hold.0).collect();
        assert_eq!(given_up, [current.placements[0].id]);
        assert!(booking.holds[0].1.is_empty());
    }

    #[test]
    fn hosts_are_chosen_again_only_if_there_is_a_choice() {
        let (provider, class) = (PROVIDER.to_string(), "VCPU".to_owned());
        let full = Refusal::CapacityExceeded { provider, class };
        assert!(may_succeed_again(&full, true) && !may_succeed_again(&full, false));
        assert!(may_succeed_again(&Refusal::PlanChanged, false));
        assert!(!may_succeed_again(&Refusal::ResourceTaken("i".to_owned()), true));
    }
}
