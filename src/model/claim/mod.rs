//! Claims: the allocations that consumers request, and the only functions that grant or refuse them.
//!
//! The store locks rows and reads them into a [`LockedState`]. The functions here judge the requests in
//! order and change the state; the store then writes the difference. All rules of a claim are here: consumer
//! generations, capacity, units, which generations move, and when a consumer is deleted.
//!
//! Example: provider P has 4 VCPU, of which consumer A uses 3. Claim 1, A wants 1, is allowed and leaves 1
//! in use. Claim 2, B wants 3, is judged on that state and is allowed as well. One statement then writes
//! both: P's use grows from 3 to 4, and its generation by 2.

mod fault;
mod locked_state;
mod request;
mod resolved;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use self::fault::{Obstacle, obstacle};
use self::resolved::{ResolvedAmount, claimed_amount, held_by, locked_provider, resolve};
use super::effort::steps;
use super::{Bug, ClassId, Expected, ProviderId, Refusal};
pub use fault::{FAULTS_MAX, Fault, Faults, faults, reshape_faults};
pub use locked_state::{Consumer, ConsumerState, InventoryUsage, LockedProvider, LockedState};
pub use request::{Claim, Owner, Request, Reshaping};

/// Judges one request. If it is allowed, the state has its effect; if it is refused, the state is unchanged.
///
/// # Errors
/// The first rule that is broken, in the order in which the reference checks them: consumer generations,
/// providers, classes, inventories, then units and capacity row by row; last, exclusive providers.
pub fn judge(state: &mut LockedState, request: &Request) -> Result<(), Refusal> {
    match request {
        Request::Replace(claims) => replace(state, claims),
        Request::Release(consumer) => release(state, *consumer),
    }?;
    debug_assert_eq!(state.balance(), Ok(()));
    Ok(())
}

/// Judges a reshaping in three steps: adds the new inventories to the old ones, judges the claims, then
/// removes the inventories that are not to stay. If it is refused, the state is inconsistent and must be
/// dropped.
///
/// The generation of a provider moves once in each of these steps that touches it.
///
/// # Errors
/// Those of [`judge`]. Before these: an unknown provider, another generation, an unknown class. After these:
/// an inventory that is in use and would be removed.
pub fn reshape(
    state: &mut LockedState,
    reshapings: &[Reshaping],
    claims: &[Claim],
) -> Result<(), Refusal> {
    for reshaping in reshapings {
        let provider = locked_provider(state, reshaping.provider)?;
        if provider.generation != reshaping.expected_generation {
            return Err(Refusal::ProviderGeneration {
                provider: reshaping.provider,
                actual: provider.generation,
                given: reshaping.expected_generation,
            });
        }
    }
    check_generations(state, claims)?;
    check_providers(state, claims)?;
    for reshaping in reshapings.iter().filter(|reshaping| !reshaping.inventories.is_empty()) {
        add_inventories(state, reshaping)?;
        advance(state, reshaping.provider);
    }
    replace(state, claims)?;
    for reshaping in reshapings {
        drop_inventories(state, reshaping)?;
        advance(state, reshaping.provider);
    }
    Ok(())
}

fn replace(state: &mut LockedState, claims: &[Claim]) -> Result<(), Refusal> {
    check_generations(state, claims)?;
    check_providers(state, claims)?;
    let rows = resolve(state, claims)?;
    let released = held_by(state, claims);
    check_inventories(state, claims, &rows)?;
    check_rows(state, &rows, &released)?;
    state.exclusivity.check(rows.iter().map(claimed_amount), &released)?;

    for (inventory, amount) in released {
        state.inventory_mut(inventory).used -= amount;
    }
    for row in &rows {
        state.inventory_mut(row.inventory).used += row.amount;
    }
    advance_providers(state, claims, &rows);
    update_consumers(state, claims, &rows);
    Ok(())
}

fn release(state: &mut LockedState, consumer: Uuid) -> Result<(), Refusal> {
    let Some(gone) = state.consumers.get_mut(&consumer).and_then(|it| it.now.take()) else {
        return Err(Refusal::NoAllocations(consumer.to_string()));
    };
    for (place, amount) in gone.holds {
        state.inventory_mut(place).used -= amount;
    }
    Ok(())
}

