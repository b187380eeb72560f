//! Traits: those of a provider, and creating and deleting custom ones.

use std::collections::HashSet;

use uuid::Uuid;

use super::change::Change;
use super::effects::Kind;
use super::error::{Result, refuse_on};
use super::provider_lock::{advance, lock_at};
use super::standard::CUSTOM_FROM;
use super::tx::Tx;
use crate::model::effort::steps;
use crate::model::{Generation, Refusal};

/// Maximum number of providers that a refusal names.
const CARRIERS_MAX: i64 = 10;

/// `PUT .../traits` and, with no generation and no traits, `DELETE .../traits`. The generation
/// moves only if the set changes. Refusals: `ProviderNotFound`, `ProviderGeneration`,
/// `TraitsNotFound`.
#[derive(Clone, Debug)]
pub struct ReplaceTraits {
    /// The provider.
    pub provider: Uuid,
    /// The generation that the client saw, if given.
    pub expected_generation: Option<Generation>,
    /// All its traits from now on.
    pub traits: Vec<String>,
}

/// `PUT /traits/{name}`. Returns whether it was created, and its last change in seconds since the Unix
/// epoch.
#[derive(Clone, Debug)]
pub struct EnsureTrait {
    /// Trait name.
    pub name: String,
}

/// `DELETE /traits/{name}`. Refusals: `TraitsNotFound`, `TraitStandardDelete`, `TraitInUse`.
#[derive(Clone, Debug)]
pub struct DeleteTrait {
    /// Trait name.
    pub name: String,
}

impl Change for ReplaceTraits {
    type Outcome = Generation;

    fn row(&self) -> Option<Uuid> {
        Some(self.provider)
    }

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<Generation> {
        let provider = lock_at(tx.conn, self.provider, self.expected_generation).await?;
        let wanted = self.resolve(tx).await?;
        let before = tx.before(Kind::ProviderTraits, provider).await?;
        // An insertion may wait for a transaction that deletes the trait. Nothing has been deleted here yet,
        // so that transaction does not wait for this one.
        let added = sqlx::query!(
            "insert into provider_traits (provider_id, trait_id) select $1, unnest($2::int[]) \
             on conflict do nothing",
            provider.id.0,
            &wanted
        )
        .execute(&mut *tx.conn)
        .await
        .map_err(|error| {
            let gone = Refusal::TraitsNotFound(self.traits.join(", "));
            refuse_on(error, [("provider_traits_trait", gone)])
        })?
        .rows_affected();
        let removed = sqlx::query!(
            "delete from provider_traits where provider_id = $1 and trait_id <> all($2)",
            provider.id.0,
            &wanted
        )
        .execute(&mut *tx.conn)
        .await?
        .rows_affected();
        if removed + added == 0 {
            return Ok(provider.generation);
        }
        let generation = advance(tx, provider).await?;
        tx.note_since(before, generation).await?;
        Ok(generation)
    }
}

impl ReplaceTraits {
    async fn resolve(&self, tx: &mut Tx<'_>) -> Result<Vec<i32>> {
        let rows = sqlx::query!("select id, name from traits where name = any($1)", &self.traits)
            .fetch_all(&mut *tx.conn)
            .await?;
        let unknown = self.unknown(rows.iter().map(|row| row.name.as_str()));
        if unknown.is_empty() {
            return Ok(rows.iter().map(|row| row.id).collect());
        }
        Err(Refusal::TraitsNotFound(unknown.join(", ")).into())
    }

    /// Returns the names that do not exist, each once, in their order.
    fn unknown<'n>(&'n self, existing: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
        let existing: HashSet<&str> = existing.inspect(|_| steps(1)).collect();
        let names = self.traits.iter().map(String::as_str);
        let mut unknown: Vec<&str> = names
            .filter(|name| {
                steps(1);
                !existing.contains(name)
            })
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }
}

impl Change for EnsureTrait {
    type Outcome = (bool, i64);

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<(bool, i64)> {
        let created = sqlx::query!(
            "insert into traits (id, name) select nextval('traits_id'), $1 \
             where not exists (select from traits where name = $1) on conflict do nothing",
            self.name
        )
        .execute(&mut *tx.conn)
        .await?
        .rows_affected()
            == 1;
        if created {
            tx.note_named(Kind::Trait, &self.name, None, Some(&self.name));
            tx.touch_catalogue();
        }
        let updated_at = sqlx::query_scalar!(
            r#"select extract(epoch from updated_at)::bigint as "updated_at!" from traits
               where name = $1"#,
            self.name
        )
        .fetch_optional(&mut *tx.conn)
        .await?;
        // It existed a moment ago and has been deleted since: try again.
        updated_at
            .map(|updated_at| (created, updated_at))
            .ok_or_else(|| super::Error::Again("the trait was deleted meanwhile".to_owned()))
    }
}

impl Change for DeleteTrait {
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        // A concurrent transaction that deletes it waits, and then does not find it.
        let id = sqlx::query_scalar!("select id from traits where name = $1 for update", self.name)
            .fetch_optional(&mut *tx.conn)
            .await?
            .ok_or_else(|| Refusal::TraitsNotFound(self.name.clone()))?;
        if id < CUSTOM_FROM {
            return Err(Refusal::TraitStandardDelete(self.name.clone()).into());
        }
        let in_use = |providers| Refusal::TraitInUse { name: self.name.clone(), providers };
        let providers = sqlx::query_scalar!(
            "select name from providers where id in (
                 select provider_id from provider_traits where trait_id = $1 limit $2) order by id",
            id,
            CARRIERS_MAX
        )
        .fetch_all(&mut *tx.conn)
        .await?;
        if !providers.is_empty() {
            return Err(in_use(providers).into());
        }
        sqlx::query!("delete from traits where id = $1", id)
            .execute(&mut *tx.conn)
            .await
            .map_err(|error| refuse_on(error, [("provider_traits_trait", in_use(Vec::new()))]))?;
        tx.note_named(Kind::Trait, &self.name, Some(&self.name), None);
        tx.touch_catalogue();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::ReplaceTraits;
    use crate::model::effort::grows_evenly;

    #[test]
    fn unknown_traits_are_named_once() {
        let traits = ["CUSTOM_B", "CUSTOM_C", "CUSTOM_A", "CUSTOM_B"].map(str::to_owned).to_vec();
        let wanted = ReplaceTraits { provider: Uuid::nil(), expected_generation: None, traits };
        assert_eq!(wanted.unknown(["CUSTOM_C"].into_iter()), ["CUSTOM_A", "CUSTOM_B"]);
    }

    /// Half of the names in a body of a megabyte exist.
    #[test]
    fn looking_for_unknown_traits_takes_no_longer_than_their_names() {
        let names = |count: usize| {
            let traits = (0..count).map(|nth| format!("CUSTOM_{nth}")).collect();
            ReplaceTraits { provider: Uuid::nil(), expected_generation: None, traits }
        };
        grows_evenly("names", 64_000, names, |wanted| {
            let existing = wanted.traits.iter().step_by(2).map(String::as_str);
            assert_eq!(wanted.unknown(existing).len(), wanted.traits.len() / 2);
        });
        let none = names(0);
        assert!(none.unknown(["CUSTOM_0"].into_iter()).is_empty());
    }
}
