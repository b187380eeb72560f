//! Claims in the database: locking what they need, and writing what was judged.
//!
//! The order of locks is the same for every writer (consumers by UUID, then providers by key), so
//! claims queue behind each other and none is refused because another came at the same time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::PgConnection;
use uuid::Uuid;

use super::change::Tx;
use super::error::{Error, Result};
use crate::model::claim::{Account, Books, Claim, Consumer, Owner, Request, Shelf, Stock};
use crate::model::{ClassId, ConsumerId, Expected, Generation, Inventory, ProviderId};

/// What has been locked, as the judge sees it, with the keys that writing needs.
pub(super) struct Locked {
    pub(super) books: Books,
    consumers: BTreeMap<Uuid, ConsumerRow>,
    /// Whether the planner has to do with it.
    pub(super) concern: Concern,
}

/// What the planner may have to do with what is locked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Concern {
    /// Some of the consumers are placements of plans, or take one over.
    pub(super) planned: bool,
    /// Some providers of the cloud are kept for groups.
    pub(super) kept: bool,
}

/// A consumer's row. `inserted`: what this transaction has inserted, if the consumer did not exist.
struct ConsumerRow {
    id: ConsumerId,
    inserted: Option<Consumer>,
}

/// What nearly all consumers have that did not exist: they come with their first claim.
const GENERATION_INSERTED: Generation = 1;

/// What has to be locked.
#[derive(Default)]
pub(super) struct Needs<'r> {
    /// Consumers that come into being if they do not exist, with an owner to insert.
    pub(super) claiming: BTreeMap<Uuid, Owner>,
    /// All consumers that are named.
    pub(super) consumers: BTreeSet<Uuid>,
    /// Providers that are named.
    pub(super) providers: BTreeSet<Uuid>,
    /// Classes that are named.
    pub(super) classes: BTreeSet<&'r str>,
}

impl<'r> Needs<'r> {
    /// What these requests need.
    pub(super) fn of(requests: impl IntoIterator<Item = &'r Request>) -> Self {
        let mut needs = Self::default();
        for request in requests {
            match request {
                Request::Replace(claims) => needs.add_claims(claims),
                Request::Release(consumer) => {
                    needs.consumers.insert(*consumer);
                }
            }
        }
        needs
    }

    /// Adds what these claims need.
    pub(super) fn add_claims(&mut self, claims: &'r [Claim]) {
        for claim in claims {
            self.consumers.insert(claim.consumer);
            // Who expects a generation or gives everything up creates no consumer.
            if !claim.wants.is_empty() && !matches!(claim.expected, Expected::Is(_)) {
                self.claiming.insert(claim.consumer, claim.owner);
            }
            for (provider, class, _) in &claim.wants {
                self.providers.insert(*provider);
                self.classes.insert(class);
            }
        }
    }
}

/// Locks everything that is needed and reads it.
pub(super) async fn lock(tx: &mut Tx<'_>, needs: &Needs<'_>) -> Result<Locked> {
    let (mut consumers, expected) = insert_consumers(tx.conn, &needs.claiming).await?;
    let mut named = needs.consumers.clone();
    // What is held for them is locked in the order in which plans lock it. Whoever is expected since
    // is found later.
    named.extend(held_for(tx.conn, &expected).await?);
    let mut accounts = lock_consumers(tx.conn, &named, &mut consumers).await?;
    if needs.claiming.keys().any(|uuid| !consumers.contains_key(uuid)) {
        return Err(Error::Again("a consumer went while it was being locked".to_owned()));
    }
    let held = read_held(tx.conn, &mut accounts, &consumers).await?;
    let providers = lock_providers(tx.conn, needs, &held).await?;
    let mut books = Books { providers, consumers: accounts, ..Books::default() };
    let concern = read_stocks(tx.conn, &mut books).await?;
    read_classes(tx.conn, needs, &mut books.classes).await?;
    Ok(Locked { books, consumers, concern })
}

