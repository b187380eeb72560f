//! Placements: the hosts of single servers.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::extract::{JsonObject, PlacementPath, Query, Tenant};
use super::plans::{list_of, terms, text, texts};
use super::problem::Problem;
use super::schema::{self, BodyKey, Check, NAME_MAX, Object, TEXTS, optional, required};
use super::views;
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::model::Bug;
use crate::planner::change::PlanChange;
use crate::planner::ids::{canonical, same};
use crate::planner::location;
use crate::planner::plan::Placement;
use crate::planner::topology::Topology;
use crate::planning::{self, Failure, Move, Planning};
use crate::store::planner::plans::PlacementFilter;

pub(super) static RESERVE: [BodyKey; 3] = [
    optional("action", Check::Text(NAME_MAX)),
    optional("locations", Check::Custom("array", texts, TEXTS)),
    optional(
        "resource_id",
        Check::Custom("string", name_or_null, r#"{"type": ["string", "null"]}"#),
    ),
];
pub(super) static RECOMMEND: [BodyKey; 3] = [
    optional("excluded_hosts", Check::Custom("array", texts, TEXTS)),
    optional("locations", Check::Custom("array", texts, TEXTS)),
    required("resource_id", Check::Name(NAME_MAX)),
];

/// The parameters of the list that are members of a placement. Others are members of its metadata.
pub(super) static LIST_QUERY: [Parameter; 7] = [
    Parameter::new("id", ParameterKind::Text, "The id of the placement."),
    Parameter::new("plan_id", ParameterKind::Text, "The id of its plan."),
    Parameter::new("orchestration_id", ParameterKind::Text, "The orchestrator's id of its server."),
    Parameter::new("resource_id", ParameterKind::Text, "The id of its instance."),
    Parameter::new("name", ParameterKind::Text, "The name of its server."),
    Parameter::new("location", ParameterKind::Text, "The name of its host."),
    Parameter::new(
        "reserved",
        ParameterKind::Word(&["true", "false", "null"]),
        "Whether it is reserved.",
    ),
];

/// `GET /v1/placements`: the placements that match all parameters.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    tenant: Tenant,
    Query(query): Query,
    planning: Planning,
) -> Result<Reply, Problem> {
    let turn = planning.read_turn(tenant.requester()).await?;
    let rows = app.store.placements(&database_filter(&tenant, &query)).await?;
    let world = app.store.world().await?;
    let (host_names, mount) = (app.options.planner.host_names, tenant.mount);
    let work = planning::run(turn, move || {
        let topology = Topology::of(&world, host_names);
        let mut found = Vec::new();
        if let Some(filters) = filters(&query) {
            for row in rows {
                let location = location(&world, &topology, &row.holds);
                let view = json!(mount.placement_fields(&row, location)?);
                if matches(&filters, &view, &row)? {
                    found.push(view);
                }
            }
        }
        Ok(Reply::json(&mount.placements(&found)))
    });
    Ok(work.await?)
}

/// Returns the part of the filter that the database can apply.
fn database_filter(tenant: &Tenant, query: &[(String, String)]) -> PlacementFilter {
    let value_of = |name: &str| {
        let pair = query.iter().find(|(known, _)| known == name);
        // Null matches placements without the property.
        pair.filter(|(_, value)| value != "null").map(|(_, value)| canonical(value))
    };
    let uuid = |name| value_of(name).and_then(|key| Uuid::parse_str(&key).ok());
    PlacementFilter {
        id: uuid("id"),
        plan: uuid("plan_id"),
        orchestration_key: value_of("orchestration_id"),
        resource_key: value_of("resource_id"),
        ..PlacementFilter::of(tenant.scope())
    }
}

/// A parameter of the query, parsed once for all placements.
struct Filter<'q> {
    name: &'q str,
    /// The value as written, and as JSON if it is valid.
    raw: &'q str,
    json: Option<Value>,
    /// Whether it is an id, which has several notations.
    is_id: bool,
    /// Whether it is a field of the placement and not its metadata.
    is_field: bool,
}

impl<'q> Filter<'q> {
    fn of((name, raw): &'q (String, String)) -> Self {
        let is_id = ["id", "orchestration_id", "plan_id", "resource_id"].contains(&name.as_str());
        let is_field = is_id || ["location", "name", "reserved"].contains(&name.as_str());
        Self { name, raw, json: serde_json::from_str(raw).ok(), is_id, is_field }
    }
}

/// Parses the filters of a query; `None` if a name is repeated. A placement has one value for each
/// name, so such a query matches nothing.
fn filters(query: &[(String, String)]) -> Option<Vec<Filter<'_>>> {
    let mut names = HashSet::new();
    query.iter().map(|pair| names.insert(pair.0.as_str()).then(|| Filter::of(pair))).collect()
}

