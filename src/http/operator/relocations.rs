//! `POST /-/v1/drain` and `POST /-/v1/rebalance`: the fewest moves that empty hosts, or make room for more servers.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Request, State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::context::{Problem, RequestCaller};
use super::costly::{self, WORK_MAX};
use super::moves::{MICROVERSION, body, kept};
use super::requests::{flavor_named, without_parameters};
use super::views::relocations as view;
use crate::fairness::turns::Requester;
use crate::http::api::intake;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::placement::RefusedAs as _;
use crate::http::placement::allocation_candidates::unknown;
use crate::http::placement::allocations::{claims_of, refused};
use crate::http::placement::body::Body;
use crate::http::placement::microversion::CONSUMER_GENERATION;
use crate::model::{Level, ProviderId};
use crate::planner::change::{Destinations, PlanChange};
use crate::planner::flavor::Size;
use crate::planner::relocation::combination::Room;
use crate::planner::request_of;
use crate::planner::topology::Topology;
use crate::planning::{Failure, PlanRef, Planning, Relocated, ServerMove, Step, Terms, Wanted};
use crate::search::budget;
use crate::search::fit::{CountParameters, Excluded, fragmentation};
use crate::store::planner::plans::Scope;
use crate::world::World;

/// Maximum number of hosts in a request.
const HOSTS_MAX: usize = 100;
/// Maximum number of servers for which room can be made.
const ROOM_MAX: u32 = 1000;

/// The body of both operations.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RelocationBody {
    /// Hosts, by name or UUID.
    #[serde(default)]
    hosts: Vec<String>,
    /// All hosts of these racks, too.
    #[serde(default)]
    racks: Vec<String>,
    /// The flavor of the servers that are to fit.
    flavor: Option<String>,
    /// Or the amounts of each.
    resources: Option<BTreeMap<String, i64>>,
    /// Their number.
    count: Option<u32>,
    /// Or the maximum part of the free capacity that they cannot use.
    fragmentation: Option<f64>,
    /// The properties that a new host must share with the old one.
    keep: Option<String>,
    /// Time limit of each search, in seconds.
    timeout: Option<f64>,
    #[serde(default = "yes")]
    dry_run: bool,
}

fn yes() -> bool {
    true
}

/// `POST /-/v1/drain`: finds the fewest moves by which all servers leave some hosts. With `dry_run` false, carries them
/// out.
pub(super) async fn drain(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    planning: Planning,
    request: Request,
) -> Result<Reply, Problem> {
    let body = read(&app, request).await?;
    let of_room = [body.flavor.is_some(), body.resources.is_some(), body.count.is_some()];
    if of_room.contains(&true) || body.fragmentation.is_some() {
        let detail = "flavor, resources, count and fragmentation are for /-/v1/rebalance";
        return Err(Problem::bad_request(detail));
    }
    if body.hosts.is_empty() && body.racks.is_empty() {
        return Err(Problem::bad_request("hosts or racks must name the hosts to drain"));
    }
    let terms = terms(&app, &body, caller.requester())?;
    let keep = kept(body.keep.as_deref())?;
    let drained = hosts(&app, &planning, &body, terms).await?;
    let wanted = Wanted { drained: drained.into_keys().collect(), room: None, keep };
    relocate(&planning, wanted, terms).await
}

