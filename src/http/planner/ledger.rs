//! What a plan with places comes to in the database: rows of placements, what is held for them, and
//! what is given up.

use std::collections::{BTreeSet, HashSet};

use uuid::Uuid;

use super::draft::{Draft, Slot};
use crate::model::{Bug, Expected};
use crate::planner::group::StoredGroup;
use crate::planner::ids::canonical;
use crate::planner::stack::KeptHost;
use crate::planner::topology::Topology;
use crate::planner::{Answer, Placed, location, providers_of};
use crate::store::allocations::ConsumerClaim;
use crate::store::planner::booking::{Booking, CONSUMER_TYPE, PlacementChange, PlanChange};
use crate::store::planner::plans::{PlacementRow, PlanRow};
use crate::world::World;

/// What a placement holds, in the names clients use.
type Wants = Vec<(Uuid, String, i64)>;

/// The stored groups that a draft has to do with.
pub(super) fn groups(draft: &Draft) -> Vec<Uuid> {
    let asked = draft.stack.groups.iter().filter_map(|group| group.stored);
    let rows = draft.slots.iter().filter_map(|slot| slot.row.as_ref());
    let gone = draft.removed.iter().chain(&draft.leaving);
    let had = rows.chain(gone).flat_map(|row| row.groups.iter().copied());
    asked.chain(had).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The placements that a draft decides on. Reserved ones that are no part of the plan any more stay as
/// they are, like those of other plans.
pub(super) fn decided(draft: &Draft) -> Vec<Uuid> {
    let rows = draft.slots.iter().filter_map(|slot| slot.row.as_ref());
    rows.chain(&draft.removed).map(|row| row.id).collect()
}

/// The host of each server.
pub(super) fn hosts(
    draft: &Draft,
    answer: Option<&Answer>,
    world: &World,
    host_names: bool,
) -> Vec<Option<String>> {
    if let Some(answer) = answer {
        return answer.places.iter().map(|it| it.as_ref().map(|it| it.host.clone())).collect();
    }
    let topology = Topology::of(world, host_names);
    let host = |slot: &Slot| {
        let row = slot.row.as_ref()?;
        location(world, &topology, &row.holds).map(str::to_owned)
    };
    draft.slots.iter().map(host).collect()
}

/// Why a plan cannot be written down.
#[derive(Debug)]
pub(super) enum Unbooked {
    /// What it was made on is not there any more; what is missing.
    Changed(String),
    /// A fault of ours.
    Wrong(Bug),
}

impl From<Bug> for Unbooked {
    fn from(bug: Bug) -> Self {
        Self::Wrong(bug)
    }
}

/// What has to be written; `None`: nothing.
///
/// # Errors
/// What is held is not in the world any more, or places and servers are not as many.
pub(super) fn booking(
    draft: &Draft,
    answer: Option<&Answer>,
    world: &World,
) -> Result<Option<Booking>, Unbooked> {
    let mut ledger = Ledger::new(draft, world);
    let servers = draft.slots.len();
    if let Some(answer) = answer.filter(|answer| answer.places.len() != servers) {
        let count = answer.places.len();
        return Err(Bug::new(format!("{servers} servers have {count} places")).into());
    }
    for (nth, slot) in draft.slots.iter().enumerate() {
        let placed = answer.and_then(|answer| answer.places.get(nth)?.as_ref());
        ledger.enter(nth, slot, placed)?;
    }
    for row in &draft.removed {
        ledger.concern(&row.groups);
        ledger.removed.push(row.id);
        if row.is_hold() {
            ledger.claim(row.id, Vec::new());
        }
    }
    for row in &draft.leaving {
        let change = PlacementChange { leaving: true, ..as_it_is(row) };
        ledger.placements.push(change);
    }
    let units = answer.map(|answer| answer.units.clone()).unwrap_or_default();
    ledger.close(units)
}

/// The end of a plan: what it holds is given up, and what instances hold is theirs.
pub(super) fn end(plan: &PlanRow, placements: &[PlacementRow], stored: &[StoredGroup]) -> Booking {
    let groups: BTreeSet<Uuid> =
        placements.iter().flat_map(|row| row.groups.iter().copied()).collect();
    let groups = stored.iter().filter(|group| groups.contains(&group.id));
    let holds = placements.iter().filter(|row| row.is_hold());
    Booking {
        plan: PlanChange::Delete(plan.id, plan.generation),
        groups: groups.map(|group| (group.id, group.generation)).collect(),
        placements: Vec::new(),
        removed: Vec::new(),
        claims: holds.map(|row| claim(plan, row.id, Vec::new())).collect(),
        units: Vec::new(),
        unit_providers: Vec::new(),
        caps: None,
    }
}

fn claim(plan: &PlanRow, consumer: Uuid, wants: Wants) -> ConsumerClaim {
    ConsumerClaim {
        consumer,
        expected: Expected::Any,
        project: plan.project.clone(),
        user: plan.user.clone(),
        consumer_type: Some(CONSUMER_TYPE.to_owned()),
        wants,
    }
}

struct Ledger<'l> {
    draft: &'l Draft,
    world: &'l World,
    groups: BTreeSet<Uuid>,
    placements: Vec<PlacementChange>,
    removed: Vec<Uuid>,
    claims: Vec<ConsumerClaim>,
    /// The consumers of the claims.
    claiming: HashSet<Uuid>,
}

