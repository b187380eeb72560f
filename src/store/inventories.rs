//! Inventories of a provider: replacing all, creating, updating and deleting one.

use std::collections::HashMap;

use sqlx::PgConnection;
use uuid::Uuid;

use super::change::Change;
use super::effects::Kind;
use super::error::{Error, Result, violated};
use super::provider_lock::{ProviderLock, advance, lock_at};
use super::resource_classes;
use super::tx::Tx;
use crate::model::{ClassId, Generation, Inventory, ProviderId, Refusal};

/// `PUT .../inventories`, and `DELETE .../inventories` with no generation and no inventories.
/// Returns the new generation. Refusals: `ProviderNotFound`, `ProviderGeneration`, `ClassNotFound`,
/// `InventoryInUse`.
#[derive(Clone, Debug)]
pub struct ReplaceInventories {
    /// The provider.
    pub provider: Uuid,
    /// The generation that the client saw, if given.
    pub expected_generation: Option<Generation>,
    /// All its inventories from now on, by class name.
    pub inventories: Vec<(String, Inventory)>,
}

/// `POST .../inventories` and `PUT .../inventories/{class}`. Refusals: `ProviderNotFound`,
/// `ProviderGeneration`, `ClassNotFound`, `InventoryExists`, `InventoryNotFound`.
#[derive(Clone, Debug)]
pub struct WriteInventory {
    /// The provider.
    pub provider: Uuid,
    /// The name of the class.
    pub class: String,
    /// Its terms.
    pub inventory: Inventory,
    /// The generation that the client saw, if given.
    pub expected_generation: Option<Generation>,
    /// Whether the inventory must not exist yet; otherwise it must exist.
    pub is_new: bool,
}

/// `DELETE .../inventories/{class}`. Refusals: `ProviderNotFound`, `ClassNotFound`,
/// `InventoryInUse`, `InventoryNotFoundForDelete`.
#[derive(Clone, Debug)]
pub struct DeleteInventory {
    /// The provider.
    pub provider: Uuid,
    /// The name of the class.
    pub class: String,
}

impl Change for ReplaceInventories {
    type Outcome = Generation;

    fn row(&self) -> Option<Uuid> {
        Some(self.provider)
    }

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Generation> {
        let provider = lock_at(tx.conn, self.provider, self.expected_generation).await?;
        let wanted = resolve(tx, &self.inventories).await?;
        let before = tx.before(Kind::Inventories, provider).await?;
        let used = write(tx, provider.id, &wanted).await?;
        for ((name, terms), (class, _)) in self.inventories.iter().zip(&wanted) {
            warn_below_usage(self.provider, name, terms, used.get(class));
        }
        let stays: Vec<ClassId> = wanted.iter().map(|(class, _)| *class).collect();
        refuse_in_use(tx, provider, &stays).await?;
        remove_others(tx, provider.id, &stays).await?;
        let generation = advance(tx, provider).await?;
        tx.note_since(before, generation).await?;
        Ok(generation)
    }
}

impl Change for WriteInventory {
    type Outcome = Generation;

    fn row(&self) -> Option<Uuid> {
        Some(self.provider)
    }

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Generation> {
        let provider = lock_at(tx.conn, self.provider, self.expected_generation).await?;
        let class = resource_classes::id(tx.conn, &self.class).await?;
        let exists = exists(tx, provider.id, class).await?;
        if exists && self.is_new {
            let class = self.class.clone();
            return Err(Refusal::InventoryExists { provider: self.provider, class }.into());
        }
        if !exists && !self.is_new {
            return Err(Refusal::InventoryNotFound(self.class.clone()).into());
        }
        let before = tx.before(Kind::Inventories, provider).await?;
        let used = write(tx, provider.id, &[(class, self.inventory)]).await?;
        warn_below_usage(self.provider, &self.class, &self.inventory, used.get(&class));
        let generation = advance(tx, provider).await?;
        tx.note_since(before, generation).await?;
        Ok(generation)
    }
}

impl Change for DeleteInventory {
    type Outcome = Generation;

    fn row(&self) -> Option<Uuid> {
        Some(self.provider)
    }

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Generation> {
        let provider = lock_at(tx.conn, self.provider, None).await?;
        let class = resource_classes::id(tx.conn, &self.class).await?;
        let used = sqlx::query_scalar!(
            "select used from inventories where provider_id = $1 and class_id = $2",
            provider.id.0,
            class.0
        )
        .fetch_optional(&mut *tx.conn)
        .await?;
        match used {
            None => Err(Refusal::InventoryNotFoundForDelete(self.class.clone()).into()),
            Some(used) if used > 0 => {
                let (provider, used) = (self.provider, vec![(self.class.clone(), used)]);
                Err(Refusal::InventoryInUse { provider, used }.into())
            }
            Some(_) => {
                let before = tx.before(Kind::Inventories, provider).await?;
                sqlx::query!(
                    "delete from inventories where provider_id = $1 and class_id = $2",
                    provider.id.0,
                    class.0
                )
                .execute(&mut *tx.conn)
                .await?;
                let generation = advance(tx, provider).await?;
                tx.note_since(before, generation).await?;
                Ok(generation)
            }
        }
    }
}

