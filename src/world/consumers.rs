//! All consumers with their allocations, in memory.
//!
//! Unlike a [`World`](super::World), they are changed in place, because no reader needs them for long. A consumer with
//! allocations of three classes on one provider takes about 300 bytes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use crate::model::claim::Owner;
use crate::model::{Bug, ClassId, ConsumerId, Generation, ProviderId};

/// Memory of a consumer: its node, and its share of the map of UUIDs.
const CONSUMER_BYTES: u64 = 170;
/// Memory of a provider on which a consumer has allocations.
const PLACE_BYTES: u64 = 35;
/// Memory of an allocation.
const ALLOCATION_BYTES: u64 = 24;

/// Provider, class and amount of an allocation.
pub type HeldAmount = (ProviderId, ClassId, i64);

/// The owner of a consumer, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerOwner {
    /// The project, as clients name it.
    pub project: String,
    /// The user, as clients name it.
    pub user: String,
    /// The consumer type; `None` if no client has given one.
    pub consumer_type: Option<String>,
}

/// A consumer with its allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRow {
    /// Its key.
    pub id: ConsumerId,
    /// Its public identity.
    pub uuid: Uuid,
    /// Its generation.
    pub generation: Generation,
    /// Its owner.
    pub owner: Arc<ConsumerOwner>,
    /// Last change of its allocations, in seconds since the Unix epoch.
    pub updated_at: i64,
    /// Its allocations, ascending by provider and class.
    pub held: Box<[HeldAmount]>,
}

/// A new state of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerChange {
    /// The consumer.
    pub uuid: Uuid,
    /// The state; `None`: it does not exist any more.
    pub now: Option<ConsumerState>,
}

/// The state of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerState {
    /// Its key.
    pub id: ConsumerId,
    /// Its generation.
    pub generation: Generation,
    /// Its owner.
    pub owner: Owner,
    /// Last change of its allocations, in seconds since the Unix epoch.
    pub updated_at: i64,
    /// Its allocations, ascending by provider and class.
    pub held: Vec<HeldAmount>,
}

/// All consumers that have allocations.
#[derive(Debug, Default)]
pub struct Consumers {
    by_uuid: BTreeMap<Uuid, Arc<ConsumerRow>>,
    by_provider: BTreeMap<(ProviderId, ConsumerId), Arc<ConsumerRow>>,
    owners: HashMap<Owner, Arc<ConsumerOwner>>,
    allocations: usize,
}

impl Consumers {
    /// Number of consumers.
    pub fn len(&self) -> usize {
        self.by_uuid.len()
    }

    /// Returns whether there are no consumers.
    pub fn is_empty(&self) -> bool {
        self.by_uuid.is_empty()
    }

    /// Estimate of the memory in use, in bytes.
    pub fn memory(&self) -> u64 {
        CONSUMER_BYTES * self.by_uuid.len() as u64
            + PLACE_BYTES * self.by_provider.len() as u64
            + ALLOCATION_BYTES * self.allocations as u64
    }

    /// A consumer by its public identity.
    pub fn get(&self, uuid: Uuid) -> Option<&Arc<ConsumerRow>> {
        self.by_uuid.get(&uuid)
    }

    /// The consumers that have allocations on a provider, ascending by key.
    pub fn on_provider(&self, provider: ProviderId) -> impl Iterator<Item = &Arc<ConsumerRow>> {
        let all = (provider, ConsumerId(i64::MIN))..=(provider, ConsumerId(i64::MAX));
        self.by_provider.range(all).map(|(_, consumer)| consumer)
    }

    /// Returns the owners in changes whose names are not known.
    pub fn unknown_owners<'c>(
        &self,
        changes: impl IntoIterator<Item = &'c ConsumerChange>,
    ) -> BTreeSet<Owner> {
        let owners = changes.into_iter().filter_map(|change| Some(change.now.as_ref()?.owner));
        owners.filter(|owner| !self.owners.contains_key(owner)).collect()
    }

    /// Adds the names of owners.
    pub fn add_owners(&mut self, names: Vec<(Owner, ConsumerOwner)>) {
        self.owners.extend(names.into_iter().map(|(owner, names)| (owner, Arc::new(names))));
    }

    /// Sets the new states of consumers, in this order.
    ///
    /// # Panics
    /// The names of an owner have not been added.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = ConsumerChange>) {
        for ConsumerChange { uuid, now } in changes {
            if let Some(before) = self.by_uuid.remove(&uuid) {
                self.allocations -= before.held.len();
                for place in places(&before) {
                    self.by_provider.remove(&place);
                }
            }
            let Some(now) = now else { continue };
            let ConsumerState { id, generation, owner, updated_at, held } = now;
            let unknown = || Bug::raise(format!("the owner of consumer {uuid} has no names"));
            let owner = self.owners.get(&owner).cloned().unwrap_or_else(unknown);
            let held = held.into_boxed_slice();
            let row = Arc::new(ConsumerRow { id, uuid, generation, owner, updated_at, held });
            self.allocations += row.held.len();
            for place in places(&row) {
                self.by_provider.insert(place, Arc::clone(&row));
            }
            self.by_uuid.insert(uuid, row);
        }
    }
}