impl Locked {
    /// Locks further consumers, which claim nothing, with what they hold.
    pub(super) async fn add(&mut self, tx: &mut Tx<'_>, consumers: &[Uuid]) -> Result<()> {
        let known = &self.books.consumers;
        let new = consumers.iter().filter(|uuid| !known.contains_key(*uuid)).copied();
        let needs = Needs { consumers: new.collect(), ..Needs::default() };
        if needs.consumers.is_empty() {
            return Ok(());
        }
        let more = lock(tx, &needs).await?;
        self.consumers.extend(more.consumers);
        let Books { classes, providers, stocks, consumers, .. } = more.books;
        self.books.classes.extend(classes);
        self.books.providers.extend(providers);
        self.books.stocks.extend(stocks);
        self.books.consumers.extend(consumers);
        Ok(())
    }
}

/// The placements that these instances are to take over.
async fn held_for(conn: &mut PgConnection, instances: &[Uuid]) -> Result<Vec<Uuid>> {
    if instances.is_empty() {
        return Ok(Vec::new());
    }
    let holds = sqlx::query_scalar!("select id from placements where ticket = any($1)", instances)
        .fetch_all(conn)
        .await?;
    Ok(holds)
}

/// Inserts those that do not exist, and tells which of them are instances that plans expect; whoever
/// inserts the same one at the same time waits here.
async fn insert_consumers(
    conn: &mut PgConnection,
    claiming: &BTreeMap<Uuid, Owner>,
) -> Result<(BTreeMap<Uuid, ConsumerRow>, Vec<Uuid>)> {
    if claiming.is_empty() {
        return Ok(Default::default());
    }
    let uuids: Vec<Uuid> = claiming.keys().copied().collect();
    let projects: Vec<i32> = claiming.values().map(|owner| owner.project).collect();
    let users: Vec<i32> = claiming.values().map(|owner| owner.user).collect();
    let types: Vec<Option<i32>> = claiming.values().map(|owner| owner.consumer_type).collect();
    let rows = sqlx::query!(
        r#"insert into consumers (uuid, project_id, user_id, consumer_type_id, generation)
           select *, $5::bigint from unnest($1::uuid[], $2::int[], $3::int[], $4::int[])
           on conflict (uuid) do nothing
           returning uuid, id,
                     exists(select from placements where ticket = consumers.uuid) as "expected!""#,
        &uuids,
        &projects,
        &users,
        &types as &[Option<i32>],
        GENERATION_INSERTED
    )
    .fetch_all(conn)
    .await?;
    let expected = rows.iter().filter(|row| row.expected).map(|row| row.uuid).collect();
    let inserted = rows
        .into_iter()
        .map(|row| {
            let inserted = claiming.get(&row.uuid).map(|owner| Consumer {
                owner: *owner,
                generation: GENERATION_INSERTED,
                holds: BTreeMap::new(),
            });
            (row.uuid, ConsumerRow { id: ConsumerId(row.id), inserted })
        })
        .collect();
    Ok((inserted, expected))
}

/// Locks those that existed before and opens an account for each; to insert is to lock.
async fn lock_consumers(
    conn: &mut PgConnection,
    named: &BTreeSet<Uuid>,
    rows: &mut BTreeMap<Uuid, ConsumerRow>,
) -> Result<BTreeMap<Uuid, Account>> {
    let mut accounts: BTreeMap<Uuid, Account> =
        named.iter().map(|uuid| (*uuid, Account::default())).collect();
    let uuids: Vec<Uuid> = named.iter().filter(|uuid| !rows.contains_key(uuid)).copied().collect();
    if uuids.is_empty() {
        return Ok(accounts);
    }
    let locked = sqlx::query!(
        "select id, uuid, generation, project_id, user_id, consumer_type_id from consumers
         where uuid = any($1) order by uuid for update",
        &uuids
    )
    .fetch_all(conn)
    .await?;
    for row in locked {
        rows.insert(row.uuid, ConsumerRow { id: ConsumerId(row.id), inserted: None });
        let consumer = Consumer {
            owner: Owner {
                project: row.project_id,
                user: row.user_id,
                consumer_type: row.consumer_type_id,
            },
            generation: row.generation,
            holds: BTreeMap::new(),
        };
        let account = Account { before: Some(consumer.clone()), now: Some(consumer) };
        accounts.insert(row.uuid, account);
    }
    Ok(accounts)
}