/// Returns whether a placement matches all filters. Stops at the first that does not, so more
/// filters than a placement has metadata take no more time.
fn matches(filters: &[Filter<'_>], view: &Value, row: &Placement) -> Result<bool, Failure> {
    let metadata: Object = if filters.iter().all(|filter| filter.is_field) {
        Object::new()
    } else {
        views::metadata(row)?
    };
    Ok(filters.iter().all(|filter| {
        let Filter { name, raw, json, is_id, is_field } = filter;
        let has = if *is_field { view.get(name) } else { metadata.get(*name) };
        let has = has.unwrap_or(&Value::Null);
        match has.as_str() {
            Some(text) if *is_id => same(text, raw),
            Some(text) => text == *raw || json.as_ref().and_then(Value::as_str) == Some(text),
            None => json.as_ref() == Some(has) && (*is_field || metadata.contains_key(*name)),
        }
    }))
}

/// `GET /v1/placements/{placement}`: by its own id, or by the orchestration id of its server.
pub(super) async fn show(
    tenant: Tenant,
    planning: Planning,
    PlacementPath(id): PlacementPath,
) -> Result<Reply, Problem> {
    shown(&planning, &tenant, &id).await.map(|view| Reply::json(&view))
}

/// Responds whether the placement in the path exists.
pub(super) async fn exists(
    tenant: Tenant,
    planning: Planning,
    PlacementPath(id): PlacementPath,
) -> Result<Reply, Problem> {
    planning.placement(&id, tenant.scope()).await?;
    Ok(Reply::no_content())
}

/// `POST /v1/placements/{placement}`: reserves it on one of the locations. Chooses another host if
/// the current one is not among them, or if the action is `replan`.
pub(super) async fn reserve(
    State(app): State<Arc<App>>,
    tenant: Tenant,
    query: Query,
    planning: Planning,
    PlacementPath(id): PlacementPath,
    JsonObject(body): JsonObject,
) -> Result<Reply, Problem> {
    let _turn = tenant.turn(&app).await?;
    query.no_dry_run()?;
    if !body.is_empty() {
        schema::check(&body, &RESERVE)?;
    }
    let replan = match text(&body, "action").as_deref() {
        None | Some("reserve") => false,
        Some("replan") => true,
        Some(other) => {
            return Err(Problem::bad_request(format!(
                "Invalid action: {other}. Must be one of (reserve, replan)"
            )));
        }
    };
    let row = planning.placement(&id, tenant.scope()).await?;
    let change = PlanChange::Reserve {
        placement: row.id,
        resource_id: text(&body, "resource_id").filter(|id| !id.is_empty()),
        locations: list_of(&body, "locations"),
        replan,
    };
    let terms = terms(&app, &tenant, &query, &body)?;
    let changed = planning.change(tenant.plan(&row.plan.to_string()), change, None, terms).await;
    planning::record(&changed);
    changed?;
    let view = shown(&planning, &tenant, &row.id.to_string()).await?;
    Ok(Reply::json(&view).status(StatusCode::CREATED))
}

/// `DELETE /v1/placements/{placement}`: removes the server from its plan, reserved or not.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    tenant: Tenant,
    query: Query,
    planning: Planning,
    PlacementPath(id): PlacementPath,
) -> Result<Reply, Problem> {
    let _turn = tenant.turn(&app).await?;
    query.no_dry_run()?;
    let row = planning.placement(&id, tenant.scope()).await?;
    let terms = terms(&app, &tenant, &query, &Object::new())?;
    let change = PlanChange::Remove(row.id);
    let changed = planning.change(tenant.plan(&row.plan.to_string()), change, None, terms).await;
    planning::record(&changed);
    changed?;
    Ok(Reply::no_content())
}

/// `POST /v1/placements`: recommends another host for a server, which need not be in a plan.
/// Changes nothing.
pub(super) async fn recommend(
    State(app): State<Arc<App>>,
    tenant: Tenant,
    query: Query,
    planning: Planning,
    JsonObject(body): JsonObject,
) -> Result<Reply, Problem> {
    let _turn = tenant.turn(&app).await?;
    schema::check(&body, &RECOMMEND)?;
    let id = text(&body, "resource_id").ok_or_else(|| Bug::new("a checked key is missing"))?;
    let request = Move {
        resource: id.clone(),
        excluded: list_of(&body, "excluded_hosts").unwrap_or_default(),
        locations: list_of(&body, "locations"),
    };
    let terms = terms(&app, &tenant, &query, &body)?;
    let found = planning.recommend(request, tenant.scope(), terms).await?;
    Ok(Reply::json(&tenant.mount.recommendation(&found, &id)?))
}

async fn shown(planning: &Planning, tenant: &Tenant, id: &str) -> Result<Value, Problem> {
    let row = planning.placement(id, tenant.scope()).await?;
    let host = planning.location(&row).await?;
    Ok(tenant.mount.placement(&row, host.as_deref())?)
}

fn name_or_null(value: &Value) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    schema::text_fault(value, NAME_MAX).map_or(Ok(()), Err)
}