/// The providers on which a consumer has allocations, each with the key of the consumer.
fn places(row: &ConsumerRow) -> impl Iterator<Item = (ProviderId, ConsumerId)> {
    let chunks = row.held.chunk_by(|(one, ..), (other, ..)| one == other);
    chunks.filter_map(|held| held.first()).map(|(provider, ..)| (*provider, row.id))
}

#[cfg(test)]
mod tests {
    use super::{
        ClassId, ConsumerChange, ConsumerId, ConsumerOwner, ConsumerState, Consumers, HeldAmount,
        Owner, ProviderId, Uuid,
    };

    const OWNER: Owner = Owner { project: 1, user: 1, consumer_type: None };

    fn change(nth: u128, held: &[(i64, i32, i64)]) -> ConsumerChange {
        let amount = |(provider, class, used): &(i64, i32, i64)| -> HeldAmount {
            (ProviderId(*provider), ClassId(*class), *used)
        };
        let now = ConsumerState {
            id: ConsumerId(i64::try_from(nth).unwrap()),
            generation: 1,
            owner: OWNER,
            updated_at: 0,
            held: held.iter().map(amount).collect(),
        };
        ConsumerChange { uuid: Uuid::from_u128(nth), now: (!held.is_empty()).then_some(now) }
    }

    fn consumers(changes: impl IntoIterator<Item = ConsumerChange>) -> Consumers {
        let mut consumers = Consumers::default();
        let (project, user) = ("project".to_owned(), "user".to_owned());
        consumers.add_owners(vec![(OWNER, ConsumerOwner { project, user, consumer_type: None })]);
        consumers.apply(changes);
        consumers
    }

    fn on(consumers: &Consumers, provider: i64) -> Vec<i64> {
        consumers.on_provider(ProviderId(provider)).map(|row| row.id.0).collect()
    }

    #[test]
    fn a_consumer_is_found_on_each_of_its_providers_until_it_leaves() {
        let two = [(1, 0, 1), (1, 1, 5), (2, 2, 7)];
        let mut consumers = consumers([change(2, &[(1, 0, 1)]), change(1, &two)]);
        assert_eq!((on(&consumers, 1), on(&consumers, 2)), (vec![1, 2], vec![1]));
        consumers.apply([change(1, &[(2, 0, 1)]), change(2, &[])]);
        assert_eq!((on(&consumers, 1), on(&consumers, 2)), (vec![], vec![1]));
        assert_eq!(consumers.get(Uuid::from_u128(1)).unwrap().held.len(), 1);
        assert_eq!(consumers.get(Uuid::from_u128(2)), None);
        consumers.apply([change(1, &[])]);
        assert!(consumers.is_empty() && consumers.memory() == 0);
    }

    /// The later of two changes counts, also if the consumer was deleted and made again with another key.
    #[test]
    fn changes_are_applied_in_their_order() {
        let again = ConsumerChange { uuid: Uuid::from_u128(1), ..change(5, &[(3, 0, 1)]) };
        let consumers = consumers([change(1, &[(1, 0, 1)]), change(1, &[]), again]);
        assert_eq!((on(&consumers, 1), on(&consumers, 3)), (vec![], vec![5]));
    }

    #[test]
    fn owners_without_names_are_listed() {
        let mut consumers = Consumers::default();
        let changes = [change(1, &[(1, 0, 1)]), change(2, &[])];
        assert_eq!(consumers.unknown_owners(&changes).into_iter().collect::<Vec<_>>(), [OWNER]);
        let (project, user) = ("project".to_owned(), "user".to_owned());
        consumers.add_owners(vec![(OWNER, ConsumerOwner { project, user, consumer_type: None })]);
        assert!(consumers.unknown_owners(&changes).is_empty());
    }

    #[test]
    fn an_allocation_with_its_consumer_takes_less_than_120_bytes() {
        let scattered = |nth: u128| {
            let host = i64::try_from(nth % 500).unwrap();
            let change = change(nth, &[(host, 0, 1), (host, 1, 1), (host, 2, 1)]);
            ConsumerChange {
                uuid: Uuid::from_u128(nth.wrapping_mul(u128::MAX / 0x9E37_79B9)),
                ..change
            }
        };
        let mut made = Consumers::default();
        let counted = allocation_counter::measure(|| made = consumers((1..=10_000).map(scattered)));
        let used = u64::try_from(counted.bytes_current).unwrap();
        assert!(used / 30_000 < 120, "{used}");
        assert!((used * 9 / 10..used * 12 / 10).contains(&made.memory()), "{used}");
    }
}
