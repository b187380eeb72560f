//! How much the planner keeps.

use crate::store::{Result, Store};

/// Counts of what the planner keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannerCounts {
    /// Plans.
    pub plans: i64,
    /// Placements of all plans.
    pub placements: i64,
    /// Those of them whose capacity was given back because nobody reserved it in time.
    pub expired_holds: i64,
}

impl Store {
    /// How much the planner keeps.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn planner_counts(&self) -> Result<PlannerCounts> {
        let counts = sqlx::query_as!(
            PlannerCounts,
            r#"select (select count(*) from plans) as "plans!",
                      (select count(*) from placements) as "placements!",
                      (select count(*) from placements where expired_at is not null)
                          as "expired_holds!""#
        )
        .fetch_one(self.pool())
        .await?;
        Ok(counts)
    }
}
