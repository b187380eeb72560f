//! Resource providers: their rows, and creating, renaming, moving and deleting them.

use sqlx::PgConnection;
use uuid::Uuid;

use super::change::Change;
use super::error::{Error, Result, refuse_on};
use super::provider_lock::lock;
use super::tx::Tx;
use super::{inventories, locks};
use crate::model::{Generation, ProviderId, Refusal};

/// Maximum number of children that a refusal names.
const CHILDREN_MAX: i64 = 10;

/// A row of `providers`, with the UUIDs of its parent and root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRecord {
    /// Public identity.
    pub uuid: Uuid,
    /// Unique name.
    pub name: String,
    /// Counter of visible changes.
    pub generation: Generation,
    /// The parent.
    pub parent: Option<Uuid>,
    /// The top of its tree.
    pub root: Uuid,
    /// Last change, seconds since the Unix epoch.
    pub updated_at: i64,
}

/// `POST /resource_providers`. Refusals: `ParentIsSelf`, `ParentNotFound`, `ProviderUuidTaken`,
/// `ProviderNameTaken`.
#[derive(Clone, Debug)]
pub struct CreateProvider {
    /// Its identity.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// The parent.
    pub parent: Option<Uuid>,
}

/// `PUT /resource_providers/{uuid}`. Refusals: `ProviderNotFound`, `ParentNotFound`,
/// `ReparentingNotAllowed`, `UnparentingNotAllowed`, `TreeLoop`, `ProviderNameTaken`.
#[derive(Clone, Debug)]
pub struct UpdateProvider {
    /// The provider.
    pub uuid: Uuid,
    /// Its new name.
    pub name: String,
    /// Its new parent: `None` keeps the present one, `Some(None)` makes it a root.
    pub parent: Option<Option<Uuid>>,
    /// Whether a provider that has a parent may get another or none (microversion 1.37).
    pub may_reparent: bool,
}

/// `DELETE /resource_providers/{uuid}`. Refusals: `ProviderNotFound`, `ProviderHasChildren`,
/// `ProviderInUse`.
#[derive(Clone, Debug)]
pub struct DeleteProvider {
    /// The provider.
    pub uuid: Uuid,
}

async fn record(conn: &mut PgConnection, id: ProviderId) -> Result<ProviderRecord> {
    let record = sqlx::query_as!(
        ProviderRecord,
        r#"select p.uuid, p.name, p.generation, parent.uuid as "parent?", root.uuid as root,
                  extract(epoch from p.updated_at)::bigint as "updated_at!"
           from providers p
           join providers root on root.id = p.root_id
           left join providers parent on parent.id = p.parent_id
           where p.id = $1"#,
        id.0
    )
    .fetch_one(conn)
    .await?;
    Ok(record)
}

impl Change for CreateProvider {
    type Outcome = ProviderRecord;

    fn row(&self) -> Option<Uuid> {
        self.parent
    }

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<ProviderRecord> {
        let parent = match self.parent {
            Some(parent) if parent == self.uuid => return Err(Refusal::ParentIsSelf.into()),
            Some(parent) => {
                locks::lock_trees_shared(tx.conn).await?;
                Some(find_parent(tx.conn, parent).await?)
            }
            None => None,
        };
        // A taken name or UUID uses up no key, unless two transactions insert it at the same time.
        let id = sqlx::query_scalar!(
            "with next as materialized (
                 select nextval(pg_get_serial_sequence('providers', 'id')) as id
                 where not exists (select from providers where uuid = $1)
                   and not exists (select from providers where name = $2)
             )
             insert into providers (id, uuid, name, parent_id, root_id) overriding system value
             select id, $1, $2, $3, coalesce($4, id) from next
             returning id",
            self.uuid,
            self.name,
            parent.map(|parent| parent.0),
            parent.map(|parent| parent.1),
        )
        .fetch_optional(&mut *tx.conn)
        .await
        .map_err(|error| self.refused(error))?;
        let Some(id) = id else { return Err(self.taken(tx.conn).await?) };
        tx.touch(ProviderId(id));
        tx.note_provider(self.uuid, None).await?;
        record(tx.conn, ProviderId(id)).await
    }
}

