//! Claimed amounts with the internal keys of providers and classes.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::locked_state::{LockedProvider, LockedState};
use super::request::Claim;
use crate::model::effort::steps;
use crate::model::exclusive::ClaimedAmount;
use crate::model::{ClassId, ProviderId, Refusal};

/// A claimed amount with resolved names.
pub(super) struct ResolvedAmount<'c> {
    pub(super) claim: &'c Claim,
    pub(super) provider: Uuid,
    pub(super) class: &'c str,
    pub(super) inventory: (ProviderId, ClassId),
    pub(super) amount: i64,
}

pub(super) fn locked_provider(
    state: &LockedState,
    provider: Uuid,
) -> Result<LockedProvider, Refusal> {
    state.providers.get(&provider).copied().ok_or(Refusal::ProviderNotFound(provider))
}

pub(super) fn resolve<'c>(
    state: &LockedState,
    claims: &'c [Claim],
) -> Result<Vec<ResolvedAmount<'c>>, Refusal> {
    let wants = claims.iter().flat_map(|claim| claim.wants.iter().map(move |want| (claim, want)));
    wants.map(|(claim, want)| resolved(state, claim, want)).collect()
}

pub(super) fn resolved<'c>(
    state: &LockedState,
    claim: &'c Claim,
    (provider, class, amount): &'c (Uuid, String, i64),
) -> Result<ResolvedAmount<'c>, Refusal> {
    steps(1);
    let class_id =
        *state.classes.get(class).ok_or_else(|| Refusal::ClassNotFound(class.clone()))?;
    let inventory = (locked_provider(state, *provider)?.id, class_id);
    Ok(ResolvedAmount { claim, provider: *provider, class, inventory, amount: *amount })
}

pub(super) fn claimed_amount(row: &ResolvedAmount<'_>) -> ClaimedAmount {
    ClaimedAmount {
        consumer: row.claim.consumer,
        provider: row.provider,
        inventory: row.inventory,
        amount: row.amount,
    }
}

/// Returns the amounts that the claiming consumers hold now, summed by inventory. All of them are released
/// before anything is judged.
pub(super) fn held_by(
    state: &LockedState,
    claims: &[Claim],
) -> BTreeMap<(ProviderId, ClassId), i64> {
    let mut held = BTreeMap::new();
    for claim in claims {
        for (place, amount) in state.consumer(claim.consumer).iter().flat_map(|now| &now.holds) {
            *held.entry(*place).or_insert(0) += amount;
        }
    }
    held
}
