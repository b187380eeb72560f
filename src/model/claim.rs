//! Claims: what consumers want to hold, and the one judge of whether they may.
//!
//! The store locks rows, writes them down as [`Books`], lets the functions here judge the waiting
//! requests in order, and stores the difference. Nothing else knows what a claim needs: consumer
//! generations, capacity, units, which generations move and when a consumer goes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::exclusive::{Exclusivity, Wish};
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

/// A consumer as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Who answers for it.
    pub owner: Owner,
    /// Its generation.
    pub generation: Generation,
    /// What it holds: amounts by provider and class.
    pub holds: BTreeMap<(ProviderId, ClassId), i64>,
}

/// A consumer before the requests and now; `None`: there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// As it was locked.
    pub before: Option<Consumer>,
    /// As judged so far.
    pub now: Option<Consumer>,
}

/// One inventory as it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stock {
    /// The terms.
    pub terms: Inventory,
    /// Units taken, as it was locked.
    pub used_before: i64,
    /// Units taken, as judged so far.
    pub used: i64,
}

/// A provider that may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shelf {
    /// Its key.
    pub id: ProviderId,
    /// Its generation, as judged so far.
    pub generation: Generation,
}

/// Everything locked for judging: all that the requests name, and all that their consumers hold.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// Every class that is named and exists.
    pub classes: HashMap<String, ClassId>,
    /// Every provider that is named or drawn upon, and exists.
    pub providers: HashMap<Uuid, Shelf>,
    /// Every inventory of those providers.
    pub stocks: BTreeMap<(ProviderId, ClassId), Stock>,
    /// Every consumer that is named, whether it exists or not.
    pub consumers: BTreeMap<Uuid, Account>,
    /// Which of the providers groups have to themselves.
    pub exclusivity: Exclusivity,
}

impl Books {
    /// An amount that is held where there is no inventory: consumer, provider and class. As long as
    /// there is one, nothing can be judged.
    pub fn held_from_nothing(&self) -> Option<(Uuid, ProviderId, ClassId)> {
        self.consumers.iter().find_map(|(uuid, account)| {
            let mut places = account.now.iter().flat_map(|now| now.holds.keys());
            let missing = places.find(|place| !self.stocks.contains_key(place))?;
            Some((*uuid, missing.0, missing.1))
        })
    }

    /// Whether what each inventory has gained is what consumers have gained of it.
    ///
    /// # Errors
    /// The judge has lost or made up an amount.
    pub fn balance(&self) -> Result<(), Bug> {
        let mut gained: BTreeMap<(ProviderId, ClassId), i64> = BTreeMap::new();
        for account in self.consumers.values() {
            for (place, amount) in account.now.iter().flat_map(|now| &now.holds) {
                *gained.entry(*place).or_insert(0) += amount;
            }
            for (place, amount) in account.before.iter().flat_map(|before| &before.holds) {
                *gained.entry(*place).or_insert(0) -= amount;
            }
        }
        let moved = |place| gained.get(place).copied().unwrap_or(0);
        let uneven = self.stocks.iter().find(|(place, stock)| {
            stock.used < 0 || stock.used - stock.used_before != moved(place)
        });
        match uneven {
            Some((place, stock)) => Err(Bug::new(format!(
                "{place:?}: {} of {} were used, consumers gained {}, {} are used",
                stock.used_before,
                stock.terms.total,
                moved(place),
                stock.used
            ))),
            None => Ok(()),
        }
    }

