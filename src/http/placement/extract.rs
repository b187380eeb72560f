//! What handlers take out of a request, beside axum's own extractors: the version, the provider that
//! the path names, the query, the body, and where the client found us.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use uuid::Uuid;

use super::body::Body;
use super::microversion::Microversion;
use super::problem::Problem;
use super::query::Query;
use super::spelling::dashed_uuid;
use super::{Prefix, context};
use crate::http::app::App;
use crate::http::external_url::ExternalUrl;
use crate::http::identity::Caller;
use crate::http::intake;
use crate::model::Generation;
use crate::world::{Provider, World};

impl<S: Sync> FromRequestParts<S> for Microversion {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        context(&parts.extensions)?.asked()
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct AskedBy(pub(super) Arc<Caller>);

impl<S: Sync> FromRequestParts<S> for AskedBy {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        context(&parts.extensions)?.caller().cloned().map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

impl<S: Sync> FromRequestParts<S> for ExternalUrl {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let prefix = parts.extensions.get::<Prefix>().map_or("", |prefix| prefix.0.as_str());
        Ok(Self::of(parts, prefix))
    }
}

/// The whole body, within the bounds of length and time. Whether it is JSON is not known yet.
impl FromRequest<Arc<App>> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        Ok(Self(intake::read(request.into_body(), &app.options).await?))
    }
}

/// Makes extractors of one part of the path each, as the client wrote it but for its escapes. axum's
/// own has refusals that are not the API's.
macro_rules! parts {
    ($($(#[doc = $doc:literal])+ $extractor:ident = $name:literal;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub(super) struct $extractor(pub(super) String);

            impl<S: Send + Sync> FromRequestParts<S> for $extractor {
                type Rejection = Problem;

                async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
                    part(parts, state, $name).await.map(Self)
                }
            }
        )+
    };
}

parts! {
    /// The provider that the path names.
    ProviderPath = "uuid";
    /// The resource class of an inventory.
    ClassPath = "resource_class";
    /// The name of a trait or a resource class.
    NamePath = "name";
    /// The consumer that the path names.
    ConsumerPath = "consumer";
}

async fn part<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, Problem> {
    let all = RawPathParams::from_request_parts(parts, state).await;
    let all = all.map_err(|error| Problem::bad_request(format!("Invalid path: {error}")))?;
    let part = all.iter().find(|(known, _)| *known == name);
    let missing = || Problem::internal(format!("the route has no part {name}"));
    part.map(|(_, value)| value.to_owned()).ok_or_else(missing)
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
