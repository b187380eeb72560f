//! Plans: a list, one drawn on racks and hosts, and dry runs of stacks.

mod drawing;

use std::sync::Arc;

use askama::Template;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde_json::Value;
use uuid::Uuid;

use self::drawing::Drawing;
use super::context::{Console, ConsoleCaller, Problem};
use super::form::{Form, check_origin};
use super::page::{FirstItems, Shell, html};
use crate::auth::policy::planning as rule;
use crate::http::api::dialect::caller;
use crate::http::api::extract::path_parts;
use crate::http::api::in_turn::turn_within;
use crate::http::api::intake;
use crate::http::api::reply::Reply;
use crate::http::app::{App, PlannerSettings};
use crate::http::layers::identity::Caller;
use crate::http::planner;
use crate::model::{Goal, PlacementPolicy};
use crate::planner::draw::Draw;
use crate::planner::ids::canonical;
use crate::planner::json::Object;
use crate::planner::plan::PlanHead;
use crate::planner::topology::Topology;
use crate::planner::{Demand, Explanation};
use crate::planning::{Failure, NewPlan, PlanRef, Planned, Planning, Terms, run};
use crate::store::planner::plans::Scope;

/// Maximum number of plans in the list.
const LISTED: usize = 500;
/// Maximum size of the form, in bytes.
const FORM_MAX: usize = 1024 * 1024;
/// The stack that the form shows first.
const EXAMPLE: &str = r#"{
  "web1": {"type": "OS::Nova::Server", "properties": {"resources": {"VCPU": 2, "MEMORY_MB": 4096}}},
  "web2": {"type": "OS::Nova::Server", "properties": {"resources": {"VCPU": 2, "MEMORY_MB": 4096}}},
  "apart": {"type": "ATT::Valet::GroupAssignment", "properties": {
    "group_type": "diversity", "level": "host", "resources": ["web1", "web2"]}}
}"#;

path_parts! {
    Problem;
    /// The plan in the path, by its id or by that of its stack.
    PlanPath = "plan";
}

/// The list of plans, and the form for a dry run.
#[derive(Template)]
#[template(path = "console/plans.html")]
struct PlansPage {
    shell: Shell,
    plans: FirstItems<PlanHead>,
    form: StackForm,
}

/// The page of a plan.
#[derive(Template)]
#[template(path = "console/plan.html")]
struct PlanPage {
    shell: Shell,
    name: String,
    stack_id: String,
    project: String,
    user: String,
    drawing: Drawing,
}

/// The page of a dry run.
#[derive(Template)]
#[template(path = "console/dry_run.html")]
struct DryRunPage {
    shell: Shell,
    form: StackForm,
    result: DryRun,
}

/// The result of a dry run.
enum DryRun {
    Found(Found),
    /// There are no hosts for the stack.
    NoHosts(Explanation),
    /// The stack is not valid.
    Wrong(String),
}

/// A placement that a dry run found.
struct Found {
    drawing: Drawing,
    /// Whether it is proven that none is better.
    is_optimal: bool,
    /// Resources that were ignored, each with the reason.
    ignored: Vec<(String, String)>,
}

/// The form for a dry run.
struct StackForm {
    stack: String,
    goal: Goal,
}

impl StackForm {
    const GOALS: [Goal; 3] = [Goal::Pack, Goal::Spread, Goal::Balance];
}

/// `GET /ui/plans`: the latest plans that the caller sees.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    ConsoleCaller(caller): ConsoleCaller,
    shell: Shell,
    planning: Planning,
) -> Result<Reply, Problem> {
    let heads = planning.store.plan_heads(scope(&app, &caller).only_project()).await?;
    let plans = FirstItems::of(LISTED, heads.len(), heads.into_iter().rev());
    let form = StackForm { stack: EXAMPLE.to_owned(), goal: Goal::Pack };
    Ok(html(&PlansPage { shell, plans, form }))
}

/// `GET /ui/plans/{plan}`
pub(super) async fn show(
    State(app): State<Arc<App>>,
    ConsoleCaller(caller): ConsoleCaller,
    shell: Shell,
    planning: Planning,
    PlanPath(plan): PlanPath,
) -> Result<Reply, Problem> {
    let key = canonical(&plan);
    let plan = PlanRef { key: &key, scope: scope(&app, &caller) };
    let current = planning.read(plan, caller.requester()).await.map_err(failed)?;
    let turn = planning.read_turn(caller.requester()).await.map_err(failed)?;
    let work = run(turn, move || {
        let draft = current.draft()?;
        let places = draft.servers.iter().map(|server| {
            let row = server.placement.as_ref()?;
            Some((current.location(row)?, Draw::of(row, &current.world).amounts))
        });
        let drawing = Drawing::of(&draft, places, &current.world, &current.topology);
        let plan = current.plan;
        let (name, stack_id) = (plan.name, plan.stack_id);
        let (project, user) = (plan.project, plan.user);
        Ok(html(&PlanPage { shell, name, stack_id, project, user, drawing }))
    });
    work.await.map_err(failed)
}

