//! The explanation of a query for candidates: a form that builds the query, its candidates, and the effect of its
//! conditions.

mod form;
mod views;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};

use self::form::{Form, Question};
use self::views::{Found, KeptPage, QueryPage, candidates};
use super::context::{ConsoleCaller, Problem};
use super::page::{Shell, html};
use crate::auth::policy::operator as rule;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::layers::external_url::ExternalUrl;
use crate::http::layers::identity::Caller;
use crate::http::operator::explain::{explanation_of, prepared};
use crate::http::operator::requests::query_of;
use crate::http::operator::{costly, refused};
use crate::http::placement::microversion::LATEST;
use crate::http::placement::query::Query;

/// Maximum number of near misses on the page.
const NEAR_MISSES: usize = 20;
/// The reason for rejecting a text without a query.
const NO_QUERY: &str = "This has no amounts of resources. Paste a query such as resources=VCPU:8,MEMORY_MB:16384, a \
                        line of a log with one, or the id of a request (req-...).";

/// `GET /ui/why`: [`form`] has the parameters of the query. A wrong one leads to the form with the reason.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    ConsoleCaller(caller): ConsoleCaller,
    shell: Shell,
    external_url: ExternalUrl,
    uri: Uri,
) -> Result<Reply, Problem> {
    let form = Form::of(&query_of(&uri)?)?;
    let is_empty = uri.query().is_none_or(str::is_empty);
    let answered = if !is_empty && form.question() == Question::Nothing {
        Err(Problem::bad_request(NO_QUERY))
    } else {
        answer(&app, &caller, &shell, external_url, &form).await
    };
    match answered {
        Err(problem) if problem.status == StatusCode::BAD_REQUEST => {
            let world = app.store.world().await?;
            let mut page = QueryPage::new(shell, form, &world);
            page.problem = Some(problem.detail);
            Ok(html(&page).status(StatusCode::BAD_REQUEST))
        }
        answered => answered,
    }
}

async fn answer(
    app: &Arc<App>,
    caller: &Caller,
    shell: &Shell,
    external_url: ExternalUrl,
    form: &Form,
) -> Result<Reply, Problem> {
    let (shell, form) = (shell.clone(), form.clone());
    match form.question() {
        Question::Nothing => {
            let world = app.store.world().await?;
            Ok(html(&QueryPage::new(shell, form, &world)))
        }
        Question::Kept(id) => {
            let checked = app.policy.check(caller, rule::REFUSED, None);
            checked.map_err(|denied| Problem::new(StatusCode::FORBIDDEN, denied.to_string()))?;
            let now = app.now();
            let status = app.refused.status(now).ok_or_else(refused::turned_off)?;
            let (found, _) = app.refused.with_id(&id, refused::SHOWN_MAX, now);
            if found.is_empty() && form.path.contains('?') && form.path != form.query {
                let form = Form { query: form.path.clone(), ..form };
                return Box::pin(answer(app, caller, &shell, external_url, &form)).await;
            }
            if found.is_empty() {
                return Err(refused::unknown(&id, &status).into());
            }
            let work = move || {
                let requests = found.iter().map(|it| refused::details(it)).collect();
                html(&KeptPage::new(shell, form, requests))
            };
            Ok(costly::run(app, caller.requester(), work).await?)
        }
        Question::Query(query) => {
            let query = Query::parse(&query)?;
            if !query.names().any(|name| name.starts_with("resources")) {
                return Err(Problem::bad_request(NO_QUERY));
            }
            let url =
                external_url.location(&format!("/allocation_candidates?{}", form::encoded(&query)));
            let written = query.written();
            let (request, world) = prepared(app, &query, LATEST).await?;
            let work = move || -> Result<Reply, Problem> {
                let explanation = explanation_of(&world, &request, NEAR_MISSES)?;
                let candidates = candidates(&world, request)?;
                let found = Found::new(explanation, candidates, (written, url));
                let mut page = QueryPage::new(shell, form, &world);
                page.found = Some(found);
                Ok(html(&page))
            };
            costly::run(app, caller.requester(), work).await?
        }
    }
}
