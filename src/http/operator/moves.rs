//! `/-/v1/moves`: proposes how to make room for a request. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::context::{Problem, RequestCaller};
use super::costly::{self, WORK_MAX};
use super::requests::{FLAVOR, NamedRequest, QUERY, Requests, query_of, requests};
use super::views::moves as view;
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::placement::allocation_candidates::unknown;
use crate::http::placement::query::Query;
use crate::model::ProviderId;
use crate::model::consumer::ConsumerRow;
use crate::search::budget;
use crate::search::fit::Excluded;
use crate::search::moves::{
    Departure, KeptProperties, RoomOutcome, RoomParameters, Step, Targets, plan, targets,
};
use crate::store::holders::HoldersMax;
use crate::world::World;

/// The parameter with the query to make room for.
const MAKE_ROOM_FOR: &str = "make-room-for";
/// The parameter that selects victims.
const VICTIM: &str = "victim";
const VICTIMS_MAX: usize = 100;
/// The parameter with the properties that a new host must share with the old one.
const KEEP: &str = "keep";
/// The parameters.
pub(super) const QUERIES: [Parameter; 4] = [
    Parameter::new(MAKE_ROOM_FOR, ParameterKind::Text, "A complete query for candidates."),
    Parameter::new(FLAVOR, ParameterKind::Text, "Instead of it, a flavor, by name or id."),
    Parameter::new(
        KEEP,
        ParameterKind::Text,
        "The properties that a new host must share with the old one: `traits`, `aggregates`, both, or `nothing`.",
    ),
    Parameter::new(
        VICTIM,
        ParameterKind::Texts,
        "Consumers that may be deleted, in order: `project:ID` or `type:NAME`.",
    ),
];
/// Maximum number of hosts whose consumers are examined, and of such consumers.
const TARGETS_MAX: usize = 64;
const HOLDERS_MAX: HoldersMax = HoldersMax { consumers: 5000, allocations: 200_000 };
/// Time limit of the search.
const SEARCH_MAX: Duration = Duration::from_secs(2);
/// The first microversion with consumer generations. Its bodies keep the consumer's type.
pub(super) const MICROVERSION: &str = "1.28";

/// Selection of victims, in order.
#[derive(Clone, Debug)]
enum Victim {
    Project(String),
    Type(String),
}

/// `GET /-/v1/moves`: takes a query of `GET /allocation_candidates` as the value of
/// `make-room-for`, or a flavor.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Reply, Problem> {
    let query = query_of(&uri)?;
    let keeping = kept(query.once(KEEP)?)?;
    let victims = victims(&query)?;
    if !victims.is_empty() && query.once(KEEP)?.is_some() {
        return Err(Problem::bad_request(format!(
            "{KEEP} applies to consumers that move, but those of {VICTIM} do not"
        )));
    }
    let rest = query.without(KEEP).without(VICTIM);
    if rest.last(QUERY).is_some() {
        return Err(Problem::bad_request(format!(
            "the query must be the value of {MAKE_ROOM_FOR}"
        )));
    }
    let (requests, world) = requests(&app, &headers, &rest.renamed(MAKE_ROOM_FOR, QUERY)).await?;
    let [only] = requests.requests.as_slice() else {
        return Err(Problem::bad_request("only one request is allowed"));
    };
    let only = only.clone();
    let turns_of = caller.requester();
    let hosts = {
        let world = Arc::clone(&world);
        costly::run(&app, turns_of, move || hosts(&world, &requests)).await?
    };
    let hosts = hosts.map_err(|name| Problem::from(unknown(name)))?;
    let providers = hosts.roots.iter().filter_map(|root| world.provider_by_id(*root));
    let providers: Vec<ProviderId> =
        providers.flat_map(|root| root.tree()).map(|provider| provider.id()).collect();
    let holders = app.store.holders(&providers, HOLDERS_MAX).await?;
    // The allocations may be on providers created after that world, so the search uses a later one.
    let world = app.store.world().await?;
    let watch = app.watch.clone();
    let work = move || {
        // The time limit does not cover the wait for a turn.
        let began = watch.now();
        let leaving = if victims.is_empty() {
            Departure::Moves(keeping)
        } else {
            let tier = |consumer| victims.iter().position(|victim| victim.is(consumer));
            Departure::Victims(holders.consumers.iter().map(tier).collect())
        };
        let parameters = RoomParameters {
            request: &only.request,
            targets: &hosts.roots,
            is_needed: hosts.is_complete,
            are_all_targets: hosts.is_complete && hosts.count == hosts.roots.len(),
            consumers: &holders.consumers,
            are_all_consumers: holders.are_all,
            leaving: &leaving,
        };
        let found = plan(&world, &parameters, || watch.now() - began > SEARCH_MAX)?;
        Ok(Reply::json(&written(&world, &only, &hosts, &holders.consumers, &found)))
    };
    let response = costly::run(&app, turns_of, work).await?;
    response.map_err(|name| Problem::from(unknown(name)))
}

fn hosts(world: &World, requests: &Requests) -> Result<Targets, crate::search::Unknown> {
    let Some(only) = requests.requests.first() else { return Ok(Targets::default()) };
    let mut excluded = Excluded::default();
    requests.close(only, world, &mut excluded);
    targets(world, &only.request, &excluded, TARGETS_MAX, budget(WORK_MAX))
}

