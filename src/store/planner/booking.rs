//! Making a plan real: its rows, what its servers hold, the groups they are in and the units those
//! have to themselves, in one transaction.
//!
//! Places were chosen on a world that may have moved on since. Nothing is written then: the refusal
//! says so, and whoever books looks again.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::plans::PlanRow;
use super::units;
use crate::model::claim::{Books, Claim, Request, judge};
use crate::model::{ProviderId, Refusal};
use crate::planner::stack::KeptHost;
use crate::store::allocations::ConsumerClaim;
use crate::store::change::{Change, Tx};
use crate::store::claims::{self, Moves, Needs};
use crate::store::error::{Error, Result, refuse_on};
use crate::store::owners::Owners;

/// The consumer type of what plans hold.
pub const CONSUMER_TYPE: &str = "VALET_PLAN";

/// A change to a plan and to what it holds. Refusals: `PlanExists`, `PlanChanged`, `UnitTaken`,
/// `ResourceTaken`, and those of [`replace_allocations`](crate::store::Store::replace_allocations).
#[derive(Clone, Debug)]
pub struct Booking {
    /// What becomes of the plan itself.
    pub plan: PlanChange,
    /// The stored groups it has to do with, each with the generation at which places were chosen.
    pub groups: Vec<(Uuid, i64)>,
    /// Placements that begin or change.
    pub placements: Vec<PlacementChange>,
    /// Placements that go.
    pub removed: Vec<Uuid>,
    /// What is held for placements, by their ids.
    pub claims: Vec<ConsumerClaim>,
    /// Units that groups are to have to themselves.
    pub units: Vec<KeptHost>,
    /// Every provider of the hosts in those units.
    pub unit_providers: Vec<Uuid>,
}

/// What becomes of a plan.
#[derive(Clone, Debug)]
pub enum PlanChange {
    /// It begins.
    Create(PlanRow),
    /// It is this from now on; its generation is the one that was seen.
    Update(PlanRow),
    /// It ends. The generation is the one that was seen.
    Delete(Uuid, i64),
}

/// A placement as it is to be.
#[derive(Clone, Debug)]
pub struct PlacementChange {
    /// Its id.
    pub id: Uuid,
    /// Who held its capacity and who was to take it over, as it was seen; `None`: it begins.
    pub seen: Option<(Uuid, Option<Uuid>)>,
    /// Whether the plan was seen to hold something for it.
    pub held: bool,
    /// See [`PlacementRow`](super::plans::PlacementRow), as for all that follows.
    pub position: i32,
    /// As it was written.
    pub orchestration_id: String,
    /// As it is compared.
    pub orchestration_key: String,
    /// The name of the server.
    pub name: String,
    /// As it was written.
    pub resource_id: Option<String>,
    /// As it is compared.
    pub resource_key: Option<String>,
    /// Whether it is reserved.
    pub reserved: Option<bool>,
    /// Who holds its capacity.
    pub consumer: Uuid,
    /// Who takes it over. If that consumer is on the host of the hold already, it does at once.
    pub ticket: Option<Uuid>,
    /// A JSON object as text.
    pub metadata: String,
    /// Whether it is no part of the plan any more.
    pub leaving: bool,
    /// Stored groups that the server is in.
    pub groups: Vec<Uuid>,
}

impl Change for Booking {
    const NAME: &'static str = "booking";
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        let plan = self.settle_plan(tx).await?;
        self.pass_groups(tx).await?;
        let (begin, change): (Vec<_>, Vec<_>) =
            self.placements.iter().cloned().partition(|it| it.seen.is_none());
        let awaited = insert(tx, plan, begin).await?;
        let change = awaited.into_iter().chain(change).collect();
        let mut owners = Owners::default();
        owners.learn(tx.conn, self.claims.iter()).await?;
        let claims: Vec<Claim> =
            self.claims.iter().map(|claim| owners.resolve(claim.clone())).collect();
        let change = self.hold(tx, claims, change).await?;
        update(tx, &change).await?;
        units::take(tx, &self.units).await?;
        self.remove(tx).await
    }
}

impl Booking {
    /// Writes the plan's row, and locks it; its id.
    async fn settle_plan(&self, tx: &mut Tx<'_>) -> Result<Uuid> {
        match &self.plan {
            PlanChange::Create(plan) => {
                sqlx::query!(
                    "insert into plans (id, name, stack_id, stack_key, project, user_id, document)
                     values ($1, $2, $3, $4, $5, $6, $7)",
                    plan.id,
                    plan.name,
                    plan.stack_id,
                    plan.stack_key,
                    plan.project,
                    plan.user,
                    plan.document
                )
                .execute(&mut *tx.conn)
                .await
                .map_err(|error| {
                    let taken = Refusal::PlanExists(plan.stack_id.clone());
                    refuse_on(error, [("plans_stack_key", taken)])
                })?;
                Ok(plan.id)
            }
            PlanChange::Update(plan) => {
                let moved = sqlx::query!(
                    "update plans set name = $3, document = $4, generation = generation + 1,
                            changed_at = now()
                     where id = $1 and generation = $2",
                    plan.id,
                    plan.generation,
                    plan.name,
                    plan.document
                )
                .execute(&mut *tx.conn)
                .await?;
                expect_one(moved.rows_affected())?;
                Ok(plan.id)
            }
            PlanChange::Delete(id, generation) => {
                let locked = sqlx::query_scalar!(
                    "select id from plans where id = $1 and generation = $2 for update",
                    id,
                    generation
                )
                .fetch_optional(&mut *tx.conn)
                .await?;
                locked.ok_or_else(|| Refusal::PlanChanged.into())
            }
        }
    }

