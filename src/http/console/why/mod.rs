//! The explanation of a query for candidates: a form that builds the query, its candidates, and the effect of its
//! conditions.

mod form;
mod views;

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;

use self::form::{Form, Question};
use self::views::{Found, KeptPage, QueryPage, candidates};
use super::context::{ConsoleCaller, Problem};
use super::page::{Shell, html};
use crate::auth::policy::operator as rule;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::layers::external_url::ExternalUrl;
use crate::http::operator::explain::{explanation_of, prepared};
use crate::http::operator::requests::query_of;
use crate::http::operator::{costly, refused};
use crate::http::placement::microversion::LATEST;
use crate::http::placement::query::Query;

/// Maximum number of near misses on the page.
const NEAR_MISSES: usize = 20;

/// `GET /ui/why`: [`form`] has the parameters of the query.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    ConsoleCaller(caller): ConsoleCaller,
    shell: Shell,
    external_url: ExternalUrl,
    uri: Uri,
) -> Result<Reply, Problem> {
    let form = Form::of(&query_of(&uri)?)?;
    match form.question() {
        Question::Nothing => {
            let world = app.store.world().await?;
            Ok(html(&QueryPage::new(shell, form, &world, None)))
        }
        Question::Kept(id) => {
            let checked = app.policy.check(&caller, rule::REFUSED, None);
            checked.map_err(|denied| {
                Problem::new(axum::http::StatusCode::FORBIDDEN, denied.to_string())
            })?;
            let now = app.now();
            let status = app.refused.status(now).ok_or_else(refused::turned_off)?;
            let (found, _) = app.refused.with_id(&id, refused::SHOWN_MAX, now);
            if found.is_empty() {
                return Err(refused::unknown(&id, &status).into());
            }
            let work = move || {
                let requests = found.iter().map(|it| refused::details(it)).collect();
                html(&KeptPage::new(shell, form, requests))
            };
            Ok(costly::run(&app, caller.requester(), work).await?)
        }
        Question::Query(query) => {
            let query = Query::parse(&query)?;
            let url =
                external_url.location(&format!("/allocation_candidates?{}", form::encoded(&query)));
            let written = query.written();
            let (request, world) = prepared(&app, &query, LATEST).await?;
            let work = move || -> Result<Reply, Problem> {
                let explanation = explanation_of(&world, &request, NEAR_MISSES)?;
                let candidates = candidates(&world, request)?;
                let found = Found::new(explanation, candidates, (written, url));
                Ok(html(&QueryPage::new(shell, form, &world, Some(found))))
            };
            costly::run(&app, caller.requester(), work).await?
        }
    }
}
