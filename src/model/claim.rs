//! Claims: what consumers want to hold, and the one judge of whether they may.
//!
//! The store locks rows, writes them down as [`LockedState`], lets the functions here judge the waiting
//! requests in order, and stores the difference. Nothing else knows what a claim needs: consumer
//! generations, capacity, units, which generations move and when a consumer goes.

mod locked_state;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

pub use locked_state::{Consumer, ConsumerState, InventoryUsage, LockedProvider, LockedState};

use super::effort::steps;
use super::exclusive::Wish;
use super::{Bug, ClassId, Expected, Generation, Inventory, ProviderId, Refusal};

/// Who answers for a consumer, by the keys of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Key of the project.
    pub project: i64,
    /// Key of the user.
    pub user: i64,
    /// Key of the consumer type; `None` if it was never said.
    pub consumer_type: Option<i64>,
}

/// All that one consumer is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The consumer.
    pub consumer: Uuid,
    /// The generation the client believes it is at.
    pub expected: Expected,
    /// Who answers for it from now on; no type leaves an existing one as it is.
    pub owner: Owner,
    /// Provider, class name, amount (at least 1); empty: the consumer gives up everything.
    pub wants: Vec<(Uuid, String, i64)>,
}

impl Claim {
    /// The consumer gives up everything, whatever its generation. Who answers for it does not matter.
    pub fn giving_up(consumer: Uuid) -> Self {
        let owner = Owner { project: 0, user: 0, consumer_type: None };
        Self { consumer, expected: Expected::Any, owner, wants: Vec::new() }
    }
}

/// One request, judged as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Each of these consumers holds exactly what it wants from now on; no consumer twice.
    Replace(Vec<Claim>),
    /// This consumer gives up everything; no generation is asked for, and none moves.
    Release(Uuid),
}

/// A new set of inventories for a provider, as the reshaper is given it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshaping {
    /// Which provider.
    pub provider: Uuid,
    /// The generation the client saw.
    pub seen: Generation,
    /// All its inventories from now on, by class name.
    pub inventories: Vec<(String, Inventory)>,
}

/// Judges one request: on `Ok` the state shows its effect, on a refusal it is as before.
///
/// # Errors
/// The first rule that is broken, in the order in which the reference asks: consumer generations,
/// providers, classes, inventories, then units and capacity row by row; last, providers that are
/// kept for others.
pub fn judge(state: &mut LockedState, request: &Request) -> Result<(), Refusal> {
    match request {
        Request::Replace(claims) => replace(state, claims),
        Request::Release(consumer) => release(state, *consumer),
    }?;
    debug_assert_eq!(state.balance(), Ok(()));
    Ok(())
}

