//! The present: requests, claims and refreshes of this replica, the replicas, the latest refusals and changes.

mod exposition;
mod figures;
pub(in crate::http) mod readings;

use std::sync::Arc;
use std::time::Instant;

use askama::Template;
use axum::extract::State;
use axum::http::Uri;

use self::exposition::Samples;
use self::figures::{Figures, Timing};
use super::amounts::Grouped;
use super::context::{ConsoleCaller, Problem};
use super::history::{self, HistorySection};
use super::page::{Shell, html};
use crate::auth::policy::operator as rule;
use crate::http::admin::gauges;
use crate::http::api::refused::Refused;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::operator::costly;
use crate::http::operator::refused::rfc_3339;
use crate::observe::metrics;
use crate::store::replicas::{Replica, process_id};

/// Maximum numbers of routes and of refusals on the page.
const ROUTES_MAX: usize = 20;
const REFUSALS_MAX: usize = 15;
/// Maximum length of a path that a link repeats, for a replica that has not kept the request.
const LINKED_MAX: usize = 2000;

/// The page.
#[derive(Template)]
#[template(path = "console/now.html")]
struct NowPage {
    shell: Shell,
    /// The activity; `None`: it is not counted.
    activity: Option<Activity>,
    in_progress: Grouped,
    providers: Grouped,
    /// `None`: the caller may not see them.
    replicas: Option<Vec<Replica>>,
    refusals: Option<Vec<RefusalRow>>,
    history: HistorySection,
}

/// The activity of this replica.
struct Activity {
    figures: Figures,
    seconds: f64,
    /// Whether it is that since the start of the process.
    is_since_start: bool,
}

/// A request that was refused or found nothing.
struct RefusalRow {
    id: String,
    at: String,
    method: String,
    path: String,
    /// The detail of the response; `None`: it had no candidates.
    error: Option<String>,
    status: u16,
    project: String,
}

/// `GET /ui/now`
pub(super) async fn show(
    State(app): State<Arc<App>>,
    ConsoleCaller(caller): ConsoleCaller,
    shell: Shell,
    uri: Uri,
) -> Result<Reply, Problem> {
    let may = |rule| app.policy.check(&caller, rule, None).is_ok();
    let replicas = if may(rule::MEMBERS) { Some(app.store.replicas().await?) } else { None };
    let may_see_refusals = may(rule::REFUSED);
    let history = history::read(&app, &caller, &[], &uri).await?;
    let known = Arc::clone(&app);
    let work = move || {
        let page = NowPage {
            shell,
            activity: activity(&known),
            in_progress: Grouped::count(known.requests_in_progress()),
            providers: Grouped::count(known.store.known_world().len()),
            replicas,
            refusals: may_see_refusals.then(|| refusals(&known)),
            history,
        };
        html(&page)
    };
    Ok(costly::run(&app, caller.requester(), work).await?)
}

fn activity(app: &App) -> Option<Activity> {
    gauges::record_load(app);
    let samples = Arc::new(Samples::parse(&metrics::render()?));
    let now = Instant::now();
    let before = app.readings.add(now, &samples);
    let is_since_start = before.is_none();
    let (then, before) = before.unwrap_or_else(|| (app.readings.began(), Arc::default()));
    let seconds = now.duration_since(then).as_secs_f64();
    let figures = Figures::between(&before, &samples, seconds);
    Some(Activity { figures, seconds, is_since_start })
}

fn refusals(app: &App) -> Vec<RefusalRow> {
    let (refused, _) = app.refused.before(u64::MAX, REFUSALS_MAX);
    let row = |it: &Arc<Refused>| RefusalRow {
        id: it.request_id.clone(),
        at: rfc_3339(it.at),
        method: it.method.to_string(),
        path: it.path.clone(),
        error: it.error.clone(),
        status: it.status,
        project: it.project.clone().unwrap_or_default(),
    };
    refused.iter().map(row).collect()
}

/// Formats a rate.
fn rate(per_second: f64) -> String {
    if per_second >= 100.0 { format!("{per_second:.0}/s") } else { format!("{per_second:.1}/s") }
}

/// Formats a duration.
fn duration(seconds: Option<f64>) -> String {
    match seconds {
        None => "–".to_owned(),
        Some(it) if it < 0.001 => format!("{:.0} µs", it * 1e6),
        Some(it) if it < 1.0 => format!("{:.1} ms", it * 1e3),
        Some(it) => format!("{it:.1} s"),
    }
}

/// Formats median and 99th percentile.
fn quantiles(timing: &Timing) -> String {
    format!("{}, {}", duration(timing.p50), duration(timing.p99))
}