    /// Plans that share a group take turns, and each looks where the others are.
    async fn pass_groups(&self, tx: &mut Tx<'_>) -> Result<()> {
        let (ids, seen): (Vec<Uuid>, Vec<i64>) = self.groups.iter().copied().unzip();
        if ids.is_empty() {
            return Ok(());
        }
        sqlx::query!(
            "select id from planner_groups where id = any($1) order by id for update",
            &ids
        )
        .fetch_all(&mut *tx.conn)
        .await?;
        let moved = sqlx::query!(
            "update planner_groups g set generation = g.generation + 1
             from unnest($1::uuid[], $2::bigint[]) as s (id, generation)
             where g.id = s.id and g.generation = s.generation",
            &ids,
            &seen
        )
        .execute(&mut *tx.conn)
        .await?;
        if usize::try_from(moved.rows_affected()) == Ok(ids.len()) {
            Ok(())
        } else {
            Err(Refusal::PlanChanged.into())
        }
    }

    /// Writes what is held, as the judge allows it; the placements that change, as they are then.
    async fn hold(
        &self,
        tx: &mut Tx<'_>,
        mut claims: Vec<Claim>,
        mut change: Vec<PlacementChange>,
    ) -> Result<Vec<PlacementChange>> {
        let owner = claims.first().map(|claim| claim.owner);
        let mut needs = Needs::default();
        needs.add_claims(&claims);
        needs.providers.extend(&self.unit_providers);
        for ticket in change.iter().filter(|it| it.ticket.is_some()) {
            needs.consumers.insert(ticket.id);
            needs.consumers.extend(ticket.ticket);
            // To insert is to wait for whoever inserts the same at the same time.
            if let (Some(instance), Some(owner)) = (ticket.ticket, owner) {
                needs.claiming.insert(instance, owner);
            }
        }
        let mut locked = claims::lock(tx, &needs).await?;
        if locked.concern.kept {
            locked.books.exclusivity = super::arrivals::exclusivity(tx, &locked.books).await?;
        }
        drop(needs);
        if change.iter().any(|placement| has_gone(&locked.books, placement)) {
            return Err(Refusal::PlanChanged.into());
        }
        let hosts = hosts(tx, &locked.books, &change).await?;
        for placement in &mut change {
            if let Some(instance) = arrived(&locked.books, &hosts, &claims, placement) {
                placement.consumer = instance;
                placement.ticket = None;
                claims.retain(|claim| claim.consumer != placement.id);
                claims.push(Claim::giving_up(placement.id));
            }
        }
        let before = Moves::before(&locked.books);
        judge(&mut locked.books, &Request::Replace(claims))?;
        let moved = before.since(&locked.books);
        claims::write(tx, &locked, &moved).await?;
        Ok(change)
    }

    /// Takes away what goes, and lets go of units.
    async fn remove(&self, tx: &mut Tx<'_>) -> Result<()> {
        sqlx::query!("delete from placements where id = any($1)", &self.removed)
            .execute(&mut *tx.conn)
            .await?;
        if let PlanChange::Delete(id, _) = &self.plan {
            sqlx::query!("delete from plans where id = $1", id).execute(&mut *tx.conn).await?;
        }
        let groups: Vec<Uuid> = self.groups.iter().map(|(group, _)| *group).collect();
        units::release(tx, &groups).await
    }
}

/// Whether what was held for a placement has been taken away. It would come back without the unit
/// that its group may have had to itself.
fn has_gone(books: &Books, placement: &PlacementChange) -> bool {
    let account = books.consumers.get(&placement.id);
    placement.held && account.is_some_and(|account| account.before.is_none())
}

/// The instance that a placement is reserved for, if it is on the host already on which its capacity
/// is, or is to be, held.
fn arrived(
    books: &Books,
    hosts: &HashMap<ProviderId, ProviderId>,
    claims: &[Claim],
    placement: &PlacementChange,
) -> Option<Uuid> {
    let instance = placement.ticket?;
    let is_on = |consumer: Uuid| -> BTreeSet<ProviderId> {
        let account = books.consumers.get(&consumer);
        let before = account.and_then(|account| account.before.as_ref());
        let held = before.iter().flat_map(|it| it.holds.keys());
        held.filter_map(|(provider, _)| hosts.get(provider)).copied().collect()
    };
    let claim = claims.iter().find(|claim| claim.consumer == placement.id);
    let planned = claim.map(|claim| {
        let shelves = claim.wants.iter().filter_map(|(uuid, ..)| books.providers.get(uuid));
        shelves.filter_map(|shelf| hosts.get(&shelf.id)).copied().collect()
    });
    let planned: BTreeSet<ProviderId> = planned.unwrap_or_else(|| is_on(placement.id));
    (!planned.is_disjoint(&is_on(instance))).then_some(instance)
}