/// Fills in what the consumers hold; tells on which providers.
async fn read_held(
    conn: &mut PgConnection,
    accounts: &mut BTreeMap<Uuid, Account>,
    rows: &BTreeMap<Uuid, ConsumerRow>,
) -> Result<BTreeSet<i32>> {
    let uuid_of: HashMap<i64, Uuid> = rows
        .iter()
        .filter(|(_, row)| row.inserted.is_none())
        .map(|(uuid, row)| (row.id.0, *uuid))
        .collect();
    let mut providers = BTreeSet::new();
    if uuid_of.is_empty() {
        return Ok(providers);
    }
    let ids: Vec<i64> = uuid_of.keys().copied().collect();
    let held = sqlx::query!(
        "select consumer_id, provider_id, class_id, used from allocations
         where consumer_id = any($1)",
        &ids
    )
    .fetch_all(conn)
    .await?;
    for row in held {
        providers.insert(row.provider_id);
        let account = uuid_of.get(&row.consumer_id).and_then(|uuid| accounts.get_mut(uuid));
        let Some(Account { before: Some(before), now: Some(now) }) = account else { continue };
        let place = (ProviderId(row.provider_id), ClassId(row.class_id));
        before.holds.insert(place, row.used);
        now.holds.insert(place, row.used);
    }
    Ok(providers)
}

async fn lock_providers(
    conn: &mut PgConnection,
    needs: &Needs<'_>,
    held: &BTreeSet<i32>,
) -> Result<HashMap<Uuid, Shelf>> {
    let uuids: Vec<Uuid> = needs.providers.iter().copied().collect();
    let ids: Vec<i32> = held.iter().copied().collect();
    let rows = sqlx::query!(
        "select id, uuid, generation from providers where uuid = any($1) or id = any($2)
         order by id for no key update",
        &uuids,
        &ids
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.uuid, Shelf { id: ProviderId(row.id), generation: row.generation }))
        .collect())
}

/// Reads what the providers have, and the names of the classes of it; and, in the same statement,
/// because it begins after everything is locked, whether the planner has to do with it.
async fn read_stocks(conn: &mut PgConnection, books: &mut Books) -> Result<Concern> {
    let ids: Vec<i32> = books.providers.values().map(|shelf| shelf.id.0).collect();
    let consumers: Vec<Uuid> = books.consumers.keys().copied().collect();
    let rows = sqlx::query!(
        r#"select provider_id, class_id, name, total, reserved, min_unit, max_unit, step_size,
                  allocation_ratio, used,
                  (select exists(select from placements where consumer = any($2)))
                  or (select exists(select from placements where ticket = any($2))) as "planned!",
                  (select exists(select from exclusive_units)) as "kept!"
           from inventories join resource_classes on id = class_id where provider_id = any($1)"#,
        &ids,
        &consumers
    )
    .fetch_all(conn)
    .await?;
    let mut concern = Concern::default();
    for row in rows {
        concern = Concern { planned: row.planned, kept: row.kept };
        books.classes.entry(row.name).or_insert(ClassId(row.class_id));
        let terms = Inventory {
            total: row.total,
            reserved: row.reserved,
            min_unit: row.min_unit,
            max_unit: row.max_unit,
            step_size: row.step_size,
            allocation_ratio: row.allocation_ratio,
        };
        let place = (ProviderId(row.provider_id), ClassId(row.class_id));
        books.stocks.insert(place, Stock { terms, used_before: row.used, used: row.used });
    }
    Ok(concern)
}

