//! Exclusive units: hosts, racks and clusters reserved for the servers of one group.
//!
//! All decisions about their use are made here. Other modules look up the facts.
//!
//! * [`may_take`]: a group gets a host if no other group has it at the same level and only its members use
//!   it. A group keeps the hosts that it has, even if others have been admitted since. Checked when hosts
//!   are chosen (`planner/host_filter.rs`), and again when a plan is booked
//!   (`store/planner/exclusive_units.rs`).
//! * [`admits`]: only members of every group that has a host may use it. Checked when hosts are chosen, and
//!   for each claim ([`Exclusivity::check`]), be it of a plan or of any other client.
//! * [`abandoned`]: a group has a unit until none of its members uses any host of it.
//! * [`departed`]: an instance that loses its placement remains a member, as a [`Tenant`], until it uses none
//!   of the group's hosts.
//!
//! A consumer is a member of the groups of its placement, if the placement is of the project that claims
//! (`store/planner/handover.rs`). Independently of all this, allocation candidates leave exclusive hosts
//! out, unless the client names [their trait](super::traits::EXCLUSIVE).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::group::Level;
use super::ids::{ClassId, ProviderId};
use super::refusal::Refusal;

/// A host in a unit that a group has exclusively.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExclusiveHost {
    /// The root of its tree.
    pub root: ProviderId,
    /// The level of the unit.
    pub level: Level,
    /// The name of the host, rack or cluster.
    pub unit: String,
    /// The stored group.
    pub group: Uuid,
}

/// Returns whether a group may have a host exclusively. `holder` is the group that has the host at this
/// level; `is_used_by_others` says whether a consumer outside the group uses the host.
pub fn may_take(
    group: Uuid,
    holder: Option<Uuid>,
    is_used_by_others: impl FnOnce() -> bool,
) -> bool {
    holder.map_or_else(|| !is_used_by_others(), |holder| holder == group)
}

/// Returns whether a member of `groups` may use a host that the groups of `holders` have exclusively.
pub fn admits(holders: impl IntoIterator<Item = Uuid>, groups: &BTreeSet<Uuid>) -> bool {
    holders.into_iter().all(|holder| groups.contains(&holder))
}

/// Returns the hosts in units that no member of their group uses any more. `used` has each group with the
/// roots of the hosts that its members use.
pub fn abandoned<'h>(
    hosts: &'h [ExclusiveHost],
    used: &BTreeSet<(Uuid, ProviderId)>,
) -> impl Iterator<Item = &'h ExclusiveHost> {
    let unit = |host: &'h ExclusiveHost| (host.group, host.level, host.unit.as_str());
    let is_used = |host: &&ExclusiveHost| used.contains(&(host.group, host.root));
    let used_units: BTreeSet<_> = hosts.iter().filter(is_used).map(unit).collect();
    hosts.iter().filter(move |host| !used_units.contains(&unit(host)))
}

/// An instance of a group whose placement is gone, because its plan was deleted or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The instance.
    pub consumer: Uuid,
    /// The stored group.
    pub group: Uuid,
    /// The roots of the hosts that it uses.
    pub roots: BTreeSet<ProviderId>,
}

/// Returns the tenants that use none of their group's hosts: they are no members any more.
pub fn departed<'t>(
    hosts: &[ExclusiveHost],
    tenants: &'t [Tenant],
) -> impl Iterator<Item = &'t Tenant> {
    let kept: BTreeSet<_> = hosts.iter().map(|host| (host.group, host.root)).collect();
    let stays = move |it: &Tenant| it.roots.iter().any(|root| kept.contains(&(it.group, *root)));
    tenants.iter().filter(move |tenant| !stays(tenant))
}

/// The groups that exclusively have providers named by claims.
#[derive(Clone, Debug, Default)]
pub struct Exclusivity {
    /// The groups that have a provider exclusively. Providers that are not listed are open to all.
    pub holders: BTreeMap<ProviderId, Vec<UnitHolder>>,
    /// The groups that consumers are members of.
    pub groups_of: HashMap<Uuid, BTreeSet<Uuid>>,
    /// Allows and reports claims of other consumers instead of refusing them.
    pub report_only: bool,
    /// Reported claims, by consumer and provider.
    pub reported: BTreeMap<(Uuid, Uuid), UnitHolder>,
}

/// A group that has a unit exclusively.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitHolder {
    /// The group.
    pub group: Uuid,
    /// Its name.
    pub name: String,
    /// The name of the host, rack or cluster.
    pub unit: String,
}

/// An amount that a consumer claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimedAmount {
    pub(super) consumer: Uuid,
    pub(super) provider: Uuid,
    pub(super) inventory: (ProviderId, ClassId),
    pub(super) amount: i64,
}

impl Exclusivity {
    /// Refuses amounts of consumers that are not [admitted](admits).
    ///
    /// Together they may have as much of an inventory as the consumers of the request had before (`released`): an
    /// instance that migrates leaves its allocations to the migration, and a consumer that was admitted once may
    /// stay.
    pub(super) fn check(
        &mut self,
        claimed: impl Iterator<Item = ClaimedAmount>,
        released: &BTreeMap<(ProviderId, ClassId), i64>,
    ) -> Result<(), Refusal> {
        if self.holders.is_empty() {
            return Ok(());
        }
        let mut taken: BTreeMap<(ProviderId, ClassId), i64> = BTreeMap::new();
        for claim in claimed {
            let Some(holder) = self.closed_by(claim.consumer, claim.inventory.0) else { continue };
            let sum = taken.entry(claim.inventory).or_insert(0);
            *sum = sum.saturating_add(claim.amount);
            if *sum <= released.get(&claim.inventory).copied().unwrap_or(0) {
                continue;
            }
            let holder = holder.clone();
            if !self.report_only {
                let UnitHolder { name: group, unit, .. } = holder;
                return Err(Refusal::Exclusive { provider: claim.provider, group, unit });
            }
            self.reported.insert((claim.consumer, claim.provider), holder);
        }
        Ok(())
    }

