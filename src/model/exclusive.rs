//! Providers that a group has to itself, and who may hold something there all the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::{ClassId, ProviderId, Refusal};

/// The trait that the roots of such providers carry, for everybody to see.
pub const EXCLUSIVE_TRAIT: &str = "CUSTOM_VALET_EXCLUSIVE";

/// Who has which providers to itself.
#[derive(Clone, Debug, Default)]
pub struct Exclusivity {
    /// The groups that have a provider to themselves; those that are not named are for everybody.
    pub kept: BTreeMap<ProviderId, Vec<UnitHolder>>,
    /// The groups that consumers are in.
    pub groups_of: HashMap<Uuid, BTreeSet<Uuid>>,
    /// Whether strangers are let in, and only remarked on.
    pub report_only: bool,
    /// Why who has been let in where: by consumer and provider.
    pub reported: BTreeMap<(Uuid, Uuid), Refusal>,
}

/// A group that has a unit to itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitHolder {
    /// The group.
    pub group: Uuid,
    /// Its name.
    pub name: String,
    /// The host, rack or cluster.
    pub unit: String,
}

/// Something that a consumer is to hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) consumer: Uuid,
    pub(super) provider: Uuid,
    pub(super) place: (ProviderId, ClassId),
    pub(super) amount: i64,
}

impl Exclusivity {
    /// Refuses strangers: those who are not in every group that has a provider to itself.
    ///
    /// Together they may hold as much at a place as the consumers of the request held there before
    /// (`released`): an instance that moves leaves what it had to its migration, and whoever was let
    /// in once may stay.
    pub(super) fn check(
        &mut self,
        wishes: impl Iterator<Item = Wish>,
        released: &BTreeMap<(ProviderId, ClassId), i64>,
    ) -> Result<(), Refusal> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let mut taken: BTreeMap<(ProviderId, ClassId), i64> = BTreeMap::new();
        for wish in wishes {
            let Some(keeper) = self.closed_to(wish.consumer, wish.place.0) else { continue };
            let sum = taken.entry(wish.place).or_insert(0);
            *sum = sum.saturating_add(wish.amount);
            if *sum <= released.get(&wish.place).copied().unwrap_or(0) {
                continue;
            }
            let refusal = Refusal::Exclusive {
                provider: wish.provider,
                group: keeper.name.clone(),
                unit: keeper.unit.clone(),
            };
            if !self.report_only {
                return Err(refusal);
            }
            self.reported.insert((wish.consumer, wish.provider), refusal);
        }
        Ok(())
    }

    /// The first group that keeps a provider from a consumer.
    fn closed_to(&self, consumer: Uuid, provider: ProviderId) -> Option<&UnitHolder> {
        let groups = self.groups_of.get(&consumer);
        let is_stranger =
            |keeper: &&UnitHolder| !groups.is_some_and(|groups| groups.contains(&keeper.group));
        self.kept.get(&provider)?.iter().find(is_stranger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: (ProviderId, ClassId) = (ProviderId(1), ClassId(0));

    fn wish(consumer: u128, amount: i64) -> Wish {
        let consumer = Uuid::from_u128(consumer);
        Wish { consumer, provider: Uuid::nil(), place: PLACE, amount }
    }

    /// The provider is kept for group 7, and consumer 1 is in it.
    fn kept() -> Exclusivity {
        let group = Uuid::from_u128(7);
        let keeper = UnitHolder { group, name: "gold".to_owned(), unit: "h1".to_owned() };
        Exclusivity {
            kept: BTreeMap::from([(PLACE.0, vec![keeper])]),
            groups_of: HashMap::from([(Uuid::from_u128(1), BTreeSet::from([group]))]),
            ..Exclusivity::default()
        }
    }

    fn check(wishes: &[Wish], released: i64) -> bool {
        let released = BTreeMap::from([(PLACE, released)]);
        kept().check(wishes.iter().copied(), &released).is_ok()
    }

    #[test]
    fn members_may_and_strangers_may_not() {
        assert!(check(&[wish(1, 4)], 0));
        assert!(!check(&[wish(2, 1)], 0));
        assert!(!check(&[wish(1, 4), wish(2, 1)], 0));
    }

    #[test]
    fn what_a_request_held_before_it_may_hand_over_but_not_exceed() {
        assert!(check(&[wish(2, 4)], 4));
        assert!(!check(&[wish(2, 5)], 4));
        assert!(!check(&[wish(2, 3), wish(3, 2)], 4));
    }

    #[test]
    fn strangers_are_only_remarked_on_if_that_is_wanted() {
        let mut kept = Exclusivity { report_only: true, ..kept() };
        assert_eq!(kept.check([wish(2, 1)].into_iter(), &BTreeMap::new()), Ok(()));
        assert_eq!(kept.reported.len(), 1);
    }

    #[test]
    fn who_is_in_one_of_two_groups_is_a_stranger_to_the_other() {
        let mut twice = kept();
        let other = UnitHolder {
            group: Uuid::from_u128(8),
            name: "silver".to_owned(),
            unit: "r1".to_owned(),
        };
        twice.kept.entry(PLACE.0).or_default().push(other);
        assert!(twice.check([wish(1, 1)].into_iter(), &BTreeMap::new()).is_err());
    }
}