/// `POST /-/v1/rebalance`: finds the fewest moves by which more servers fit, on any hosts or on some. With `dry_run`
/// false, carries them out.
pub(super) async fn rebalance(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    planning: Planning,
    request: Request,
) -> Result<Reply, Problem> {
    let body = read(&app, request).await?;
    let terms = terms(&app, &body, caller.requester())?;
    let keep = kept(body.keep.as_deref())?;
    let (size, aggregates) = size(&app, &body).await?;
    let on = if body.hosts.is_empty() && body.racks.is_empty() {
        None
    } else {
        let hosts = hosts(&app, &planning, &body, terms).await?;
        Some(Arc::new(hosts.into_values().collect()))
    };
    let count = match (body.count, body.fragmentation) {
        (Some(count), None) => count,
        (None, Some(_)) if on.is_some() => {
            let detail = "fragmentation is that of the whole cloud; with hosts or racks, use count";
            return Err(Problem::bad_request(detail));
        }
        (None, Some(most)) if (0.0..=1.0).contains(&most) => {
            count_at(&app, &size, most, terms).await?
        }
        (None, Some(most)) => {
            let detail = format!("fragmentation must be a number from 0 to 1, not {most}");
            return Err(Problem::bad_request(detail));
        }
        (None, None) | (Some(_), Some(_)) => {
            return Err(Problem::bad_request("either count or fragmentation is needed"));
        }
    };
    if count > ROOM_MAX {
        let detail = format!("room can be made for at most {ROOM_MAX} servers, not {count}");
        return Err(Problem::bad_request(detail));
    }
    let room = Some(Room { size, aggregates, count: count as usize, on });
    relocate(&planning, Wanted { drained: Vec::new(), room, keep }, terms).await
}

async fn read(app: &App, request: Request) -> Result<RelocationBody, Problem> {
    without_parameters(request.uri())?;
    let body = intake::read(request.into_body(), &app.options).await?;
    serde_json::from_slice(&body)
        .map_err(|error| Problem::bad_request(format!("the body is invalid: {error}")))
}

fn terms(app: &App, body: &RelocationBody, requester: Requester) -> Result<Terms, Problem> {
    let settings = &app.options.planner;
    let budget = match body.timeout {
        None => settings.timeout,
        Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| {
            Problem::bad_request(format!("timeout must be a number of seconds: {error}"))
        })?,
    };
    let budget = budget.min(settings.timeout_max);
    Ok(Terms { budget, dry_run: body.dry_run, alternatives: 0, requester })
}

/// Returns the hosts that a body names: their roots, and their names.
async fn hosts(
    app: &App,
    planning: &Planning,
    body: &RelocationBody,
    terms: Terms,
) -> Result<BTreeMap<ProviderId, String>, Problem> {
    let world = app.store.world().await?;
    let names: HashSet<String> = body.hosts.iter().cloned().collect();
    let racks: HashSet<String> = body.racks.iter().map(|rack| rack.to_lowercase()).collect();
    let by_names = planning.host_names;
    let found = costly::run(app, terms.requester, move || named(&world, names, racks, by_names));
    let found = found.await?.map_err(Problem::bad_request)?;
    if found.len() > HOSTS_MAX {
        let count = found.len();
        let detail = format!("at most {HOSTS_MAX} hosts can be named, not {count}");
        return Err(Problem::bad_request(detail));
    }
    Ok(found)
}

/// Finds hosts by their names or UUIDs, and those in racks.
fn named(
    world: &World,
    mut names: HashSet<String>,
    mut racks: HashSet<String>,
    racks_by_names: bool,
) -> Result<BTreeMap<ProviderId, String>, String> {
    let topology = Topology::of(world, racks_by_names);
    let mut found = BTreeMap::new();
    let mut in_racks = HashSet::new();
    for root in world.trees() {
        let is_named = names.remove(root.name()) | names.remove(&root.uuid().to_string());
        let rack = topology.unit(&root, Level::Rack).filter(|rack| racks.contains(rack));
        if is_named || rack.is_some() {
            found.insert(root.id(), root.name().to_owned());
        }
        in_racks.extend(rack);
    }
    racks.retain(|rack| !in_racks.contains(rack));
    if let Some(name) = names.into_iter().min() {
        return Err(format!("hosts: there is no host {name}"));
    }
    match racks.into_iter().min() {
        Some(rack) => Err(format!("racks: there is no host in a rack {rack}")),
        None => Ok(found),
    }
}

