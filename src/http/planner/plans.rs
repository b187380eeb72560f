//! Plans: whole stacks with a place for every server.

use std::time::Duration;

use serde_json::Value;

use super::call::Call;
use super::document::{self, Document};
use super::problem::Problem;
use super::reply::Reply;
use super::schema::{self, Check, Key, NAME_MAX, Object, optional, required};
use super::settle::{self, Proposal, Settled, Terms, new_plan};
use super::template::Template;
use super::wishes::Wish;
use super::{ledger, views};
use crate::http::app::PlannerSettings;
use crate::http::turns::Asker;
use crate::planner::ids::{canonical, same};
use crate::policy::planning;
use crate::store;
use crate::store::planner::plans::{PlanRow, Wanted};

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

/// Attempts at creating a plan that others create or delete at the same time.
const ATTEMPTS_MAX: usize = 5;

/// `GET /v1/plans`
pub(super) async fn list(call: Call) -> Result<Reply, Problem> {
    Ok(Reply::json(&call.app.store.plan_names(call.only_project()).await?))
}

/// `POST /v1/plans`
pub(super) async fn create(call: Call) -> Result<Reply, Problem> {
    schema::check(&call.body, &CREATE)?;
    let terms = terms(&call)?;
    let stack_id = text(&call.body, "stack_id").unwrap_or_default();
    let locations = list_of(&call.body, "locations");
    let resources = dictionary(&call.body, "resources");
    let spread = call.body.get("spread").and_then(Value::as_bool).unwrap_or(false);
    let mut document =
        Document { resources, locations: locations.clone(), spread, ..Document::default() };
    let template = document.template()?;
    for _ in 0..ATTEMPTS_MAX {
        let key = canonical(&stack_id);
        if let Some(plan) = call.app.store.plan_of_stack(&key, call.project()).await? {
            match repeat(&call, &plan, &template, locations.clone(), terms).await {
                // It has been deleted since.
                Err(gone) if gone.is_not_found() => continue,
                repeated => return repeated,
            }
        }
        let caps = call.app.options.planner.caps;
        let room = caps.foresee(&call.app.store, call.project(), template.servers.len()).await;
        room.map_err(refused)?;
        let flavors = call.app.store.flavors_named(&document::flavors(&template)).await?;
        document.measure(&template, &Template::default(), &flavors)?;
        let name = text(&call.body, "plan_name").unwrap_or_default();
        let plan = new_plan(&name, &stack_id, (call.project(), call.user()));
        let proposal = Proposal { plan: &plan, document: &document, template: &template };
        if let Some(settled) = settle::create(&call.app, proposal, terms).await? {
            return Ok(planned(&settled, terms));
        }
    }
    Err(Problem::conflict("Valet error: the plan is created and deleted all the time; try again"))
}

/// A refusal of the store before places are looked for.
fn refused(error: store::Error) -> Problem {
    if let store::Error::Refused(why) = &error {
        return Problem::conflict(format!("Valet error: {why}"));
    }
    error.into()
}

/// The answer to who asks for a plan that is there: the same plan.
async fn repeat(
    call: &Call,
    plan: &PlanRow,
    template: &Template,
    locations: Option<Vec<String>>,
    terms: Terms,
) -> Result<Reply, Problem> {
    let (key, scope) = (plan.id.to_string(), call.own());
    let current = settle::current(&call.app, &key, scope, terms.asker).await?;
    let keys = |template: &Template| {
        let mut keys: Vec<String> = template.servers.iter().map(|it| it.key.clone()).collect();
        keys.sort_unstable();
        keys
    };
    if keys(&current.template) != keys(template) {
        return Err(Problem::conflict(format!(
            "Valet error: There is a plan for stack '{}' already, with other resources; change it \
             with PUT /v1/plans/{}",
            plan.stack_key, plan.id
        )));
    }
    let wish = Wish::Repeat { locations };
    let settled = settle::change(&call.app, &key, scope, &wish, terms).await?;
    Ok(planned(&settled, terms))
}

/// `GET /v1/plans/{plan}`
pub(super) async fn show(call: Call) -> Result<Reply, Problem> {
    let current =
        settle::current(&call.app, &call.key("plan"), call.scope(), Asker::of(&call.caller))
            .await?;
    let locations: Vec<Option<String>> =
        current.placements.iter().map(|row| current.location(row)).collect();
    let placements = current.placements.iter().zip(&locations);
    let placements = placements.map(|(row, location)| {
        (row.orchestration_id.as_str(), row.name.as_str(), location.as_deref())
    });
    Ok(Reply::json(&views::plan(&current.plan, placements)))
}