/// The roots of the providers that are locked, if anybody may have arrived there; not of those that
/// share what they have with several hosts.
async fn hosts(
    tx: &mut Tx<'_>,
    books: &Books,
    change: &[PlacementChange],
) -> Result<HashMap<ProviderId, ProviderId>> {
    if change.iter().all(|placement| placement.ticket.is_none()) {
        return Ok(HashMap::new());
    }
    let providers: Vec<i32> = books.providers.values().map(|shelf| shelf.id.0).collect();
    let rows = sqlx::query!(
        "select id, root_id from providers p where id = any($1) and not exists (
             select from provider_traits pt join traits t on t.id = pt.trait_id
             where pt.provider_id = p.id and t.name = 'MISC_SHARES_VIA_AGGREGATE')",
        &providers
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    Ok(rows.into_iter().map(|row| (ProviderId(row.id), ProviderId(row.root_id))).collect())
}

fn expect_one(rows: u64) -> Result<()> {
    if rows == 1 { Ok(()) } else { Err(Refusal::PlanChanged.into()) }
}

/// Writes placements that begin; those that somebody is to take over change once more when that is
/// known to be still to come.
async fn insert(
    tx: &mut Tx<'_>,
    plan: Uuid,
    placements: Vec<PlacementChange>,
) -> Result<Vec<PlacementChange>> {
    for it in &placements {
        sqlx::query!(
            "insert into placements (id, plan_id, position, orchestration_id, orchestration_key, name,
                                     resource_id, resource_key, reserved, consumer, metadata)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            it.id,
            plan,
            it.position,
            it.orchestration_id,
            it.orchestration_key,
            it.name,
            it.resource_id,
            it.resource_key,
            it.reserved,
            it.consumer,
            it.metadata
        )
        .execute(&mut *tx.conn)
        .await
        .map_err(|error| resource_taken(error, it))?;
        join(tx, it).await?;
    }
    let awaited = placements.into_iter().filter(|it| it.ticket.is_some());
    Ok(awaited.map(|it| PlacementChange { seen: Some((it.consumer, None)), ..it }).collect())
}

/// Changes placements, unless their instances came or went meanwhile.
async fn update(tx: &mut Tx<'_>, placements: &[PlacementChange]) -> Result<()> {
    for it in placements {
        let Some((consumer, ticket)) = it.seen else { continue };
        refuse_holders(tx, it).await?;
        let moved = sqlx::query!(
            "update placements set position = $2, name = $3, resource_id = $4, resource_key = $5,
                    reserved = $6, consumer = $7, ticket = $8, metadata = $9, leaving = $10,
                    expired_at = null
             where id = $1 and consumer = $11 and ticket is not distinct from $12",
            it.id,
            it.position,
            it.name,
            it.resource_id,
            it.resource_key,
            it.reserved,
            it.consumer,
            it.ticket,
            it.metadata,
            it.leaving,
            consumer,
            ticket
        )
        .execute(&mut *tx.conn)
        .await
        .map_err(|error| resource_taken(error, it))?;
        expect_one(moved.rows_affected())?;
        sqlx::query!("delete from placement_groups where placement_id = $1", it.id)
            .execute(&mut *tx.conn)
            .await?;
        join(tx, it).await?;
    }
    Ok(())
}

/// Nobody takes over a placement who holds another one already, or is what is held for it.
async fn refuse_holders(tx: &mut Tx<'_>, placement: &PlacementChange) -> Result<()> {
    let Some(ticket) = placement.ticket else { return Ok(()) };
    let holds = sqlx::query_scalar!(
        r#"select exists(select from placements where consumer = $1 and id <> $2) as "holds!""#,
        ticket,
        placement.id
    )
    .fetch_one(&mut *tx.conn)
    .await?;
    if holds { Err(taken(placement).into()) } else { Ok(()) }
}

fn taken(placement: &PlacementChange) -> Refusal {
    Refusal::ResourceTaken(placement.resource_id.clone().unwrap_or_default())
}

fn resource_taken(error: sqlx::Error, placement: &PlacementChange) -> Error {
    let taken = || taken(placement);
    let unique = [
        "placements_ticket",
        "placements_consumer",
        "placements_resource_key",
        "placements_plan_resource",
    ];
    refuse_on(error, unique.map(|name| (name, taken())))
}

async fn join(tx: &mut Tx<'_>, placement: &PlacementChange) -> Result<()> {
    sqlx::query!(
        "insert into placement_groups (placement_id, group_id)
         select $1, id from unnest($2::uuid[]) as id",
        placement.id,
        &placement.groups
    )
    .execute(&mut *tx.conn)
    .await
    .map_err(|error| {
        refuse_on(error, [("placement_groups_group_id_fkey", Refusal::PlanChanged)])
    })?;
    Ok(())
}
