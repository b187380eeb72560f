//! Placements: the places of single servers.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::aside;
use super::call::Call;
use super::plans::{list_of, terms, text, texts};
use super::problem::Problem;
use super::reply::Reply;
use super::schema::{self, Check, Key, NAME_MAX, Object, optional, required};
use super::settle::{self, Terms};
use super::views;
use super::wishes::Wish;
use crate::http::turns::Asker;
use crate::model::Bug;
use crate::planner::ids::{canonical, same};
use crate::planner::topology::Topology;
use crate::planner::{location, stack};
use crate::store;
use crate::store::planner::plans::{PlacementRow, Wanted};

const RESERVE: [Key; 3] = [
    optional("action", Check::Text(NAME_MAX)),
    optional("locations", Check::Custom("array", texts)),
    optional("resource_id", Check::Custom("string", name_or_null)),
];
const RECOMMEND: [Key; 3] = [
    optional("excluded_hosts", Check::Custom("array", texts)),
    optional("locations", Check::Custom("array", texts)),
    required("resource_id", Check::Name(NAME_MAX)),
];

/// Placements that are named at the most where an id means several.
const NAMED_MAX: usize = 10;

/// `GET /v1/placements`
pub(super) async fn list(call: Call) -> Result<Reply, Problem> {
    let turn = aside::turn(&call.app, Asker::of(&call.caller)).await?;
    let rows = call.app.store.placements(&narrowed(&call)).await?;
    let world = call.app.store.world().await?;
    let host_names = call.app.options.planner.host_names;
    aside::work(turn, move || {
        let Some(filters) = filters(&call.query) else {
            return Ok(Reply::json(&json!([])));
        };
        let topology = Topology::of(&world, host_names);
        let mut found = Vec::new();
        for row in rows {
            let view = views::placement(&row, location(&world, &topology, &row.holds));
            if matches(&filters, &view, &row)? {
                found.push(view);
            }
        }
        Ok(Reply::json(&found))
    })
    .await
}

/// Those that come into question for a query, as far as the database can tell.
fn narrowed(call: &Call) -> Wanted {
    let asked = |name: &str| {
        let pair = call.query.iter().find(|(known, _)| known == name);
        // Null asks for those that have none.
        pair.filter(|(_, value)| value != "null").map(|(_, value)| canonical(value))
    };
    let uuid = |name| asked(name).and_then(|key| Uuid::parse_str(&key).ok());
    Wanted {
        id: uuid("id"),
        plan: uuid("plan_id"),
        orchestration_key: asked("orchestration_id"),
        resource_key: asked("resource_id"),
        ..only(call)
    }
}

/// One parameter of a query, read once for all placements.
struct Filter<'q> {
    name: &'q str,
    /// As it was written, and as JSON if it is that.
    asked: &'q str,
    json: Option<Value>,
    /// Whether it is about an id, which has several spellings.
    is_id: bool,
    /// Whether it is about the placement itself and not about its metadata.
    is_field: bool,
}

impl<'q> Filter<'q> {
    fn of((name, asked): &'q (String, String)) -> Self {
        let is_id = ["id", "orchestration_id", "plan_id", "resource_id"].contains(&name.as_str());
        let is_field = is_id || ["location", "name", "reserved"].contains(&name.as_str());
        Self { name, asked, json: serde_json::from_str(asked).ok(), is_id, is_field }
    }
}

/// What a query asks for; `None` if it names something twice. A placement has each thing once, so such a
/// query matches nothing.
fn filters(query: &[(String, String)]) -> Option<Vec<Filter<'_>>> {
    let mut names = HashSet::new();
    query.iter().map(|pair| names.insert(pair.0.as_str()).then(|| Filter::of(pair))).collect()
}