    /// Returns the first group whose exclusive provider the consumer may not use.
    fn closed_by(&self, consumer: Uuid, provider: ProviderId) -> Option<&UnitHolder> {
        let none = BTreeSet::new();
        let groups = self.groups_of.get(&consumer).unwrap_or(&none);
        let holders = self.holders.get(&provider)?;
        holders.iter().find(|holder| !admits([holder.group], groups))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVENTORY: (ProviderId, ClassId) = (ProviderId(1), ClassId(0));

    fn claimed(consumer: u128, amount: i64) -> ClaimedAmount {
        let consumer = Uuid::from_u128(consumer);
        ClaimedAmount { consumer, provider: Uuid::nil(), inventory: INVENTORY, amount }
    }

    /// Group 7 has the provider, and consumer 1 is a member.
    fn exclusive() -> Exclusivity {
        let group = Uuid::from_u128(7);
        let holder = UnitHolder { group, name: "gold".to_owned(), unit: "h1".to_owned() };
        Exclusivity {
            holders: BTreeMap::from([(INVENTORY.0, vec![holder])]),
            groups_of: HashMap::from([(Uuid::from_u128(1), BTreeSet::from([group]))]),
            ..Exclusivity::default()
        }
    }

    fn check(amounts: &[ClaimedAmount], released: i64) -> bool {
        let released = BTreeMap::from([(INVENTORY, released)]);
        exclusive().check(amounts.iter().copied(), &released).is_ok()
    }

    #[test]
    fn members_may_and_others_may_not() {
        assert!(check(&[claimed(1, 4)], 0));
        assert!(!check(&[claimed(2, 1)], 0));
        assert!(!check(&[claimed(1, 4), claimed(2, 1)], 0));
    }

    #[test]
    fn a_request_may_keep_but_not_exceed_its_previous_amounts() {
        assert!(check(&[claimed(2, 4)], 4));
        assert!(!check(&[claimed(2, 5)], 4));
        assert!(!check(&[claimed(2, 3), claimed(3, 2)], 4));
    }

    #[test]
    fn claims_of_others_are_only_reported_if_that_is_wanted() {
        let mut exclusive = Exclusivity { report_only: true, ..exclusive() };
        assert_eq!(exclusive.check([claimed(2, 1)].into_iter(), &BTreeMap::new()), Ok(()));
        assert_eq!(exclusive.reported.len(), 1);
    }

    #[test]
    fn a_member_of_one_of_two_groups_is_kept_out_by_the_other() {
        let mut twice = exclusive();
        let other = UnitHolder {
            group: Uuid::from_u128(8),
            name: "silver".to_owned(),
            unit: "r1".to_owned(),
        };
        twice.holders.entry(INVENTORY.0).or_default().push(other);
        assert!(twice.check([claimed(1, 1)].into_iter(), &BTreeMap::new()).is_err());
    }

    #[test]
    fn a_group_takes_unused_units_and_keeps_its_own() {
        let (group, other) = (Uuid::from_u128(7), Uuid::from_u128(8));
        assert!(may_take(group, None, || false) && !may_take(group, None, || true));
        assert!(may_take(group, Some(group), || true) && !may_take(group, Some(other), || false));
    }

    #[test]
    fn a_unit_is_abandoned_when_no_member_uses_any_of_its_hosts() {
        let host = |root, level, unit: &str| ExclusiveHost {
            root: ProviderId(root),
            level,
            unit: unit.to_owned(),
            group: Uuid::from_u128(7),
        };
        let rack = [host(1, Level::Rack, "r1"), host(2, Level::Rack, "r1")];
        let hosts = [&rack[..], &[host(1, Level::Host, "h1"), host(2, Level::Host, "h2")]].concat();
        let left = |used: &[i64]| {
            let used = used.iter().map(|root| (Uuid::from_u128(7), ProviderId(*root))).collect();
            abandoned(&hosts, &used).map(|host| host.unit.clone()).collect::<Vec<_>>()
        };
        assert_eq!(left(&[1]), ["h2"]);
        assert_eq!(left(&[]), ["r1", "r1", "h1", "h2"]);
    }

    #[test]
    fn a_tenant_departs_when_it_uses_no_host_that_its_group_has() {
        let group = Uuid::from_u128(7);
        let host =
            ExclusiveHost { root: ProviderId(1), level: Level::Rack, unit: "r1".to_owned(), group };
        let tenant = |group, roots: &[i64]| Tenant {
            consumer: Uuid::from_u128(1),
            group,
            roots: roots.iter().map(|root| ProviderId(*root)).collect(),
        };
        let tenants = [
            tenant(group, &[1, 2]),
            tenant(group, &[2]),
            tenant(group, &[]),
            tenant(Uuid::from_u128(8), &[1]),
        ];
        let gone: Vec<&Tenant> = departed(&[host], &tenants).collect();
        assert_eq!(gone, tenants[1..].iter().collect::<Vec<_>>());
    }
}
