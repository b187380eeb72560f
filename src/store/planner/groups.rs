//! Groups and their members. A transaction that changes or uses a group locks its row first.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgConnection;
use uuid::Uuid;

use super::caps::Caps;
use crate::model::{GroupKind, Level, Refusal};
use crate::planner::group::{self, StoredGroup};
use crate::store::access::Store;
use crate::store::change::Change;
use crate::store::effects::{Content, Effect, Kind, ObjectState};
use crate::store::tx::Tx;
use crate::store::{Error, Result};

/// Creates a group without members. Refusals: `GroupNameTaken`, `CapReached`.
#[derive(Clone, Debug)]
pub struct CreateGroup {
    /// The group.
    pub group: StoredGroup,
    /// The project that creates it, with its caps; `None`: the operator creates it.
    pub owner: Option<(String, Caps)>,
}

/// Changes the description. Refusals: `GroupNotFound`.
#[derive(Clone, Debug)]
pub struct DescribeGroup {
    /// Id or name of the group.
    pub group: String,
    /// The new description.
    pub description: Option<String>,
}

/// Deletes a group. Refusals: `GroupNotFound`, `GroupHasMembers`,
/// `GroupHasServers`.
#[derive(Clone, Debug)]
pub struct DeleteGroup {
    /// Id or name of the group.
    pub group: String,
}

/// Adds members; those that are members already stay as they are. Refusals: `GroupNotFound`.
#[derive(Clone, Debug)]
pub struct AddMembers {
    /// Id or name of the group.
    pub group: String,
    /// Ids of projects.
    pub members: Vec<String>,
}

/// Removes members. Refusals: `GroupNotFound`, `MemberNotFound`, `MemberHasServers`.
#[derive(Clone, Debug)]
pub struct RemoveMembers {
    /// Id or name of the group.
    pub group: String,
    /// The projects; `None`: all members.
    pub members: Option<Vec<String>>,
}

/// Records a change of a group's members.
fn note_members(tx: &mut Tx<'_>, group: Uuid, before: &[String], after: &[String]) {
    tx.note(|| Effect {
        kind: Kind::GroupMembers,
        id: group.to_string(),
        before: Some(ObjectState::members(before)),
        after: Some(ObjectState::members(after)),
    });
}

impl Change for CreateGroup {
    type Outcome = StoredGroup;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let StoredGroup { id, name, kind, level, description, .. } = &self.group;
        let created = sqlx::query!(
            "insert into planner_groups (id, name, kind, level, description, project) \
             values ($1, $2, $3, $4, $5, $6) on conflict (name) do nothing",
            id,
            name,
            kind.name(),
            level.map(Level::name),
            description.as_deref(),
            self.owner.as_ref().map(|(project, _)| project.as_str())
        )
        .execute(&mut *tx.conn)
        .await?
        .rows_affected();
        if created == 0 {
            return Err(Refusal::GroupNameTaken(name.clone()).into());
        }
        if let Some((project, caps)) = &self.owner {
            caps.check_groups(tx, project).await?;
        }
        tx.note_named(Kind::Group, &id.to_string(), None, Some(name));
        Ok(StoredGroup { members: Vec::new(), ..self.group.clone() })
    }
}

impl Change for DescribeGroup {
    type Outcome = StoredGroup;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let found = lock(tx, &self.group).await?;
        sqlx::query!(
            "update planner_groups set description = $2 where id = $1",
            found.id,
            self.description
        )
        .execute(&mut *tx.conn)
        .await?;
        let described = |text: &Option<String>| {
            Some(ObjectState { generation: None, content: Content::Described(text.clone()) })
        };
        tx.note(|| Effect {
            kind: Kind::Group,
            id: found.id.to_string(),
            before: described(&found.description),
            after: described(&self.description),
        });
        Ok(StoredGroup { description: self.description.clone(), ..found })
    }
}

impl Change for DeleteGroup {
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let found = lock(tx, &self.group).await?;
        if !found.members.is_empty() {
            return Err(Refusal::GroupHasMembers.into());
        }
        let servers = servers(tx, found.id).await?;
        if !servers.is_empty() {
            let ids = servers.into_iter().map(|(_, server)| server).collect();
            return Err(Refusal::GroupHasServers(ids).into());
        }
        // Without servers, no unit is reserved for the group any more.
        sqlx::query!("delete from exclusive_tenants where group_id = $1", found.id)
            .execute(&mut *tx.conn)
            .await?;
        sqlx::query!("delete from exclusive_units where group_id = $1", found.id)
            .execute(&mut *tx.conn)
            .await?;
        sqlx::query!("delete from planner_groups where id = $1", found.id)
            .execute(&mut *tx.conn)
            .await?;
        tx.note_named(Kind::Group, &found.id.to_string(), Some(&found.name), None);
        Ok(())
    }
}

impl Change for AddMembers {
    type Outcome = StoredGroup;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let mut found = lock(tx, &self.group).await?;
        let new = group::new_members(&found.members, &self.members);
        sqlx::query!(
            "insert into planner_group_members (group_id, project) \
             select $1, project from unnest($2::text[]) with ordinality as new (project, nth) \
             order by nth",
            found.id,
            &new
        )
        .execute(&mut *tx.conn)
        .await?;
        let before = found.members.clone();
        found.members.extend(new);
        note_members(tx, found.id, &before, &found.members);
        Ok(found)
    }
}

