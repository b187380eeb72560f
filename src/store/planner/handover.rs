//! The effects of ordinary claims on plans, in the transaction that writes the claims. A plan holds capacity
//! for each placement by its own consumer. When the instance that the placement is reserved for claims its
//! allocations, the hold ends in the same transaction, so nothing counts twice. Facts about exclusive units
//! are read for the judge, and units that no member uses any more are released.
//!
//! Example: placement P holds 2 VCPU on host h for instance I. Nova claims 2 VCPU on h for I. The claim is
//! judged together with a second one, in which P gives up its allocations; then P's consumer is I, and its
//! ticket is gone.
//!
//! Any project may reserve a placement for any id. Only tickets of the claiming project count, and those of plans
//! for any project, which operators make for single instances.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::exclusive_units;
use super::projects::{Claimants, Projects};
use crate::model::ProviderId;
use crate::model::claim::{Claim, LockedState};
use crate::model::exclusive::{Exclusivity, UnitHolder};
use crate::store::claims::locked::LockedClaims;
use crate::store::error::{Error, Result};
use crate::store::owners::NewOwners;
use crate::store::tx::Tx;

/// Placements that are reserved for consumers: by the consumer and the key of the project that claims
/// for it. A placement holds capacity, under its own id, for the consumer.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Handover {
    expected: BTreeMap<(Uuid, i64), Uuid>,
    /// Placements whose instances have been allowed to claim, each with its instance.
    handed_over: BTreeMap<Uuid, Uuid>,
}

impl Handover {
    /// Looks up the planner's facts about claims whose rows are locked. The holds have been locked with their
    /// instances.
    pub(in crate::store) async fn find<'c>(
        tx: &mut Tx<'_>,
        locked: &mut LockedClaims,
        claims: impl IntoIterator<Item = &'c Claim>,
        new_owners: &NewOwners,
    ) -> Result<Self> {
        if !locked.planner_role.has_placements && !locked.planner_role.has_exclusive_units {
            return Ok(Self::default());
        }
        let claimants = Claimants::of(claims, new_owners);
        let mut handover = Self::default();
        if locked.planner_role.has_placements {
            handover.expected = expected(tx, &claimants).await?;
            let holds: Vec<Uuid> = handover.expected.values().copied().collect();
            locked.expect(tx, &holds).await?;
        }
        if locked.planner_role.has_exclusive_units {
            locked.state.exclusivity = exclusivity(tx, &locked.state, &claimants).await?;
        }
        Ok(handover)
    }

    /// Returns the claims, and for each instance that takes over a hold a claim that ends the hold.
    pub(in crate::store) fn with_holds(&self, claims: &[Claim]) -> Vec<Claim> {
        let ends = claims.iter().filter_map(|claim| self.hold(claim)).map(Claim::giving_up);
        claims.iter().cloned().chain(ends).collect()
    }

    /// Records allowed claims: their instances have taken over their holds, even if they give everything up again
    /// in the same batch.
    pub(in crate::store) fn note(&mut self, claims: &[Claim]) {
        let holds = claims.iter().filter_map(|claim| Some((self.hold(claim)?, claim.consumer)));
        let holds: Vec<(Uuid, Uuid)> = holds.collect();
        self.handed_over.extend(holds);
    }

    /// Returns the placement that the claim takes over.
    fn hold(&self, claim: &Claim) -> Option<Uuid> {
        let hold = self.expected.get(&(claim.consumer, claim.owner.project));
        hold.filter(|_| !claim.wants.is_empty()).copied()
    }

    /// Returns whether it is empty.
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.expected.is_empty()
    }

    /// Stores the holds that have been handed over, and releases abandoned exclusive units. Called when the claims
    /// have been written.
    pub(in crate::store) async fn settle(
        self,
        tx: &mut Tx<'_>,
        locked: &LockedClaims,
    ) -> Result<()> {
        let LockedState { consumers, exclusivity, .. } = &locked.state;
        for ((consumer, provider), UnitHolder { name: group, unit, .. }) in &exclusivity.reported {
            tracing::warn!(
                %consumer, %provider, group, unit,
                "admitted because --planner-exclusivity is report"
            );
        }
        if !locked.planner_role.has_placements {
            return Ok(());
        }
        let (arrived, instances): (Vec<Uuid>, Vec<Uuid>) = self.handed_over.iter().unzip();
        if !arrived.is_empty() {
            // If nothing is held for a placement, no lock keeps bookings from reserving it for another
            // instance meanwhile.
            let handed_over = sqlx::query!(
                "update placements p set consumer = p.ticket, ticket = null, reserved = true,
                        expired_at = null
                 from unnest($1::uuid[], $2::uuid[]) as arrived (placement, instance)
                 where p.id = arrived.placement and p.ticket = arrived.instance
                   and p.id in (select id from placements where id = any($1) order by id for update)",
                &arrived,
                &instances
            )
            .execute(&mut *tx.conn)
            .await?
            .rows_affected();
            if usize::try_from(handed_over) != Ok(arrived.len()) {
                return Err(Error::Again("a placement changed while its instance came".to_owned()));
            }
            exclusive_units::forget_tenants(tx, &arrived).await?;
            self.log_other_hosts(&locked.state);
        }
        let concerned: Vec<Uuid> = consumers.keys().copied().collect();
        let groups = exclusive_units::groups_of_consumers(tx, &concerned).await?;
        exclusive_units::release(tx, &groups, locked).await
    }

    /// Logs instances that use other hosts than planned.
    fn log_other_hosts(&self, state: &LockedState) {
        let places = |uuid: &Uuid, before: bool| -> BTreeSet<ProviderId> {
            let consumer = state.consumers.get(uuid);
            let state =
                consumer.and_then(|it| if before { it.before.as_ref() } else { it.now.as_ref() });
            state.iter().flat_map(|it| it.holds.keys()).map(|(provider, _)| *provider).collect()
        };
        for ((instance, _), placement) in &self.expected {
            let (planned, actual) = (places(placement, true), places(instance, false));
            if !planned.is_empty() && !actual.is_empty() && planned.is_disjoint(&actual) {
                tracing::warn!(%placement, %instance, "the instance uses another host than planned");
            }
        }
    }
}

