//! What requests want of a plan: each makes a draft of the plan as it stands.

use std::collections::HashSet;
use std::sync::Arc;

use super::document::Document;
use super::draft::{Current, Draft, Pending};
use super::problem::Problem;
use super::schema::Object;
use crate::model::Bug;
use crate::planner::flavor::Flavor;
use crate::planner::ids::canonical;
use crate::planner::stack::HostNames;

/// What a request wants of a plan that exists.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    /// The same plan once more: it is as good as new if it is within these locations.
    Repeat {
        /// As the request names them.
        locations: Option<Vec<String>>,
    },
    /// These resources beside those there are.
    Add {
        /// What the client thinks is there.
        resources: Object,
        /// What is to come, or to change.
        update: Object,
    },
    /// These resources and no others.
    Replace(Object),
    /// Another host for one server.
    Migrate {
        /// The instance, or the orchestrator's id.
        server: String,
        /// Hosts that it must not go to.
        excluded: Vec<String>,
        /// Hosts that it may go to.
        locations: Option<Vec<String>>,
        /// Whether those go along that must be with it.
        with_mates: bool,
    },
    /// A reservation.
    Reserve {
        /// The placement.
        placement: uuid::Uuid,
        /// The instance.
        resource_id: Option<String>,
        /// Hosts that it may be on.
        locations: Option<Vec<String>>,
        /// Whether it is planned anew in any case.
        replan: bool,
    },
    /// One placement less.
    Drop(uuid::Uuid),
}

impl Wish {
    /// The plan as it is to be; `document` is [what it is asked for](Self::document).
    pub(super) fn draft(
        &self,
        current: &Current,
        document: Option<Document>,
        flavors: &[Flavor],
    ) -> Result<Draft, Problem> {
        match self {
            Self::Repeat { locations } => repeat(current, locations.as_ref()),
            Self::Add { .. } | Self::Replace(_) => {
                let missing = || Bug::new("a plan gets other resources, and nobody says which");
                change(current, document.ok_or_else(missing)?, flavors)
            }
            Self::Migrate { server, excluded, locations, with_mates } => {
                let mut draft = migrate(current, server, excluded, *with_mates)?;
                if let (Some(at), Some(list)) = (draft.find(server), locations) {
                    limit(&mut draft, at, list);
                }
                Ok(draft)
            }
            Self::Reserve { placement, resource_id, locations, replan } => {
                let mut draft = current.draft()?;
                let missing = || Problem::not_found("Placement not found");
                let at = draft.find_placement(*placement).ok_or_else(missing)?;
                let forsaken = forsake(&mut draft, at, resource_id.as_deref());
                let replan = *replan || forsaken;
                reserve(&mut draft, current, at, locations.as_ref(), replan);
                if let (Some(slot), Some(_)) = (draft.slots.get_mut(at), resource_id) {
                    slot.resource_id.clone_from(resource_id);
                }
                Ok(draft)
            }
            Self::Drop(placement) => drop_one(current, *placement),
        }
    }

    /// What the plan is asked for, if the request says: the flavors in it have to be looked up.
    pub(super) fn document(&self, current: &Current) -> Option<Document> {
        let mut document = current.document.clone();
        match self {
            Self::Add { resources, update } => {
                // What the plan has is as the plan has it.
                document.put_new(resources);
                document.put(update);
            }
            Self::Replace(resources) => document.resources.clone_from(resources),
            Self::Repeat { .. } | Self::Migrate { .. } | Self::Reserve { .. } | Self::Drop(_) => {
                return None;
            }
        }
        Some(document)
    }
}

fn repeat(current: &Current, locations: Option<&Vec<String>>) -> Result<Draft, Problem> {
    let document = match locations {
        Some(_) => Document { locations: locations.cloned(), ..current.document.clone() },
        None => current.document.clone(),
    };
    document.check_length()?;
    let mut draft = current.reduced(document, &current.template)?;
    let Some(locations) = locations else { return Ok(draft) };
    let locations: HashSet<&String> = locations.iter().collect();
    let is_within = |slot: &super::draft::Slot| {
        let at = slot.row.as_ref().and_then(|row| current.location(row));
        at.is_some_and(|at| locations.contains(&at))
    };
    if draft.slots.iter().all(is_within) {
        return Ok(draft);
    }
    for (server, slot) in draft.stack.servers.iter_mut().zip(&draft.slots) {
        server.fixed = slot.is_reserved();
    }
    Ok(draft)
}