impl CreateProvider {
    /// Returns the refusal for a taken UUID or name: for the UUID, if both are taken.
    async fn taken(&self, conn: &mut PgConnection) -> Result<Error> {
        let taken = sqlx::query!(
            r#"select exists (select from providers where uuid = $1) as "uuid!",
                      exists (select from providers where name = $2) as "name!""#,
            self.uuid,
            self.name
        )
        .fetch_one(conn)
        .await?;
        Ok(if taken.uuid {
            Refusal::ProviderUuidTaken(self.uuid).into()
        } else if taken.name {
            Refusal::ProviderNameTaken(self.name.clone()).into()
        } else {
            Error::Again("the provider in the way was deleted meanwhile".to_owned())
        })
    }

    fn refused(&self, error: sqlx::Error) -> Error {
        refuse_on(
            error,
            [
                ("providers_uuid", Refusal::ProviderUuidTaken(self.uuid)),
                ("providers_name", Refusal::ProviderNameTaken(self.name.clone())),
                ("providers_parent", Refusal::ParentNotFound),
                ("providers_root", Refusal::ParentNotFound),
            ],
        )
    }
}

/// Returns the keys of a parent and of its root. The lock of trees prevents its moving, and the foreign key its
/// deletion; a lock of its row would conflict with every claim on it.
async fn find_parent(conn: &mut PgConnection, uuid: Uuid) -> Result<(i64, i64)> {
    let row = sqlx::query!("select id, root_id from providers where uuid = $1", uuid)
        .fetch_optional(conn)
        .await?
        .ok_or(Refusal::ParentNotFound)?;
    Ok((row.id, row.root_id))
}

impl Change for UpdateProvider {
    type Outcome = ProviderRecord;

    fn row(&self) -> Option<Uuid> {
        Some(self.uuid)
    }

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<ProviderRecord> {
        let effect = self.effect(tx.conn).await?;
        if effect.moves {
            locks::lock_trees_exclusive(tx.conn).await?;
        }
        if effect.renames {
            locks::lock_names(tx.conn).await?;
        }
        // Name and parent are locked as far as they change.
        let before = tx.provider(self.uuid).await?;
        if let Some(parent) = self.parent.filter(|_| effect.moves) {
            self.move_to(tx, parent).await?;
        }
        let provider = lock(tx.conn, self.uuid).await?;
        // It is locked now, but may have been changed before.
        let now = self.effect(tx.conn).await?;
        if now.moves || (now.renames && !effect.renames) {
            return Err(Error::Again("the provider was changed meanwhile".to_owned()));
        }
        if now.renames {
            sqlx::query!(
                "update providers set name = $2, updated_at = now() where id = $1",
                provider.id.0,
                self.name
            )
            .execute(&mut *tx.conn)
            .await
            .map_err(|error| {
                let taken = Refusal::ProviderNameTaken(self.name.clone());
                refuse_on(error, [("providers_name", taken)])
            })?;
            tx.touch(provider.id);
        }
        tx.note_provider(self.uuid, before).await?;
        record(tx.conn, provider.id).await
    }
}

/// The changes of an update. Most updates only repeat name and parent, and need not wait for each other.
#[derive(Clone, Copy, Debug)]
struct Effect {
    moves: bool,
    renames: bool,
}

impl UpdateProvider {
    async fn effect(&self, conn: &mut PgConnection) -> Result<Effect> {
        let row = sqlx::query!(
            r#"select p.name, parent.uuid as "parent?" from providers p
               left join providers parent on parent.id = p.parent_id where p.uuid = $1"#,
            self.uuid
        )
        .fetch_optional(conn)
        .await?
        .ok_or(Refusal::ProviderNotFound(self.uuid))?;
        let moves = self.parent.is_some_and(|parent| parent != row.parent);
        Ok(Effect { moves, renames: row.name != self.name })
    }

