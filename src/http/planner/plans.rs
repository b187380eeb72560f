//! Plans: complete stacks with a host for every server.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, StatusCode};
use serde_json::Value;

use super::context::permit;
use super::extract::{JsonObject, PlanPath, Query, Tenant};
use super::mount::Mount;
use super::problem::Problem;
use super::schema::{self, BodyKey, Check, NAME_MAX, Object, TEXTS, optional, required};
use super::views;
use crate::auth::policy::planning as rules_of_plans;
use crate::http::api::reply::Reply;
use crate::http::app::{App, PlannerSettings};
use crate::model::{Goal, PlacementPolicy};
use crate::planner::change::{Destinations, PlanChange};
use crate::planner::ids::canonical;
use crate::planner::policy;
use crate::planning::{self, NewPlan, Planned, Planning, Terms, run};

/// Header with the quality of a plan.
const QUALITY: HeaderName = HeaderName::from_static("berth-plan");
/// Header with the resources that the plan ignores.
const IGNORED: HeaderName = HeaderName::from_static("berth-ignored");
/// Header with the rules that servers break which stay on their hosts.
const BROKEN: HeaderName = HeaderName::from_static("berth-broken");
/// The JSON Schema of a policy: the name of a goal, or the goal with a level.
const POLICY: &str = r#"{"type": ["string", "object"]}"#;
/// The JSON Schema of the servers of an action: resources, the hosts of servers, or servers.
const RESOURCES: &str = r#"{
    "anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "string"}}]
}"#;
/// Maximum number of servers that one request moves.
const MOVES_MAX: usize = 1_000;
pub(super) static CREATE: [BodyKey; 7] = [
    optional("locations", Check::Custom("array", texts, TEXTS)),
    required("plan_name", Check::Name(NAME_MAX)),
    optional("policy", Check::Custom("policy", policy, POLICY)),
    required("resources", Check::Dictionary),
    optional("spread", Check::Custom("boolean", boolean, r#"{"type": "boolean"}"#)),
    required("stack_id", Check::Name(NAME_MAX)),
    optional("timeout", Check::Custom("string", timeout, r#"{"type": "string"}"#)),
];
pub(super) static ADD: [BodyKey; 7] = [
    required("plan_name", Check::Name(NAME_MAX)),
    optional("policy", Check::Custom("policy", policy, POLICY)),
    required("resources", Check::Dictionary),
    required("resources_update", Check::Dictionary),
    optional("spread", Check::Custom("boolean", boolean, r#"{"type": "boolean"}"#)),
    required("stack_id", Check::Name(NAME_MAX)),
    optional("timeout", Check::Custom("string", timeout, r#"{"type": "string"}"#)),
];
pub(super) static ACT: [BodyKey; 8] = [
    required(
        "action",
        Check::Custom("valid_plan_update_action", action, r#"{"enum": ["update", "migrate"]}"#),
    ),
    optional("excluded_hosts", Check::Custom("array", texts, TEXTS)),
    optional("original_resources", Check::Dictionary),
    optional("plan_name", Check::Name(NAME_MAX)),
    optional("policy", Check::Custom("policy", policy, POLICY)),
    required("resources", Check::Custom("resources", anything, RESOURCES)),
    optional("spread", Check::Custom("boolean", boolean, r#"{"type": "boolean"}"#)),
    optional("timeout", Check::Custom("string", timeout, r#"{"type": "string"}"#)),
];

/// `GET /v1/plans`: the names of the visible plans, oldest first; on the other mount, the plans.
pub(super) async fn list(tenant: Tenant, planning: Planning) -> Result<Reply, Problem> {
    if tenant.mount == Mount::Document {
        return Ok(Reply::json(&planning.store.plan_names(tenant.only_project()).await?));
    }
    let listed = planning.list(tenant.scope(), tenant.requester()).await?;
    let turn = planning.read_turn(tenant.requester()).await?;
    let plans = run(turn, move || Ok(listed.iter().map(views::listed).collect::<Vec<_>>()));
    Ok(Reply::json(&tenant.mount.plans(&plans.await?)))
}

/// `POST /v1/plans`: chooses a host for each server of a stack and reserves the capacity. A stack
/// has one plan; if it already has one with the same servers, that plan is returned.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    tenant: Tenant,
    query: Query,
    planning: Planning,
    JsonObject(body): JsonObject,
) -> Result<Reply, Problem> {
    let _turn = tenant.turn(&app).await?;
    schema::check(&body, &CREATE)?;
    let terms = terms(&app, &tenant, &query, &body)?;
    let new = NewPlan {
        name: text(&body, "plan_name").unwrap_or_default(),
        stack_id: text(&body, "stack_id").unwrap_or_default(),
        project: tenant.project().to_owned(),
        user: tenant.user().to_owned(),
        resources: dictionary(&body, "resources"),
        by_operator: tenant.scope().all,
        locations: list_of(&body, "locations"),
        policy: requested_policy(&body)?.unwrap_or(PlacementPolicy::DEFAULT),
    };
    let created = planning.create(new, terms).await;
    planning::record(&created);
    let created = created.map_err(|failure| tenant.mount.problem(failure))?;
    Ok(planned(&app, &created, tenant.mount, terms))
}

/// `GET /v1/plans/{plan}`: the plan with the host of each server.
pub(super) async fn show(
    tenant: Tenant,
    planning: Planning,
    PlanPath(plan): PlanPath,
) -> Result<Reply, Problem> {
    let current = planning.read(tenant.plan(&canonical(&plan)), tenant.requester()).await?;
    Ok(Reply::json(&tenant.mount.plan(views::current(&current))))
}

/// Responds whether the plan in the path exists.
pub(super) async fn exists(
    tenant: Tenant,
    planning: Planning,
    PlanPath(plan): PlanPath,
) -> Result<Reply, Problem> {
    planning.find(tenant.plan(&canonical(&plan))).await?;
    Ok(Reply::no_content())
}

/// `PUT /v1/plans/{plan}`: adds resources, replaces all of them (action `update`), or moves
/// servers to other hosts (action `migrate`). The policy has a rule for each.
pub(super) async fn update(
    State(app): State<Arc<App>>,
    tenant: Tenant,
    query: Query,
    planning: Planning,
    PlanPath(plan): PlanPath,
    JsonObject(body): JsonObject,
) -> Result<Reply, Problem> {
    let _turn = tenant.turn(&app).await?;
    let migrates = text(&body, "action").as_deref() == Some("migrate");
    let rule = if migrates { rules_of_plans::PLANS_MIGRATE } else { rules_of_plans::PLANS_UPDATE };
    permit(&app, &tenant.caller, &[rule])?;
    let may_migrate = permit(&app, &tenant.caller, &[rules_of_plans::PLANS_MIGRATE]).is_ok();
    let change = if body.contains_key("action") {
        act(&body, may_migrate)?
    } else {
        add(&body, may_migrate)?
    };
    let terms = terms(&app, &tenant, &query, &body)?;
    let (plan, name) = (canonical(&plan), text(&body, "plan_name"));
    let changed = planning.change(tenant.plan(&plan), change, name.as_deref(), terms).await;
    planning::record(&changed);
    let changed = changed.map_err(|failure| tenant.mount.problem(failure))?;
    Ok(planned(&app, &changed, tenant.mount, terms))
}

/// Parses resources to be added.
fn add(body: &Object, may_migrate: bool) -> Result<PlanChange, Problem> {
    schema::check(body, &ADD)?;
    Ok(PlanChange::Add {
        stack_id: text(body, "stack_id").unwrap_or_default(),
        resources: dictionary(body, "resources"),
        update: dictionary(body, "resources_update"),
        policy: requested_policy(body)?,
        may_migrate,
    })
}

/// Parses the action of the body.
fn act(body: &Object, may_migrate: bool) -> Result<PlanChange, Problem> {
    schema::check(body, &ACT)?;
    let (resources, policy) = (body.get("resources"), requested_policy(body)?);
    if text(body, "action").as_deref() == Some("update") {
        let resources = resources.and_then(Value::as_object).cloned();
        let wrong = || Problem::bad_request("Valet error: resources must be a dictionary.");
        return Ok(PlanChange::Replace {
            resources: resources.ok_or_else(wrong)?,
            policy,
            may_migrate,
        });
    }
    if policy.is_some() {
        let why = "Valet error: a migration cannot change the policy; an update can.";
        return Err(Problem::bad_request(why));
    }
    let excluded = list_of(body, "excluded_hosts").unwrap_or_default();
    let (servers, to) = moves(resources).ok_or_else(|| {
        Problem::bad_request(format!(
            "Valet error: resources must be a list of 1 to {MOVES_MAX} ids, or a dictionary with the host of each."
        ))
    })?;
    let with_mates = to == Destinations::Any;
    Ok(PlanChange::Migrate { servers, excluded, to, with_mates })
}

/// Parses the servers of a migration, and their hosts if these are given.
fn moves(resources: Option<&Value>) -> Option<(Vec<String>, Destinations)> {
    let text = |value: &Value| {
        let text = value.as_str().filter(|_| schema::text_fault(value, NAME_MAX).is_none());
        text.map(str::to_owned)
    };
    let (servers, to): (Vec<String>, _) = match resources? {
        Value::Array(ids) => (ids.iter().map(text).collect::<Option<_>>()?, Destinations::Any),
        Value::Object(hosts) => {
            let ids = hosts.keys().map(|id| text(&Value::String(id.clone())));
            let hosts = hosts.values().map(text).collect::<Option<_>>()?;
            (ids.collect::<Option<_>>()?, Destinations::Each(hosts))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    (1..=MOVES_MAX).contains(&servers.len()).then_some((servers, to))
}

/// `DELETE /v1/plans/{plan}`: releases the capacity of the plan. Instances keep their allocations.
pub(super) async fn delete(
    tenant: Tenant,
    query: Query,
    planning: Planning,
    PlanPath(plan): PlanPath,
) -> Result<Reply, Problem> {
    query.no_dry_run()?;
    planning.delete(tenant.plan(&canonical(&plan))).await?;
    Ok(Reply::no_content())
}

/// Returns the response with a plan whose hosts were just chosen.
fn planned(app: &App, planned: &Planned, mount: Mount, terms: Terms) -> Reply {
    let status = if terms.dry_run { StatusCode::OK } else { StatusCode::CREATED };
    let reply = Reply::json(&mount.plan(views::planned(planned))).status(status);
    let headers = [
        (QUALITY, views::quality(planned, app.options.planner.hold_seconds)),
        (IGNORED, views::ignored(planned)),
        (BROKEN, views::broken(planned)),
    ];
    headers.into_iter().fold(reply, |reply, (name, text)| match text {
        Some(text) => reply.header(name, &text),
        None => reply,
    })
}

/// Returns the solving time, and whether it is a dry run.
pub(super) fn terms(
    app: &App,
    tenant: &Tenant,
    query: &Query,
    body: &Object,
) -> Result<Terms, Problem> {
    let PlannerSettings { timeout, timeout_max, .. } = app.options.planner;
    let requested = text(body, "timeout").and_then(|text| duration(&text));
    let budget = requested.unwrap_or(timeout).min(timeout_max);
    let (dry_run, alternatives) = (query.is_dry_run()?, query.alternatives()?);
    Ok(Terms { budget, dry_run, alternatives, requester: tenant.requester() })
}

/// Parses a duration as clients write it: `60 sec`, `60`, `60s`, `1 min`, `0.5 s`, `200 ms`.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok().filter(|_| number.starts_with(|c| c != '.'))?;
    let seconds = match unit.trim() {
        "ms" => number / 1000.0,
        "" | "s" | "sec" | "secs" | "second" | "seconds" => number,
        "m" | "min" | "mins" | "minute" | "minutes" => number * 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

fn timeout(value: &Value) -> Result<(), String> {
    let text = value.as_str().ok_or("not of type string")?;
    duration(text).map(|_| ()).ok_or_else(|| "must be a number of ms, sec or min".to_owned())
}

fn action(value: &Value) -> Result<(), String> {
    match value.as_str() {
        Some("update" | "migrate") => Ok(()),
        _ => Err("must be update or migrate".to_owned()),
    }
}

fn policy(value: &Value) -> Result<(), String> {
    policy::read(value).map(|_| ())
}

/// Returns the policy in a body, if it has one; `spread` is the older form of one of them.
fn requested_policy(body: &Object) -> Result<Option<PlacementPolicy>, Problem> {
    match (body.get("policy"), body.get("spread").and_then(Value::as_bool)) {
        (Some(_), Some(_)) => Err(Problem::bad_request(
            "Valet error: policy and spread cannot both be given; spread is the policy 'spread'.",
        )),
        (Some(policy), None) => policy::read(policy).map(Some).map_err(Problem::bad_request),
        (None, Some(true)) => Ok(Some(PlacementPolicy::of_hosts(Goal::Spread))),
        (None, Some(false)) => Ok(Some(PlacementPolicy::DEFAULT)),
        (None, None) => Ok(None),
    }
}

fn boolean(value: &Value) -> Result<(), String> {
    value.as_bool().map(|_| ()).ok_or_else(|| "not of type boolean".to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "it is a check among others; the action has its own")]
fn anything(_: &Value) -> Result<(), String> {
    Ok(())
}

/// Checks a list of strings.
pub(super) fn texts(value: &Value) -> Result<(), String> {
    let list = value.as_array().ok_or("not of type array")?;
    let fault = list.iter().find_map(|item| schema::text_fault(item, NAME_MAX));
    fault.map_or(Ok(()), |fault| Err(format!("an item is {fault}")))
}

pub(super) fn text(body: &Object, key: &str) -> Option<String> {
    body.get(key).and_then(Value::as_str).map(str::to_owned)
}

pub(super) fn list_of(body: &Object, key: &str) -> Option<Vec<String>> {
    let list = body.get(key)?.as_array()?;
    Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn dictionary(body: &Object, key: &str) -> Object {
    body.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn times_are_read_as_clients_write_them() {
        let milliseconds = |text| duration(text).map(|it| it.as_millis());
        for (text, expected) in [
            ("60 sec", Some(60_000)),
            ("60", Some(60_000)),
            ("2s", Some(2000)),
            ("1 min", Some(60_000)),
            ("0", Some(0)),
            ("1.5 sec", Some(1500)),
            ("0.25", Some(250)),
            ("500 ms", Some(500)),
            ("500ms", Some(500)),
            ("", None),
            ("sec", None),
            ("-1", None),
            (".5", None),
            ("1.2.3", None),
            ("1e3", None),
            ("inf", None),
            ("1 hour", None),
            ("99999999999999999999", None),
            ("9999999999999999999 min", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }
}