impl<'l> Ledger<'l> {
    fn new(draft: &'l Draft, world: &'l World) -> Self {
        Self {
            draft,
            world,
            groups: BTreeSet::new(),
            placements: Vec::new(),
            removed: Vec::new(),
            claims: Vec::new(),
            claiming: HashSet::new(),
        }
    }

    /// Whoever else uses these groups has to look again.
    fn concern<'g>(&mut self, groups: impl IntoIterator<Item = &'g Uuid>) {
        self.groups.extend(groups);
    }

    fn claim(&mut self, consumer: Uuid, wants: Wants) {
        self.claiming.insert(consumer);
        self.claims.push(claim(&self.draft.plan, consumer, wants));
    }

    /// Enters one server with its place.
    fn enter(&mut self, nth: usize, slot: &Slot, placed: Option<&Placed>) -> Result<(), Unbooked> {
        let groups: Option<Vec<Uuid>> = placed.map(|it| it.groups.iter().copied().collect());
        let position = i32::try_from(nth)
            .map_err(|_| Bug::new(format!("server {nth} of a plan has no position")))?;
        let Some(row) = &slot.row else {
            let Some(wants) = placed.and_then(|placed| placed.wants.clone()) else { return Ok(()) };
            let change = begin(slot, position, groups.unwrap_or_default());
            self.concern(&change.groups);
            self.claim(change.id, wants);
            self.placements.push(change);
            return Ok(());
        };
        let mut change = as_it_is(row);
        change.position = position;
        change.leaving = false;
        change.name.clone_from(&slot.entry.name);
        change.metadata = serde_json::Value::from(slot.entry.metadata.clone()).to_string();
        if let Some(groups) = groups {
            change.groups = groups;
        }
        if slot.resource_id.is_some() {
            change.resource_id.clone_from(&slot.resource_id);
            change.resource_key = slot.resource_id.as_deref().map(canonical);
        }
        let wants =
            placed.and_then(|placed| placed.wants.clone()).filter(|wants| !wants.is_empty());
        let moved = placed.is_some_and(|placed| placed.moved);
        let resized = self.draft.stack.servers.get(nth).is_some_and(|server| server.resized);
        let new = match wants {
            Some(wants)
                if moved || resized || row.holds.is_empty() || wants != self.held(row)? =>
            {
                Some(wants)
            }
            _ => None,
        };
        if let Some(wants) = new {
            self.claim(row.id, wants);
            change.consumer = row.id;
            change.ticket = None;
            if moved && slot.unlock {
                change.reserved = Some(false);
            }
            self.concern(row.groups.iter().chain(&change.groups));
        } else if change.groups != row.groups {
            self.concern(row.groups.iter().chain(&change.groups));
        }
        if slot.reserve {
            self.reserve(row, &mut change)?;
        }
        if is_change(row, &change) || self.claiming.contains(&row.id) {
            self.placements.push(change);
        }
        Ok(())
    }

    /// What is held for the plan becomes a ticket for the instance.
    fn reserve(
        &mut self,
        row: &PlacementRow,
        change: &mut PlacementChange,
    ) -> Result<(), Unbooked> {
        change.reserved = Some(true);
        let instance = change.resource_id.as_deref().and_then(instance);
        let instance = instance.filter(|instance| change.consumer != *instance);
        if change.consumer != change.id || instance.is_none() {
            return Ok(());
        }
        change.ticket = instance;
        if !self.claiming.contains(&row.id) {
            // Claimed once more, so that it is known to be there when the ticket is given.
            let held = self.held(row)?;
            self.claim(row.id, held);
        }
        Ok(())
    }

    /// What a placement holds.
    fn held(&self, row: &PlacementRow) -> Result<Wants, Unbooked> {
        let want = |(provider, class, amount): &(_, _, i64)| {
            let provider = self.world.provider_by_id(*provider)?.uuid();
            Some((provider, self.world.class_name(*class)?.to_owned(), *amount))
        };
        let gone = || Unbooked::Changed(format!("what is held for {} has gone", row.name));
        row.holds.iter().map(|hold| want(hold).ok_or_else(gone)).collect()
    }

    fn close(self, units: Vec<KeptHost>) -> Result<Option<Booking>, Unbooked> {
        let document = self.draft.document.text()?;
        let plan = PlanRow { document, ..self.draft.plan.clone() };
        let same =
            self.draft.exists && !self.draft.renamed && plan.document == self.draft.plan.document;
        if same && self.placements.is_empty() && self.removed.is_empty() {
            return Ok(None);
        }
        let generations = self.draft.generations.iter().copied();
        let groups = generations.filter(|(group, _)| self.groups.contains(group)).collect();
        let units: Vec<KeptHost> =
            units.into_iter().filter(|unit| self.groups.contains(&unit.group)).collect();
        let exists = self.draft.exists;
        Ok(Some(Booking {
            plan: if exists { PlanChange::Update(plan) } else { PlanChange::Create(plan) },
            groups,
            placements: self.placements,
            removed: self.removed,
            claims: self.claims,
            unit_providers: providers_of(self.world, &units),
            units,
            caps: None,
        }))
    }
}