/// Returns the size of the servers that are to fit, and their demands on the metadata of aggregates.
async fn size(
    app: &App,
    body: &RelocationBody,
) -> Result<(Size, BTreeMap<String, String>), Problem> {
    match (&body.flavor, &body.resources) {
        (Some(name), None) => {
            let flavors = app.store.flavors_named(std::slice::from_ref(name)).await?;
            let flavor = flavor_named(&flavors, name)?;
            let wrong = |why| Problem::bad_request(format!("flavor {name}: {why}"));
            let rules = flavor.rules().map_err(wrong)?;
            Ok((flavor.size().map_err(wrong)?, rules.aggregates))
        }
        (None, Some(needs)) => {
            if let Some((class, amount)) = needs.iter().find(|(_, amount)| **amount < 1) {
                let detail =
                    format!("resources: the amount of {class} must be at least 1, not {amount}");
                return Err(Problem::bad_request(detail));
            }
            if needs.is_empty() {
                return Err(Problem::bad_request("resources must have an amount"));
            }
            Ok((Size { needs: needs.clone(), ..Size::default() }, BTreeMap::new()))
        }
        (None, None) | (Some(_), Some(_)) => {
            Err(Problem::bad_request("either flavor or resources is needed"))
        }
    }
}

/// Returns how many servers must fit so that at most this part of the free capacity is unusable for them.
async fn count_at(app: &App, size: &Size, most: f64, terms: Terms) -> Result<u32, Problem> {
    let world = app.store.world().await?;
    let size = size.clone();
    let work = move || {
        let (request, excluded) = (request_of(&world, &size), Excluded::default());
        let parameters =
            CountParameters { request: &request, excluded: &excluded, names_max: 0, by: None };
        let found = fragmentation(&world, &[parameters], || budget(WORK_MAX))?;
        Ok(found.requests.first().map_or(0, |it| it.in_one_piece))
    };
    let all = costly::run(app, terms.requester, work).await?;
    let all = all.map_err(|name| Problem::from(unknown(name)))?;
    let wanted = f64::from(u32::try_from(all).unwrap_or(u32::MAX)) * (1.0 - most);
    let count = (0..=ROOM_MAX).find(|count| f64::from(*count) >= wanted);
    count.ok_or_else(|| {
        Problem::bad_request(format!(
            "for this fragmentation, more than {ROOM_MAX} servers would have to fit; use count"
        ))
    })
}

async fn relocate(planning: &Planning, wanted: Wanted, terms: Terms) -> Result<Reply, Problem> {
    let found = planning.relocate(wanted, terms).await.map_err(problem)?;
    let Relocated { room: hosts, is_proven, plans, consumers, .. } = &found;
    let mut room = BTreeMap::new();
    for host in hosts {
        *room.entry(host.clone()).or_insert(0) += 1;
    }
    let steps: Vec<view::Step> = found.steps.iter().map(step).collect();
    let (carried_out, stopped_by) = if terms.dry_run {
        (None, None)
    } else {
        let (count, why) = carry_out(planning, &found.steps, &steps, terms).await;
        (Some(count), why)
    };
    Ok(Reply::json(&view::Relocations {
        moves: steps.iter().map(|step| step.moves.len()).sum(),
        proven: *is_proven,
        steps,
        room,
        examined: view::Examined { plans: *plans, consumers: *consumers },
        carried_out,
        stopped_by,
    }))
}

