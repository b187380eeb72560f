//! Maps projects, users and consumer types from names to keys. Rows are never deleted or renamed, so a
//! committed key may be cached.
//!
//! A name gets a row with the first claim that succeeds. Until its claim has been judged, a new name has a
//! provisional key, which is negative and never stored.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::PgConnection;

use super::consumer_claim::ConsumerClaim;
use super::error::{Error, Result};
use crate::model::claim::{Claim, LockedState, Owner};

/// Maximum number of cached names of each kind; beyond it, the cache of the kind is emptied.
const REMEMBERED_MAX: usize = 100_000;

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum OwnerKind {
    Project,
    User,
    ConsumerType,
}

impl OwnerKind {
    /// Returns the kind with a number in the statements below.
    fn numbered(number: i32) -> Result<Self> {
        match number {
            1 => Ok(Self::Project),
            2 => Ok(Self::User),
            3 => Ok(Self::ConsumerType),
            other => Err(Error::bug(format!("an owner of kind {other} was read"))),
        }
    }
}

/// Returns the names in claims, by kind.
fn names(claim: &ConsumerClaim) -> impl Iterator<Item = (OwnerKind, &str)> {
    let consumer_type = claim.consumer_type.as_deref().map(|name| (OwnerKind::ConsumerType, name));
    [(OwnerKind::Project, claim.project.as_str()), (OwnerKind::User, claim.user.as_str())]
        .into_iter()
        .chain(consumer_type)
}

/// Committed keys, by kind and name.
#[derive(Debug, Default)]
pub(super) struct Owners(BTreeMap<OwnerKind, HashMap<String, i64>>);

impl Owners {
    /// Reads the keys of those names in the claims that have a row.
    pub(super) async fn look_up<'c>(
        &mut self,
        conn: &mut PgConnection,
        claims: impl Iterator<Item = &'c ConsumerClaim>,
    ) -> Result<()> {
        self.0.retain(|_, names| names.len() <= REMEMBERED_MAX);
        let mut unknown: BTreeMap<OwnerKind, BTreeSet<&str>> = BTreeMap::new();
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
            &wanted(OwnerKind::Project) as &[&str],
            &wanted(OwnerKind::User) as &[&str],
            &wanted(OwnerKind::ConsumerType) as &[&str]
        )
        .fetch_all(conn)
        .await?;
        for row in rows {
            self.insert(OwnerKind::numbered(row.kind)?, row.name, row.id);
        }
        Ok(())
    }

    fn key(&self, kind: OwnerKind, name: &str) -> Option<i64> {
        self.0.get(&kind)?.get(name).copied()
    }

    fn insert(&mut self, kind: OwnerKind, name: String, key: i64) {
        self.0.entry(kind).or_default().insert(name, key);
    }

    /// Returns the claims with keys instead of names; new names get provisional keys.
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
            let of_type = |name: &String| key(OwnerKind::ConsumerType, name);
            let consumer_type = claim.consumer_type.as_ref().map(of_type).transpose()?;
            resolved.push(Claim {
                consumer: claim.consumer,
                expected: claim.expected,
                owner: Owner {
                    project: key(OwnerKind::Project, &claim.project)?,
                    user: key(OwnerKind::User, &claim.user)?,
                    consumer_type,
                },
                wants: claim.wants.clone(),
            });
        }
        Ok(resolved)
    }

    /// Caches committed keys.
    pub(super) fn remember(&mut self, added: AddedOwners) {
        for (kind, name, key) in added.0 {
            self.insert(kind, name, key);
        }
    }
}

/// Names by their keys, including provisional ones.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnerNames(HashMap<(OwnerKind, i64), String>);

impl OwnerNames {
    /// Adds the names in claims, whose keys the resolved claims have.
    pub(super) fn add(&mut self, claims: &[ConsumerClaim], resolved: &[Claim]) {
        for (claim, resolved) in claims.iter().zip(resolved) {
            let owner = resolved.owner;
            self.insert(OwnerKind::Project, owner.project, &claim.project);
            self.insert(OwnerKind::User, owner.user, &claim.user);
            if let (Some(key), Some(name)) = (owner.consumer_type, &claim.consumer_type) {
                self.insert(OwnerKind::ConsumerType, key, name);
            }
        }
    }

    fn insert(&mut self, kind: OwnerKind, key: i64, name: &str) {
        self.0.entry((kind, key)).or_insert_with(|| name.to_owned());
    }

