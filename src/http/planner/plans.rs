//! Plans: whole stacks with a place for every server.

use std::time::Duration;

use serde_json::Value;

use super::call::Call;
use super::problem::Problem;
use super::reply::Reply;
use super::schema::{self, Check, Key, NAME_MAX, Object, optional, required};
use super::views;
use crate::http::app::PlannerSettings;
use crate::planner::change::PlanChange;
use crate::planning::{NewPlan, Planned, Terms};
use crate::policy::planning;

const CREATE: [Key; 6] = [
    optional("locations", Check::Custom("array", texts)),
    required("plan_name", Check::Name(NAME_MAX)),
    required("resources", Check::Dictionary),
    optional("spread", Check::Custom("boolean", boolean)),
    required("stack_id", Check::Name(NAME_MAX)),
    optional("timeout", Check::Custom("string", timeout)),
];
const ADD: [Key; 5] = [
    required("plan_name", Check::Name(NAME_MAX)),
    required("resources", Check::Dictionary),
    required("resources_update", Check::Dictionary),
    required("stack_id", Check::Name(NAME_MAX)),
    optional("timeout", Check::Custom("string", timeout)),
];
const ACT: [Key; 6] = [
    required("action", Check::Custom("valid_plan_update_action", action)),
    optional("excluded_hosts", Check::Custom("array", texts)),
    optional("original_resources", Check::Dictionary),
    optional("plan_name", Check::Name(NAME_MAX)),
    required("resources", Check::Custom("resources", anything)),
    optional("timeout", Check::Custom("string", timeout)),
];

/// `GET /v1/plans`: the names of the plans that the caller sees, oldest first.
pub(super) async fn list(call: Call) -> Result<Reply, Problem> {
    Ok(Reply::json(&call.app.store.plan_names(call.only_project()).await?))
}

/// `POST /v1/plans`: chooses a host for each server of a stack and holds its capacity. A stack has one
/// plan; if it has one already, with the same servers, that is the answer.
pub(super) async fn create(call: Call) -> Result<Reply, Problem> {
    schema::check(&call.body, &CREATE)?;
    let terms = terms(&call)?;
    let new = NewPlan {
        name: text(&call.body, "plan_name").unwrap_or_default(),
        stack_id: text(&call.body, "stack_id").unwrap_or_default(),
        project: call.project().to_owned(),
        user: call.user().to_owned(),
        resources: dictionary(&call.body, "resources"),
        locations: list_of(&call.body, "locations"),
        spread: call.body.get("spread").and_then(Value::as_bool).unwrap_or(false),
    };
    Ok(planned(&call.planning().create(new, terms).await?, terms))
}

/// `GET /v1/plans/{plan}`: the plan with the host of each server.
pub(super) async fn show(call: Call) -> Result<Reply, Problem> {
    let current = call.planning().read(call.plan(&call.key("plan")), call.asker()).await?;
    Ok(Reply::json(&views::current(&current)))
}

/// Whether there is the plan that the path names.
pub(super) async fn exists(call: Call) -> Result<(), Problem> {
    call.planning().find(call.plan(&call.key("plan"))).await?;
    Ok(())
}

/// `PUT /v1/plans/{plan}`: adds resources, replaces all of them (action `update`), or moves one server to
/// another host (action `migrate`). Each has a rule of its own in the policy.
pub(super) async fn update(call: Call) -> Result<Reply, Problem> {
    let key = call.key("plan");
    let migrates = text(&call.body, "action").as_deref() == Some("migrate");
    call.permit(&[if migrates { planning::PLANS_MIGRATE } else { planning::PLANS_UPDATE }])?;
    let change = if call.body.contains_key("action") { act(&call)? } else { add(&call)? };
    let terms = terms(&call)?;
    let name = text(&call.body, "plan_name");
    let planning = call.planning();
    let changed =
        planning.change_and_rename(call.plan(&key), change, name.as_deref(), terms).await?;
    Ok(planned(&changed, terms))
}