/// Parses the properties that a new host must share with the old one.
pub(super) fn kept(value: Option<&str>) -> Result<KeptProperties, Problem> {
    let Some(value) = value else {
        return Ok(KeptProperties { traits: true, aggregates: false });
    };
    let mut keeping = KeptProperties { traits: false, aggregates: false };
    for word in value.split(',') {
        match word {
            "traits" => keeping.traits = true,
            "aggregates" => keeping.aggregates = true,
            "nothing" if value == "nothing" => {}
            _ => {
                return Err(Problem::bad_request(format!(
                    "{KEEP} must be traits, aggregates, both with a comma between them, or nothing, \
                     not {value}"
                )));
            }
        }
    }
    Ok(keeping)
}

fn victims(query: &Query) -> Result<Vec<Victim>, Problem> {
    let victims: Result<Vec<Victim>, Problem> = query.all(VICTIM).map(victim).collect();
    let victims = victims?;
    if victims.len() > VICTIMS_MAX {
        return Err(Problem::bad_request(format!(
            "{VICTIM} can be given at most {VICTIMS_MAX} times"
        )));
    }
    Ok(victims)
}

fn victim(value: &str) -> Result<Victim, Problem> {
    match value.split_once(':') {
        Some(("project", project)) if !project.is_empty() => {
            Ok(Victim::Project(project.to_owned()))
        }
        Some(("type", name)) if !name.is_empty() => Ok(Victim::Type(name.to_owned())),
        Some(_) | None => Err(Problem::bad_request(format!(
            "{VICTIM} must be project:ID or type:NAME, not {value}"
        ))),
    }
}

impl Victim {
    fn is(&self, consumer: &ConsumerRow) -> bool {
        match self {
            Self::Project(project) => consumer.project == *project,
            Self::Type(name) => consumer.consumer_type.as_ref() == Some(name),
        }
    }
}

fn written(
    world: &World,
    request: &NamedRequest,
    hosts: &Targets,
    consumers: &[ConsumerRow],
    found: &RoomOutcome,
) -> view::Moves {
    let host = |root: ProviderId| {
        let root = world.provider_by_id(root)?;
        Some(view::Host { host: root.name().to_owned(), uuid: root.uuid().to_string() })
    };
    let target = found.plan.as_ref().map(|plan| plan.target);
    let steps = found.plan.iter().flat_map(|plan| &plan.steps);
    let steps = steps.filter_map(|step| {
        let consumer = consumers.get(step.consumer)?;
        let target = target.and_then(|target| world.provider_by_id(target))?;
        let mut leaves = BTreeMap::new();
        for (id, class, amount) in &consumer.allocations {
            let is_here = world.provider_by_id(*id).is_some_and(|it| it.root() == target);
            if is_here || step.to.is_none() {
                *leaves.entry(world.name_of_class(*class).to_owned()).or_insert(0) += *amount;
            }
        }
        Some(view::Step {
            consumer: consumer.uuid.to_string(),
            project_id: consumer.project.clone(),
            consumer_type: consumer.consumer_type.clone(),
            leaves,
            to: step.to.and_then(host),
            microversion: MICROVERSION.to_owned(),
            body: body(consumer, allocations(world, step)),
        })
    });
    let examined: BTreeSet<ProviderId> = hosts.roots.iter().take(found.examined).copied().collect();
    let on_examined = consumers.iter().filter(|consumer| {
        let mut providers = consumer.allocations.iter().filter_map(|it| world.provider_by_id(it.0));
        providers.any(|provider| examined.contains(&provider.root().id()))
    });
    view::Moves {
        request: request.words.clone(),
        is_flavor: request.is_flavor,
        fits_on: hosts.fitting.and_then(host),
        target: target.and_then(host),
        steps: steps.collect(),
        proven: hosts.fitting.is_some() || found.is_proven,
        examined: view::Examined {
            hosts: examined.len(),
            of_hosts: hosts.count,
            consumers: on_examined.count(),
        },
    }
}

/// The allocations of a consumer after a step, with the names of providers and classes.
fn allocations<'w>(world: &'w World, step: &'w Step) -> impl Iterator<Item = (Uuid, &'w str, i64)> {
    step.allocations.iter().filter_map(|(id, class, amount)| {
        Some((world.provider_by_id(*id)?.uuid(), world.name_of_class(*class), *amount))
    })
}

/// Returns a body of `POST /allocations` that replaces the allocations of a consumer.
pub(super) fn body<'a>(
    consumer: &ConsumerRow,
    allocations: impl Iterator<Item = (Uuid, &'a str, i64)>,
) -> Value {
    let mut resources: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for (provider, class, amount) in allocations {
        resources.entry(provider.to_string()).or_default().insert(class.to_owned(), json!(amount));
    }
    let resources = resources.into_iter();
    let allocations: Map<String, Value> = resources
        .map(|(provider, resources)| (provider, json!({"resources": resources})))
        .collect();
    let held = json!({
        "allocations": allocations,
        "project_id": consumer.project,
        "user_id": consumer.user,
        "consumer_generation": consumer.generation,
    });
    Value::Object(Map::from_iter([(consumer.uuid.to_string(), held)]))
}
