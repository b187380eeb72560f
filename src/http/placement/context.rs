//! Microversion and caller of a request, as the layers have established them.

use std::sync::Arc;

use axum::http::Extensions;

use super::dialect::Placement;
use super::microversion::Microversion;
use super::problem::Problem;
use crate::http::api::dialect::context;
use crate::http::layers::identity::Caller;

pub(super) fn microversion(extensions: &Extensions) -> Result<Microversion, Problem> {
    let missing = || Problem::internal("no layer has determined the version");
    context::<Placement>(extensions)?.facts.microversion.get().copied().ok_or_else(missing)
}

pub(super) fn caller(extensions: &Extensions) -> Result<&Arc<Caller>, Problem> {
    let missing = || Problem::internal("no layer has determined the caller");
    context::<Placement>(extensions)?.caller().ok_or_else(missing)
}
