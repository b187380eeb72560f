//! Judges claims without making them: in one snapshot of the database, without locks, by the same function as real
//! claims. Nothing is written.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::PgConnection;
use tokio::time::timeout;
use uuid::Uuid;

use super::access::Store;
use super::claims::locked::{LockedClaims, Needs};
use super::consumer_claim::ConsumerClaim;
use super::error::{Error, Result};
use super::owners::{NewOwners, Owners};
use super::planner::Handover;
use super::tx::Tx;
use super::{change, claims};
use crate::model::claim::{Claim, Fault, Faults, InventoryUsage, Request, faults, judge};
use crate::model::{ClassId, Generation, Inventory, ProviderId, Refusal};

/// Maximum number of inventories shown with their holders.
pub const INVENTORIES_MAX: usize = 50;
/// Maximum number of attempts at a check when its connection is dead.
const ATTEMPTS_MAX: u32 = 2;

/// The expected outcome of claims.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedClaims {
    /// The refusal; `None`: they would be allowed.
    pub refusal: Option<Refusal>,
    /// All faults of the claims.
    pub faults: Faults,
    /// The inventories that they use, the obstructing ones first: at most [`INVENTORIES_MAX`].
    pub inventories: Vec<ClaimedInventory>,
    /// Number of all such inventories.
    pub inventories_count: usize,
    /// The holds for the consumers that have ended because they did not arrive.
    pub ended_holds: Vec<EndedHold>,
}

/// A hold that has ended because its consumer did not arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedHold {
    /// The consumer.
    pub consumer: Uuid,
    /// The placement of the plan.
    pub placement: Uuid,
    /// The time of its end, in seconds since the Unix epoch.
    pub ended_at: i64,
}

/// An inventory that claims use, with its holders.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedInventory {
    /// The provider.
    pub provider: Uuid,
    /// The name of the class.
    pub class: String,
    /// The amount that all claims together want of it.
    pub wanted: i64,
    /// The amount that their consumers hold now and would release.
    pub given_back: i64,
    /// The amount in use now.
    pub used: i64,
    /// Its terms.
    pub terms: Inventory,
    /// The consumers with the largest allocations of it, in descending order.
    pub holders: Vec<Holder>,
    /// Number of consumers with an allocation of it.
    pub holders_count: i64,
}

/// A consumer with an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The consumer.
    pub consumer: Uuid,
    /// Its amount.
    pub amount: i64,
    /// Its generation.
    pub generation: Generation,
    /// Its project, as clients name it.
    pub project: String,
    /// Its user, as clients name it.
    pub user: String,
    /// Its type; `None` if no client has given one.
    pub consumer_type: Option<String>,
    /// The time of its last change, in seconds since the Unix epoch.
    pub since: i64,
}

impl Store {
    /// Judges claims as of now, in one snapshot. Of each inventory, at most `holders_max` holders are named.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn check_claims(
        &self,
        claims: &[ConsumerClaim],
        holders_max: u32,
    ) -> Result<CheckedClaims> {
        let limit = self.primary().timeouts().read;
        let mut attempt = 1;
        loop {
            let checked = timeout(limit, self.try_check(claims, holders_max)).await;
            let late = || Error::Unavailable(format!("no response within {limit:?}"));
            match checked.unwrap_or_else(|_| Err(late())) {
                Err(Error::Again(_)) if attempt < ATTEMPTS_MAX => attempt += 1,
                settled => return settled.map_err(Error::settled),
            }
        }
    }

    async fn try_check(&self, claims: &[ConsumerClaim], holders_max: u32) -> Result<CheckedClaims> {
        let term = self.primary().term()?;
        let report_only = self.report_only();
        let checked = term.during(async {
            let mut conn = term.pool().acquire().await?;
            let mut snapshot = change::look_in_snapshot(&mut conn).await?;
            let mut tx = Tx::reading(&mut snapshot, report_only);
            let checked = check(&mut tx, claims, holders_max).await;
            snapshot.rollback().await?;
            checked
        });
        let checked = checked.await.inspect_err(|_| self.primary().suspect())?;
        self.primary().confirm(&term).await?;
        Ok(checked)
    }
}

async fn check(
    tx: &mut Tx<'_>,
    claims: &[ConsumerClaim],
    holders_max: u32,
) -> Result<CheckedClaims> {
    let (mut owners, mut new_owners) = (Owners::default(), NewOwners::default());
    owners.look_up(tx.conn, claims.iter()).await?;
    let claims = owners.resolve(claims, &mut new_owners)?;
    let mut needs = Needs::default();
    needs.add_claims(&claims);
    let mut read = claims::read(tx, &needs).await?;
    let handover = Handover::find(tx, &mut read, &claims, &new_owners).await?;
    let claims = handover.with_holds(&claims);
    let faults = faults(&read.state, &claims);
    let (mut inventories, inventories_count) = drawn_upon(&read, &claims, &faults);
    let consumers: Vec<Uuid> = claims.iter().map(|claim| claim.consumer).collect();
    let ended_holds = ended_holds(tx.conn, &consumers).await?;
    let refusal = judge(&mut read.state, &Request::Replace(claims)).err();
    add_holders(tx.conn, &mut inventories, holders_max).await?;
    let inventories = inventories.into_iter().map(|(_, inventory)| inventory).collect();
    Ok(CheckedClaims { refusal, faults, inventories, inventories_count, ended_holds })
}

