//! A consumer with its allocations, and the consumers of a project.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use uuid::Uuid;

use super::amounts::{Grouped, amounts_text};
use super::context::{ConsoleCaller, Problem};
use super::history::{self, HistorySection};
use super::page::{FirstItems, Shell, html};
use crate::http::api::extract::path_parts;
use crate::http::api::in_turn::work_in;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::operator::costly;
use crate::http::operator::requests::query_of;
use crate::http::placement::spelling::{any_uuid, consumer_uuid};
use crate::store::consumers::ConsumerFilter;
use crate::store::reads::{ConsumerAllocations, TypeFilter, UsageFilter, UsageOfType};
use crate::world::World;

/// Number of consumers on a page.
const LISTED: i64 = 100;
/// Maximum numbers of allocations that are shown of one consumer, and of each consumer of a project.
const ALLOCATIONS_MAX: usize = 500;
const ALLOCATIONS_EACH: usize = 10;
/// Name of consumers without a type.
const UNKNOWN: &str = "unknown";

path_parts! {
    Problem;
    /// The UUID of a consumer.
    ConsumerPath = "uuid";
    /// The id of a project.
    ProjectPath = "project";
}

/// The page of a consumer.
#[derive(Template)]
#[template(path = "console/consumer.html")]
struct ConsumerPage {
    shell: Shell,
    uuid: Uuid,
    /// `None`: it has no allocations.
    consumer: Option<Consumer>,
    history: HistorySection,
}

/// The page of a project.
#[derive(Template)]
#[template(path = "console/project.html")]
struct ProjectPage {
    shell: Shell,
    project: String,
    usages: Vec<Usage>,
    consumers: Vec<Consumer>,
    next: Option<String>,
}

/// A consumer.
pub(super) struct Consumer {
    pub(super) uuid: Uuid,
    pub(super) kind: String,
    pub(super) project: String,
    pub(super) user: String,
    pub(super) generation: i64,
    pub(super) allocations: FirstItems<Allocation>,
}

/// Amounts on one provider.
pub(super) struct Allocation {
    pub(super) provider: Uuid,
    pub(super) name: String,
    pub(super) amounts: String,
}

/// The usage of the consumers of a type.
struct Usage {
    kind: String,
    consumers: Grouped,
    amounts: String,
}

/// `GET /ui/consumers/{uuid}`
pub(super) async fn show(
    State(app): State<Arc<App>>,
    ConsoleCaller(caller): ConsoleCaller,
    shell: Shell,
    ConsumerPath(uuid): ConsumerPath,
    uri: Uri,
) -> Result<Reply, Problem> {
    let missing = || Problem::not_found(format!("There is no consumer {uuid} with allocations."));
    let uuid = consumer_uuid(&uuid).ok_or_else(missing)?;
    let turn = costly::turn(&app, caller.requester()).await?;
    let filter = ConsumerFilter { uuids: Some(vec![uuid]), ..ConsumerFilter::all(1) };
    let found = app.store.consumers(filter).await?.consumers.pop();
    let history = history::read(&app, &caller, &[uuid], &uri).await?;
    if found.is_none() && !history.may_have_changes() {
        return Err(missing());
    }
    let world = app.store.world().await?;
    let work = move || {
        let consumer = found.map(|found| consumer(&world, found, ALLOCATIONS_MAX));
        html(&ConsumerPage { shell, uuid, consumer, history })
    };
    work_in(turn, work).await
}

/// `GET /ui/projects/{project}`: `after` is the last consumer of the page before.
pub(super) async fn of_project(
    State(app): State<Arc<App>>,
    ConsoleCaller(caller): ConsoleCaller,
    shell: Shell,
    ProjectPath(project): ProjectPath,
    uri: Uri,
) -> Result<Reply, Problem> {
    let query = query_of(&uri)?;
    let wrong = || Problem::bad_request("after must be the UUID of a consumer.");
    let after = query.once("after")?;
    let after = after.map(|text| any_uuid(text).ok_or_else(wrong)).transpose()?;
    let turn = costly::turn(&app, caller.requester()).await?;
    let filter =
        UsageFilter { project: project.clone(), user: None, consumer_type: TypeFilter::Each };
    let usages = app.store.usages(filter).await?;
    let filter =
        ConsumerFilter { project: Some(project.clone()), after, ..ConsumerFilter::all(LISTED) };
    let found = app.store.consumers(filter).await?;
    let world = app.store.world().await?;
    let work = move || {
        let last = found.consumers.last().map(|(uuid, _)| *uuid).filter(|_| found.has_more);
        let consumers = list(&world, found.consumers);
        let usages = usages.into_iter().map(usage).collect();
        let next = last.map(|uuid| format!("?after={uuid}"));
        html(&ProjectPage { shell, project, usages, consumers, next })
    };
    work_in(turn, work).await
}

/// Returns consumers for a list.
pub(super) fn list(world: &World, found: Vec<(Uuid, ConsumerAllocations)>) -> Vec<Consumer> {
    found.into_iter().map(|it| consumer(world, it, ALLOCATIONS_EACH)).collect()
}

fn consumer(world: &World, (uuid, held): (Uuid, ConsumerAllocations), most: usize) -> Consumer {
    let allocations = held.providers.iter().map(|on| Allocation {
        provider: on.provider,
        name: world.provider(on.provider).map_or_else(String::new, |it| it.name().to_owned()),
        amounts: amounts_text(&on.resources),
    });
    Consumer {
        uuid,
        allocations: FirstItems::of(most, held.providers.len(), allocations),
        kind: held.consumer_type.unwrap_or_else(|| UNKNOWN.to_owned()),
        project: held.project,
        user: held.user,
        generation: held.generation,
    }
}

fn usage(usage: UsageOfType) -> Usage {
    Usage {
        kind: usage.consumer_type.unwrap_or_else(|| UNKNOWN.to_owned()),
        consumers: Grouped(usage.consumers),
        amounts: amounts_text(&usage.resources),
    }
}