/// Reads the placements that the claimants take over. Two plans may belong to one project in two spellings:
/// then the one in the claim's own spelling counts, or else the first. Plans for any project come after those of
/// the claimant's.
async fn expected(
    tx: &mut Tx<'_>,
    claimants: &Claimants<'_>,
) -> Result<BTreeMap<(Uuid, i64), Uuid>> {
    let consumers = claimants.consumers();
    let rows = sqlx::query!(
        r#"select p.id, p.ticket as "ticket!", p.project, s.any_project
           from placements p join plans s on s.id = p.plan_id
           where p.ticket = any($1) order by p.id"#,
        &consumers
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    let keys: BTreeSet<i64> = rows.iter().flat_map(|row| claimants.projects(row.ticket)).collect();
    let projects = Projects::named(tx, keys, claimants.new_owners).await?;
    let mut expected = BTreeMap::new();
    for row in &rows {
        for key in claimants.projects(row.ticket) {
            let place = (row.ticket, key);
            let is_first = projects.is(key, &row.project) && !expected.contains_key(&place);
            if is_first || projects.is_exactly(key, &row.project) {
                expected.insert(place, row.id);
            }
        }
    }
    for row in rows.iter().filter(|row| row.any_project) {
        for key in claimants.projects(row.ticket) {
            expected.entry((row.ticket, key)).or_insert(row.id);
        }
    }
    Ok(expected)
}

/// Reads which of the locked providers groups have exclusively, and which of the claiming consumers are members
/// of these groups, by a placement of their own project, or as a tenant that had one.
pub(super) async fn exclusivity(
    tx: &mut Tx<'_>,
    state: &LockedState,
    claimants: &Claimants<'_>,
) -> Result<Exclusivity> {
    let providers: Vec<i64> = state.providers.values().map(|provider| provider.id.0).collect();
    let rows = sqlx::query!(
        "select p.id, e.unit, e.group_id, g.name
         from providers p join exclusive_units e on e.root_id = p.root_id
         join planner_groups g on g.id = e.group_id
         where p.id = any($1) order by p.id, e.level",
        &providers
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    let mut holders: BTreeMap<ProviderId, Vec<UnitHolder>> = BTreeMap::new();
    for row in rows {
        let holder = UnitHolder { group: row.group_id, name: row.name, unit: row.unit };
        holders.entry(ProviderId(row.id)).or_default().push(holder);
    }
    if holders.is_empty() {
        return Ok(Exclusivity::default());
    }
    let (groups_of, report_only) = (groups_of(tx, claimants).await?, tx.report_only);
    Ok(Exclusivity { holders, groups_of, report_only, ..Exclusivity::default() })
}

/// Reads the groups that consumers are members of. If two projects claim for one consumer at once, both must have
/// a placement for it.
async fn groups_of(
    tx: &mut Tx<'_>,
    claimants: &Claimants<'_>,
) -> Result<HashMap<Uuid, BTreeSet<Uuid>>> {
    let consumers = claimants.consumers();
    let rows = sqlx::query!(
        r#"select p.consumer as "consumer!", p.project as "project!", pg.group_id as "group!",
                  s.any_project as "any_project!"
           from placements p join placement_groups pg on pg.placement_id = p.id
           join plans s on s.id = p.plan_id
           where p.consumer = any($1)
           union
           select p.ticket, p.project, pg.group_id, s.any_project
           from placements p join placement_groups pg on pg.placement_id = p.id
           join plans s on s.id = p.plan_id
           where p.ticket = any($1)
           union
           select consumer, project, group_id, false from exclusive_tenants where consumer = any($1)"#,
        &consumers
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    let keys: BTreeSet<i64> =
        rows.iter().flat_map(|row| claimants.projects(row.consumer)).collect();
    let projects = Projects::named(tx, keys, claimants.new_owners).await?;
    let mut groups_of: HashMap<Uuid, BTreeSet<Uuid>> = HashMap::new();
    for row in rows {
        let is_own = |key| row.any_project || projects.is(key, &row.project);
        if claimants.projects(row.consumer).all(is_own) {
            groups_of.entry(row.consumer).or_default().insert(row.group);
        }
    }
    Ok(groups_of)
}