    /// Moves the provider with its descendants. The lock of trees is held, so nothing else is moved or created
    /// below a parent, and the rows read stay valid until they are locked.
    async fn move_to(&self, tx: &mut Tx<'_>, parent: Option<Uuid>) -> Result<()> {
        let subtree = lock_subtree(tx.conn, self.uuid).await?;
        let provider = lock(tx.conn, self.uuid).await?;
        let target = match parent {
            Some(uuid) => Some(find_parent(tx.conn, uuid).await?),
            None => None,
        };
        let parent_id = target.map(|(id, _)| id);
        if parent_id == provider.parent {
            return Ok(());
        }
        if provider.parent.is_some() && !self.may_reparent {
            return Err(match parent {
                Some(_) => Refusal::ReparentingNotAllowed,
                None => Refusal::UnparentingNotAllowed,
            }
            .into());
        }
        if parent_id.is_some_and(|id| subtree.contains(&id)) {
            return Err(Refusal::TreeLoop.into());
        }
        let root = target.map_or(provider.id.0, |(_, root)| root);
        sqlx::query!(
            "update providers set root_id = $2, updated_at = now(),
                    parent_id = case when id = $3 then $4 else parent_id end
             where id = any($1)",
            &subtree,
            root,
            provider.id.0,
            parent_id
        )
        .execute(&mut *tx.conn)
        .await
        .map_err(|error| {
            let gone = |name| (name, Refusal::ParentNotFound);
            refuse_on(error, [gone("providers_parent"), gone("providers_root")])
        })?;
        for id in subtree {
            tx.touch(ProviderId(id));
        }
        Ok(())
    }
}

/// Locks the provider and its descendants in the order of their keys.
async fn lock_subtree(conn: &mut PgConnection, provider: Uuid) -> Result<Vec<i64>> {
    let ids = sqlx::query_scalar!(
        r#"with recursive below as (
               select id from providers where uuid = $1
               union all
               select child.id from providers child join below on child.parent_id = below.id
           )
           select id as "id!" from providers where id in (select id from below)
           order by id for no key update"#,
        provider
    )
    .fetch_all(conn)
    .await?;
    Ok(ids)
}

impl Change for DeleteProvider {
    type Outcome = ();

    fn row(&self) -> Option<Uuid> {
        Some(self.uuid)
    }

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        // For update: no new row may refer to it.
        let id =
            sqlx::query_scalar!("select id from providers where uuid = $1 for update", self.uuid)
                .fetch_optional(&mut *tx.conn)
                .await?
                .ok_or(Refusal::ProviderNotFound(self.uuid))?;
        let facts = sqlx::query!(
            r#"select array(select name from providers where parent_id = $1 order by id limit $2)
                          as "children!",
                      exists (select from allocations where provider_id = $1) as "in_use!""#,
            id,
            CHILDREN_MAX
        )
        .fetch_one(&mut *tx.conn)
        .await?;
        let provider = self.uuid;
        if !facts.children.is_empty() {
            return Err(Refusal::ProviderHasChildren { provider, children: facts.children }.into());
        }
        if facts.in_use {
            let used = inventories::in_use(tx.conn, ProviderId(id), &[]).await?;
            return Err(Refusal::ProviderInUse { provider, used }.into());
        }
        let before = tx.provider(self.uuid).await?;
        sqlx::query!("delete from providers where id = $1", id)
            .execute(&mut *tx.conn)
            .await
            .map_err(|error| {
                let children = || Refusal::ProviderHasChildren { provider, children: Vec::new() };
                let in_use = Refusal::ProviderInUse { provider, used: Vec::new() };
                refuse_on(
                    error,
                    [
                        ("providers_parent", children()),
                        ("providers_root", children()),
                        ("allocations_inventory", in_use),
                    ],
                )
            })?;
        tx.touch(ProviderId(id));
        tx.note_gone(self.uuid);
        tx.note_provider(self.uuid, before).await
    }
}