fn check_generations(state: &LockedState, claims: &[Claim]) -> Result<(), Refusal> {
    for claim in claims {
        steps(1);
        let actual = state.consumer(claim.consumer).map(|now| now.generation);
        if !claim.expected.met_by(actual) {
            let given = match claim.expected {
                Expected::Is(generation) => Some(generation),
                Expected::Any | Expected::NoConsumer => None,
            };
            return Err(Refusal::ConsumerGeneration { actual, given });
        }
    }
    Ok(())
}

fn check_providers(state: &LockedState, claims: &[Claim]) -> Result<(), Refusal> {
    let mut named = claims.iter().flat_map(|claim| &claim.wants);
    match named.find(|(provider, ..)| !state.providers.contains_key(provider)) {
        Some((provider, ..)) => Err(Refusal::AllocationProviderNotFound(*provider)),
        None => Ok(()),
    }
}

/// Refuses first of all providers that have no inventory of any class that the request names, and names all
/// of these classes, as the reference does.
fn check_inventories(
    state: &LockedState,
    claims: &[Claim],
    rows: &[ResolvedAmount<'_>],
) -> Result<(), Refusal> {
    let given_up = given_up(state, claims).map(|(_, class)| class);
    let classes: BTreeSet<ClassId> =
        rows.iter().map(|row| row.inventory.1).chain(given_up).collect();
    let providers: BTreeMap<ProviderId, Uuid> =
        rows.iter().map(|row| (row.inventory.0, row.provider)).collect();
    let has_any = |provider: ProviderId| {
        let inventories = state.inventories_of(provider);
        inventories.into_iter().any(|((_, class), _)| {
            steps(1);
            classes.contains(class)
        })
    };
    let bare: BTreeSet<Uuid> =
        providers.iter().filter(|(id, _)| !has_any(**id)).map(|(_, uuid)| *uuid).collect();
    if bare.is_empty() {
        return Ok(());
    }
    let providers: Vec<String> = bare.iter().map(Uuid::to_string).collect();
    let class = state.class_names(classes.into_iter()).join(", ");
    Err(Refusal::InvalidInventory { provider: providers.join(", "), class })
}

/// Checks units, then capacity. An inventory may stay over its capacity if the request as a whole does not
/// use more of it than before: an overcommitted inventory may be reduced or kept.
fn check_rows(
    state: &LockedState,
    rows: &[ResolvedAmount<'_>],
    released: &BTreeMap<(ProviderId, ClassId), i64>,
) -> Result<(), Refusal> {
    let mut requested: HashMap<(ProviderId, ClassId), i64> = HashMap::new();
    for row in rows {
        let sum = requested.entry(row.inventory).or_insert(0);
        *sum = sum.saturating_add(row.amount);
        let freed = released.get(&row.inventory).copied().unwrap_or(0);
        let inventory = state.inventories.get(&row.inventory);
        let Some(obstacle) = obstacle(inventory, row.amount, *sum, freed) else { continue };
        let (provider, class) = (row.provider.to_string(), row.class.to_owned());
        return Err(match obstacle {
            Obstacle::NoInventory => Refusal::InvalidInventory { provider, class },
            Obstacle::Amount => Refusal::ConstraintsViolated { provider, class },
            Obstacle::Capacity => Refusal::CapacityExceeded { provider, class },
        });
    }
    Ok(())
}

fn advance(state: &mut LockedState, provider: Uuid) {
    match state.providers.get_mut(&provider) {
        Some(provider) => provider.generation += 1,
        None => Bug::raise(format!("provider {provider} was judged and is not in the state")),
    }
}

/// Advances the generation of each provider that a claim names, and of each provider of which a consumer
/// gives up everything.
fn advance_providers(state: &mut LockedState, claims: &[Claim], rows: &[ResolvedAmount<'_>]) {
    let named: BTreeSet<Uuid> = rows.iter().map(|row| row.provider).collect();
    let given_up: BTreeSet<ProviderId> =
        given_up(state, claims).map(|(provider, _)| provider).collect();
    if !given_up.is_empty() {
        // The allocations given up have only keys, so the providers are searched.
        steps(state.providers.len());
        for (uuid, provider) in &mut state.providers {
            if given_up.contains(&provider.id) && !named.contains(uuid) {
                provider.generation += 1;
            }
        }
    }
    for provider in named {
        advance(state, provider);
    }
}

/// Returns the allocations of consumers that give up everything.
fn given_up(state: &LockedState, claims: &[Claim]) -> impl Iterator<Item = (ProviderId, ClassId)> {
    claims
        .iter()
        .filter(|claim| claim.wants.is_empty())
        .filter_map(|claim| state.consumer(claim.consumer))
        .flat_map(|now| now.holds.keys().copied())
        .inspect(|_| steps(1))
}

/// Stores the new allocations of each consumer. The rows are in the order of the claims.
fn update_consumers(state: &mut LockedState, claims: &[Claim], rows: &[ResolvedAmount<'_>]) {
    let mut rows = rows.iter().peekable();
    for claim in claims {
        let consumer = state.consumers.entry(claim.consumer).or_default();
        if claim.wants.is_empty() {
            consumer.now = None;
            continue;
        }
        let old = consumer.now.take();
        let old_type = old.as_ref().and_then(|old| old.owner.consumer_type);
        let own_rows = std::iter::from_fn(|| rows.next_if(|row| std::ptr::eq(row.claim, claim)));
        consumer.now = Some(Consumer {
            owner: Owner { consumer_type: claim.owner.consumer_type.or(old_type), ..claim.owner },
            generation: old.map_or(0, |old| old.generation) + 1,
            holds: holdings(own_rows),
        });
    }
}

/// Sums the amounts of a consumer. A provider may be named twice, under two spellings of its UUID.
fn holdings<'r, 'c: 'r>(
    rows: impl Iterator<Item = &'r ResolvedAmount<'c>>,
) -> BTreeMap<(ProviderId, ClassId), i64> {
    let mut holds = BTreeMap::new();
    for row in rows {
        steps(1);
        *holds.entry(row.inventory).or_insert(0) += row.amount;
    }
    holds
}

fn add_inventories(state: &mut LockedState, reshaping: &Reshaping) -> Result<(), Refusal> {
    let provider = locked_provider(state, reshaping.provider)?.id;
    for (class, terms) in &reshaping.inventories {
        steps(1);
        let id = *state.classes.get(class).ok_or_else(|| Refusal::ClassNotFound(class.clone()))?;
        state
            .inventories
            .entry((provider, id))
            .and_modify(|inventory| inventory.terms = *terms)
            .or_insert(InventoryUsage { terms: *terms, used_before: 0, used: 0 });
    }
    Ok(())
}

fn drop_inventories(state: &mut LockedState, reshaping: &Reshaping) -> Result<(), Refusal> {
    let provider = locked_provider(state, reshaping.provider)?.id;
    let stays: BTreeSet<ClassId> = reshaping
        .inventories
        .iter()
        .map(|(class, _)| {
            let unknown = || Bug::raise(format!("class {class} has inventory and is unknown"));
            state.classes.get(class).copied().unwrap_or_else(unknown)
        })
        .collect();
    let goes: Vec<(ClassId, i64)> = state
        .inventories_of(provider)
        .into_iter()
        .inspect(|_| steps(1))
        .filter(|((_, class), _)| !stays.contains(class))
        .map(|((_, class), inventory)| (*class, inventory.used))
        .collect();
    if goes.iter().any(|(_, used)| *used > 0) {
        let in_use: Vec<_> = goes.iter().copied().filter(|(_, used)| *used > 0).collect();
        let names = state.class_names(in_use.iter().map(|(class, _)| *class));
        let used = names.into_iter().zip(&in_use).map(|(name, (_, used))| (name.to_owned(), *used));
        let (provider, used) = (reshaping.provider, used.collect());
        return Err(Refusal::InventoryInUse { provider, used });
    }
    for (class, _) in goes {
        state.inventories.remove(&(provider, class));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
