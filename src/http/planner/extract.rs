//! Extractors of the planner's API, beside axum's own: the caller and its permissions, segments of
//! the path, the query and the body.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::Method;
use axum::http::request::Parts;

use super::context::project;
use super::dialect::Planner;
use super::mount::Mount;
use super::problem::Problem;
use super::schema::{self, Object};
use crate::auth::policy::{Rule, planning};
use crate::fairness::turns::{QueueFull, Requester, Turn};
use crate::http::api::dialect::caller;
use crate::http::api::dialect::context;
use crate::http::api::extract::{Changing, path_parts};
use crate::http::api::intake;
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::app::{App, PlannerSettings};
use crate::http::layers::identity::Caller;
use crate::planning::{PlanRef, Planning};
use crate::store::planner::plans::Scope;

path_parts! {
    Problem;
    /// The group in the path, by its id or its name.
    GroupPath = "group";
    /// The member of a group.
    MemberPath = "member";
    /// The placement in the path.
    PlacementPath = "placement";
    /// The plan in the path.
    PlanPath = "plan";
}

/// The caller, the mount of the request, and whether the caller may access the plans and placements
/// of all projects.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub(super) caller: Arc<Caller>,
    pub(super) mount: Mount,
    sees_all: bool,
}

impl FromRequestParts<Arc<App>> for Tenant {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let caller = Arc::clone(caller(&parts.extensions)?);
        let rule = of_all_projects(&parts.method);
        let sees_all = app.policy.check(&caller, rule, None).is_ok();
        let mount = mount(parts)?;
        Ok(Self { caller, mount, sees_all })
    }
}

impl FromRequestParts<Arc<App>> for Mount {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &Arc<App>) -> Result<Self, Problem> {
        mount(parts)
    }
}

fn mount(parts: &Parts) -> Result<Mount, Problem> {
    let mount = context::<Planner>(&parts.extensions)?.facts.mount.get().copied();
    mount.ok_or_else(|| Problem::internal("no layer has read the path"))
}

/// Returns the rule for access to other projects: to read, or to change.
fn of_all_projects(method: &Method) -> Rule {
    if [Method::GET, Method::HEAD, Method::OPTIONS].contains(method) {
        planning::ALL_PROJECTS_READ
    } else {
        planning::ALL_PROJECTS_WRITE
    }
}

impl Tenant {
    pub(super) fn project(&self) -> &str {
        project(&self.caller)
    }

    pub(super) fn user(&self) -> &str {
        self.caller.user.as_deref().unwrap_or_default()
    }

    /// Returns the scope of visible plans and placements.
    pub(super) fn scope(&self) -> Scope<'_> {
        Scope { project: self.project(), all: self.sees_all }
    }

    /// Returns the project whose resources are visible; `None`: those of all projects.
    pub(super) fn only_project(&self) -> Option<&str> {
        self.scope().only_project()
    }

    /// Returns the plan with a key, if it is visible.
    pub(super) fn plan<'k>(&'k self, key: &'k str) -> PlanRef<'k> {
        PlanRef { key, scope: self.scope() }
    }

    /// Returns the key by which turns are shared.
    pub(super) fn requester(&self) -> Requester {
        self.caller.requester()
    }

    /// Waits for a turn to plan for the project.
    ///
    /// # Errors
    /// The queue is full, or there was no turn in time.
    pub(super) async fn turn(&self, app: &App) -> Result<Turn, Problem> {
        let PlannerSettings { at_once, waiting, timeout_max, .. } = app.options.planner;
        let planned = format!(
            "{at_once} requests of the project are in progress (--planner-project-requests)"
        );
        match tokio::time::timeout(timeout_max, app.planned.turn(self.requester())).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(QueueFull)) => Err(Problem::too_many(format!("{planned}, and {waiting} wait."))),
            Err(_) => Err(Problem::too_many(format!(
                "{planned}, and none ended within {} s (--planner-timeout-max).",
                timeout_max.as_secs_f64()
            ))),
        }
    }
}

