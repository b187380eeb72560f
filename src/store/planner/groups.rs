//! Groups and their members. Whoever changes a group, or uses it, locks its row first, so that no
//! two changes pass each other.

use futures_util::FutureExt;
use uuid::Uuid;

use super::caps::Caps;
use crate::planner::group::{self, Refusal, StoredGroup};
use crate::store::change::{Change, Tx};
use crate::store::{Error, Result, Store};

/// A new group without members. Refusals: `NameTaken`, and that of the cap.
#[derive(Clone, Debug)]
pub struct CreateGroup {
    /// The group.
    pub group: StoredGroup,
    /// The project that makes it.
    pub project: String,
    /// The most that the project may have.
    pub caps: Caps,
}

/// Another description. Refusals: `NotFound`.
#[derive(Clone, Debug)]
pub struct DescribeGroup {
    /// Id or name of the group.
    pub group: String,
    /// The description from now on.
    pub description: Option<String>,
}

/// No group any more. Refusals: `NotFound`, `HasMembers`, `HasServers`.
#[derive(Clone, Debug)]
pub struct DeleteGroup {
    /// Id or name of the group.
    pub group: String,
}

/// More members; those that are members already stay as they are. Refusals: `NotFound`.
#[derive(Clone, Debug)]
pub struct AddMembers {
    /// Id or name of the group.
    pub group: String,
    /// Ids of projects.
    pub members: Vec<String>,
}

/// Fewer members. Refusals: `NotFound`, `MemberNotFound`, `MemberHasServers`.
#[derive(Clone, Debug)]
pub struct RemoveMembers {
    /// Id or name of the group.
    pub group: String,
    /// Which project; `None`: all there are.
    pub member: Option<String>,
}

/// What becomes of a group, or why nothing does.
pub type Outcome<T> = std::result::Result<T, Refusal>;

impl Change for CreateGroup {
    const NAME: &'static str = "create_group";
    type Outcome = Outcome<StoredGroup>;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let StoredGroup { id, name, kind, level, description, .. } = &self.group;
        let created = sqlx::query!(
            "insert into planner_groups (id, name, kind, level, description, project) \
             values ($1, $2, $3, $4, $5, $6) on conflict (name) do nothing",
            id,
            name,
            group::kind_word(*kind),
            level.map(group::level_word),
            description.as_deref(),
            self.project
        )
        .execute(&mut *tx.conn)
        .await?
        .rows_affected();
        if created == 0 {
            return Ok(Err(Refusal::NameTaken(name.clone())));
        }
        self.caps.check_groups(tx, &self.project).await?;
        Ok(Ok(StoredGroup { members: Vec::new(), ..self.group.clone() }))
    }
}

impl Change for DescribeGroup {
    const NAME: &'static str = "describe_group";
    type Outcome = Outcome<StoredGroup>;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let Some(found) = lock(tx, &self.group).await? else { return Ok(Err(Refusal::NotFound)) };
        sqlx::query!(
            "update planner_groups set description = $2 where id = $1",
            found.id,
            self.description
        )
        .execute(&mut *tx.conn)
        .await?;
        Ok(Ok(StoredGroup { description: self.description.clone(), ..found }))
    }
}

impl Change for DeleteGroup {
    const NAME: &'static str = "delete_group";
    type Outcome = Outcome<()>;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let Some(found) = lock(tx, &self.group).await? else { return Ok(Err(Refusal::NotFound)) };
        if !found.members.is_empty() {
            return Ok(Err(Refusal::HasMembers));
        }
        let servers = servers(tx, found.id).await?;
        if !servers.is_empty() {
            let ids = servers.into_iter().map(|(_, server)| server).collect();
            return Ok(Err(Refusal::HasServers(ids)));
        }
        // Without placements, a unit that it once had to itself is nobody's.
        sqlx::query!("delete from exclusive_units where group_id = $1", found.id)
            .execute(&mut *tx.conn)
            .await?;
        sqlx::query!("delete from planner_groups where id = $1", found.id)
            .execute(&mut *tx.conn)
            .await?;
        Ok(Ok(()))
    }
}

impl Change for AddMembers {
    const NAME: &'static str = "add_group_members";
    type Outcome = Outcome<StoredGroup>;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let found = lock(tx, &self.group).await?;
        let Some(mut found) = found else { return Ok(Err(Refusal::NotFound)) };
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
        found.members.extend(new);
        Ok(Ok(found))
    }
}