    /// An inventory that a claim was found to draw upon.
    fn stock(&mut self, place: (ProviderId, ClassId)) -> &mut Stock {
        let missing = || Bug::raise(format!("{place:?} is drawn upon and has no inventory"));
        self.stocks.get_mut(&place).unwrap_or_else(missing)
    }
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

/// Judges one request: on `Ok` the books show its effect, on a refusal they are as before.
///
/// # Errors
/// The first rule that is broken, in the order in which the reference asks: consumer generations,
/// providers, classes, inventories, then units and capacity row by row; last, providers that are
/// kept for others.
pub fn judge(books: &mut Books, request: &Request) -> Result<(), Refusal> {
    match request {
        Request::Replace(claims) => replace(books, claims),
        Request::Release(consumer) => release(books, *consumer),
    }?;
    debug_assert_eq!(books.balance(), Ok(()));
    Ok(())
}

/// Judges a reshaping: the union of old and new inventories first, then the claims, then the
/// inventories that are to stay. On a refusal the books are in between and must be dropped.
///
/// Generations move once for each of these steps that touches a provider.
///
/// # Errors
/// As [`judge`]; before that an unknown provider, a generation that moved, an unknown class; after
/// it an inventory that would go while it is in use.
pub fn reshape(
    books: &mut Books,
    reshapings: &[Reshaping],
    claims: &[Claim],
) -> Result<(), Refusal> {
    for reshaping in reshapings {
        let shelf = shelf(books, reshaping.provider)?;
        if shelf.generation != reshaping.seen {
            return Err(Refusal::ProviderGeneration {
                provider: reshaping.provider,
                actual: shelf.generation,
                given: reshaping.seen,
            });
        }
    }
    check_generations(books, claims)?;
    check_providers(books, claims)?;
    for reshaping in reshapings.iter().filter(|reshaping| !reshaping.inventories.is_empty()) {
        add_stocks(books, reshaping)?;
        advance(books, reshaping.provider);
    }
    replace(books, claims)?;
    for reshaping in reshapings {
        drop_stocks(books, reshaping)?;
        advance(books, reshaping.provider);
    }
    Ok(())
}

fn replace(books: &mut Books, claims: &[Claim]) -> Result<(), Refusal> {
    check_generations(books, claims)?;
    check_providers(books, claims)?;
    let rows = resolve(books, claims)?;
    let released = held_by(books, claims);
    check_inventories(books, claims, &rows)?;
    check_rows(books, &rows, &released)?;
    let wish = |row: &Row<'_>| Wish {
        consumer: row.claim.consumer,
        provider: row.provider,
        place: row.place,
        amount: row.amount,
    };
    books.exclusivity.check(rows.iter().map(wish), &released)?;

    for (place, amount) in released {
        books.stock(place).used -= amount;
    }
    for row in &rows {
        books.stock(row.place).used += row.amount;
    }
    advance_providers(books, claims);
    settle_consumers(books, claims, &rows);
    Ok(())
}