async fn ended_holds(conn: &mut PgConnection, consumers: &[Uuid]) -> Result<Vec<EndedHold>> {
    let ended = sqlx::query_as!(
        EndedHold,
        r#"select ticket as "consumer!", id as placement,
                  extract(epoch from expired_at)::bigint as "ended_at!"
           from placements where ticket = any($1) and expired_at is not null order by ticket, id"#,
        consumers
    );
    Ok(ended.fetch_all(conn).await?)
}

type Place = (ProviderId, ClassId);

/// Returns the inventories that claims name, the obstructing ones first, and their number.
fn drawn_upon(
    read: &LockedClaims,
    claims: &[Claim],
    faults: &Faults,
) -> (Vec<(Place, ClaimedInventory)>, usize) {
    let state = &read.state;
    let in_the_way: BTreeSet<(Uuid, &str)> = faults.listed.iter().filter_map(place_of).collect();
    let mut given_back: BTreeMap<Place, i64> = BTreeMap::new();
    for claim in claims {
        let held = state.consumers.get(&claim.consumer).and_then(|it| it.now.as_ref());
        for (place, amount) in held.iter().flat_map(|held| &held.holds) {
            *given_back.entry(*place).or_insert(0) += amount;
        }
    }
    let mut wanted: BTreeMap<(bool, Uuid, &str), i64> = BTreeMap::new();
    for (provider, class, amount) in claims.iter().flat_map(|claim| &claim.wants) {
        let is_fine = !in_the_way.contains(&(*provider, class.as_str()));
        let sum = wanted.entry((is_fine, *provider, class)).or_insert(0);
        *sum = sum.saturating_add(*amount);
    }
    let inventories = wanted.into_iter().filter_map(|((_, provider, class), wanted)| {
        let place = (state.providers.get(&provider)?.id, *state.classes.get(class)?);
        let InventoryUsage { terms, used, .. } = *state.inventories.get(&place)?;
        let given_back = given_back.get(&place).map_or(0, |amount| *amount);
        let (class, holders) = (class.to_owned(), Vec::new());
        let inventory = ClaimedInventory {
            provider,
            class,
            wanted,
            given_back,
            used,
            terms,
            holders,
            holders_count: 0,
        };
        Some((place, inventory))
    });
    let mut inventories: Vec<_> = inventories.collect();
    let count = inventories.len();
    inventories.truncate(INVENTORIES_MAX);
    (inventories, count)
}

/// Returns the inventory that a fault is about.
fn place_of(fault: &Fault) -> Option<(Uuid, &str)> {
    match fault {
        Fault::Amount { provider, class, .. }
        | Fault::Capacity { provider, class, .. }
        | Fault::NoInventory { provider, class } => Some((*provider, class)),
        Fault::ConsumerGeneration { .. }
        | Fault::ProviderGeneration { .. }
        | Fault::UnknownProvider(_)
        | Fault::UnknownClass(_)
        | Fault::Exclusive { .. }
        | Fault::InventoryInUse { .. }
        | Fault::InventoryExists { .. }
        | Fault::ProviderInUse { .. }
        | Fault::ProviderHasChildren { .. }
        | Fault::UnknownTraits(_)
        | Fault::TraitInUse { .. }
        | Fault::ClassInUse { .. } => None,
    }
}

/// Adds the largest holders of each inventory, and the number of holders.
async fn add_holders(
    conn: &mut PgConnection,
    inventories: &mut [(Place, ClaimedInventory)],
    holders_max: u32,
) -> Result<()> {
    let (providers, classes): (Vec<i64>, Vec<i32>) =
        inventories.iter().map(|((provider, class), _)| (provider.0, class.0)).unzip();
    let rows = sqlx::query!(
        r#"select w.place as "place!", c.uuid as consumer, h.used as "used!", c.generation,
                  p.external_id as project, u.external_id as "user", t.name as "consumer_type?",
                  extract(epoch from h.updated_at)::bigint as "since!", h.holders as "holders!"
           from unnest($1::bigint[], $2::int[]) with ordinality as w (provider_id, class_id, place)
           cross join lateral (
               select a.consumer_id, a.used, a.updated_at, count(*) over () as holders
               from allocations a
               where a.provider_id = w.provider_id and a.class_id = w.class_id
               order by a.used desc, a.consumer_id limit $3
           ) h
           join consumers c on c.id = h.consumer_id
           join projects p on p.id = c.project_id
           join users u on u.id = c.user_id
           left join consumer_types t on t.id = c.consumer_type_id
           order by w.place, h.used desc, h.consumer_id"#,
        &providers,
        &classes,
        i64::from(holders_max)
    )
    .fetch_all(conn)
    .await?;
    for row in rows {
        let place = usize::try_from(row.place - 1).ok();
        let Some((_, inventory)) = place.and_then(|place| inventories.get_mut(place)) else {
            return Err(Error::bug("holders of an inventory that was not requested"));
        };
        inventory.holders_count = row.holders;
        inventory.holders.push(Holder {
            consumer: row.consumer,
            amount: row.used,
            generation: row.generation,
            project: row.project,
            user: row.user,
            consumer_type: row.consumer_type,
            since: row.since,
        });
    }
    Ok(())
}
