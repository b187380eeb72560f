//! What ordinary claims mean to plans, within the same transaction: a hold is handed over when the
//! instance it was reserved for arrives, strangers are kept out of exclusive units, and a unit that
//! its group has left is everybody's again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::units;
use crate::model::ProviderId;
use crate::model::claim::{Books, Claim};
use crate::model::exclusive::{Exclusivity, Keeper};
use crate::store::change::Tx;
use crate::store::claims::Locked;
use crate::store::error::{Error, Result};

/// Consumers for whom placements are reserved, with the placement: it holds by its own id what they
/// take over.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Arrivals {
    expected: BTreeMap<Uuid, Uuid>,
    /// Those whose claims have been allowed.
    come: BTreeSet<Uuid>,
}

impl Arrivals {
    /// Looks up what the planner has to do with what is locked; locks the holds, too.
    pub(in crate::store) async fn find(tx: &mut Tx<'_>, locked: &mut Locked) -> Result<Self> {
        let mut arrivals = Self::default();
        if locked.concern.planned {
            let consumers: Vec<Uuid> = locked.books.consumers.keys().copied().collect();
            let rows = sqlx::query!(
                r#"select id, ticket as "ticket!" from placements where ticket = any($1)"#,
                &consumers
            )
            .fetch_all(&mut *tx.conn)
            .await?;
            arrivals.expected = rows.into_iter().map(|row| (row.ticket, row.id)).collect();
            let holds: Vec<Uuid> = arrivals.expected.values().copied().collect();
            locked.add(tx, &holds).await?;
        }
        if locked.concern.kept {
            locked.books.exclusivity = exclusivity(tx, &locked.books).await?;
        }
        Ok(arrivals)
    }

    /// The claims, and with those of instances that arrive the end of what is held for them, so that
    /// nothing counts twice.
    pub(in crate::store) fn with_holds(&self, claims: &[Claim]) -> Vec<Claim> {
        let hold = |claim: &Claim| {
            let hold = self.expected.get(&claim.consumer).filter(|_| !claim.wants.is_empty())?;
            Some(Claim::giving_up(*hold))
        };
        claims.iter().cloned().chain(claims.iter().filter_map(hold)).collect()
    }

    /// Notes that claims have been allowed: whoever was expected has come, even if it goes again, or
    /// was elsewhere before.
    pub(in crate::store) fn note(&mut self, claims: &[Claim]) {
        let come = claims.iter().filter(|claim| !claim.wants.is_empty());
        let expected = come.filter(|claim| self.expected.contains_key(&claim.consumer));
        self.come.extend(expected.map(|claim| claim.consumer));
    }

    /// Whether there are none.
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.expected.is_empty()
    }

    /// Notes who has arrived, and lets go of units that nobody of their group is in any more. To be
    /// called when the claims have been written.
    pub(in crate::store) async fn settle(self, tx: &mut Tx<'_>, locked: &Locked) -> Result<()> {
        let Books { consumers, exclusivity, .. } = &locked.books;
        for ((consumer, _), why) in &exclusivity.reported {
            tracing::warn!(%consumer, "let in because --planner-exclusivity is report: {why}");
        }
        if !locked.concern.planned {
            return Ok(());
        }
        let arrived: Vec<Uuid> =
            self.come.iter().filter_map(|uuid| self.expected.get(uuid)).copied().collect();
        if !arrived.is_empty() {
            let handed_over = sqlx::query!(
                "update placements set consumer = ticket, ticket = null, reserved = true,
                        expired_at = null
                 where id = any($1) and ticket is not null",
                &arrived
            )
            .execute(&mut *tx.conn)
            .await?
            .rows_affected();
            if usize::try_from(handed_over) != Ok(arrived.len()) {
                return Err(Error::Again("a placement changed while its instance came".to_owned()));
            }
            self.remark_on_strays(&locked.books);
        }
        let concerned: Vec<Uuid> = consumers.keys().copied().collect();
        let groups = units::groups_of_consumers(tx, &concerned).await?;
        units::release(tx, &groups).await
    }

    /// An instance that has come to another host than was planned is where it is; whoever looks for
    /// the reason finds this line.
    fn remark_on_strays(&self, books: &Books) {
        let places = |uuid: &Uuid, before: bool| -> BTreeSet<ProviderId> {
            let account = books.consumers.get(uuid);
            let state =
                account.and_then(|it| if before { it.before.as_ref() } else { it.now.as_ref() });
            state.iter().flat_map(|it| it.holds.keys()).map(|(provider, _)| *provider).collect()
        };
        for (instance, placement) in &self.expected {
            let (planned, actual) = (places(placement, true), places(instance, false));
            if !planned.is_empty() && !actual.is_empty() && planned.is_disjoint(&actual) {
                tracing::warn!(%placement, %instance, "the instance went elsewhere than was planned");
            }
        }
    }
}

/// Which of the providers that are locked are kept for groups, and who is in those.
pub(super) async fn exclusivity(tx: &mut Tx<'_>, books: &Books) -> Result<Exclusivity> {
    let providers: Vec<i32> = books.providers.values().map(|shelf| shelf.id.0).collect();
    let rows = sqlx::query!(
        "select p.id, e.unit, e.group_id, g.name
         from providers p join exclusive_units e on e.root_id = p.root_id
         join planner_groups g on g.id = e.group_id
         where p.id = any($1) order by p.id, e.level",
        &providers
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    let mut kept: BTreeMap<ProviderId, Vec<Keeper>> = BTreeMap::new();
    for row in rows {
        let keeper = Keeper { group: row.group_id, name: row.name, unit: row.unit };
        kept.entry(ProviderId(row.id)).or_default().push(keeper);
    }
    let mut groups_of: HashMap<Uuid, BTreeSet<Uuid>> = HashMap::new();
    if !kept.is_empty() {
        let consumers: Vec<Uuid> = books.consumers.keys().copied().collect();
        let rows = sqlx::query!(
            r#"select p.consumer as "consumer!", pg.group_id as "group!"
               from placements p join placement_groups pg on pg.placement_id = p.id
               where p.consumer = any($1)
               union
               select p.ticket, pg.group_id
               from placements p join placement_groups pg on pg.placement_id = p.id
               where p.ticket = any($1)"#,
            &consumers
        )
        .fetch_all(&mut *tx.conn)
        .await?;
        for row in rows {
            groups_of.entry(row.consumer).or_default().insert(row.group);
        }
    }
    Ok(Exclusivity { kept, groups_of, report_only: tx.report_only, reported: BTreeMap::new() })
}