impl Change for RemoveMembers {
    const NAME: &'static str = "remove_group_members";
    type Outcome = Outcome<()>;

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Outcome> {
        let Some(found) = lock(tx, &self.group).await? else { return Ok(Err(Refusal::NotFound)) };
        let leaving = match &self.member {
            None => found.members.clone(),
            Some(member) => {
                let spelled = found.spelling(member).map(str::to_owned);
                let Some(spelled) = spelled else { return Ok(Err(Refusal::MemberNotFound)) };
                vec![spelled]
            }
        };
        let servers = servers(tx, found.id).await?;
        if let Some(refusal) = group::keeps(&found, &leaving, &servers) {
            return Ok(Err(refusal));
        }
        sqlx::query!(
            "delete from planner_group_members where group_id = $1 and project = any($2)",
            found.id,
            &leaving
        )
        .execute(&mut *tx.conn)
        .await?;
        // Plans that are being made by who was a member when they began are made anew.
        sqlx::query!(
            "update planner_groups set generation = generation + 1 where id = $1",
            found.id
        )
        .execute(&mut *tx.conn)
        .await?;
        Ok(Ok(()))
    }
}

/// A group by its id or its name, locked against everybody who would change or use it.
async fn lock(tx: &mut Tx<'_>, group: &str) -> Result<Option<StoredGroup>> {
    let id = sqlx::query_scalar!(
        "select id from planner_groups where id = $1 or name = $2 \
         order by id is distinct from $1 limit 1 for update",
        Uuid::try_parse(group).ok(),
        group
    )
    .fetch_optional(&mut *tx.conn)
    .await?;
    let Some(id) = id else { return Ok(None) };
    // Asked once it is locked: who had it locked before may have changed its members.
    let row = sqlx::query_as!(
        Row,
        r#"select id, name, kind, level, description, generation,
                  array(select project from planner_group_members where group_id = g.id
                        order by position) as "members!"
           from planner_groups g where id = $1"#,
        id
    )
    .fetch_one(&mut *tx.conn)
    .await?;
    row.read().map(Some)
}

/// Project and id of every server that is in a group: its own id if it is known, otherwise the one
/// that orchestration gave it.
async fn servers(tx: &mut Tx<'_>, group: Uuid) -> Result<Vec<(String, String)>> {
    let rows = sqlx::query!(
        r#"select plan.project, coalesce(p.resource_id, p.orchestration_id) as "server!"
           from placement_groups g
           join placements p on p.id = g.placement_id
           join plans plan on plan.id = p.plan_id
           where g.group_id = $1
           order by plan.created_at, plan.id, p.position"#,
        group
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.project, row.server)).collect())
}

struct Row {
    id: Uuid,
    name: String,
    kind: String,
    level: Option<String>,
    description: Option<String>,
    generation: i64,
    members: Vec<String>,
}

impl Row {
    fn read(self) -> Result<StoredGroup> {
        let Self { id, name, kind, level, description, generation, members } = self;
        let unknown = |word: &str| {
            Error::inconsistent("planner_groups", "kind, level", format!("{id}: {word:?}"))
        };
        let level = match level {
            None => None,
            Some(word) => Some(group::level_named(&word).ok_or_else(|| unknown(&word))?),
        };
        let kind = group::kind_named(&kind).ok_or_else(|| unknown(&kind))?;
        Ok(StoredGroup { id, name, kind, level, description, generation, members })
    }
}

impl Store {
    /// All groups, in the order in which they were made.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn groups(&self) -> Result<Vec<StoredGroup>> {
        let rows = self
            .read(|conn| {
                sqlx::query_as!(
                    Row,
                    r#"select id, name, kind, level, description, generation,
                      array(select project from planner_group_members where group_id = g.id
                            order by position) as "members!"
               from planner_groups g order by created_at, id"#
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        rows.into_iter().map(Row::read).collect()
    }

    /// The group with this id, or else with this name.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn group(&self, id_or_name: &str) -> Result<Option<StoredGroup>> {
        let row = self
            .read(|conn| {
                sqlx::query_as!(
                    Row,
                    r#"select id, name, kind, level, description, generation,
                      array(select project from planner_group_members where group_id = g.id
                            order by position) as "members!"
               from planner_groups g where id = $1 or name = $2
               order by id is distinct from $1 limit 1"#,
                    Uuid::try_parse(id_or_name).ok(),
                    id_or_name
                )
                .fetch_optional(conn)
                .boxed()
            })
            .await?;
        row.map(Row::read).transpose()
    }
}