impl FromRequestParts<Arc<App>> for Planning {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        let Changing { changes, .. } = Changing::of(&parts.extensions, app);
        let settings = &app.options.planner;
        Ok(Self {
            store: app.store.clone(),
            changes,
            solver_turns: app.plan_turns.clone(),
            solver_threads: settings.threads,
            read_turns: app.read_turns.clone(),
            watch: app.watch.clone(),
            turn_wait: settings.turn_wait,
            host_names: settings.host_names,
            volume_policy: settings.volume_policy,
            caps: settings.caps,
            headroom: app.headroom.clone(),
        })
    }
}

/// Maximum number of alternative placements that a dry run may request.
const ALTERNATIVES_MAX: usize = 10;

/// The parameters of requests that choose hosts.
pub(super) static TERMS_QUERY: [Parameter; 2] = [
    Parameter::new(
        "dry_run",
        ParameterKind::Word(&["true", "false"]),
        "Chooses hosts and writes nothing.",
    ),
    Parameter::new(
        "alternatives",
        ParameterKind::Number(1, Some(ALTERNATIVES_MAX)),
        "Number of further placements in the response, in a dry run.",
    ),
];

/// The query: names and values, in order.
#[derive(Clone, Debug)]
pub(in crate::http) struct Query(pub(super) Arc<[(String, String)]>);

impl FromRequestParts<Arc<App>> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &Arc<App>) -> Result<Self, Problem> {
        let query = context::<Planner>(&parts.extensions)?.facts.query.get().cloned();
        query.ok_or_else(|| Problem::internal("no layer has read the query"))
    }
}

impl Query {
    pub(super) fn of(pairs: Vec<(String, String)>) -> Self {
        Self(pairs.into())
    }

    /// Returns whether the request is a dry run.
    pub(super) fn is_dry_run(&self) -> Result<bool, Problem> {
        let value = self.0.iter().rev().find(|(name, _)| name == "dry_run");
        match value.map(|(_, value)| value.to_ascii_lowercase()).as_deref() {
            None | Some("false" | "0" | "no") => Ok(false),
            Some("" | "true" | "1" | "yes") => Ok(true),
            Some(other) => {
                Err(Problem::bad_request(format!("dry_run must be true or false, not {other}")))
            }
        }
    }

    /// Returns the number of requested alternatives; 0 unless it is a dry run.
    pub(super) fn alternatives(&self) -> Result<usize, Problem> {
        let value = self.0.iter().rev().find(|(name, _)| name == "alternatives");
        let Some((_, value)) = value else { return Ok(0) };
        let number = value.parse().ok().filter(|number| (1..=ALTERNATIVES_MAX).contains(number));
        let number = number.ok_or_else(|| {
            let most = ALTERNATIVES_MAX;
            Problem::bad_request(format!(
                "alternatives must be a number from 1 to {most}, not {value}"
            ))
        })?;
        if self.is_dry_run()? {
            return Ok(number);
        }
        Err(Problem::bad_request("alternatives are for dry runs only: add dry_run=true"))
    }

    /// Rejects a dry run of other operations.
    pub(super) fn no_dry_run(&self) -> Result<(), Problem> {
        if self.is_dry_run()? {
            return Err(Problem::bad_request("dry_run is for creating and updating plans"));
        }
        Ok(())
    }
}

/// The body: a JSON object, not yet validated. Slow bodies of a project can take only a share of
/// `--max-requests`.
#[derive(Clone, Debug)]
pub(super) struct JsonObject(pub(super) Object);

impl FromRequest<Arc<App>> for JsonObject {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let requester = caller(request.extensions())?.requester();
        let _arriving = app.arriving.turn_now(requester).ok_or_else(Problem::too_many_bodies)?;
        let body = intake::read(request.into_body(), &app.options).await?;
        schema::read(&body).map(Self)
    }
}
