//! Extractors of the Placement API, beside axum's own: the version, the caller, segments of the
//! path, the query and the body.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use uuid::Uuid;

use super::body::Body;
use super::context::microversion;
use super::microversion::Microversion;
use super::problem::{Code, Problem};
use super::query::Query;
use super::refused::ReadBody;
use super::spelling::dashed_uuid;
use crate::http::api::dialect::caller;
use crate::http::api::extract::path_parts;
use crate::http::api::intake;
use crate::http::app::App;
use crate::http::layers::identity::Caller;
use crate::model::{Generation, Refusal};
use crate::world::{Provider, World};

impl<S: Sync> FromRequestParts<S> for Microversion {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        microversion(&parts.extensions)
    }
}

#[derive(Clone, Debug)]
pub(super) struct RequestCaller(pub(super) Arc<Caller>);

impl<S: Sync> FromRequestParts<S> for RequestCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        caller(&parts.extensions).cloned().map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

/// Reads the complete body, within the limits of length and time. Does not check whether it is
/// JSON.
impl FromRequest<Arc<App>> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let body = intake::read(body, &app.options).await?;
        ReadBody::note(&parts.extensions, &body);
        Ok(Self(body))
    }
}

path_parts! {
    Problem;
    /// The provider in the path.
    ProviderPath = "uuid";
    /// The resource class of an inventory.
    ClassPath = "resource_class";
    /// The name of a trait or a resource class.
    NamePath = "name";
    /// The consumer in the path.
    ConsumerPath = "consumer";
}

impl ProviderPath {
    pub(super) fn provider<'w>(&self, world: &'w World) -> Result<Provider<'w>, Problem> {
        self.provider_or(world, str::to_owned)
    }

    /// The same; `tell` makes the detail of the problem from the default one.
    pub(super) fn provider_or<'w>(
        &self,
        world: &'w World,
        tell: impl FnOnce(&str) -> String,
    ) -> Result<Provider<'w>, Problem> {
        self.uuid().and_then(|uuid| world.provider(uuid)).ok_or_else(|| self.not_found(tell))
    }

    /// Returns the problem that there is no such provider; `tell` makes its detail from the default one.
    pub(super) fn not_found(&self, tell: impl FnOnce(&str) -> String) -> Problem {
        Problem::not_found(tell(&no_provider(&self.0)))
    }

    /// Returns the UUID of the provider; `None` if the path has none.
    pub(super) fn uuid(&self) -> Option<Uuid> {
        dashed_uuid(&self.0)
    }

    /// Returns the provider for a write.
    pub(super) async fn target(&self, app: &App) -> Result<Target, Problem> {
        let world = app.store.world().await?;
        let provider = self.provider(&world).map_err(|problem| match self.uuid() {
            Some(uuid) => problem.faults_of(&Refusal::ProviderNotFound(uuid)),
            None => problem,
        })?;
        Ok(Target { uuid: provider.uuid(), generation: provider.generation() })
    }
}

/// A provider to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) uuid: Uuid,
    /// Its generation on arrival of the request.
    pub(super) generation: Generation,
}

impl Target {
    /// Compares the client's generation with the one on arrival of the request; the transaction
    /// compares it again.
    ///
    /// # Errors
    /// `problem`, if they differ.
    /// They differ.
    pub(super) fn check_generation(
        &self,
        expected: Generation,
        problem: impl FnOnce() -> Problem,
    ) -> Result<(), Problem> {
        if expected == self.generation {
            return Ok(());
        }
        let (provider, actual, given) = (self.uuid, self.generation, expected);
        Err(problem().faults_of(&Refusal::ProviderGeneration { provider, actual, given }))
    }
}

/// Returns the problem of a write of traits or aggregates with an old generation.
pub(super) fn generation_changed() -> Problem {
    let detail = "Resource provider's generation already changed. Please update the generation and \
                  try again.";
    Problem::conflict(detail).code(Code::ConcurrentUpdate)
}

/// Returns the detail for a provider that does not exist.
pub(super) fn no_provider(uuid: &str) -> String {
    format!("No resource provider with uuid {uuid} found")
}
