//! Extractors of both APIs, beside axum's own.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::Extensions;
use axum::http::request::Parts;

use super::dialect::{Dialect, Problem};
use super::path::prefix;
use crate::http::app::App;
use crate::http::layers::external_url::ExternalUrl;
use crate::store::Changes;
use crate::store::effects::Recorder;

impl<S: Sync> FromRequestParts<S> for ExternalUrl {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts, prefix(&parts.extensions)))
    }
}

/// Returns a segment of the path, decoded.
///
/// # Errors
/// The route has no segment of that name.
pub(in crate::http) async fn part<D: Dialect, S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    name: &str,
) -> Result<String, Problem<D>> {
    let all = RawPathParams::from_request_parts(parts, state).await;
    let all = all.map_err(|error| Problem::bad_request(format!("Invalid path: {error}")))?;
    let part = all.iter().find(|(known, _)| *known == name);
    let missing = || Problem::internal(format!("the route has no part {name}"));
    part.map(|(_, value)| value.to_owned()).ok_or_else(missing)
}

/// Defines one extractor for each path segment. The rejections of axum's own are not those of the
/// API.
macro_rules! path_parts {
    ($problem:ty; $($(#[doc = $doc:literal])+ $extractor:ident = $name:literal;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub(super) struct $extractor(pub(super) String);

            impl<S: Send + Sync> axum::extract::FromRequestParts<S> for $extractor {
                type Rejection = $problem;

                async fn from_request_parts(
                    parts: &mut axum::http::request::Parts,
                    state: &S,
                ) -> Result<Self, $problem> {
                    crate::http::api::extract::part(parts, state, $name).await.map(Self)
                }
            }
        )+
    };
}

pub(in crate::http) use path_parts;

/// The application, and the access for the changes of a request, which are recorded with it.
pub(in crate::http) struct Changing {
    pub(in crate::http) app: Arc<App>,
    pub(in crate::http) changes: Changes,
}

impl Changing {
    /// Returns the access for the changes of a request.
    pub(in crate::http) fn of(extensions: &Extensions, app: &Arc<App>) -> Self {
        // Without the audit layer, nothing is recorded.
        let recorder = extensions.get().cloned().unwrap_or_else(Recorder::none);
        Self { app: Arc::clone(app), changes: app.store.changes(recorder) }
    }
}

impl FromRequestParts<Arc<App>> for Changing {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions, app))
    }
}
