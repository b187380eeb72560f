//! Counts of the planner's rows.

use futures_util::FutureExt;

use crate::store::Result;
use crate::store::access::Store;

/// Counts of what the planner has stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannerCounts {
    /// Plans.
    pub plans: i64,
    /// Placements of all plans.
    pub placements: i64,
    /// Placements whose capacity was released because they were not reserved in time.
    pub expired_holds: i64,
}

impl Store {
    /// Returns the counts of a project, or of all projects.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn planner_counts(&self, project: Option<&str>) -> Result<PlannerCounts> {
        let counts = self
            .read(|conn| {
                sqlx::query_as!(
                    PlannerCounts,
                    r#"select (select count(*) from plans where $1::text is null or project = $1)
                          as "plans!",
                      count(*) as "placements!",
                      count(*) filter (where expired_at is not null) as "expired_holds!"
               from placements where $1::text is null or project = $1"#,
                    project
                )
                .fetch_one(conn)
                .boxed()
            })
            .await?;
        Ok(counts)
    }
}
