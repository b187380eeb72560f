//! The two mounts of the API, and all differences between them.
//!
//! `/v1` follows the API's document. `/compat/v1` behaves like Valet from May 2016 on, which its
//! released clients expect: plans and placements are wrapped in a key, later fields are included,
//! and an unknown group is a 404 for a plan, too.

use axum::http::Extensions;
use serde_json::{Value, json};

use super::problem::Problem;
use super::views::{self, GroupView, PlacementView, Plan};
use crate::http::api::path;
use crate::planner::group::StoredGroup;
use crate::planner::plan::Placement;
use crate::planner::rejection::Rejection;
use crate::planning::{Failure, Recommendation};

/// The path of the second mount.
pub(super) const COMPAT: &str = "/compat";

/// The mount of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mount {
    /// `/v1`: follows the API's document.
    Document,
    /// `/compat/v1`: as released clients expect.
    Compat,
}

impl Mount {
    pub(super) fn of(extensions: &Extensions) -> Self {
        if path::prefix(extensions) == COMPAT { Self::Compat } else { Self::Document }
    }

    pub(super) fn plan(self, view: Plan) -> Value {
        match self {
            Self::Document => json!(view),
            Self::Compat => json!({"plan": view.strip()}),
        }
    }

    pub(super) fn plans(self, views: &[Plan]) -> Value {
        match self {
            Self::Document => json!(views),
            Self::Compat => json!({"plans": views}),
        }
    }

    pub(super) fn placements(self, views: &[Value]) -> Value {
        match self {
            Self::Document => json!(views),
            Self::Compat => json!({"placements": views}),
        }
    }

    /// Renders a placement.
    ///
    /// # Errors
    /// Its stored metadata is invalid.
    pub(super) fn placement(
        self,
        row: &Placement,
        location: Option<&str>,
    ) -> Result<Value, Failure> {
        self.placement_fields(row, location).map(|fields| self.around_placement(&fields))
    }

    fn around_placement(self, fields: &PlacementView) -> Value {
        match self {
            Self::Document => json!(fields),
            Self::Compat => json!({"placement": fields}),
        }
    }

    /// Renders a placement without the wrapper, as in a list.
    ///
    /// # Errors
    /// Its stored metadata is invalid.
    pub(super) fn placement_fields(
        self,
        row: &Placement,
        location: Option<&str>,
    ) -> Result<PlacementView, Failure> {
        let mut view = views::placement(row, location);
        if self == Self::Compat {
            view.resource_id = Some(row.resource_id.clone());
            view.metadata = Some(views::metadata(row)?);
            view.reserved = Some(row.reserved == Some(true));
        }
        Ok(view)
    }

    /// Renders the recommended host of a server; `id` is the client's id of it.
    ///
    /// # Errors
    /// The stored metadata of its placement is invalid.
    pub(super) fn recommendation(self, it: &Recommendation, id: &str) -> Result<Value, Failure> {
        let host = it.host.as_deref();
        let mut view = match &it.placement {
            Some(row) => self.placement_fields(row, host)?,
            None => views::unplanned(host, id),
        };
        view.current_location = Some(it.present.clone());
        Ok(self.around_placement(&view))
    }

    pub(super) fn group(self, group: &StoredGroup) -> GroupView {
        let mut view = views::group(group);
        if self == Self::Compat {
            view.level = Some(group.effective_level().name());
            view.description.get_or_insert_default();
        }
        view
    }

    pub(super) fn problem(self, failure: Failure) -> Problem {
        match (self, &failure) {
            (
                Self::Compat,
                Failure::Rejected(
                    why @ (Rejection::GroupNotFound(_) | Rejection::NoSuchGroup { .. }),
                ),
            ) => Problem::not_found(format!("Valet error: {why}")),
            _ => failure.into(),
        }
    }
}