    /// Reads the unknown names of these owners.
    pub(super) async fn complete(
        &mut self,
        conn: &mut PgConnection,
        owners: impl Iterator<Item = Owner>,
    ) -> Result<()> {
        let mut unknown: BTreeSet<(OwnerKind, i64)> = BTreeSet::new();
        for owner in owners {
            let consumer_type = owner.consumer_type.map(|key| (OwnerKind::ConsumerType, key));
            let keys = [(OwnerKind::Project, owner.project), (OwnerKind::User, owner.user)];
            let keys = keys.into_iter().chain(consumer_type);
            unknown.extend(keys.filter(|key| !self.0.contains_key(key)));
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let wanted = |wanted| -> Vec<i64> {
            unknown.iter().filter(|(kind, _)| *kind == wanted).map(|(_, key)| *key).collect()
        };
        let rows = sqlx::query!(
            r#"select 1 as "kind!", id as "id!", external_id as "name!" from projects
               where id = any($1)
               union all select 2, id, external_id from users where id = any($2)
               union all select 3, id, name from consumer_types where id = any($3)"#,
            &wanted(OwnerKind::Project),
            &wanted(OwnerKind::User),
            &wanted(OwnerKind::ConsumerType)
        )
        .fetch_all(conn)
        .await?;
        for row in rows {
            self.insert(OwnerKind::numbered(row.kind)?, row.id, &row.name);
        }
        Ok(())
    }

    /// Returns the names of project, user and type, if known.
    pub(super) fn of(&self, owner: Owner) -> Option<(String, String, Option<String>)> {
        let name = |kind, key| self.0.get(&(kind, key)).cloned();
        let consumer_type = match owner.consumer_type {
            Some(key) => Some(name(OwnerKind::ConsumerType, key)?),
            None => None,
        };
        let (project, user) = (OwnerKind::Project, OwnerKind::User);
        Some((name(project, owner.project)?, name(user, owner.user)?, consumer_type))
    }
}

/// Names of newly inserted rows, with their keys; cached after the commit.
#[derive(Debug, Default)]
pub(super) struct AddedOwners(Vec<(OwnerKind, String, i64)>);

/// Names without a row, with their provisional keys.
#[derive(Debug, Default)]
pub(super) struct NewOwners {
    keys: BTreeMap<(OwnerKind, String), i64>,
}

impl NewOwners {
    fn key(&mut self, kind: OwnerKind, name: &str) -> Result<i64> {
        let next = i64::try_from(self.keys.len()).map(|number| -1 - number);
        let next = next.map_err(|_| Error::bug("too many new owners in one batch"))?;
        Ok(*self.keys.entry((kind, name.to_owned())).or_insert(next))
    }

    /// Returns the names of projects by their provisional keys.
    pub(super) fn projects(&self) -> HashMap<i64, String> {
        let projects = self.keys.iter().filter(|((kind, _), _)| *kind == OwnerKind::Project);
        projects.map(|((_, name), key)| (*key, name.clone())).collect()
    }

    /// Inserts rows for the new owners of consumers, after all claims have been judged, and puts their keys into
    /// the state.
    ///
    /// # Errors
    /// [`Error::Again`] if another transaction has just added one of them.
    pub(super) async fn settle(
        &self,
        conn: &mut PgConnection,
        state: &mut LockedState,
    ) -> Result<AddedOwners> {
        let used: BTreeSet<i64> = owners(state).flat_map(keys).map(|key| *key).collect();
        let wanted: Vec<&(OwnerKind, String)> =
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

/// Returns the owners of the consumers that exist now.
fn owners(state: &mut LockedState) -> impl Iterator<Item = &mut Owner> {
    let consumers = state.consumers.values_mut();
    consumers.filter_map(|consumer| consumer.now.as_mut()).map(|now| &mut now.owner)
}

fn keys(owner: &mut Owner) -> impl IntoIterator<Item = &mut i64> {
    [&mut owner.project, &mut owner.user].into_iter().chain(owner.consumer_type.as_mut())
}

/// Adds rows, in the same order in every transaction. Existing names use up no keys.
async fn insert(conn: &mut PgConnection, wanted: &[&(OwnerKind, String)]) -> Result<AddedOwners> {
    let of = |wanted_kind: OwnerKind| -> Vec<&str> {
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
        &of(OwnerKind::Project) as &[&str],
        &of(OwnerKind::User) as &[&str],
        &of(OwnerKind::ConsumerType) as &[&str]
    )
    .fetch_all(conn)
    .await?;
    let mut added = AddedOwners::default();
    for row in rows {
        added.0.push((OwnerKind::numbered(row.kind)?, row.name, row.id));
    }
    Ok(added)
}
