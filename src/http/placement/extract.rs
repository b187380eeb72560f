//! What handlers take out of a request, beside axum's own extractors: the version, the caller, the
//! parts of the path, the query and the body.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use uuid::Uuid;

use super::body::Body;
use super::microversion::Microversion;
use super::problem::{Code, Problem};
use super::query::Query;
use super::refused::ReadBody;
use super::spelling::dashed_uuid;
use super::{asked, caller};
use crate::http::api::extract::path_parts;
use crate::http::api::intake;
use crate::http::app::App;
use crate::http::layers::identity::Caller;
use crate::model::{Generation, Refusal};
use crate::store::found_faults::FoundFaults;
use crate::world::{Provider, World};

impl<S: Sync> FromRequestParts<S> for Microversion {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        asked(&parts.extensions)
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct AskedBy(pub(super) Arc<Caller>);

impl<S: Sync> FromRequestParts<S> for AskedBy {
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

/// The whole body, within the bounds of length and time. Whether it is JSON is not known yet.
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
    /// The provider that the path names.
    ProviderPath = "uuid";
    /// The resource class of an inventory.
    ClassPath = "resource_class";
    /// The name of a trait or a resource class.
    NamePath = "name";
    /// The consumer that the path names.
    ConsumerPath = "consumer";
}

impl ProviderPath {
    /// The provider.
    pub(super) fn provider<'w>(&self, world: &'w World) -> Result<Provider<'w>, Problem> {
        self.provider_or(world, str::to_owned)
    }

    /// The same; `tell` makes the detail of the problem out of the usual one.
    pub(super) fn provider_or<'w>(
        &self,
        world: &'w World,
        tell: impl FnOnce(&str) -> String,
    ) -> Result<Provider<'w>, Problem> {
        let found = dashed_uuid(&self.0).and_then(|uuid| world.provider(uuid));
        found.ok_or_else(|| Problem::not_found(tell(&no_provider(&self.0))))
    }

    /// The provider, to be written.
    pub(super) async fn target(&self, app: &App) -> Result<Target, Problem> {
        let world = app.store.world().await?;
        let provider = self.provider(&world).inspect_err(|_| {
            if let Some(uuid) = dashed_uuid(&self.0) {
                FoundFaults::note(&Refusal::ProviderNotFound(uuid));
            }
        })?;
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

impl Target {
    /// Compares the generation that a client saw with the one when the request came, before the transaction
    /// does so again; `problem` is the answer if they differ.
    ///
    /// # Errors
    /// They differ.
    pub(super) fn check_generation(
        &self,
        seen: Generation,
        problem: impl FnOnce() -> Problem,
    ) -> Result<(), Problem> {
        if seen == self.generation {
            return Ok(());
        }
        let (provider, actual, given) = (self.uuid, self.generation, seen);
        FoundFaults::note(&Refusal::ProviderGeneration { provider, actual, given });
        Err(problem())
    }
}

/// The answer if the traits or aggregates of a provider were changed since a client read its generation.
pub(super) fn generation_changed() -> Problem {
    let detail = "Resource provider's generation already changed. Please update the generation and \
                  try again.";
    Problem::conflict(detail).code(Code::ConcurrentUpdate)
}

/// What is said of a provider that does not exist.
pub(super) fn no_provider(uuid: &str) -> String {
    format!("No resource provider with uuid {uuid} found")
}