/// The request of a step.
fn step(step: &Step) -> view::Step {
    let in_api = |api: &str, method: &str, path: String| view::Step {
        api: api.to_owned(),
        method: method.to_owned(),
        path,
        microversion: None,
        body: Value::Null,
        moves: Vec::new(),
    };
    match step {
        Step::Consumer(consumer, to) => {
            let allocations = to.allocations.iter();
            let names =
                allocations.map(|(provider, class, amount)| (*provider, class.as_str(), *amount));
            view::Step {
                microversion: Some(MICROVERSION.to_owned()),
                body: body(consumer, names),
                moves: vec![view::Move {
                    consumer: Some(consumer.uuid.to_string()),
                    project_id: consumer.project.clone(),
                    plan: None,
                    server: None,
                    ..moved(to)
                }],
                ..in_api("placement", "POST", "/allocations".to_owned())
            }
        }
        Step::Plan(plan, moves) => {
            let hosts = moves.iter().map(|(server, to)| (server.id.clone(), json!(to.to)));
            let hosts: Map<String, Value> = hosts.collect();
            let moves = moves.iter().map(|(server, to)| view::Move {
                consumer: server.consumer.map(|consumer| consumer.to_string()),
                project_id: plan.project.clone(),
                plan: Some(plan.id.to_string()),
                server: Some(server.id.clone()),
                ..moved(to)
            });
            view::Step {
                body: json!({"action": "migrate", "resources": hosts}),
                moves: moves.collect(),
                ..in_api("planner", "PUT", format!("/v1/plans/{}", plan.id))
            }
        }
    }
}

/// A move, without the names of its server.
fn moved(to: &ServerMove) -> view::Move {
    let mut allocations: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    for (provider, class, amount) in &to.allocations {
        allocations.entry(provider.to_string()).or_default().insert(class.clone(), *amount);
    }
    view::Move {
        consumer: None,
        project_id: String::new(),
        plan: None,
        server: None,
        from: to.from.clone(),
        to: to.to.clone(),
        allocations,
    }
}

/// Carries out steps one after the other. Returns the number of those that succeeded, and the reason why the next did
/// not.
async fn carry_out(
    planning: &Planning,
    steps: &[Step],
    requests: &[view::Step],
    terms: Terms,
) -> (usize, Option<String>) {
    for (nth, (step, request)) in steps.iter().zip(requests).enumerate() {
        let done = match step {
            Step::Consumer(..) => claim(planning, &request.body).await.map_err(|why| why.detail),
            Step::Plan(plan, moves) => {
                let change = PlanChange::Migrate {
                    servers: moves.iter().map(|(server, _)| server.id.clone()).collect(),
                    excluded: Vec::new(),
                    to: Destinations::Each(moves.iter().map(|(_, to)| to.to.clone()).collect()),
                    with_mates: false,
                };
                let scope = Scope { project: "", all: true };
                let plan = PlanRef { key: &plan.id.to_string(), scope };
                let changed = planning.change(plan, change, None, terms).await;
                changed.map(drop).map_err(|failure| failure.to_string())
            }
        };
        if let Err(why) = done {
            return (nth, Some(why));
        }
    }
    (steps.len(), None)
}

/// Replaces the allocations of a consumer, like `POST /allocations`.
async fn claim(planning: &Planning, body: &Value) -> Result<(), Problem> {
    let body = Body(Bytes::from(body.to_string()));
    let claims = claims_of(&body, None, CONSUMER_GENERATION)?;
    Ok(planning.changes.replace_allocations(claims).await.refused_as(|why| refused(why, None))?)
}

/// Returns the problem of a failure.
fn problem(failure: Failure) -> Problem {
    match failure {
        Failure::NoPlaces(why) => Problem::conflict(why.sentence),
        Failure::Rejected(why) => Problem::bad_request(why.to_string()),
        Failure::OutOfTime => Problem::not_now(
            "no moves were found in time, and it is unknown whether there are any; set a longer timeout",
        ),
        Failure::NoTurn(..) | Failure::Overtaken(_) | Failure::Unsettled(_) => {
            Problem::not_now(failure.to_string())
        }
        Failure::Store(error) => error.into(),
        Failure::Panicked(..) => Problem::internal(failure.to_string()),
        Failure::Bug(bug) => Problem::internal(bug.to_string()),
        Failure::PlanNotFound
        | Failure::AmbiguousPlan { .. }
        | Failure::AmbiguousPlacement { .. }
        | Failure::ResourceNotFound(_)
        | Failure::Refused(_) => Problem::conflict(failure.to_string()),
    }
}