/// The consumer that an instance is, if its id can be one's.
fn instance(resource_id: &str) -> Option<Uuid> {
    Uuid::parse_str(&canonical(resource_id)).ok()
}

/// The placement of a server that is new.
fn begin(slot: &Slot, position: i32, groups: Vec<Uuid>) -> PlacementChange {
    let id = Uuid::new_v4();
    PlacementChange {
        id,
        seen: None,
        held: false,
        position,
        orchestration_id: slot.entry.id.clone(),
        orchestration_key: slot.entry.key.clone(),
        name: slot.entry.name.clone(),
        resource_id: slot.resource_id.clone(),
        resource_key: slot.resource_id.as_deref().map(canonical),
        reserved: None,
        consumer: id,
        // An instance that is known already need not be reserved for.
        ticket: slot.resource_id.as_deref().and_then(instance),
        metadata: serde_json::Value::from(slot.entry.metadata.clone()).to_string(),
        leaving: false,
        groups,
    }
}

fn as_it_is(row: &PlacementRow) -> PlacementChange {
    PlacementChange {
        id: row.id,
        seen: Some((row.consumer, row.ticket)),
        held: row.is_hold() && !row.holds.is_empty(),
        position: row.position,
        orchestration_id: row.orchestration_id.clone(),
        orchestration_key: row.orchestration_key.clone(),
        name: row.name.clone(),
        resource_id: row.resource_id.clone(),
        resource_key: row.resource_key.clone(),
        reserved: row.reserved,
        consumer: row.consumer,
        ticket: row.ticket,
        metadata: row.metadata.clone(),
        leaving: row.leaving,
        groups: row.groups.clone(),
    }
}

fn is_change(row: &PlacementRow, change: &PlacementChange) -> bool {
    let now = as_it_is(row);
    let key = |it: &PlacementChange| {
        (
            (it.position, it.name.clone(), it.resource_key.clone(), it.reserved),
            (it.consumer, it.ticket, it.metadata.clone(), it.groups.clone(), it.leaving),
        )
    };
    key(&now) != key(change)
}
