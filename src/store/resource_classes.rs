//! Resource classes: the standard ones, and creating, renaming and deleting custom ones.

use std::collections::HashMap;

use sqlx::PgConnection;

use super::change::Change;
use super::effects::Kind;
use super::error::{Result, refuse_on};
use super::locks;
use super::standard::CUSTOM_FROM;
use super::tx::Tx;
use crate::model::{ClassId, Refusal};

/// Maximum number of providers that a refusal names.
const PROVIDERS_MAX: i64 = 10;

/// `POST /resource_classes`, and `PUT /resource_classes/{name}` from 1.7. Returns whether the class was
/// created.
#[derive(Clone, Debug)]
pub struct EnsureClass {
    /// Class name.
    pub name: String,
}

/// `PUT /resource_classes/{name}` before 1.7. Refusals: `ClassNotFound`, `ClassStandardUpdate`,
/// `ClassExists`.
#[derive(Clone, Debug)]
pub struct RenameClass {
    /// Present name.
    pub name: String,
    /// New name.
    pub new_name: String,
}

/// `DELETE /resource_classes/{name}`. Refusals: `ClassNotFound`, `ClassStandardDelete`,
/// `ClassInUse`.
#[derive(Clone, Debug)]
pub struct DeleteClass {
    /// Class name.
    pub name: String,
}

/// Returns the key of a class.
pub(super) async fn id(conn: &mut PgConnection, name: &str) -> Result<ClassId> {
    let id = sqlx::query_scalar!("select id from resource_classes where name = $1", name)
        .fetch_optional(conn)
        .await?
        .ok_or_else(|| Refusal::ClassNotFound(name.to_owned()))?;
    Ok(ClassId(id))
}

/// Returns the keys of those names that exist.
pub(super) async fn ids(
    conn: &mut PgConnection,
    names: &[&str],
) -> Result<HashMap<String, ClassId>> {
    let rows = sqlx::query!(
        "select id, name from resource_classes where name = any($1)",
        names as &[&str]
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.name, ClassId(row.id))).collect())
}

impl Change for EnsureClass {
    type Outcome = bool;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let created = sqlx::query!(
            "insert into resource_classes (id, name) select nextval('resource_classes_id'), $1 \
             where not exists (select from resource_classes where name = $1) on conflict do nothing",
            self.name
        )
        .execute(&mut *tx.conn)
        .await?
        .rows_affected()
            == 1;
        if created {
            tx.note_named(Kind::Class, &self.name, None, Some(&self.name));
            tx.touch_catalogue();
        }
        Ok(created)
    }
}

/// Locks a class that is about to be renamed or deleted. A concurrent transaction that does so waits, and then
/// finds it under its new name or not at all.
async fn lock(tx: &mut Tx<'_>, name: &str) -> Result<ClassId> {
    let id =
        sqlx::query_scalar!("select id from resource_classes where name = $1 for update", name)
            .fetch_optional(&mut *tx.conn)
            .await?;
    Ok(ClassId(id.ok_or_else(|| Refusal::ClassNotFound(name.to_owned()))?))
}

impl Change for RenameClass {
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        locks::lock_names(tx.conn).await?;
        let class = lock(tx, &self.name).await?;
        if class.0 < CUSTOM_FROM {
            return Err(Refusal::ClassStandardUpdate(self.name.clone()).into());
        }
        sqlx::query!(
            "update resource_classes set name = $2, updated_at = now() where id = $1",
            class.0,
            self.new_name
        )
        .execute(&mut *tx.conn)
        .await
        .map_err(|error| {
            let taken = Refusal::ClassExists(self.new_name.clone());
            refuse_on(error, [("resource_classes_name", taken)])
        })?;
        tx.note_named(Kind::Class, &self.name, Some(&self.name), Some(&self.new_name));
        tx.touch_catalogue();
        Ok(())
    }
}

impl Change for DeleteClass {
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        let class = lock(tx, &self.name).await?;
        if class.0 < CUSTOM_FROM {
            return Err(Refusal::ClassStandardDelete(self.name.clone()).into());
        }
        let in_use = |providers| Refusal::ClassInUse { name: self.name.clone(), providers };
        let providers = sqlx::query_scalar!(
            "select name from providers where id in (
                 select provider_id from inventories where class_id = $1 limit $2) order by id",
            class.0,
            PROVIDERS_MAX
        )
        .fetch_all(&mut *tx.conn)
        .await?;
        if !providers.is_empty() {
            return Err(in_use(providers).into());
        }
        sqlx::query!("delete from resource_classes where id = $1", class.0)
            .execute(&mut *tx.conn)
            .await
            .map_err(|error| refuse_on(error, [("inventories_class", in_use(Vec::new()))]))?;
        tx.note_named(Kind::Class, &self.name, Some(&self.name), None);
        tx.touch_catalogue();
        Ok(())
    }
}
