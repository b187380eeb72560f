//! One request as its handler sees it: routed, permitted, its body read but not yet understood.

use std::sync::Arc;

use uuid::Uuid;

use super::body::Body;
use super::microversion::Microversion;
use super::problem::Problem;
use super::query::Query;
use super::spelling::dashed_uuid;
use crate::http::app::App;
use crate::http::identity::Caller;
use crate::http::path::Captured;
use crate::http::site::Site;
use crate::model::Generation;
use crate::policy::Rule;
use crate::world::{Provider, World};

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// What to answer it with.
    pub(super) app: Arc<App>,
    /// The version asked for.
    pub(super) asked: Microversion,
    /// Who asks.
    pub(super) caller: Arc<Caller>,
    /// What the path's variable parts are, by name.
    pub(super) captured: Captured,
    /// The query string as it came.
    pub(super) raw_query: String,
    /// The body, empty if the route takes none.
    pub(super) body: Body,
    /// Where the client found us.
    pub(super) site: Site,
}

impl Call {
    /// A variable part of the path, by the name it has in the route.
    pub(super) fn part(&self, name: &str) -> &str {
        let found = self.captured.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// The query.
    pub(super) fn query(&self) -> Result<Query, Problem> {
        Query::parse(&self.raw_query)
    }

    /// Seconds since the Unix epoch.
    pub(super) fn now(&self) -> i64 {
        (self.app.clock)()
    }

    /// Refuses the caller unless the rule allows it, concerning the things of `project`.
    pub(super) fn permit(&self, rule: Rule, project: Option<&str>) -> Result<(), Problem> {
        let verdict = self.app.policy.check(&self.caller, rule, project);
        verdict.map_err(|denied| Problem::forbidden(denied.to_string()))
    }

    /// The provider that the path's `uuid` names.
    pub(super) fn provider<'w>(&self, world: &'w World) -> Result<Provider<'w>, Problem> {
        let text = self.part("uuid");
        let found = dashed_uuid(text).and_then(|uuid| world.provider(uuid));
        found.ok_or_else(|| Problem::not_found(no_provider(text)))
    }

    /// The provider that the path's `uuid` names, to be written.
    pub(super) async fn target(&self) -> Result<Target, Problem> {
        let world = self.app.store.world().await?;
        let provider = self.provider(&world)?;
        Ok(Target { uuid: provider.uuid(), generation: provider.generation() })
    }
}

/// A provider about to be written: which, and the generation it has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Its identity.
    pub(super) uuid: Uuid,
    /// Its generation when the request came.
    pub(super) generation: Generation,
}

/// What is said of a provider that does not exist.
pub(super) fn no_provider(uuid: &str) -> String {
    format!("No resource provider with uuid {uuid} found")
}
