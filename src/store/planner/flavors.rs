//! Flavors as they are stored.

use crate::planner::flavor::Flavor;
use crate::store::{Result, Store};

impl Store {
    /// Flavors that have one of these names or ids.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn flavors_named(&self, names: &[String]) -> Result<Vec<Flavor>> {
        let rows = sqlx::query!(
            "select name, flavor_id, vcpus, ram_mb, root_gb from flavors
             where name = any($1) or flavor_id = any($1)",
            names
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Flavor {
                name: row.name,
                id: row.flavor_id,
                amounts: (row.vcpus.into(), row.ram_mb.into(), row.root_gb.into()),
            })
            .collect())
    }
}