/// Judges a reshaping: the union of old and new inventories first, then the claims, then the
/// inventories that are to stay. On a refusal the state is in between and must be dropped.
///
/// Generations move once for each of these steps that touches a provider.
///
/// # Errors
/// As [`judge`]; before that an unknown provider, a generation that moved, an unknown class; after
/// it an inventory that would go while it is in use.
pub fn reshape(
    state: &mut LockedState,
    reshapings: &[Reshaping],
    claims: &[Claim],
) -> Result<(), Refusal> {
    for reshaping in reshapings {
        let provider = locked_provider(state, reshaping.provider)?;
        if provider.generation != reshaping.seen {
            return Err(Refusal::ProviderGeneration {
                provider: reshaping.provider,
                actual: provider.generation,
                given: reshaping.seen,
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
    let wish = |row: &Row<'_>| Wish {
        consumer: row.claim.consumer,
        provider: row.provider,
        place: row.place,
        amount: row.amount,
    };
    state.exclusivity.check(rows.iter().map(wish), &released)?;

    for (place, amount) in released {
        state.inventory_mut(place).used -= amount;
    }
    for row in &rows {
        state.inventory_mut(row.place).used += row.amount;
    }
    advance_providers(state, claims, &rows);
    settle_consumers(state, claims, &rows);
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

/// One wanted amount with its names resolved.
struct Row<'c> {
    claim: &'c Claim,
    provider: Uuid,
    class: &'c str,
    place: (ProviderId, ClassId),
    amount: i64,
}

fn locked_provider(state: &LockedState, provider: Uuid) -> Result<LockedProvider, Refusal> {
    state.providers.get(&provider).copied().ok_or(Refusal::ProviderNotFound(provider))
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

fn resolve<'c>(state: &LockedState, claims: &'c [Claim]) -> Result<Vec<Row<'c>>, Refusal> {
    let mut rows = Vec::new();
    for claim in claims {
        for (provider, class, amount) in &claim.wants {
            steps(1);
            let class_id =
                *state.classes.get(class).ok_or_else(|| Refusal::ClassNotFound(class.clone()))?;
            let place = (locked_provider(state, *provider)?.id, class_id);
            rows.push(Row { claim, provider: *provider, class, place, amount: *amount });
        }
    }
    Ok(rows)
}

/// What the claiming consumers hold now, summed by place: all of it is put back before anything is
/// judged.
fn held_by(state: &LockedState, claims: &[Claim]) -> BTreeMap<(ProviderId, ClassId), i64> {
    let mut held = BTreeMap::new();
    for claim in claims {
        for (place, amount) in state.consumer(claim.consumer).iter().flat_map(|now| &now.holds) {
            *held.entry(*place).or_insert(0) += amount;
        }
    }
    held
}

/// A provider without an inventory of any class the whole request names is told first, with all of
/// those classes.
fn check_inventories(
    state: &LockedState,
    claims: &[Claim],
    rows: &[Row<'_>],
) -> Result<(), Refusal> {
    let given_up = given_up(state, claims).map(|(_, class)| class);
    let classes: BTreeSet<ClassId> = rows.iter().map(|row| row.place.1).chain(given_up).collect();
    let providers: BTreeMap<ProviderId, Uuid> =
        rows.iter().map(|row| (row.place.0, row.provider)).collect();
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
    let names = state.class_names();
    let name = |class: &ClassId| {
        let nameless = || Bug::raise(format!("class {} is held and has no name", class.0));
        names.get(class).copied().unwrap_or_else(nameless)
    };
    let classes: Vec<&str> = classes.iter().map(name).collect();
    let providers: Vec<String> = bare.iter().map(Uuid::to_string).collect();
    Err(Refusal::InvalidInventory { provider: providers.join(", "), class: classes.join(", ") })
}

/// Units, then capacity. An amount that leaves a provider over its capacity is still fine when the
/// request as a whole leaves it no fuller than it was: an overcommit may be reduced or kept.
fn check_rows(
    state: &LockedState,
    rows: &[Row<'_>],
    released: &BTreeMap<(ProviderId, ClassId), i64>,
) -> Result<(), Refusal> {
    let mut asked: HashMap<(ProviderId, ClassId), i64> = HashMap::new();
    for row in rows {
        let provider = || row.provider.to_string();
        let class = || row.class.to_owned();
        let Some(inventory) = state.inventories.get(&row.place) else {
            return Err(Refusal::InvalidInventory { provider: provider(), class: class() });
        };
        if !inventory.terms.allows_amount(row.amount) {
            return Err(Refusal::ConstraintsViolated { provider: provider(), class: class() });
        }
        let sum = asked.entry(row.place).or_insert(0);
        *sum = sum.saturating_add(row.amount);
        let freed = released.get(&row.place).copied().unwrap_or(0);
        let used = (inventory.used - freed).saturating_add(*sum);
        if used > inventory.terms.capacity() && used > inventory.used {
            return Err(Refusal::CapacityExceeded { provider: provider(), class: class() });
        }
    }
    Ok(())
}

fn advance(state: &mut LockedState, provider: Uuid) {
    match state.providers.get_mut(&provider) {
        Some(provider) => provider.generation += 1,
        None => Bug::raise(format!("provider {provider} was judged and is not in the state")),
    }
}

/// One step for each provider that is named; for a consumer that gives up everything, for each
/// provider it held something of.
fn advance_providers(state: &mut LockedState, claims: &[Claim], rows: &[Row<'_>]) {
    let named: BTreeSet<Uuid> = rows.iter().map(|row| row.provider).collect();
    let given_up: BTreeSet<ProviderId> =
        given_up(state, claims).map(|(provider, _)| provider).collect();
    if !given_up.is_empty() {
        // What is given up is known by key only.
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

/// What those consumers hold that give up everything.
fn given_up(state: &LockedState, claims: &[Claim]) -> impl Iterator<Item = (ProviderId, ClassId)> {
    claims
        .iter()
        .filter(|claim| claim.wants.is_empty())
        .filter_map(|claim| state.consumer(claim.consumer))
        .flat_map(|now| now.holds.keys().copied())
        .inspect(|_| steps(1))
}

/// The rows stand in the order of the claims.
fn settle_consumers(state: &mut LockedState, claims: &[Claim], rows: &[Row<'_>]) {
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

/// A place named twice (under two spellings of its UUID) counts with both amounts.
fn holdings<'r, 'c: 'r>(
    rows: impl Iterator<Item = &'r Row<'c>>,
) -> BTreeMap<(ProviderId, ClassId), i64> {
    let mut holds = BTreeMap::new();
    for row in rows {
        steps(1);
        *holds.entry(row.place).or_insert(0) += row.amount;
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
            let unknown = || Bug::raise(format!("class {class} was stocked and is unknown"));
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
        let names = state.class_names();
        let in_use = goes.iter().filter(|(_, used)| *used > 0).map(|(class, _)| {
            let nameless = || Bug::raise(format!("class {} is in use and has no name", class.0));
            names.get(class).copied().unwrap_or_else(nameless)
        });
        return Err(Refusal::InventoryInUse {
            provider: reshaping.provider,
            classes: in_use.collect::<Vec<_>>().join(", "),
        });
    }
    for (class, _) in goes {
        state.inventories.remove(&(provider, class));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
