//! The microversion of a request, as the layers have established it.

use axum::http::Extensions;

use super::dialect::Placement;
use super::microversion::Microversion;
use super::problem::Problem;
use crate::http::api::dialect::context;

pub(super) fn microversion(extensions: &Extensions) -> Result<Microversion, Problem> {
    let missing = || Problem::internal("no layer has determined the version");
    context::<Placement>(extensions)?.facts.microversion.get().copied().ok_or_else(missing)
}
