//! Keeps requests that are refused or find nothing, for whoever asks later why.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;

use super::body::Body;
use super::microversion::Microversion;
use super::problem::Problem;
use super::{Placement, asked};
use crate::http::api::Context;
use crate::http::app::App;
use crate::http::middleware::GlobalRequestId;
use crate::http::operator::claim_faults;
use crate::http::refused::{Facts, Kind, Seen};
use crate::model::claim::Faults;
use crate::search::Request;
use crate::store::Error;
use crate::store::allocations::FoundFaults;
use crate::world::World;

/// The request at hand, in case that it is to be kept.
#[derive(Clone, Debug)]
pub(super) struct AtHand {
    context: Arc<Context<Placement>>,
    global_request_id: Option<GlobalRequestId>,
    uri: Uri,
    asked: Microversion,
}

impl<S: Sync> FromRequestParts<S> for AtHand {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let context = parts.extensions.get::<Arc<Context<Placement>>>().cloned();
        let missing = || Problem::internal("a request has no context");
        let global_request_id = parts.extensions.get().cloned();
        let (uri, asked) = (parts.uri.clone(), asked(&parts.extensions)?);
        Ok(Self { context: context.ok_or_else(missing)?, global_request_id, uri, asked })
    }
}

/// What was found out about a query for candidates that has none.
pub(in crate::http) struct Nothing {
    /// The world in which was searched.
    pub(super) world: Arc<World>,
    /// The request as it was searched for.
    pub(super) request: Request,
}

impl AtHand {
    /// A place for the faults of a claim, if refused claims are kept.
    pub(super) fn place(app: &App) -> FoundFaults {
        if app.refused.is_on() { FoundFaults::wanted() } else { FoundFaults::unwanted() }
    }

    /// Keeps a query for candidates that has none.
    pub(super) fn found_nothing(&self, app: &App, nothing: Nothing) {
        if app.refused.is_on() {
            let seen = self.seen(app, Kind::Candidates, 200, None, &[]);
            app.refused.keep_query(&seen, nothing.world, nothing.request);
        }
    }

    /// Keeps a query for candidates that was understood and refused.
    pub(super) fn refused_query(&self, app: &App, problem: &Problem) {
        if app.refused.is_on() {
            let error = Some(problem.detail.as_str());
            let seen = self.seen(app, Kind::Candidates, problem.status.as_u16(), error, &[]);
            app.refused.keep(&seen, Facts::LeftOut("not_counted"));
        }
    }

    /// Turns what the store says of a claim into a problem. If the claim was refused, it is kept.
    pub(super) fn claim_problem(
        &self,
        app: &App,
        (kind, body, found): (Kind, &Body, &FoundFaults),
        error: Error,
        tell: impl FnOnce(Error) -> Problem,
    ) -> Problem {
        let is_refused = matches!(error, Error::Refused(_));
        let problem = tell(error);
        if is_refused && app.refused.is_on() {
            let facts = found.take().map_or(Facts::LeftOut("failed"), |found| facts(app, &found));
            let (status, detail) = (problem.status.as_u16(), Some(problem.detail.as_str()));
            app.refused.keep(&self.seen(app, kind, status, detail, &body.0), facts);
        }
        problem
    }

    fn seen<'r>(
        &'r self,
        app: &App,
        kind: Kind,
        status: u16,
        error: Option<&'r str>,
        body: &'r [u8],
    ) -> Seen<'r> {
        let caller = self.context.caller();
        let path = self.uri.path_and_query().map_or_else(|| self.uri.path(), |it| it.as_str());
        Seen {
            request_id: &self.context.request_id,
            global_request_id: self.global_request_id.as_ref().map(|id| id.0.as_str()),
            at: app.now(),
            kind,
            method: &self.context.method,
            path,
            microversion: self.asked.to_string(),
            project: caller.and_then(|caller| caller.project.as_deref()),
            user: caller.and_then(|caller| caller.user.as_deref()),
            status,
            error,
            body,
        }
    }
}

/// The faults of a claim, with the names that providers have in memory.
fn facts(app: &App, faults: &Faults) -> Facts {
    Facts::of(&claim_faults(&app.store.known_world(), faults))
}
