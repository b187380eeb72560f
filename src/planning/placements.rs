//! Finds placements by the ids that callers use.

use uuid::Uuid;

use super::context::Planning;
use super::failure::Failure;
use crate::planner::ids::{canonical, same};
use crate::planner::location;
use crate::planner::plan::Placement;
use crate::planner::rejection::Rejection;
use crate::store::planner::plans::{PlacementFilter, Scope};

/// Maximum number of placements listed in a failure when an id is ambiguous.
const NAMED_MAX: usize = 10;

impl Planning {
    /// Finds a placement by its own id, or by the orchestration id of its server.
    ///
    /// # Errors
    /// `PlacementNotFound`, `AmbiguousPlacement`, `Store`.
    pub(crate) async fn placement(&self, id: &str, scope: Scope<'_>) -> Result<Placement, Failure> {
        self.find_placement(id, scope).await?.ok_or(Failure::Rejected(Rejection::PlacementNotFound))
    }

    async fn find_placement(
        &self,
        id: &str,
        scope: Scope<'_>,
    ) -> Result<Option<Placement>, Failure> {
        let key = canonical(id);
        let by_id =
            PlacementFilter { id: Uuid::parse_str(&key).ok(), ..PlacementFilter::of(scope) };
        if by_id.id.is_some()
            && let Some(row) = self.store.placements(&by_id).await?.pop()
        {
            return Ok(Some(row));
        }
        let by_orchestration =
            PlacementFilter { orchestration_key: Some(key), ..PlacementFilter::of(scope) };
        let rows = self.store.placements(&by_orchestration).await?;
        Ok(of_one_project(scope, id, rows)?.into_iter().max_by_key(|row| !row.leaving))
    }

    /// Finds the placement of a planned server by the id of its instance, or by one of its own ids. `None`: no plan
    /// has it.
    ///
    /// # Errors
    /// `AmbiguousPlacement`, `Store`.
    pub(super) async fn placement_of_resource(
        &self,
        id: &str,
        scope: Scope<'_>,
    ) -> Result<Option<Placement>, Failure> {
        let by_resource =
            PlacementFilter { resource_key: Some(canonical(id)), ..PlacementFilter::of(scope) };
        let mut rows = self.store.placements(&by_resource).await?;
        rows.retain(|row| !row.leaving);
        if let Some(owner) = self.owner(id, scope, &rows).await? {
            // A placement of another project may name the instance, and is ignored.
            rows.retain(|row| same(&row.project, &owner));
        }
        if let Some(row) = of_one_project(scope, id, rows)?.pop() {
            return Ok(Some(row));
        }
        Ok(self.find_placement(id, scope).await?.filter(|row| !row.leaving))
    }

    /// The project of an instance that has allocations, if placements of other projects name it.
    async fn owner(
        &self,
        id: &str,
        scope: Scope<'_>,
        rows: &[Placement],
    ) -> Result<Option<String>, Failure> {
        let others = rows.iter().any(|row| row.project != scope.project);
        let Some(consumer) = Uuid::parse_str(&canonical(id)).ok().filter(|_| others) else {
            return Ok(None);
        };
        let held = self.store.consumer_allocations(consumer).await?;
        Ok(held.map(|held| held.project))
    }

    /// The name of the host that a placement is on; `None` if its capacity is gone.
    ///
    /// # Errors
    /// `Store`.
    pub(crate) async fn location(&self, placement: &Placement) -> Result<Option<String>, Failure> {
        let world = self.store.world().await?;
        let topology = self.topology(&world);
        Ok(location(&world, &topology, &placement.holds).map(str::to_owned))
    }
}

/// Selects the placements of one project among placements with the same id: those of the caller, or of the only
/// project that has any.
fn of_one_project(
    scope: Scope<'_>,
    id: &str,
    mut rows: Vec<Placement>,
) -> Result<Vec<Placement>, Failure> {
    if rows.iter().any(|row| row.project == scope.project) {
        rows.retain(|row| row.project == scope.project);
    }
    let is_one = rows
        .windows(2)
        .all(|pair| pair.first().map(|it| &it.project) == pair.last().map(|it| &it.project));
    if is_one {
        return Ok(rows);
    }
    let placements = rows.iter().take(NAMED_MAX).map(|row| row.id).collect();
    Err(Failure::AmbiguousPlacement { id: id.to_owned(), placements })
}