impl Change for RemoveMembers {
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let found = lock(tx, &self.group).await?;
        let spelled = |member: &String| {
            found.spelling(member).map(str::to_owned).ok_or(Refusal::MemberNotFound)
        };
        let leaving = match &self.members {
            None => found.members.clone(),
            Some(members) => members.iter().map(spelled).collect::<std::result::Result<_, _>>()?,
        };
        let servers = servers(tx, found.id).await?;
        group::check_leaving(&found, &leaving, &servers)?;
        sqlx::query!(
            "delete from planner_group_members where group_id = $1 and project = any($2)",
            found.id,
            &leaving
        )
        .execute(&mut *tx.conn)
        .await?;
        let stay = found.members.iter().filter(|member| !leaving.contains(member));
        let stay: Vec<String> = stay.cloned().collect();
        note_members(tx, found.id, &found.members, &stay);
        // Plans that a removed member has begun to make are made again.
        sqlx::query!(
            "update planner_groups set generation = generation + 1 where id = $1",
            found.id
        )
        .execute(&mut *tx.conn)
        .await?;
        Ok(())
    }
}

/// Locks a group, by its id or else its name, against other changes and bookings.
async fn lock(tx: &mut Tx<'_>, group: &str) -> Result<StoredGroup> {
    let id = sqlx::query_scalar!(
        "select id from planner_groups where id = $1 or name = $2 \
         order by id is distinct from $1 limit 1 for update",
        Uuid::try_parse(group).ok(),
        group
    )
    .fetch_optional(&mut *tx.conn)
    .await?;
    let id = id.ok_or(Refusal::GroupNotFound)?.to_string();
    // Read after locking: the transaction that held the lock may have changed its members.
    let row = find(&id, &mut *tx.conn).await?;
    row.ok_or_else(|| Error::inconsistent("planner_groups", "id", &id))?.read()
}

/// Selects groups with their members.
macro_rules! select_groups {
    ($which:literal $(, $argument:expr)*) => {
        sqlx::query_as!(
            GroupRow,
            r#"select id, name, kind, level, description, generation,
                      array(select project from planner_group_members where group_id = g.id
                            order by position) as "members!"
               from planner_groups g "# + $which
            $(, $argument)*
        )
    };
}

/// Finds the group with an id, or else with a name.
fn find<'c>(
    id_or_name: &str,
    conn: &'c mut PgConnection,
) -> BoxFuture<'c, sqlx::Result<Option<GroupRow>>> {
    select_groups!(
        "where id = $1 or name = $2 order by id is distinct from $1 limit 1",
        Uuid::try_parse(id_or_name).ok(),
        id_or_name
    )
    .fetch_optional(conn)
    .boxed()
}

/// Returns project and id of every server in a group: its own id if it is known, otherwise the one from
/// orchestration. Instances without a placement that keep a unit for the group come last.
async fn servers(tx: &mut Tx<'_>, group: Uuid) -> Result<Vec<(String, String)>> {
    let rows = sqlx::query!(
        r#"(select plan.project as "project!", coalesce(p.resource_id, p.orchestration_id) as "server!"
            from placement_groups g
            join placements p on p.id = g.placement_id
            join plans plan on plan.id = p.plan_id
            where g.group_id = $1
            order by plan.created_at, plan.id, p.position)
           union all
           (select t.project, t.consumer::text
            from exclusive_tenants t join consumers c on c.uuid = t.consumer
            where t.group_id = $1 order by 1, 2)"#,
        group
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.project, row.server)).collect())
}

/// A row of `planner_groups`, with the members.
struct GroupRow {
    id: Uuid,
    name: String,
    kind: String,
    level: Option<String>,
    description: Option<String>,
    generation: i64,
    members: Vec<String>,
}

impl GroupRow {
    fn read(self) -> Result<StoredGroup> {
        let Self { id, name, kind, level, description, generation, members } = self;
        let unknown = |word: &str| {
            Error::inconsistent("planner_groups", "kind, level", format!("{id}: {word:?}"))
        };
        let level = match level {
            None => None,
            Some(word) => Some(Level::named(&word).ok_or_else(|| unknown(&word))?),
        };
        let kind = GroupKind::named(&kind).ok_or_else(|| unknown(&kind))?;
        Ok(StoredGroup { id, name, kind, level, description, generation, members })
    }
}

/// Returns all groups, in the order of their creation, without a store.
///
/// # Errors
/// The database is unavailable.
pub async fn list(conn: &mut PgConnection) -> Result<Vec<StoredGroup>> {
    let rows = select_groups!("order by created_at, id").fetch_all(conn).await?;
    rows.into_iter().map(GroupRow::read).collect()
}

/// Returns the group with this id, or else with this name, without a store.
///
/// # Errors
/// `GroupNotFound`, or the database is unavailable.
pub async fn show(conn: &mut PgConnection, id_or_name: &str) -> Result<StoredGroup> {
    find(id_or_name, conn).await?.ok_or(Refusal::GroupNotFound)?.read()
}

impl Store {
    /// Returns all groups, in the order of their creation.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn groups(&self) -> Result<Vec<StoredGroup>> {
        let rows =
            self.read(|conn| select_groups!("order by created_at, id").fetch_all(conn).boxed());
        let rows = rows.await?;
        rows.into_iter().map(GroupRow::read).collect()
    }

    /// Returns the group with this id, or else with this name.
    ///
    /// # Errors
    /// `GroupNotFound`, or the database is unavailable.
    pub async fn group(&self, id_or_name: &str) -> Result<StoredGroup> {
        let row = self.read(|conn| find(id_or_name, conn)).await?;
        row.ok_or(Refusal::GroupNotFound)?.read()
    }
}
