//! Writes a plan in one transaction: its row, its placements and their holds, groups, and exclusive units.
//!
//! The hosts were chosen on a world that may have changed since. Then nothing is written, the refusal says
//! so, and the plan is solved again.

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::caps::{Caps, Growth};
use super::handover::exclusivity;
use super::projects::{Claimants, own};
use super::{exclusive_units, placements};
use crate::model::claim::{Claim, LockedState, Request, judge};
use crate::model::{Expected, ProviderId, Refusal, traits};
use crate::observe::spans::Phase;
use crate::planner::booking::{BookingPlan, PlacementWrite, PlanWrite};
use crate::planner::draw::Amounts;
use crate::planner::plan::Placement;
use crate::store::change::Change;
use crate::store::claims::GenerationSteps;
use crate::store::claims::locked::{LockedClaims, Needs};
use crate::store::consumer_claim::ConsumerClaim;
use crate::store::effects::{Content, Effect, Kind, ObjectState};
use crate::store::error::{Result, refuse_on};
use crate::store::owners::{NewOwners, Owners};
use crate::store::tx::Tx;
use crate::store::{claims, locks};

/// The consumer type of the holds of plans.
pub const CONSUMER_TYPE: &str = "VALET_PLAN";

/// Writes a [`BookingPlan`]. Refusals: `PlanExists`, `PlanChanged`, `UnitTaken`, `ResourceTaken`,
/// `CapReached`, and those of [`replace_allocations`](crate::store::Changes::replace_allocations).
#[derive(Clone, Debug)]
pub struct Booking {
    /// The plan to write.
    pub plan: BookingPlan,
    /// The caps of the project; `None`: no limit.
    pub caps: Option<Caps>,
}

impl Change for Booking {
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        let bytes_grow = self.write_plan(tx).await?;
        self.note(tx);
        self.lock_groups(tx).await?;
        let locked = self.hold(tx).await?;
        let BookingPlan { plan, write, .. } = &self.plan;
        if *write == PlanWrite::Delete {
            sqlx::query!("delete from plans where id = $1", plan.id).execute(&mut *tx.conn).await?;
        }
        exclusive_units::take(tx, &self.plan.units).await?;
        let groups: Vec<Uuid> = self.plan.groups.iter().map(|(group, _)| *group).collect();
        exclusive_units::release(tx, &groups, &locked).await?;
        let Some(caps) = self.caps.filter(|_| *write != PlanWrite::Delete) else { return Ok(()) };
        let begin = self.plan.placements.iter().filter(|it| it.seen.is_none()).count();
        let growth = Growth {
            plans: *write == PlanWrite::Create,
            placements: begin > self.plan.removed.len(),
            bytes: bytes_grow,
        };
        caps.check(tx, &plan.project, growth).await
    }
}

impl Booking {
    /// Records the changes of the plan and of the instances of its placements. Their holds are recorded where they
    /// are written.
    fn note(&self, tx: &mut Tx<'_>) {
        let BookingPlan { plan, write, placements, removed, .. } = &self.plan;
        let named = |generation| {
            let content = Content::Named(plan.name.clone());
            Some(ObjectState { generation: Some(generation), content })
        };
        let (before, after) = match write {
            PlanWrite::Create => (None, named(plan.generation)),
            PlanWrite::Update => (named(plan.generation), named(plan.generation + 1)),
            PlanWrite::Delete => (named(plan.generation), None),
        };
        tx.note(|| Effect { kind: Kind::Plan, id: plan.id.to_string(), before, after });
        let instance = |instance: Option<Uuid>| {
            let instance = instance.map(|instance| instance.to_string());
            Some(ObjectState { generation: None, content: Content::Instance(instance) })
        };
        let of = |placement: Uuid, consumer: Uuid, ticket: Option<Uuid>| {
            ticket.or_else(|| Some(consumer).filter(|consumer| *consumer != placement))
        };
        for PlacementWrite { new, seen } in placements {
            let before = seen.map(|(consumer, ticket)| of(new.id, consumer, ticket)).map(instance);
            let after = instance(of(new.id, new.consumer, new.ticket));
            let before = before.flatten();
            if before != after {
                let id = new.id.to_string();
                tx.note(|| Effect { kind: Kind::Placement, id, before, after });
            }
        }
        for placement in removed {
            let before = Some(ObjectState { generation: None, content: Content::Nothing });
            let id = placement.to_string();
            tx.note(|| Effect { kind: Kind::Placement, id, before, after: None });
        }
    }