/// Returns the keys of the named classes.
async fn resolve(
    tx: &mut Tx<'_>,
    inventories: &[(String, Inventory)],
) -> Result<Vec<(ClassId, Inventory)>> {
    let names: Vec<&str> = inventories.iter().map(|(name, _)| name.as_str()).collect();
    let classes = resource_classes::ids(tx.conn, &names).await?;
    inventories
        .iter()
        .map(|(name, terms)| match classes.get(name) {
            Some(class) => Ok((*class, *terms)),
            None => Err(Refusal::ClassNotFound(name.clone()).into()),
        })
        .collect()
}

async fn exists(tx: &mut Tx<'_>, provider: ProviderId, class: ClassId) -> Result<bool> {
    let exists = sqlx::query_scalar!(
        r#"select exists (select from inventories where provider_id = $1 and class_id = $2)
           as "exists!""#,
        provider.0,
        class.0
    )
    .fetch_one(&mut *tx.conn)
    .await?;
    Ok(exists)
}

/// Warns of an inventory whose usage is above its new capacity, which the API allows.
fn warn_below_usage(provider: Uuid, class: &str, inventory: &Inventory, used: Option<&i64>) {
    let capacity = inventory.capacity();
    if let Some(used) = used.filter(|used| **used > capacity) {
        tracing::warn!(%provider, class, used, capacity, "an inventory is set below its usage");
    }
}

/// Adds or changes inventories; their usages stay the same, and are returned.
pub(super) async fn write(
    tx: &mut Tx<'_>,
    provider: ProviderId,
    inventories: &[(ClassId, Inventory)],
) -> Result<HashMap<ClassId, i64>> {
    if inventories.is_empty() {
        return Ok(HashMap::new());
    }
    let column = |field: fn(&Inventory) -> i32| -> Vec<i32> {
        inventories.iter().map(|(_, terms)| field(terms)).collect()
    };
    let classes: Vec<i32> = inventories.iter().map(|(class, _)| class.0).collect();
    let ratios: Vec<f64> = inventories.iter().map(|(_, terms)| terms.allocation_ratio).collect();
    let written = sqlx::query!(
        "insert into inventories
             (provider_id, class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio)
         select $1, * from unnest($2::int[], $3::int[], $4::int[], $5::int[], $6::int[], $7::int[],
                                  $8::float8[])
         on conflict (provider_id, class_id) do update set
             total = excluded.total, reserved = excluded.reserved, min_unit = excluded.min_unit,
             max_unit = excluded.max_unit, step_size = excluded.step_size,
             allocation_ratio = excluded.allocation_ratio, updated_at = now()
         returning class_id, used",
        provider.0,
        &classes,
        &column(|terms| terms.total),
        &column(|terms| terms.reserved),
        &column(|terms| terms.min_unit),
        &column(|terms| terms.max_unit),
        &column(|terms| terms.step_size),
        &ratios,
    )
    .fetch_all(&mut *tx.conn)
    .await
    .map_err(|error| {
        // A class was deleted after its name was looked up, so it is looked up again.
        if violated(&error) == Some("inventories_class") {
            return Error::Again("a resource class was deleted meanwhile".to_owned());
        }
        Error::from(error)
    })?;
    Ok(written.into_iter().map(|row| (ClassId(row.class_id), row.used)).collect())
}

/// Refuses to remove inventories that are in use.
async fn refuse_in_use(tx: &mut Tx<'_>, provider: ProviderLock, stays: &[ClassId]) -> Result<()> {
    let used = in_use(tx.conn, provider.id, stays).await?;
    if used.is_empty() {
        return Ok(());
    }
    Err(Refusal::InventoryInUse { provider: provider.uuid, used }.into())
}

/// Returns the classes that a provider has in use, except for some, with the amounts.
pub(super) async fn in_use(
    conn: &mut PgConnection,
    provider: ProviderId,
    others: &[ClassId],
) -> Result<Vec<(String, i64)>> {
    let others: Vec<i32> = others.iter().map(|class| class.0).collect();
    let used = sqlx::query!(
        "select c.name, i.used from inventories i join resource_classes c on c.id = i.class_id
         where i.provider_id = $1 and i.class_id <> all($2) and i.used > 0 order by i.class_id",
        provider.0,
        &others
    )
    .fetch_all(conn)
    .await?;
    Ok(used.into_iter().map(|row| (row.name, row.used)).collect())
}

/// Removes the inventories of all other classes. None of them is in use, and the provider is locked.
pub(super) async fn remove_others(
    tx: &mut Tx<'_>,
    provider: ProviderId,
    stays: &[ClassId],
) -> Result<()> {
    let stays: Vec<i32> = stays.iter().map(|class| class.0).collect();
    sqlx::query!(
        "delete from inventories where provider_id = $1 and class_id <> all($2)",
        provider.0,
        &stays
    )
    .execute(&mut *tx.conn)
    .await?;
    Ok(())
}
