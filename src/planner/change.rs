//! Changes that requests make to a stored plan. Each turns the [current plan](CurrentPlan) into the [`Draft`] of
//! its desired state.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::demands::BANDWIDTH;
use super::difference::{StackRequest, first_difference};
use super::document::Document;
use super::draft::{CurrentPlan, DeferredMoves, Draft, DraftServer};
use super::flavor::Flavor;
use super::ids::{canonical, same};
use super::json::Object;
use super::plan::Plan;
use super::policy::StoredLevel;
use super::rejection::Rejection;
use super::stack::HostNames;
use crate::model::{Bug, Level, PlacementPolicy, traits};
use crate::world::World;

/// A change to a stored plan.
#[derive(Clone, Debug)]
pub(crate) enum PlanChange {
    /// `POST /v1/plans` for a stack that has a plan. The plan must equal the request: nothing changes if all
    /// servers are within the locations; otherwise all unreserved servers are placed again.
    Repeat(Arc<StackRequest>),
    /// `PUT /v1/plans/{plan}` without an action: adds resources.
    Add {
        /// The id of the stack, which must be that of the plan.
        stack_id: String,
        /// Resources that the client expects to exist; missing ones are added.
        resources: Object,
        /// Resources to add or to replace.
        update: Object,
        /// The new policy; `None`: that of the plan.
        policy: Option<PlacementPolicy>,
        /// Whether servers may leave their hosts whose instances have arrived.
        may_migrate: bool,
    },
    /// Action `update`: these resources replace all resources of the plan.
    Replace {
        /// The resources.
        resources: Object,
        /// The new policy; `None`: that of the plan.
        policy: Option<PlacementPolicy>,
        /// Whether servers may leave their hosts whose instances have arrived.
        may_migrate: bool,
    },
    /// Action `migrate`: servers move to other hosts.
    Migrate {
        /// The instances, or their orchestration ids.
        servers: Vec<String>,
        /// Hosts to avoid.
        excluded: Vec<String>,
        /// Their new hosts.
        to: Destinations,
        /// Whether the other servers of their affinity groups move with them.
        with_mates: bool,
    },
    /// `POST /v1/placements/{placement}`: reserves a placement.
    Reserve {
        /// The placement.
        placement: Uuid,
        /// The instance for which it is reserved.
        resource_id: Option<String>,
        /// Allowed hosts; `None`: any.
        locations: Option<Vec<String>>,
        /// Whether to choose a host again even if the current one is allowed.
        replan: bool,
    },
    /// `DELETE /v1/placements/{placement}`: removes one server.
    Remove(Uuid),
}

/// The new hosts of servers that move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destinations {
    /// Any hosts.
    Any,
    /// Hosts of a list, whatever the locations of the plan are.
    Among(Vec<String>),
    /// For each server, in their order, its host.
    Each(Vec<String>),
}

impl PlanChange {
    /// The plan after the change; `document` is [the document after the change](Self::document), and `flavors` are
    /// those that it names.
    ///
    /// # Errors
    /// The reason why the change is impossible.
    pub(crate) fn draft(
        &self,
        current: &CurrentPlan,
        document: Option<Document>,
        flavors: &[Flavor],
    ) -> Result<Draft, Rejection> {
        match self {
            Self::Repeat(request) => repeat(current, request),
            Self::Add { may_migrate, .. } | Self::Replace { may_migrate, .. } => {
                let missing = || Bug::new("a change of resources has no document");
                let mut draft = replace(current, document.ok_or_else(missing)?, flavors)?;
                if !may_migrate {
                    pin_instances(&mut draft, current);
                }
                Ok(draft)
            }
            Self::Migrate { servers, excluded, to, with_mates } => {
                migrate(current, servers, excluded, to, *with_mates)
            }
            Self::Reserve { placement, resource_id, locations, replan } => {
                let mut draft = current.draft()?;
                let at = draft.find_placement(*placement).ok_or(Rejection::PlacementNotFound)?;
                let replaced = replace_instance(&mut draft, at, resource_id.as_deref());
                let replan = *replan || replaced;
                reserve(&mut draft, current, at, locations.as_ref(), replan);
                if let (Some(server), Some(_)) = (draft.servers.get_mut(at), resource_id) {
                    server.resource_id.clone_from(resource_id);
                }
                Ok(draft)
            }
            Self::Remove(placement) => remove(current, *placement),
        }
    }