    /// Writes the plan's row and locks it. Returns whether its document is longer than before.
    async fn write_plan(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let plan = &self.plan.plan;
        match self.plan.write {
            PlanWrite::Create => {
                sqlx::query!(
                    "insert into plans (id, name, stack_id, stack_key, project, user_id, document,
                                        any_project)
                     values ($1, $2, $3, $4, $5, $6, $7, $8)",
                    plan.id,
                    plan.name,
                    plan.stack_id,
                    plan.stack_key,
                    plan.project,
                    plan.user,
                    plan.document,
                    plan.any_project
                )
                .execute(&mut *tx.conn)
                .await
                .map_err(|error| {
                    let taken = Refusal::PlanExists(plan.stack_id.clone());
                    refuse_on(error, [("plans_stack_key", taken)])
                })?;
                Ok(true)
            }
            PlanWrite::Update => {
                let grows = sqlx::query_scalar!(
                    r#"update plans p set name = $3, document = $4, generation = p.generation + 1,
                              changed_at = now()
                       from (select id, document from plans
                             where id = $1 and generation = $2 for update) before
                       where p.id = before.id
                       returning octet_length($4) > octet_length(before.document) as "grows!""#,
                    plan.id,
                    plan.generation,
                    plan.name,
                    plan.document
                )
                .fetch_optional(&mut *tx.conn)
                .await?;
                Ok(grows.ok_or(Refusal::PlanChanged)?)
            }
            PlanWrite::Delete => {
                let locked = sqlx::query_scalar!(
                    "select id from plans where id = $1 and generation = $2 for update",
                    plan.id,
                    plan.generation
                )
                .fetch_optional(&mut *tx.conn)
                .await?;
                Ok(locked.map(|_| false).ok_or(Refusal::PlanChanged)?)
            }
        }
    }

    /// Locks the groups, and refuses the plan if one of them has changed since hosts were chosen.
    async fn lock_groups(&self, tx: &mut Tx<'_>) -> Result<()> {
        let (ids, seen): (Vec<Uuid>, Vec<i64>) = self.plan.groups.iter().copied().unzip();
        // Foreign keys also lock the groups that placements only stay in.
        let named = self.plan.placements.iter().flat_map(|it| &it.new.groups).chain(&ids).copied();
        let named: Vec<Uuid> = named.collect::<BTreeSet<_>>().into_iter().collect();
        if named.is_empty() {
            return Ok(());
        }
        let _locking = tx.spans.begin(Phase::Lock);
        sqlx::query!(
            "select id from planner_groups where id = any($1) order by id for update",
            &named
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

    /// Writes placements and their holds, as far as the judge allows them. Consumers and providers are locked
    /// first, as for every claim.
    async fn hold(&self, tx: &mut Tx<'_>) -> Result<LockedClaims> {
        let (mut owners, mut new_owners) = (Owners::default(), NewOwners::default());
        let wanted: Vec<ConsumerClaim> =
            self.plan.holds.iter().map(|hold| self.claim(hold)).collect();
        owners.look_up(tx.conn, wanted.iter()).await?;
        let mut claims = owners.resolve(&wanted, &mut new_owners)?;
        let (begin, change): (Vec<_>, Vec<_>) =
            self.plan.placements.iter().cloned().partition(|it| it.seen.is_none());
        let mut change: Vec<_> = awaited(&begin).chain(change).collect();
        let mut locked = self.lock(tx, &claims, &change).await?;
        placements::insert(tx, &begin).await?;
        locked.planner_role.has_placements = true;
        if locked.planner_role.has_exclusive_units {
            let claimants = Claimants::of(&claims, &new_owners);
            locked.state.exclusivity = exclusivity(tx, &locked.state, &claimants).await?;
        }
        if change.iter().any(|placement| has_gone(&locked.state, placement)) {
            return Err(Refusal::PlanChanged.into());
        }
        let hosts = hosts(tx, &locked.state, &change).await?;
        let instances = change.iter().filter_map(|it| it.new.ticket).collect();
        let own = own(tx, &locked.state, &self.plan.plan, instances).await?;
        let by_consumer: HashMap<Uuid, &Claim> =
            claims.iter().map(|claim| (claim.consumer, claim)).collect();
        let mut taken_over = Vec::new();
        let is_own = |it: &&mut PlacementWrite| it.new.ticket.is_some_and(|it| own.contains(&it));
        for PlacementWrite { new: placement, .. } in change.iter_mut().filter(is_own) {
            let claim = by_consumer.get(&placement.id).copied();
            if let Some(instance) = arrived(&locked.state, &hosts, claim, placement) {
                placement.consumer = instance;
                placement.ticket = None;
                taken_over.push(placement.id);
            }
        }
        let given_up: HashSet<Uuid> = taken_over.iter().copied().collect();
        claims.retain(|claim| !given_up.contains(&claim.consumer));
        claims.extend(taken_over.into_iter().map(Claim::giving_up));
        let before = GenerationSteps::before(&locked.state);
        judge(&mut locked.state, &Request::Replace(claims))?;
        new_owners.settle(tx.conn, &mut locked.state).await?;
        let moved = before.since(&locked.state);
        tx.note_consumers(&locked.state);
        claims::write(tx, &locked, &moved).await?;
        let deleted = (self.plan.write == PlanWrite::Delete).then_some(self.plan.plan.id);
        placements::lock(tx, &change, &self.plan.removed, deleted).await?;
        let left: Vec<Uuid> =
            change.iter().filter(|it| it.leaves_instance()).map(|it| it.new.id).collect();
        exclusive_units::keep_tenants(tx, &[left, self.plan.removed.clone()].concat(), deleted)
            .await?;
        placements::update(tx, &change).await?;
        let came: Vec<Uuid> = change.iter().map(|it| it.new.id).collect();
        exclusive_units::forget_tenants(tx, &came).await?;
        sqlx::query!("delete from placements where id = any($1)", &self.plan.removed)
            .execute(&mut *tx.conn)
            .await?;
        Ok(locked)
    }

    /// Locks the rows that the claims and placements need, and the resource ids that they write.
    async fn lock(
        &self,
        tx: &mut Tx<'_>,
        claims: &[Claim],
        change: &[PlacementWrite],
    ) -> Result<LockedClaims> {
        let owner = claims.first().map(|claim| claim.owner);
        let mut needs = Needs::default();
        needs.add_claims(claims);
        needs.providers.extend(&self.plan.unit_providers);
        needs.groups.extend(self.plan.groups.iter().map(|(group, _)| *group));
        for write in change {
            let Some(instance) = write.new.ticket else { continue };
            needs.consumers.extend([write.new.id, instance]);
            // An insertion waits for a transaction that inserts the same consumer.
            if let Some(owner) = owner {
                needs.claiming.insert(instance, owner);
            }
        }
        let locked = claims::lock(tx, &needs).await?;
        let keys = self.plan.placements.iter().filter_map(|it| it.new.resource_key.as_deref());
        locks::lock_resource_keys(tx.conn, &keys.collect::<Vec<_>>()).await?;
        Ok(locked)
    }

    /// Returns a hold as the claim of a consumer that only the plan knows.
    fn claim(&self, (placement, amounts): &(Uuid, Amounts)) -> ConsumerClaim {
        ConsumerClaim {
            consumer: *placement,
            expected: Expected::Any,
            project: self.plan.plan.project.clone(),
            user: self.plan.plan.user.clone(),
            consumer_type: Some(CONSUMER_TYPE.to_owned()),
            wants: amounts.clone(),
        }
    }
}

/// Returns new placements that an instance is to take over: they are written again once it is known whether
/// the instance has allocations already.
fn awaited(begin: &[PlacementWrite]) -> impl Iterator<Item = PlacementWrite> {
    let awaited = begin.iter().filter(|it| it.new.ticket.is_some());
    awaited.map(|it| PlacementWrite { seen: Some((it.new.consumer, None)), ..it.clone() })
}

/// Returns whether the hold of a placement has been released. It must not come back without the exclusive
/// unit that its group may have had.
fn has_gone(state: &LockedState, placement: &PlacementWrite) -> bool {
    let consumer = state.consumers.get(&placement.new.id);
    placement.was_held() && consumer.is_some_and(|consumer| consumer.before.is_none())
}

/// Returns the instance that a placement is reserved for, if it is already on the host on which capacity is held
/// for it, or is to be held by this claim.
fn arrived(
    state: &LockedState,
    hosts: &HashMap<ProviderId, ProviderId>,
    claim: Option<&Claim>,
    placement: &Placement,
) -> Option<Uuid> {
    let instance = placement.ticket?;
    let is_on = |consumer: Uuid| -> BTreeSet<ProviderId> {
        let consumer = state.consumers.get(&consumer);
        let before = consumer.and_then(|consumer| consumer.before.as_ref());
        let held = before.iter().flat_map(|it| it.holds.keys());
        held.filter_map(|(provider, _)| hosts.get(provider)).copied().collect()
    };
    let planned = claim.map(|claim| {
        let providers = claim.wants.iter().filter_map(|(uuid, ..)| state.providers.get(uuid));
        providers.filter_map(|provider| hosts.get(&provider.id)).copied().collect()
    });
    let planned: BTreeSet<ProviderId> = planned.unwrap_or_else(|| is_on(placement.id));
    (!planned.is_disjoint(&is_on(instance))).then_some(instance)
}

/// Returns the root of each locked provider, if any placement has a ticket; without sharing providers, which
/// belong to several hosts.
async fn hosts(
    tx: &mut Tx<'_>,
    state: &LockedState,
    change: &[PlacementWrite],
) -> Result<HashMap<ProviderId, ProviderId>> {
    if change.iter().all(|it| it.new.ticket.is_none()) {
        return Ok(HashMap::new());
    }
    let providers: Vec<i64> = state.providers.values().map(|provider| provider.id.0).collect();
    let rows = sqlx::query!(
        "select id, root_id from providers p where id = any($1) and not exists (
             select from provider_traits pt join traits t on t.id = pt.trait_id
             where pt.provider_id = p.id and t.name = $2)",
        &providers,
        traits::SHARING
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    Ok(rows.into_iter().map(|row| (ProviderId(row.id), ProviderId(row.root_id))).collect())
}
