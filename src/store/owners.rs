//! Projects, users and consumer types: names to keys. Rows are never deleted or renamed, so a key
//! once read may be kept.

use std::collections::{BTreeSet, HashMap};

use sqlx::PgConnection;

use super::allocations::ConsumerClaim;
use super::error::Result;
use crate::model::claim::{Claim, Owner};

/// Names remembered at most, of each kind; then everything is forgotten and read again.
const REMEMBERED_MAX: usize = 100_000;

/// Keys already known.
#[derive(Debug, Default)]
pub(super) struct Owners {
    projects: HashMap<String, i32>,
    users: HashMap<String, i32>,
    consumer_types: HashMap<String, i32>,
}

impl Owners {
    /// Makes sure that everybody named in the claims has a key.
    pub(super) async fn learn<'c>(
        &mut self,
        conn: &mut PgConnection,
        claims: impl Iterator<Item = &'c ConsumerClaim>,
    ) -> Result<()> {
        let known = self.projects.len().max(self.users.len()).max(self.consumer_types.len());
        if known > REMEMBERED_MAX {
            *self = Self::default();
        }
        let (mut projects, mut users, mut types) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for claim in claims {
            note(&self.projects, &mut projects, &claim.project);
            note(&self.users, &mut users, &claim.user);
            if let Some(name) = &claim.consumer_type {
                note(&self.consumer_types, &mut types, name);
            }
        }
        if projects.is_empty() && users.is_empty() && types.is_empty() {
            return Ok(());
        }
        let projects: Vec<&str> = projects.into_iter().collect();
        let users: Vec<&str> = users.into_iter().collect();
        let types: Vec<&str> = types.into_iter().collect();
        insert(conn, &projects, &users, &types).await?;
        let rows = sqlx::query!(
            r#"select 1 as "kind!", id as "id!", external_id as "name!" from projects
               where external_id = any($1)
               union all
               select 2, id, external_id from users where external_id = any($2)
               union all
               select 3, id, name from consumer_types where name = any($3)"#,
            &projects as &[&str],
            &users as &[&str],
            &types as &[&str]
        )
        .fetch_all(conn)
        .await?;
        for row in rows {
            let names = match row.kind {
                1 => &mut self.projects,
                2 => &mut self.users,
                _ => &mut self.consumer_types,
            };
            names.insert(row.name, row.id);
        }
        Ok(())
    }

    /// A claim with keys for names, all of which [`Owners::learn`] has been told of.
    pub(super) fn resolve(&self, claim: ConsumerClaim) -> Claim {
        let key = |names: &HashMap<String, i32>, name: &str| names.get(name).copied();
        Claim {
            consumer: claim.consumer,
            expected: claim.expected,
            owner: Owner {
                project: key(&self.projects, &claim.project).unwrap_or_default(),
                user: key(&self.users, &claim.user).unwrap_or_default(),
                consumer_type: claim
                    .consumer_type
                    .and_then(|name| key(&self.consumer_types, &name)),
            },
            wants: claim.wants,
        }
    }
}

fn note<'c>(known: &HashMap<String, i32>, wanted: &mut BTreeSet<&'c str>, name: &'c str) {
    if !known.contains_key(name) {
        wanted.insert(name);
    }
}

/// Adds those that are missing; keys are not used up by those that are not.
async fn insert(
    conn: &mut PgConnection,
    projects: &[&str],
    users: &[&str],
    types: &[&str],
) -> Result<()> {
    sqlx::query!(
        "with project as (
             insert into projects (external_id)
             select name from unnest($1::text[]) as name
             where not exists (select from projects where external_id = name)
             on conflict do nothing
         ), person as (
             insert into users (external_id)
             select name from unnest($2::text[]) as name
             where not exists (select from users where external_id = name)
             on conflict do nothing
         )
         insert into consumer_types (name)
         select new.name from unnest($3::text[]) as new (name)
         where not exists (select from consumer_types c where c.name = new.name)
         on conflict do nothing",
        projects as &[&str],
        users as &[&str],
        types as &[&str]
    )
    .execute(conn)
    .await?;
    Ok(())
}