    /// The document after the change, if the change concerns resources. Its flavors have to be looked up before a
    /// draft can be made.
    ///
    /// # Errors
    /// `Invalid`: the request is for another stack.
    pub(crate) fn document(&self, current: &CurrentPlan) -> Result<Option<Document>, Rejection> {
        let mut document = current.document.clone();
        match self {
            Self::Add { stack_id, resources, update, .. } => {
                if !same(stack_id, &current.plan.stack_id) {
                    return Err(Rejection::Invalid(format!(
                        "stack_id '{stack_id}' differs from that of the plan, '{}'",
                        current.plan.stack_id
                    )));
                }
                // Resources that the plan already has are not overwritten.
                document.put_new(resources);
                document.put(update);
            }
            Self::Replace { resources, .. } => {
                document.resources.clone_from(resources);
            }
            Self::Repeat(_) | Self::Migrate { .. } | Self::Reserve { .. } | Self::Remove(_) => {
                return Ok(None);
            }
        }
        if let Self::Add { policy: Some(policy), .. } | Self::Replace { policy: Some(policy), .. } =
            self
        {
            document.set_policy(*policy);
        }
        document.volumes = document.volumes || has_storage(&current.world);
        document.attachment_level = attachment_level(&current.world).map(StoredLevel);
        document.pipes = document.pipes || has_bandwidth(&current.world);
        Ok(Some(document))
    }
}

/// Returns whether there is a storage backend on which volumes can be placed.
pub(crate) fn has_storage(world: &World) -> bool {
    is_in_use(world, traits::STORAGE)
}

/// The lowest level within which a storage backend serves servers; `None`: all backends serve all servers.
pub(crate) fn attachment_level(world: &World) -> Option<Level> {
    let mut reaches = traits::STORAGE_REACH.into_iter();
    reaches.find(|(name, _)| is_in_use(world, name)).map(|(_, level)| level)
}

/// Returns whether a provider has a trait.
fn is_in_use(world: &World, name: &str) -> bool {
    world.trait_id(name).is_some_and(|id| world.trait_in_use(id))
}

/// Returns whether a provider has an inventory of each class of bandwidth.
pub(crate) fn has_bandwidth(world: &World) -> bool {
    BANDWIDTH.iter().all(|class| {
        let class = world.class_id(class);
        class.is_some_and(|class| world.providers().any(|it| it.inventory(class).is_some()))
    })
}

fn repeat(current: &CurrentPlan, request: &StackRequest) -> Result<Draft, Rejection> {
    let refuse = |difference| {
        let Plan { stack_key, id, .. } = &current.plan;
        Rejection::OtherRequest { stack: stack_key.clone(), plan: *id, difference }
    };
    if let Some(difference) = first_difference(current, request) {
        return Err(refuse(difference));
    }
    let locations = request.locations.as_ref();
    let document = match locations {
        Some(_) => Document { locations: locations.cloned(), ..current.document.clone() },
        None => current.document.clone(),
    };
    document.check_length()?;
    let mut draft = current.reduced(document, &current.template)?;
    let Some(locations) = locations else { return Ok(draft) };
    let locations: HashSet<&String> = locations.iter().collect();
    let host = |server: &DraftServer| server.placement.as_ref().and_then(|it| current.location(it));
    let is_within = |server: &DraftServer| {
        server.entry.is_volume || host(server).is_some_and(|host| locations.contains(&host))
    };
    if draft.servers.iter().all(is_within) {
        return Ok(draft);
    }
    let is_outside = |host: &String| !locations.contains(host);
    let reserved = draft.servers.iter().filter(|server| server.is_reserved());
    for server in reserved.filter(|server| !server.entry.is_volume) {
        if let Some(host) = host(server).filter(is_outside) {
            return Err(refuse(format!(
                "server '{}' is reserved on {host}, which is not among the locations of the request",
                server.entry.name
            )));
        }
    }
    for (demand, server) in draft.stack.servers.iter_mut().zip(&draft.servers) {
        demand.fixed = server.is_reserved();
    }
    Ok(draft)
}

/// The plan with other resources. Servers stay on their hosts, unless their size or zone changes; unreserved ones
/// move only if there is no solution otherwise.
fn replace(
    current: &CurrentPlan,
    mut document: Document,
    flavors: &[Flavor],
) -> Result<Draft, Rejection> {
    let template = document.template()?.of_request()?;
    document.measure(&template, &current.template, flavors)?;
    let draft = current.changed(document, &template)?;
    Ok(Draft { may_move_unreserved: true, ..draft })
}