/// Whether there is the plan that the path names.
pub(super) async fn exists(call: Call) -> Result<(), Problem> {
    settle::meant(&call.app, &call.key("plan"), call.scope()).await.map(|_| ())
}

/// `PUT /v1/plans/{plan}`
pub(super) async fn update(call: Call) -> Result<Reply, Problem> {
    let key = call.key("plan");
    let migrates = text(&call.body, "action").as_deref() == Some("migrate");
    call.permit(&[if migrates { planning::PLANS_MIGRATE } else { planning::PLANS_UPDATE }])?;
    let wish = if call.body.contains_key("action") { act(&call)? } else { add(&call).await? };
    let terms = terms(&call)?;
    let name = text(&call.body, "plan_name");
    let change = settle::Change { wish: &wish, name: name.as_deref() };
    let settled = settle::rename(&call.app, &key, call.scope(), change, terms).await?;
    Ok(planned(&settled, terms))
}

/// Resources beside those of the plan.
async fn add(call: &Call) -> Result<Wish, Problem> {
    schema::check(&call.body, &ADD)?;
    let stack_id = text(&call.body, "stack_id").unwrap_or_default();
    let current =
        settle::current(&call.app, &call.key("plan"), call.scope(), Asker::of(&call.caller))
            .await?;
    if !same(&stack_id, &current.plan.stack_id) {
        return Err(Problem::bad_request(format!(
            "Valet error: stack_id '{stack_id}' is not that of the plan, '{}'",
            current.plan.stack_id
        )));
    }
    Ok(Wish::Add {
        resources: dictionary(&call.body, "resources"),
        update: dictionary(&call.body, "resources_update"),
    })
}

/// The action that the body names.
fn act(call: &Call) -> Result<Wish, Problem> {
    schema::check(&call.body, &ACT)?;
    let resources = call.body.get("resources");
    if text(&call.body, "action").as_deref() == Some("update") {
        let resources = resources.and_then(Value::as_object).cloned();
        let wrong = || Problem::bad_request("Valet error: resources must be a dictionary.");
        return Ok(Wish::Replace(resources.ok_or_else(wrong)?));
    }
    let wrong = || Problem::bad_request("Valet error: resources must be a list of length 1.");
    let server = match resources.and_then(Value::as_array).map(Vec::as_slice) {
        Some([server]) if schema::text_fault(server, NAME_MAX).is_none() => {
            server.as_str().unwrap_or_default().to_owned()
        }
        _ => return Err(wrong()),
    };
    let excluded = list_of(&call.body, "excluded_hosts").unwrap_or_default();
    Ok(Wish::Migrate { server, excluded, locations: None, with_mates: true })
}

/// `DELETE /v1/plans/{plan}`
pub(super) async fn delete(call: Call) -> Result<Reply, Problem> {
    call.no_dry_run()?;
    let (app, key) = (&call.app, call.key("plan"));
    for _ in 0..ATTEMPTS_MAX {
        let plan = settle::meant(app, &key, call.scope()).await?;
        let stored = app.store.groups().await?;
        let wanted = Wanted { plan: Some(plan.id), ..Wanted::default() };
        let placements = app.store.placements(&wanted).await?;
        match app.store.commit(ledger::end(&plan, &placements, &stored)).await {
            Ok(()) => return Ok(Reply::no_content()),
            Err(store::Error::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::conflict("Valet error: the plan is changed all the time; try again"))
}

/// The answer with a plan that has just been settled.
fn planned(settled: &Settled, terms: Terms) -> Reply {
    let view = views::settled(settled);
    let reply = if terms.dry_run { Reply::json(&view) } else { Reply::created(&view) };
    reply.quality(views::quality(settled))
}

/// How long planning may take, and whether anything is written.
pub(super) fn terms(call: &Call) -> Result<Terms, Problem> {
    let PlannerSettings { timeout, timeout_max, .. } = call.app.options.planner;
    let asked = text(&call.body, "timeout").and_then(|text| duration(&text));
    let budget = asked.unwrap_or(timeout).min(timeout_max);
    Ok(Terms { budget, dry_run: call.is_dry_run()?, asker: Asker::of(&call.caller) })
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