/// The plan with other resources. Who is there already stays, unless it is to be another size or
/// elsewhere; only if there is no other way do those give way that nobody has reserved.
fn change(current: &Current, mut document: Document, flavors: &[Flavor]) -> Result<Draft, Problem> {
    let template = document.template()?;
    document.measure(&template, &current.template, flavors)?;
    let draft = current.changed(document, &template)?;
    Ok(Draft { may_give_way: true, ..draft })
}

fn migrate(
    current: &Current,
    server: &str,
    excluded: &[String],
    with_mates: bool,
) -> Result<Draft, Problem> {
    let mut draft = current.draft()?;
    let at = draft.find(server).ok_or_else(|| {
        Problem::bad_request(format!("Valet error: Unknown resource or orchestration id: {server}"))
    })?;
    draft.leave_lost(Some(at));
    let excluded: HostNames = Arc::new(excluded.iter().cloned().collect());
    draft.moves(at, &excluded);
    let home = draft.slots.get(at).and_then(|slot| slot.row.as_ref());
    let home = home.and_then(|row| current.location(row));
    if let (Some(server), Some(home)) = (draft.stack.servers.get_mut(at), home) {
        server.excluded.push(Arc::new(HashSet::from([home])));
    }
    if with_mates {
        draft.pending = Some(Pending::Mates { of: at, excluded });
    }
    Ok(draft)
}

/// Whether a place is needed because the server is another instance than the one that is there, whose
/// place is its own.
fn forsake(draft: &mut Draft, at: usize, resource_id: Option<&str>) -> bool {
    let row = draft.slots.get(at).and_then(|slot| slot.row.as_ref());
    let is_other = row.is_some_and(|row| {
        !row.is_hold() && resource_id.is_some_and(|id| row.resource_key != Some(canonical(id)))
    });
    if let Some(server) = draft.stack.servers.get_mut(at).filter(|_| is_other) {
        server.present = None;
        server.fixed = false;
        server.resized = true;
        server.absent = false;
    }
    is_other
}

fn reserve(
    draft: &mut Draft,
    current: &Current,
    at: usize,
    locations: Option<&Vec<String>>,
    replan: bool,
) {
    draft.leave_lost(Some(at));
    let Some(slot) = draft.slots.get_mut(at) else { return };
    slot.reserve = true;
    let place = slot.row.as_ref().and_then(|row| current.location(row));
    let fits = |place: &String| locations.is_none_or(|list| list.contains(place));
    if !replan && place.as_ref().is_some_and(fits) {
        return;
    }
    for (nth, server) in draft.stack.servers.iter_mut().enumerate() {
        let reserved = draft.slots.get(nth).is_some_and(super::draft::Slot::is_reserved);
        server.fixed = server.fixed && (reserved && nth != at);
    }
    if let Some(list) = locations {
        limit(draft, at, list);
    }
}

/// A server may be on these hosts and no others. They are those that are left when all other filters
/// have spoken, so what the plan was once told does not count any more.
fn limit(draft: &mut Draft, at: usize, locations: &[String]) {
    if let Some(server) = draft.stack.servers.get_mut(at) {
        server.locations = vec![Arc::new(locations.iter().cloned().collect())];
    }
}

fn drop_one(current: &Current, placement: uuid::Uuid) -> Result<Draft, Problem> {
    if let Some(row) = current.leaving.iter().find(|it| it.id == placement) {
        let mut draft = current.draft()?;
        draft.leave_lost(None);
        return Ok(Draft { removed: vec![row.clone()], ..draft });
    }
    let row = current.placements.iter().find(|it| it.id == placement);
    let row = row.ok_or_else(|| Problem::not_found("Placement not found"))?;
    let mut document = current.document.clone();
    let entry = current.template.servers.iter().find(|it| it.key == row.orchestration_key);
    if let Some(entry) = entry {
        document.remove(entry);
    }
    let template = document.template()?;
    let mut draft = current.reduced(document, &template)?;
    draft.leave_lost(None);
    // Whoever takes a placement away means it, reserved or not.
    Ok(Draft { removed: vec![row.clone()], leaving: Vec::new(), ..draft })
}