/// Keeps servers on their hosts whose instances have arrived.
fn pin_instances(draft: &mut Draft, current: &CurrentPlan) {
    for (server, target) in draft.stack.servers.iter_mut().zip(&draft.servers) {
        let row = target.placement.as_ref().filter(|row| !row.is_hold() && !server.fixed);
        if let Some(home) = row.and_then(|row| current.location(row)) {
            server.pin_to(home);
        }
    }
}

fn migrate(
    current: &CurrentPlan,
    servers: &[String],
    excluded: &[String],
    to: &Destinations,
    with_mates: bool,
) -> Result<Draft, Rejection> {
    let mut draft = current.draft()?;
    let positions = draft.find_all(servers).map_err(|server| {
        Rejection::Invalid(format!("Unknown resource or orchestration id: {server}"))
    })?;
    let moving: BTreeSet<usize> = positions.iter().copied().collect();
    draft.skip_lost(&moving);
    let excluded: HostNames = Arc::new(excluded.iter().cloned().collect());
    for at in &moving {
        draft.let_move(*at, &excluded);
        let home = draft.servers.get(*at).and_then(|server| server.placement.as_ref());
        let home = home.and_then(|placement| current.location(placement));
        if let (Some(demand), Some(home)) = (draft.stack.servers.get_mut(*at), home) {
            demand.excluded.push(Arc::new(HashSet::from([home])));
        }
        if let Destinations::Among(list) = to {
            limit(&mut draft, *at, list);
        }
    }
    if let Destinations::Each(hosts) = to {
        for (at, host) in positions.iter().zip(hosts) {
            if let Some(demand) = draft.stack.servers.get_mut(*at) {
                demand.require_host(host.clone());
            }
        }
    }
    if with_mates {
        draft.deferred = Some(DeferredMoves::AffinityMates { of: moving, excluded });
    }
    Ok(draft)
}

/// If the placement belongs to another instance than the one it is to be reserved for, removes its place, because
/// the allocations are those of the other instance. Returns whether it did.
fn replace_instance(draft: &mut Draft, at: usize, resource_id: Option<&str>) -> bool {
    let placement = draft.servers.get(at).and_then(|server| server.placement.as_ref());
    let is_other = placement.is_some_and(|it| {
        !it.is_hold() && resource_id.is_some_and(|id| it.resource_key != Some(canonical(id)))
    });
    if let Some(demand) = draft.stack.servers.get_mut(at).filter(|_| is_other) {
        demand.present = None;
        demand.fixed = false;
        demand.resized = true;
        demand.absent = false;
    }
    is_other
}

fn reserve(
    draft: &mut Draft,
    current: &CurrentPlan,
    at: usize,
    locations: Option<&Vec<String>>,
    replan: bool,
) {
    draft.skip_lost(&BTreeSet::from([at]));
    let Some(server) = draft.servers.get_mut(at) else { return };
    server.reserve = true;
    let host = server.placement.as_ref().and_then(|it| current.location(it));
    let is_allowed = |host: &String| locations.is_none_or(|list| list.contains(host));
    if !replan && host.as_ref().is_some_and(is_allowed) {
        return;
    }
    for (nth, demand) in draft.stack.servers.iter_mut().enumerate() {
        let reserved = draft.servers.get(nth).is_some_and(DraftServer::is_reserved);
        demand.fixed = demand.fixed && (reserved && nth != at);
    }
    if let Some(list) = locations {
        limit(draft, at, list);
    }
}

/// Limits a server to these hosts. They replace the locations from the creation of the plan, because the caller,
/// Nova, has already applied all other filters.
fn limit(draft: &mut Draft, at: usize, locations: &[String]) {
    if let Some(demand) = draft.stack.servers.get_mut(at) {
        demand.locations = vec![Arc::new(locations.iter().cloned().collect())];
    }
}

