//! The projects of consumers. A consumer belongs to the project that claims for it; plans of other projects
//! ignore it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use crate::model::claim::{Claim, LockedState};
use crate::planner::ids::same;
use crate::planner::plan::Plan;
use crate::store::error::Result;
use crate::store::owners::NewOwners;
use crate::store::tx::Tx;

/// The names of projects by their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Projects(HashMap<i64, String>);

impl Projects {
    /// Looks up the names of these keys; provisional keys are found among the new owners.
    pub(super) async fn named(
        tx: &mut Tx<'_>,
        keys: BTreeSet<i64>,
        new_owners: &NewOwners,
    ) -> Result<Self> {
        let mut names = new_owners.projects();
        names.retain(|key, _| keys.contains(key));
        let stored: Vec<i64> = keys.into_iter().filter(|key| !names.contains_key(key)).collect();
        if !stored.is_empty() {
            let rows =
                sqlx::query!("select id, external_id from projects where id = any($1)", &stored)
                    .fetch_all(&mut *tx.conn)
                    .await?;
            names.extend(rows.into_iter().map(|row| (row.id, row.external_id)));
        }
        Ok(Self(names))
    }

    /// Returns whether a key is that of the project, in any spelling.
    pub(super) fn is(&self, key: i64, project: &str) -> bool {
        self.0.get(&key).is_some_and(|name| same(name, project))
    }

    /// Returns whether a key is that of the project, in the same spelling.
    pub(super) fn is_exactly(&self, key: i64, project: &str) -> bool {
        self.0.get(&key).is_some_and(|name| name == project)
    }
}

/// Returns the locked instances that belong to the project of a plan; it ignores those of other projects, unless
/// the plan is for any.
pub(super) async fn own(
    tx: &mut Tx<'_>,
    state: &LockedState,
    plan: &Plan,
    instances: Vec<Uuid>,
) -> Result<BTreeSet<Uuid>> {
    let owner = |instance: Uuid| {
        let before = state.consumers.get(&instance)?.before.as_ref()?;
        Some((instance, before.owner.project))
    };
    let owners: Vec<(Uuid, i64)> = instances.into_iter().filter_map(owner).collect();
    let keys = owners.iter().map(|(_, key)| *key).collect();
    let projects = Projects::named(tx, keys, &NewOwners::default()).await?;
    let own =
        owners.into_iter().filter(|(_, key)| plan.any_project || projects.is(*key, &plan.project));
    Ok(own.map(|(instance, _)| instance).collect())
}

/// The projects that claim something for consumers, by their keys: nearly always one for each consumer.
#[derive(Debug)]
pub(super) struct Claimants<'n> {
    projects: BTreeMap<Uuid, BTreeSet<i64>>,
    /// The names of those projects that have no row yet.
    pub(super) new_owners: &'n NewOwners,
}

impl<'n> Claimants<'n> {
    /// Collects the claimants of these claims.
    pub(super) fn of<'c>(
        claims: impl IntoIterator<Item = &'c Claim>,
        new_owners: &'n NewOwners,
    ) -> Self {
        let mut projects: BTreeMap<Uuid, BTreeSet<i64>> = BTreeMap::new();
        for claim in claims.into_iter().filter(|claim| !claim.wants.is_empty()) {
            projects.entry(claim.consumer).or_default().insert(claim.owner.project);
        }
        Self { projects, new_owners }
    }

    /// Returns the consumers.
    pub(super) fn consumers(&self) -> Vec<Uuid> {
        self.projects.keys().copied().collect()
    }

    /// Returns the projects that claim for a consumer.
    pub(super) fn projects(&self, consumer: Uuid) -> impl Iterator<Item = i64> {
        self.projects.get(&consumer).into_iter().flatten().copied()
    }
}
