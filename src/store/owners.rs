//! Projects, users and consumer types: names to keys. Rows are never deleted or renamed, so a key
//! that was committed may be kept.
//!
//! A name gets its row with the first claim that succeeds. Until a claim has been judged, a name
//! without a row stands in it with a provisional key, which is negative and never stored.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::PgConnection;

use super::allocations::ConsumerClaim;
use super::error::{Error, Result};
use crate::model::claim::{Claim, LockedState, Owner};

/// Names remembered at most, of each kind; then all of the kind are forgotten and read again.
const REMEMBERED_MAX: usize = 100_000;

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Project,
    User,
    ConsumerType,
}

impl Kind {
    /// As the statements below number them.
    fn numbered(number: i32) -> Result<Self> {
        match number {
            1 => Ok(Self::Project),
            2 => Ok(Self::User),
            3 => Ok(Self::ConsumerType),
            other => Err(Error::bug(format!("an owner of kind {other} was read"))),
        }
    }
}

/// The names in claims, by kind.
fn names(claim: &ConsumerClaim) -> impl Iterator<Item = (Kind, &str)> {
    let consumer_type = claim.consumer_type.as_deref().map(|name| (Kind::ConsumerType, name));
    [(Kind::Project, claim.project.as_str()), (Kind::User, claim.user.as_str())]
        .into_iter()
        .chain(consumer_type)
}

/// Keys that have been committed.
#[derive(Debug, Default)]
pub(super) struct Owners {
    projects: HashMap<String, i64>,
    users: HashMap<String, i64>,
    consumer_types: HashMap<String, i64>,
}

