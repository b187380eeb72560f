//! The permission of a caller.

use axum::http::Method;

use super::dialect::Planner;
use super::problem::Problem;
use crate::auth::policy::Rule;
use crate::http::api::dialect::Row;
use crate::http::api::routes::methods;
use crate::http::app::App;
use crate::http::layers::identity::Caller;

/// Returns the caller's project; empty if it has none.
pub(in crate::http) fn project(caller: &Caller) -> &str {
    caller.project.as_deref().unwrap_or_default()
}

/// Rejects callers that no rule allows. Rules are evaluated against the caller's own project;
/// access to other projects is one separate rule.
pub(super) fn permit(app: &App, caller: &Caller, rules: &[Rule]) -> Result<(), Problem> {
    let may = rules.iter().any(|rule| app.policy.check(caller, *rule, None).is_ok());
    if may { Ok(()) } else { Err(Problem::unauthorized()) }
}

/// Returns the methods of a path as listed in `Allow`.
pub(super) fn allowed(rows: &[Row<Planner>]) -> String {
    let others = methods(rows).into_iter().filter(|method| *method != Method::OPTIONS.as_str());
    others.collect::<Vec<_>>().join(",")
}