fn remove(current: &CurrentPlan, placement: Uuid) -> Result<Draft, Rejection> {
    if let Some(row) = current.leaving.iter().find(|it| it.id == placement) {
        let mut draft = current.draft()?;
        draft.skip_lost(&BTreeSet::new());
        return Ok(Draft { removed: vec![row.clone()], ..draft });
    }
    let row = current.placements.iter().find(|it| it.id == placement);
    let row = row.ok_or(Rejection::PlacementNotFound)?;
    let mut document = current.document.clone();
    let entry = current.template.servers.iter().find(|it| it.key == row.orchestration_key);
    if let Some(entry) = entry {
        document.remove(entry);
    }
    let template = document.template()?;
    let mut draft = current.reduced(document, &template)?;
    draft.skip_lost(&BTreeSet::new());
    // Unlike an update of the plan, this deletes a placement even if it is reserved.
    Ok(Draft { removed: vec![row.clone()], leaving: Vec::new(), ..draft })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::{Destinations, PlanChange};
    use crate::planner::difference::StackRequest;
    use crate::planner::draft::tests::{bound, current, object, servers};
    use crate::planner::draft::{CurrentPlan, Draft};
    use crate::planner::rejection::Rejection;

    fn draft(change: &PlanChange, current: &CurrentPlan) -> Result<Draft, Rejection> {
        let document = change.document(current)?;
        change.draft(current, document, &[])
    }

    /// A plan of servers that are reserved, and do not hold anything yet.
    fn reserved(count: usize) -> CurrentPlan {
        let mut current = current(servers(count));
        for placement in &mut current.placements {
            placement.reserved = Some(true);
        }
        current
    }

    #[test]
    fn a_stack_has_one_plan_with_the_same_servers() {
        let template = current(servers(1)).template;
        let request = StackRequest { template, ..StackRequest::default() };
        let repeat = PlanChange::Repeat(Arc::new(request));
        assert!(draft(&repeat, &current(servers(1))).is_ok());
        let other = draft(&repeat, &current(servers(2)));
        assert!(matches!(other, Err(Rejection::OtherRequest { .. })));
    }

    #[test]
    fn an_addition_is_to_the_stack_of_the_plan() {
        let add = |stack_id: &str| PlanChange::Add {
            stack_id: stack_id.to_owned(),
            resources: object(servers(1)),
            update: object(servers(3)),
            policy: None,
            may_migrate: true,
        };
        assert_eq!(draft(&add("p"), &current(servers(2))).unwrap().servers.len(), 3);
        let other = draft(&add("q"), &current(servers(2)));
        let why = "stack_id 'q' differs from that of the plan, 'p'";
        assert_eq!(other.unwrap_err(), Rejection::Invalid(why.to_owned()));
    }

    #[test]
    fn a_server_that_leaves_keeps_its_placement_only_if_it_is_reserved() {
        let replace =
            PlanChange::Replace { resources: object(servers(1)), policy: None, may_migrate: true };
        let left = draft(&replace, &current(servers(2))).unwrap();
        assert_eq!((left.removed.len(), left.leaving.len()), (1, 0));
        let left = draft(&replace, &reserved(2)).unwrap();
        assert_eq!((left.removed.len(), left.leaving.len()), (0, 1));
        // Deleting the placement itself still removes it.
        let remove = PlanChange::Remove(Uuid::from_u128(1));
        let left = draft(&remove, &reserved(2)).unwrap();
        assert_eq!((left.removed.len(), left.leaving.len(), left.servers.len()), (1, 0, 1));
    }

    #[test]
    fn a_migration_moves_one_server_or_all_of_its_affinity_group() {
        let migrate = |with_mates| PlanChange::Migrate {
            servers: vec!["s0".to_owned()],
            excluded: vec!["h1".to_owned()],
            to: Destinations::Any,
            with_mates,
        };
        for (with_mates, expected) in [(false, [true, false]), (true, [true, true])] {
            let current = current(bound(2, "affinity"));
            let mut draft = draft(&migrate(with_mates), &current).unwrap();
            draft.complete(&current.world, &current.topology).unwrap();
            let moves: Vec<bool> = draft.stack.servers.iter().map(|it| !it.fixed).collect();
            assert_eq!(moves, expected);
            let cleared: Vec<bool> = draft.servers.iter().map(|it| it.clear_reservation).collect();
            assert_eq!(cleared, expected);
        }
        let unknown = PlanChange::Migrate {
            servers: vec!["s0".to_owned(), "x".to_owned()],
            excluded: Vec::new(),
            to: Destinations::Any,
            with_mates: true,
        };
        let why = "Unknown resource or orchestration id: x";
        let found = draft(&unknown, &current(servers(1)));
        assert_eq!(found.unwrap_err(), Rejection::Invalid(why.to_owned()));
    }

    #[test]
    fn a_placement_that_is_not_of_the_plan_is_not_found() {
        let placement = Uuid::from_u128(9);
        let (resource_id, locations) = (None, None);
        let reserve = PlanChange::Reserve { placement, resource_id, locations, replan: false };
        for change in [reserve, PlanChange::Remove(placement)] {
            let found = draft(&change, &current(servers(1)));
            assert_eq!(found.unwrap_err(), Rejection::PlacementNotFound);
        }
    }
}