fn release(books: &mut Books, consumer: Uuid) -> Result<(), Refusal> {
    let account = books.consumers.get_mut(&consumer);
    let Some(gone) = account.and_then(|account| account.now.take()) else {
        return Err(Refusal::NoAllocations(consumer.to_string()));
    };
    for (place, amount) in gone.holds {
        books.stock(place).used -= amount;
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

fn shelf(books: &Books, provider: Uuid) -> Result<Shelf, Refusal> {
    books.providers.get(&provider).copied().ok_or(Refusal::ProviderNotFound(provider))
}

fn check_generations(books: &Books, claims: &[Claim]) -> Result<(), Refusal> {
    for claim in claims {
        let account = books.consumers.get(&claim.consumer);
        let actual = account.and_then(|account| account.now.as_ref()).map(|now| now.generation);
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

fn check_providers(books: &Books, claims: &[Claim]) -> Result<(), Refusal> {
    let mut named = claims.iter().flat_map(|claim| &claim.wants);
    match named.find(|(provider, ..)| !books.providers.contains_key(provider)) {
        Some((provider, ..)) => Err(Refusal::AllocationProviderNotFound(*provider)),
        None => Ok(()),
    }
}

fn resolve<'c>(books: &Books, claims: &'c [Claim]) -> Result<Vec<Row<'c>>, Refusal> {
    let mut rows = Vec::new();
    for claim in claims {
        for (provider, class, amount) in &claim.wants {
            let class_id =
                *books.classes.get(class).ok_or_else(|| Refusal::ClassNotFound(class.clone()))?;
            let place = (shelf(books, *provider)?.id, class_id);
            rows.push(Row { claim, provider: *provider, class, place, amount: *amount });
        }
    }
    Ok(rows)
}

/// What the claiming consumers hold now, summed by place: all of it is put back before anything is
/// judged.
fn held_by(books: &Books, claims: &[Claim]) -> BTreeMap<(ProviderId, ClassId), i64> {
    let mut held = BTreeMap::new();
    for claim in claims {
        let account = books.consumers.get(&claim.consumer);
        for (place, amount) in
            account.and_then(|account| account.now.as_ref()).iter().flat_map(|now| &now.holds)
        {
            *held.entry(*place).or_insert(0) += amount;
        }
    }
    held
}

/// A provider without an inventory of any class the whole request names is told first, with all of
/// those classes.
fn check_inventories(books: &Books, claims: &[Claim], rows: &[Row<'_>]) -> Result<(), Refusal> {
    let mut classes: BTreeMap<ClassId, &str> =
        rows.iter().map(|row| (row.place.1, row.class)).collect();
    let names: HashMap<ClassId, &str> =
        books.classes.iter().map(|(name, id)| (*id, name.as_str())).collect();
    for claim in claims.iter().filter(|claim| claim.wants.is_empty()) {
        let account = books.consumers.get(&claim.consumer);
        for (_, class) in
            account.and_then(|account| account.now.as_ref()).iter().flat_map(|now| now.holds.keys())
        {
            let nameless = || Bug::raise(format!("class {} is held and has no name", class.0));
            classes.insert(*class, names.get(class).copied().unwrap_or_else(nameless));
        }
    }
    let bare: BTreeSet<Uuid> = rows
        .iter()
        .filter(|row| {
            !classes.keys().any(|class| books.stocks.contains_key(&(row.place.0, *class)))
        })
        .map(|row| row.provider)
        .collect();
    if bare.is_empty() {
        return Ok(());
    }
    let classes: Vec<&str> = classes.into_values().collect();
    let providers: Vec<String> = bare.iter().map(Uuid::to_string).collect();
    Err(Refusal::InvalidInventory { provider: providers.join(", "), class: classes.join(", ") })
}

/// Units, then capacity. An amount that leaves a provider over its capacity is still fine when the
/// request as a whole leaves it no fuller than it was: an overcommit may be reduced or kept.
fn check_rows(
    books: &Books,
    rows: &[Row<'_>],
    released: &BTreeMap<(ProviderId, ClassId), i64>,
) -> Result<(), Refusal> {
    let mut asked: HashMap<(ProviderId, ClassId), i64> = HashMap::new();
    for row in rows {
        let provider = || row.provider.to_string();
        let class = || row.class.to_owned();
        let Some(stock) = books.stocks.get(&row.place) else {
            return Err(Refusal::InvalidInventory { provider: provider(), class: class() });
        };
        if !stock.terms.allows_amount(row.amount) {
            return Err(Refusal::ConstraintsViolated { provider: provider(), class: class() });
        }
        let sum = asked.entry(row.place).or_insert(0);
        *sum = sum.saturating_add(row.amount);
        let freed = released.get(&row.place).copied().unwrap_or(0);
        let used = (stock.used - freed).saturating_add(*sum);
        if used > stock.terms.capacity() && used > stock.used {
            return Err(Refusal::CapacityExceeded { provider: provider(), class: class() });
        }
    }
    Ok(())
}

fn advance(books: &mut Books, provider: Uuid) {
    match books.providers.get_mut(&provider) {
        Some(shelf) => shelf.generation += 1,
        None => Bug::raise(format!("provider {provider} was judged and is not in the books")),
    }
}

/// One step for each provider that is named; for a consumer that gives up everything, for each
/// provider it held something of.
fn advance_providers(books: &mut Books, claims: &[Claim]) {
    let named: BTreeSet<Uuid> =
        claims.iter().flat_map(|claim| &claim.wants).map(|(provider, ..)| *provider).collect();
    let given_up: BTreeSet<ProviderId> = claims
        .iter()
        .filter(|claim| claim.wants.is_empty())
        .filter_map(|claim| books.consumers.get(&claim.consumer)?.now.as_ref())
        .flat_map(|now| now.holds.keys().map(|(provider, _)| *provider))
        .collect();
    for (uuid, shelf) in &mut books.providers {
        if named.contains(uuid) || given_up.contains(&shelf.id) {
            shelf.generation += 1;
        }
    }
}

fn settle_consumers(books: &mut Books, claims: &[Claim], rows: &[Row<'_>]) {
    for claim in claims {
        let account = books.consumers.entry(claim.consumer).or_default();
        if claim.wants.is_empty() {
            account.now = None;
            continue;
        }
        let old = account.now.take();
        let old_type = old.as_ref().and_then(|old| old.owner.consumer_type);
        account.now = Some(Consumer {
            owner: Owner { consumer_type: claim.owner.consumer_type.or(old_type), ..claim.owner },
            generation: old.map_or(0, |old| old.generation) + 1,
            holds: holdings(rows.iter().filter(|row| std::ptr::eq(row.claim, claim))),
        });
    }
}

/// A place named twice (under two spellings of its UUID) counts with both amounts.
fn holdings<'r, 'c: 'r>(
    rows: impl Iterator<Item = &'r Row<'c>>,
) -> BTreeMap<(ProviderId, ClassId), i64> {
    let mut holds = BTreeMap::new();
    for row in rows {
        *holds.entry(row.place).or_insert(0) += row.amount;
    }
    holds
}

fn add_stocks(books: &mut Books, reshaping: &Reshaping) -> Result<(), Refusal> {
    let provider = shelf(books, reshaping.provider)?.id;
    for (class, terms) in &reshaping.inventories {
        let id = *books.classes.get(class).ok_or_else(|| Refusal::ClassNotFound(class.clone()))?;
        books
            .stocks
            .entry((provider, id))
            .and_modify(|stock| stock.terms = *terms)
            .or_insert(Stock { terms: *terms, used_before: 0, used: 0 });
    }
    Ok(())
}

fn drop_stocks(books: &mut Books, reshaping: &Reshaping) -> Result<(), Refusal> {
    let provider = shelf(books, reshaping.provider)?.id;
    let stays: BTreeSet<ClassId> = reshaping
        .inventories
        .iter()
        .map(|(class, _)| {
            let unknown = || Bug::raise(format!("class {class} was stocked and is unknown"));
            books.classes.get(class).copied().unwrap_or_else(unknown)
        })
        .collect();
    let goes: Vec<(ClassId, i64)> = books
        .stocks
        .range((provider, ClassId(i32::MIN))..=(provider, ClassId(i32::MAX)))
        .filter(|((_, class), _)| !stays.contains(class))
        .map(|((_, class), stock)| (*class, stock.used))
        .collect();
    let in_use: Vec<&str> = goes
        .iter()
        .filter(|(_, used)| *used > 0)
        .map(|(class, _)| {
            let nameless = || Bug::raise(format!("class {} is in use and has no name", class.0));
            let named = books.classes.iter().find(|(_, id)| *id == class);
            named.map_or_else(nameless, |(name, _)| name.as_str())
        })
        .collect();
    if !in_use.is_empty() {
        return Err(Refusal::InventoryInUse {
            provider: reshaping.provider,
            classes: in_use.join(", "),
        });
    }
    for (class, _) in goes {
        books.stocks.remove(&(provider, class));
    }
    Ok(())
}