impl Owners {
    /// Reads the keys of those named in the claims that have one.
    pub(super) async fn look_up<'c>(
        &mut self,
        conn: &mut PgConnection,
        claims: impl Iterator<Item = &'c ConsumerClaim>,
    ) -> Result<()> {
        for names in [&mut self.projects, &mut self.users, &mut self.consumer_types] {
            if names.len() > REMEMBERED_MAX {
                names.clear();
            }
        }
        let mut unknown: BTreeMap<Kind, BTreeSet<&str>> = BTreeMap::new();
        for (kind, name) in claims.flat_map(names) {
            if self.key(kind, name).is_none() {
                unknown.entry(kind).or_default().insert(name);
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let wanted = |kind| -> Vec<&str> {
            unknown.get(&kind).map_or_else(Vec::new, |names| names.iter().copied().collect())
        };
        let rows = sqlx::query!(
            r#"select 1 as "kind!", id as "id!", external_id as "name!" from projects
               where external_id = any($1)
               union all
               select 2, id, external_id from users where external_id = any($2)
               union all
               select 3, id, name from consumer_types where name = any($3)"#,
            &wanted(Kind::Project) as &[&str],
            &wanted(Kind::User) as &[&str],
            &wanted(Kind::ConsumerType) as &[&str]
        )
        .fetch_all(conn)
        .await?;
        for row in rows {
            self.insert(Kind::numbered(row.kind)?, row.name, row.id);
        }
        Ok(())
    }

    fn key(&self, kind: Kind, name: &str) -> Option<i64> {
        let names = match kind {
            Kind::Project => &self.projects,
            Kind::User => &self.users,
            Kind::ConsumerType => &self.consumer_types,
        };
        names.get(name).copied()
    }

    fn insert(&mut self, kind: Kind, name: String, key: i64) {
        let names = match kind {
            Kind::Project => &mut self.projects,
            Kind::User => &mut self.users,
            Kind::ConsumerType => &mut self.consumer_types,
        };
        names.insert(name, key);
    }

    /// The claims with keys for names: those that are known, and provisional ones for new owners.
    pub(super) fn resolve(
        &self,
        claims: &[ConsumerClaim],
        new_owners: &mut NewOwners,
    ) -> Result<Vec<Claim>> {
        let mut key = |kind, name: &str| match self.key(kind, name) {
            Some(key) => Ok(key),
            None => new_owners.key(kind, name),
        };
        let mut resolved = Vec::with_capacity(claims.len());
        for claim in claims {
            let of_type = |name: &String| key(Kind::ConsumerType, name);
            let consumer_type = claim.consumer_type.as_ref().map(of_type).transpose()?;
            resolved.push(Claim {
                consumer: claim.consumer,
                expected: claim.expected,
                owner: Owner {
                    project: key(Kind::Project, &claim.project)?,
                    user: key(Kind::User, &claim.user)?,
                    consumer_type,
                },
                wants: claim.wants.clone(),
            });
        }
        Ok(resolved)
    }

    /// Remembers what has been committed.
    pub(super) fn remember(&mut self, added: AddedOwners) {
        for (kind, name, key) in added.0 {
            self.insert(kind, name, key);
        }
    }
}

/// Names that have got rows, with their keys; to be remembered once they are committed.
#[derive(Debug, Default)]
pub(super) struct AddedOwners(Vec<(Kind, String, i64)>);

/// Names without a row, with their provisional keys.
#[derive(Debug, Default)]
pub(super) struct NewOwners {
    keys: BTreeMap<(Kind, String), i64>,
}

impl NewOwners {
    fn key(&mut self, kind: Kind, name: &str) -> Result<i64> {
        let next = i64::try_from(self.keys.len()).map(|number| -1 - number);
        let next = next.map_err(|_| Error::bug("too many new owners in one batch"))?;
        Ok(*self.keys.entry((kind, name.to_owned())).or_insert(next))
    }

    /// The names of projects by their provisional keys.
    pub(super) fn projects(&self) -> HashMap<i64, String> {
        let projects = self.keys.iter().filter(|((kind, _), _)| *kind == Kind::Project);
        projects.map(|((_, name), key)| (*key, name.clone())).collect()
    }

    /// Gives rows to those who answer for a consumer now that all is judged, and puts their keys into
    /// the state.
    ///
    /// # Errors
    /// [`Error::Again`] if somebody else has just added one of them.
    pub(super) async fn settle(
        &self,
        conn: &mut PgConnection,
        state: &mut LockedState,
    ) -> Result<AddedOwners> {
        let used: BTreeSet<i64> = owners(state).flat_map(keys).map(|key| *key).collect();
        let wanted: Vec<&(Kind, String)> =
            self.keys.iter().filter(|(_, key)| used.contains(*key)).map(|(name, _)| name).collect();
        if used.iter().filter(|key| **key < 0).count() != wanted.len() {
            return Err(Error::bug("a claim was judged with an unknown owner"));
        }
        if wanted.is_empty() {
            return Ok(AddedOwners::default());
        }
        let added = insert(conn, &wanted).await?;
        let mut key_of: HashMap<i64, i64> = HashMap::new();
        for (kind, name, key) in &added.0 {
            if let Some(provisional) = self.keys.get(&(*kind, name.clone())) {
                key_of.insert(*provisional, *key);
            }
        }
        if key_of.len() != wanted.len() {
            return Err(Error::Again("an owner was added meanwhile".to_owned()));
        }
        let settle = |key: &mut i64| {
            if let Some(settled) = key_of.get(key) {
                *key = *settled;
            }
        };
        for owner in owners(state) {
            keys(owner).into_iter().for_each(settle);
        }
        Ok(added)
    }
}

/// Who answers for the consumers that exist now.
fn owners(state: &mut LockedState) -> impl Iterator<Item = &mut Owner> {
    let consumers = state.consumers.values_mut();
    consumers.filter_map(|consumer| consumer.now.as_mut()).map(|now| &mut now.owner)
}

fn keys(owner: &mut Owner) -> impl IntoIterator<Item = &mut i64> {
    [&mut owner.project, &mut owner.user].into_iter().chain(owner.consumer_type.as_mut())
}

/// Adds rows, in an order that is the same for everybody; keys are not used up by those that exist.
async fn insert(conn: &mut PgConnection, wanted: &[&(Kind, String)]) -> Result<AddedOwners> {
    let of = |wanted_kind: Kind| -> Vec<&str> {
        let of_kind = wanted.iter().filter(|(kind, _)| *kind == wanted_kind);
        of_kind.map(|(_, name)| name.as_str()).collect()
    };
    let rows = sqlx::query!(
        r#"with project as (
             insert into projects (external_id)
             select name from unnest($1::text[]) as name
             where not exists (select from projects where external_id = name)
             on conflict do nothing returning id, external_id
         ), person as (
             insert into users (external_id)
             select name from unnest($2::text[]) as name
             where not exists (select from users where external_id = name)
             on conflict do nothing returning id, external_id
         ), consumer_type as (
             insert into consumer_types (name)
             select new.name from unnest($3::text[]) as new (name)
             where not exists (select from consumer_types c where c.name = new.name)
             on conflict do nothing returning id, name
         )
         select 1 as "kind!", id as "id!", external_id as "name!" from project
         union all select 2, id, external_id from person
         union all select 3, id, name from consumer_type"#,
        &of(Kind::Project) as &[&str],
        &of(Kind::User) as &[&str],
        &of(Kind::ConsumerType) as &[&str]
    )
    .fetch_all(conn)
    .await?;
    let mut added = AddedOwners::default();
    for row in rows {
        added.0.push((Kind::numbered(row.kind)?, row.name, row.id));
    }
    Ok(added)
}