/// `POST /ui/plans`: chooses hosts for a stack, and writes nothing. A wrong stack leads to the form with the reason.
pub(super) async fn try_stack(
    State(app): State<Arc<App>>,
    shell: Shell,
    planning: Planning,
    request: Request,
) -> Result<Reply, Problem> {
    let (parts, body) = request.into_parts();
    check_origin(&parts.headers)?;
    let caller = Arc::clone(caller::<Console>(&parts.extensions)?);
    let form = Form::parse(&intake::read_at_most(FORM_MAX, body, &app.options).await?)?;
    let form = stack_form(&form)?;
    let (result, status) = match Box::pin(dry_run(&app, &planning, &caller, &form)).await {
        Ok(result) => (result, StatusCode::OK),
        Err(problem) if problem.status == StatusCode::BAD_REQUEST => {
            (DryRun::Wrong(problem.detail), problem.status)
        }
        Err(problem) => return Err(problem),
    };
    Ok(html(&DryRunPage { shell, form, result }).status(status))
}

async fn dry_run(
    app: &App,
    planning: &Planning,
    caller: &Caller,
    form: &StackForm,
) -> Result<DryRun, Problem> {
    let scope = scope(app, caller);
    let new = NewPlan {
        name: "dry run".to_owned(),
        stack_id: Uuid::new_v4().to_string(),
        project: scope.project.to_owned(),
        user: caller.user.iter().cloned().collect(),
        resources: resources(&form.stack)?,
        by_operator: scope.all,
        locations: None,
        policy: PlacementPolicy::of_hosts(form.goal),
    };
    let requester = caller.requester();
    let PlannerSettings { timeout: budget, timeout_max, .. } = app.options.planner;
    let late = "too many plans of the project are in progress; retry later";
    let _turn = turn_within::<Console>(&app.planned, requester, timeout_max, late).await?;
    let terms = Terms { budget, dry_run: true, alternatives: 0, requester };
    match planning.create(new, terms).await {
        Ok(planned) => Ok(DryRun::Found(found(app, planning, planned, caller).await?)),
        Err(Failure::NoPlaces(why)) => Ok(DryRun::NoHosts(why)),
        Err(failure) => Err(failed(failure)),
    }
}

async fn found(
    app: &App,
    planning: &Planning,
    planned: Planned,
    caller: &Caller,
) -> Result<Found, Problem> {
    let world = app.store.world().await?;
    let by_names = app.options.planner.host_names;
    let turn = planning.read_turn(caller.requester()).await.map_err(failed)?;
    let work = run(turn, move || {
        let topology = Topology::of(&world, by_names);
        let Planned { draft, hosts, draws, solution } = planned;
        let ignored = draft.ignored.iter().map(|it| (it.id.clone(), it.why.clone())).collect();
        let places = hosts.into_iter().zip(draws).map(|(host, draw)| Some((host?, draw.amounts)));
        let drawing = Drawing::of(&draft, places, &world, &topology);
        let is_optimal = solution.is_some_and(|solution| solution.stopped.is_none());
        Ok(Found { drawing, is_optimal, ignored })
    });
    work.await.map_err(failed)
}

fn stack_form(form: &Form) -> Result<StackForm, Problem> {
    let stack =
        form.field("stack").ok_or_else(|| Problem::bad_request("The form needs a stack."))?;
    let goal = match form.field("goal") {
        None => Goal::Pack,
        Some(name) => Goal::named(name)
            .ok_or_else(|| Problem::bad_request(format!("There is no policy {name}.")))?,
    };
    Ok(StackForm { stack: stack.to_owned(), goal })
}

/// Parses the resources of a stack, or the body of `POST /v1/plans` with them.
fn resources(text: &str) -> Result<Object, Problem> {
    let wrong = |why: &str| Problem::bad_request(format!("The stack is not valid: {why}"));
    let value: Value =
        serde_json::from_str(text).map_err(|error| wrong(&format!("no JSON: {error}")))?;
    let Value::Object(mut stack) = value else { return Err(wrong("it is no JSON object")) };
    match stack.shift_remove("resources") {
        None => Ok(stack),
        Some(Value::Object(resources)) => Ok(resources),
        Some(_) => Err(wrong("its resources are no JSON object")),
    }
}

/// Returns the plans that the caller sees.
fn scope<'c>(app: &App, caller: &'c Caller) -> Scope<'c> {
    let all = app.policy.check(caller, rule::ALL_PROJECTS_READ, None).is_ok();
    Scope { project: planner::project(caller), all }
}

fn failed(failure: Failure) -> Problem {
    planner::error_of(failure).into_dialect(|_| crate::http::placement::Code::default())
}

/// Returns a demand as a text, such as `diversity apart` or `resource VCPU`.
fn demand(it: &Demand) -> String {
    let names = [Some(it.constraint), it.group.as_deref(), it.name.as_deref()];
    names.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