/// Resources beside those of the plan.
fn add(call: &Call) -> Result<PlanChange, Problem> {
    schema::check(&call.body, &ADD)?;
    Ok(PlanChange::Add {
        stack_id: text(&call.body, "stack_id").unwrap_or_default(),
        resources: dictionary(&call.body, "resources"),
        update: dictionary(&call.body, "resources_update"),
    })
}

/// The action that the body names.
fn act(call: &Call) -> Result<PlanChange, Problem> {
    schema::check(&call.body, &ACT)?;
    let resources = call.body.get("resources");
    if text(&call.body, "action").as_deref() == Some("update") {
        let resources = resources.and_then(Value::as_object).cloned();
        let wrong = || Problem::bad_request("Valet error: resources must be a dictionary.");
        return Ok(PlanChange::Replace(resources.ok_or_else(wrong)?));
    }
    let wrong = || Problem::bad_request("Valet error: resources must be a list of length 1.");
    let server = match resources.and_then(Value::as_array).map(Vec::as_slice) {
        Some([server]) if schema::text_fault(server, NAME_MAX).is_none() => {
            server.as_str().unwrap_or_default().to_owned()
        }
        _ => return Err(wrong()),
    };
    let excluded = list_of(&call.body, "excluded_hosts").unwrap_or_default();
    Ok(PlanChange::Migrate { server, excluded, locations: None, with_mates: true })
}

/// `DELETE /v1/plans/{plan}`: gives up what the plan holds. Instances keep their allocations.
pub(super) async fn delete(call: Call) -> Result<Reply, Problem> {
    call.no_dry_run()?;
    call.planning().delete(call.plan(&call.key("plan"))).await?;
    Ok(Reply::no_content())
}

/// The answer with a plan whose hosts have just been chosen.
fn planned(planned: &Planned, terms: Terms) -> Reply {
    let view = views::planned(planned);
    let reply = if terms.dry_run { Reply::json(&view) } else { Reply::created(&view) };
    reply.quality(views::quality(planned))
}

/// How long planning may take, and whether anything is written.
pub(super) fn terms(call: &Call) -> Result<Terms, Problem> {
    let PlannerSettings { timeout, timeout_max, .. } = call.app.options.planner;
    let asked = text(&call.body, "timeout").and_then(|text| duration(&text));
    let budget = asked.unwrap_or(timeout).min(timeout_max);
    Ok(Terms { budget, dry_run: call.is_dry_run()?, asker: call.asker() })
}

/// A time as clients write it: `60 sec`, `60`, `60s`, `1 min`.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().ok()?;
    let seconds = match unit.trim() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => number,
        "m" | "min" | "mins" | "minute" | "minutes" => number.checked_mul(60)?,
        _ => return None,
    };
    Some(Duration::from_secs(seconds))
}

fn timeout(value: &Value) -> Result<(), String> {
    let text = value.as_str().ok_or("not of type string")?;
    duration(text).map(|_| ()).ok_or_else(|| "must be a number of sec or min".to_owned())
}

fn action(value: &Value) -> Result<(), String> {
    match value.as_str() {
        Some("update" | "migrate") => Ok(()),
        _ => Err("must be update or migrate".to_owned()),
    }
}

fn boolean(value: &Value) -> Result<(), String> {
    value.as_bool().map(|_| ()).ok_or_else(|| "not of type boolean".to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "it is a check among others; the action has its own")]
fn anything(_: &Value) -> Result<(), String> {
    Ok(())
}

/// A list of texts.
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
        let seconds = |text| duration(text).map(|it| it.as_secs());
        for (text, expected) in [
            ("60 sec", Some(60)),
            ("60", Some(60)),
            ("2s", Some(2)),
            ("1 min", Some(60)),
            ("0", Some(0)),
            ("", None),
            ("sec", None),
            ("-1", None),
            ("1.5 sec", None),
            ("1 hour", None),
            ("99999999999999999999", None),
            ("9999999999999999999 min", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