/// Whether a placement has what a query asks for. It ends at the first filter that is not met, so
/// more filters than a placement has metadata take no more time.
fn matches(filters: &[Filter<'_>], view: &Value, row: &PlacementRow) -> Result<bool, Problem> {
    let metadata: Object = if filters.iter().all(|filter| filter.is_field) {
        Object::new()
    } else {
        serde_json::from_str(&row.metadata).map_err(|error| unreadable(row, &error))?
    };
    Ok(filters.iter().all(|filter| {
        let Filter { name, asked, json, is_id, is_field } = filter;
        let has = if *is_field { view.get(name) } else { metadata.get(*name) };
        let has = has.unwrap_or(&Value::Null);
        match has.as_str() {
            Some(text) if *is_id => same(text, asked),
            Some(text) => text == *asked || json.as_ref().and_then(Value::as_str) == Some(text),
            None => json.as_ref() == Some(has) && (*is_field || metadata.contains_key(*name)),
        }
    }))
}

fn unreadable(row: &PlacementRow, error: &serde_json::Error) -> Problem {
    store::Error::inconsistent("placements", "metadata", format!("{}: {error}", row.id)).into()
}

/// `GET /v1/placements/{placement}`
pub(super) async fn show(call: Call) -> Result<Reply, Problem> {
    let row = found(&call, call.part("placement")).await?;
    Ok(Reply::json(&shown(&call, &row).await?))
}

/// Whether there is the placement that the path names.
pub(super) async fn exists(call: Call) -> Result<(), Problem> {
    found(&call, call.part("placement")).await.map(|_| ())
}

/// `POST /v1/placements/{placement}`: reserves it, on one of the locations.
pub(super) async fn reserve(call: Call) -> Result<Reply, Problem> {
    call.no_dry_run()?;
    if !call.body.is_empty() {
        schema::check(&call.body, &RESERVE)?;
    }
    let replan = match text(&call.body, "action").as_deref() {
        None | Some("reserve") => false,
        Some("replan") => true,
        Some(other) => {
            return Err(Problem::bad_request(format!(
                "Invalid action: {other}. Must be one of (reserve, replan)"
            )));
        }
    };
    let row = found(&call, call.part("placement")).await?;
    let wish = Wish::Reserve {
        placement: row.id,
        resource_id: text(&call.body, "resource_id").filter(|id| !id.is_empty()),
        locations: list_of(&call.body, "locations"),
        replan,
    };
    let terms = terms(&call)?;
    let plan = row.plan.to_string();
    settle::change(&call.app, &plan, call.scope(), &wish, terms).await?;
    let row = found(&call, &row.id.to_string()).await?;
    Ok(Reply::created(&shown(&call, &row).await?))
}

/// `DELETE /v1/placements/{placement}`
pub(super) async fn delete(call: Call) -> Result<Reply, Problem> {
    call.no_dry_run()?;
    let row = found(&call, call.part("placement")).await?;
    let plan = row.plan.to_string();
    let terms = terms(&call)?;
    let wish = Wish::Drop(row.id);
    settle::change(&call.app, &plan, call.scope(), &wish, terms).await?;
    Ok(Reply::no_content())
}

/// `POST /v1/placements`: another host for something that is there. Nothing changes.
pub(super) async fn recommend(call: Call) -> Result<Reply, Problem> {
    schema::check(&call.body, &RECOMMEND)?;
    let id = text(&call.body, "resource_id").ok_or_else(|| Bug::new("a checked key is missing"))?;
    let terms = Terms { dry_run: true, ..terms(&call)? };
    let excluded = list_of(&call.body, "excluded_hosts").unwrap_or_default();
    let locations = list_of(&call.body, "locations");
    let Some(row) = known(&call, &id).await? else {
        return stranger(&call, &id, excluded, locations, terms).await;
    };
    let server = row.orchestration_id.clone();
    let wish = Wish::Migrate { server, excluded, locations, with_mates: false };
    let plan = row.plan.to_string();
    let settled = settle::change(&call.app, &plan, call.scope(), &wish, terms).await?;
    let at = settled.draft.find_placement(row.id);
    let host = at.and_then(|at| settled.hosts.get(at)).and_then(Option::as_deref);
    let mut view = views::placement(&row, host);
    let world = call.app.store.world().await?;
    let topology = Topology::of(&world, call.app.options.planner.host_names);
    if let Some(view) = view.as_object_mut() {
        let home = location(&world, &topology, &row.holds);
        view.insert("current_location".to_owned(), json!(home));
    }
    Ok(Reply::json(&view))
}

/// The same for a consumer that no plan knows.
async fn stranger(
    call: &Call,
    id: &str,
    excluded: Vec<String>,
    locations: Option<Vec<String>>,
    terms: Terms,
) -> Result<Reply, Problem> {
    let missing = || Problem::not_found(format!("Resource '{id}' not found"));
    let consumer = Uuid::parse_str(&canonical(id)).map_err(|_| missing())?;
    let held = call.app.store.consumer_allocations(consumer).await?.ok_or_else(missing)?;
    if call.only_project().is_some_and(|project| !same(project, &held.project)) {
        return Err(missing());
    }
    let world = call.app.store.world().await?;
    let topology = Topology::of(&world, call.app.options.planner.host_names);
    let providers = held.providers.iter().filter_map(|it| world.provider(it.provider));
    let home = topology.host(providers).map(|host| host.name().to_owned());
    let mut server = stack::Server::of_amounts(
        id,
        held.providers.iter().flat_map(|it| it.resources.iter().cloned()),
    );
    server.excluded = vec![Arc::new(excluded.into_iter().chain(home.clone()).collect())];
    server.locations =
        locations.into_iter().map(|list| Arc::new(list.into_iter().collect())).collect();
    let host = settle::recommend(&call.app, server, terms).await?;
    Ok(Reply::json(&json!({
        "id": null,
        "plan_id": null,
        "name": null,
        "orchestration_id": null,
        "resource_id": id,
        "location": host,
        "current_location": home,
        "reserved": null,
    })))
}

async fn shown(call: &Call, row: &PlacementRow) -> Result<Value, Problem> {
    let world = call.app.store.world().await?;
    let topology = Topology::of(&world, call.app.options.planner.host_names);
    Ok(views::placement(row, location(&world, &topology, &row.holds)))
}

/// A placement by its id, or else by the orchestrator's.
async fn found(call: &Call, id: &str) -> Result<PlacementRow, Problem> {
    let key = canonical(id);
    let by_id = Wanted { id: Uuid::parse_str(&key).ok(), ..only(call) };
    if by_id.id.is_some()
        && let Some(row) = call.app.store.placements(&by_id).await?.pop()
    {
        return Ok(row);
    }
    let by_orchestration = Wanted { orchestration_key: Some(key), ..only(call) };
    let rows = call.app.store.placements(&by_orchestration).await?;
    let newest = of_one_project(call, id, rows)?.into_iter().max_by_key(|row| !row.leaving);
    newest.ok_or_else(|| Problem::not_found("Placement not found"))
}

/// Of placements that clients call the same, those of one project: of the caller's own, if it has
/// some, or else of the only one that has.
fn of_one_project(
    call: &Call,
    id: &str,
    mut rows: Vec<PlacementRow>,
) -> Result<Vec<PlacementRow>, Problem> {
    if rows.iter().any(|row| row.project == call.project()) {
        rows.retain(|row| row.project == call.project());
    }
    let is_one = rows
        .windows(2)
        .all(|pair| pair.first().map(|it| &it.project) == pair.last().map(|it| &it.project));
    if is_one {
        return Ok(rows);
    }
    let ids: Vec<String> = rows.iter().take(NAMED_MAX).map(|row| row.id.to_string()).collect();
    Err(Problem::conflict(format!(
        "Valet error: Several projects have a placement '{id}'; name one by its own id: {}",
        ids.join(", ")
    )))
}

/// A placement by the id of its instance, or by one of its own.
async fn known(call: &Call, id: &str) -> Result<Option<PlacementRow>, Problem> {
    let by_resource = Wanted { resource_key: Some(canonical(id)), ..only(call) };
    let mut rows = call.app.store.placements(&by_resource).await?;
    rows.retain(|row| !row.leaving);
    if let Some(owner) = owner(call, id, &rows).await? {
        // What other projects say of the instance counts nothing.
        rows.retain(|row| same(&row.project, &owner));
    }
    if let Some(row) = of_one_project(call, id, rows)?.pop() {
        return Ok(Some(row));
    }
    match found(call, id).await {
        Ok(row) if row.leaving => Ok(None),
        Ok(row) => Ok(Some(row)),
        Err(problem) if problem.is_not_found() => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// The project of an instance that exists, if placements of several may be meant by its id.
async fn owner(call: &Call, id: &str, rows: &[PlacementRow]) -> Result<Option<String>, Problem> {
    let others = rows.iter().any(|row| row.project != call.project());
    let Some(consumer) = Uuid::parse_str(&canonical(id)).ok().filter(|_| others) else {
        return Ok(None);
    };
    let held = call.app.store.consumer_allocations(consumer).await?;
    Ok(held.map(|held| held.project))
}

fn only(call: &Call) -> Wanted {
    Wanted { project: call.only_project().map(str::to_owned), ..Wanted::default() }
}

fn name_or_null(value: &Value) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    schema::text_fault(value, NAME_MAX).map_or(Ok(()), Err)
}