/// Adds the classes that are named but not stocked, if they exist.
async fn read_classes(
    conn: &mut PgConnection,
    needs: &Needs<'_>,
    classes: &mut HashMap<String, ClassId>,
) -> Result<()> {
    let names: Vec<&str> =
        needs.classes.iter().filter(|name| !classes.contains_key(**name)).copied().collect();
    if names.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query!(
        "select id, name from resource_classes where name = any($1)",
        &names as &[&str]
    )
    .fetch_all(conn)
    .await?;
    classes.extend(rows.into_iter().map(|row| (row.name, ClassId(row.id))));
    Ok(())
}

/// Writes the difference between the books as they were locked and as they are now. Inventories
/// themselves (their terms, and whether they exist) are not this function's business.
pub(super) async fn write(tx: &mut Tx<'_>, locked: &Locked, moved: &Moves) -> Result<()> {
    let mut rows = Rows::default();
    for (uuid, account) in &locked.books.consumers {
        if let Some(row) = locked.consumers.get(uuid) {
            rows.add_account(row, account);
        }
    }
    for ((provider, class), stock) in &locked.books.stocks {
        if stock.used != stock.used_before {
            rows.stock.0.push(provider.0);
            rows.stock.1.push(class.0);
            rows.stock.2.push(stock.used - stock.used_before);
            tx.touch(*provider);
        }
    }
    for (provider, steps) in &moved.0 {
        rows.provider.0.push(provider.0);
        rows.provider.1.push(*steps);
        tx.touch(*provider);
    }
    rows.write(tx.conn).await
}

/// By how much the generations of providers moved.
#[derive(Debug, Default)]
pub(super) struct Moves(BTreeMap<ProviderId, i64>);

impl Moves {
    /// The generations as locked, to be compared with when all is judged.
    pub(super) fn before(books: &Books) -> Self {
        Self(books.providers.values().map(|shelf| (shelf.id, shelf.generation)).collect())
    }

    /// What has moved since [`Moves::before`].
    pub(super) fn since(mut self, books: &Books) -> Self {
        for shelf in books.providers.values() {
            if let Some(generation) = self.0.get_mut(&shelf.id) {
                *generation = shelf.generation - *generation;
            }
        }
        self.0.retain(|_, steps| *steps != 0);
        self
    }
}

/// The rows to write, column by column.
#[derive(Default)]
struct Rows {
    /// Allocations that end.
    gone: (Vec<i64>, Vec<i32>, Vec<i32>),
    /// Allocations that begin or change.
    held: (Vec<i64>, Vec<i32>, Vec<i32>, Vec<i64>),
    /// Changes of `inventories.used`.
    stock: (Vec<i32>, Vec<i32>, Vec<i64>),
    /// Steps of provider generations.
    provider: (Vec<i32>, Vec<i64>),
    /// Consumers that come into being or change: id and generation.
    consumer: (Vec<i64>, Vec<i64>),
    /// Their project, user and type.
    owner: (Vec<i32>, Vec<i32>, Vec<Option<i32>>),
    /// Consumers that go.
    consumer_gone: Vec<i64>,
}

