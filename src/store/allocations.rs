//! The reshaper.

use super::change::Change;
use super::claims::GenerationSteps;
use super::claims::locked::Needs;
use super::consumer_claim::ConsumerClaim;
use super::effects::Kind;
use super::error::{Error, Result};
use super::owners::{NewOwners, Owners};
use super::planner::Handover;
use super::provider_lock::ProviderLock;
use super::tx::Tx;
use super::{claims, inventories};
use crate::model::Refusal;
use crate::model::claim::{Reshaping, reshape, reshape_faults};

/// `POST /reshaper`. Refusals: `ProviderNotFound` and `ProviderGeneration` (of `inventories`),
/// `ClassNotFound`, `InventoryInUse`, and those of [`Changes::replace_allocations`](super::Changes::replace_allocations).
#[derive(Clone, Debug)]
pub struct Reshape {
    /// Provider, the generation the client saw, all its inventories from now on.
    pub inventories: Vec<Reshaping>,
    /// The new allocations of each consumer; no consumer twice.
    pub claims: Vec<ConsumerClaim>,
}

impl Change for Reshape {
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        let (mut owners, mut new_owners) = (Owners::default(), NewOwners::default());
        owners.look_up(tx.conn, self.claims.iter()).await?;
        let claims = owners.resolve(&self.claims, &mut new_owners)?;
        let mut needs = Needs::default();
        needs.add_claims(&claims);
        for reshaping in &self.inventories {
            needs.providers.insert(reshaping.provider);
            needs.classes.extend(reshaping.inventories.iter().map(|(name, _)| name.as_str()));
        }
        let mut locked = claims::lock(tx, &needs).await?;
        let mut handover = Handover::find(tx, &mut locked, &claims, &new_owners).await?;
        let claims = handover.with_holds(&claims);
        let before = GenerationSteps::before(&locked.state);
        reshape(&mut locked.state, &self.inventories, &claims).map_err(|refusal| {
            let faults = reshape_faults(&locked.state, &self.inventories, &claims, &refusal);
            Error::Refused(refusal, Box::new(faults))
        })?;
        handover.note(&claims);

        // The same three steps as the judge takes: new inventories, allocations, removed inventories.
        let (mut stays, mut changed) = (Vec::new(), Vec::new());
        for reshaping in &self.inventories {
            let provider = locked.state.providers.get(&reshaping.provider);
            let provider = provider.ok_or(Refusal::ProviderNotFound(reshaping.provider))?;
            let (id, generation) = (provider.id, reshaping.expected_generation);
            let lock = ProviderLock::of(id, reshaping.provider, generation);
            // The judge knows the classes, so all of them exist.
            let class = |name: &str| locked.state.classes.get(name).copied();
            let wanted = reshaping.inventories.iter().map(|(name, terms)| {
                let class = class(name).ok_or_else(|| Refusal::ClassNotFound(name.clone()))?;
                Ok((class, *terms))
            });
            let wanted = wanted.collect::<Result<Vec<_>>>()?;
            changed.push(tx.before(Kind::Inventories, lock).await?);
            tx.touch(id);
            inventories::write(tx, id, &wanted).await?;
            stays.push((id, wanted.iter().map(|(class, _)| *class).collect::<Vec<_>>()));
        }
        new_owners.settle(tx.conn, &mut locked.state).await?;
        let moved = before.since(&locked.state);
        tx.note_consumers(&locked.state);
        claims::write(tx, &locked, &moved).await?;
        for (provider, classes) in stays {
            inventories::remove_others(tx, provider, &classes).await?;
        }
        for (before, reshaping) in changed.into_iter().zip(&self.inventories) {
            let provider = locked.state.providers.get(&reshaping.provider);
            let generation =
                provider.map_or(reshaping.expected_generation, |provider| provider.generation);
            tx.note_since(before, generation).await?;
        }
        handover.settle(tx, &locked).await
    }
}