impl Rows {
    fn add_account(&mut self, row: &ConsumerRow, account: &Account) {
        let empty = BTreeMap::new();
        let before = account.before.as_ref().map_or(&empty, |before| &before.holds);
        let now = account.now.as_ref().map_or(&empty, |now| &now.holds);
        for (place, _) in before.iter().filter(|(place, _)| !now.contains_key(place)) {
            self.gone.0.push(row.id.0);
            self.gone.1.push(place.0.0);
            self.gone.2.push(place.1.0);
        }
        for (place, amount) in now {
            // A row is written anew even when the amount is the same: its time stamp moves.
            if account.before != account.now {
                self.held.0.push(row.id.0);
                self.held.1.push(place.0.0);
                self.held.2.push(place.1.0);
                self.held.3.push(*amount);
            }
        }
        let stored = row.inserted.as_ref().or(account.before.as_ref());
        let is_stored = |now: &Consumer| {
            stored.is_some_and(|it| (it.generation, it.owner) == (now.generation, now.owner))
        };
        match &account.now {
            Some(now) if !is_stored(now) => {
                self.consumer.0.push(row.id.0);
                self.consumer.1.push(now.generation);
                self.owner.0.push(now.owner.project);
                self.owner.1.push(now.owner.user);
                self.owner.2.push(now.owner.consumer_type);
            }
            Some(_) => {}
            None => self.consumer_gone.push(row.id.0),
        }
    }

    /// One statement for everything: constraints are checked at its end, when all is in place.
    ///
    /// # Errors
    /// Besides those of the database, a bug if not exactly the rows that are meant have changed:
    /// there is no foreign key that would notice.
    async fn write(&self, conn: &mut PgConnection) -> Result<()> {
        let changed = sqlx::query!(
            r#"with gone as (
                 delete from allocations a
                 using unnest($1::bigint[], $2::int[], $3::int[]) as g (consumer, provider, class)
                 where a.consumer_id = g.consumer and a.provider_id = g.provider
                   and a.class_id = g.class
             ), held as (
                 insert into allocations (consumer_id, provider_id, class_id, used)
                 select * from unnest($4::bigint[], $5::int[], $6::int[], $7::bigint[])
                 on conflict (consumer_id, provider_id, class_id)
                     do update set used = excluded.used, updated_at = now()
             ), stock as (
                 update inventories i set used = i.used + s.delta
                 from unnest($8::int[], $9::int[], $10::bigint[]) as s (provider, class, delta)
                 where i.provider_id = s.provider and i.class_id = s.class returning 1
             ), provider as (
                 update providers p set generation = p.generation + s.steps, updated_at = now()
                 from unnest($11::int[], $12::bigint[]) as s (provider, steps)
                 where p.id = s.provider returning 1
             ), consumer as (
                 update consumers c set project_id = s.project, user_id = s.user_id,
                        consumer_type_id = s.consumer_type, generation = s.generation
                 from unnest($13::bigint[], $14::bigint[], $15::int[], $16::int[], $17::int[])
                     as s (consumer, generation, project, user_id, consumer_type)
                 where c.id = s.consumer returning 1
             ), consumer_gone as (
                 delete from consumers where id = any($18) returning 1
             )
             select (select count(*) from stock) as "stock!",
                    (select count(*) from provider) as "provider!",
                    (select count(*) from consumer) as "consumer!",
                    (select count(*) from consumer_gone) as "consumer_gone!""#,
            &self.gone.0,
            &self.gone.1,
            &self.gone.2,
            &self.held.0,
            &self.held.1,
            &self.held.2,
            &self.held.3,
            &self.stock.0,
            &self.stock.1,
            &self.stock.2,
            &self.provider.0,
            &self.provider.1,
            &self.consumer.0,
            &self.consumer.1,
            &self.owner.0,
            &self.owner.1,
            &self.owner.2 as &[Option<i32>],
            &self.consumer_gone
        )
        .fetch_one(conn)
        .await?;
        let meant = [
            (changed.stock, self.stock.0.len()),
            (changed.provider, self.provider.0.len()),
            (changed.consumer, self.consumer.0.len()),
            (changed.consumer_gone, self.consumer_gone.len()),
        ];
        if meant.iter().any(|(changed, meant)| usize::try_from(*changed) != Ok(*meant)) {
            return Err(Error::Bug(format!(
                "a claim changed other rows than it locked: {meant:?}"
            )));
        }
        Ok(())
    }
}
