//! A map whose copies share what they have in common: keys scattered over a fixed number of small sorted leaves.

use uuid::Uuid;

use super::pages::Pages;
use crate::model::{Bug, ProviderId, TraitId};

/// Leaves of a map are 2 to the power of this; at a million keys a leaf has about 250.
const LEAF_BITS: u32 = 12;

/// A key of a [`Map`].
pub(super) trait MapKey: Copy + Ord {
    /// A number that differs between most keys.
    fn scatter(self) -> u64;
}

impl MapKey for Uuid {
    fn scatter(self) -> u64 {
        let (high, low) = self.as_u64_pair();
        high.rotate_left(32) ^ low
    }
}

impl MapKey for ProviderId {
    fn scatter(self) -> u64 {
        self.0.cast_unsigned()
    }
}

impl MapKey for TraitId {
    fn scatter(self) -> u64 {
        u64::from(self.0.cast_unsigned())
    }
}

impl MapKey for u32 {
    fn scatter(self) -> u64 {
        u64::from(self)
    }
}

impl MapKey for u64 {
    fn scatter(self) -> u64 {
        self
    }
}

/// The map.
#[derive(Clone, Debug)]
pub(super) struct Map<K, V> {
    leaves: Pages<Vec<(K, V)>>,
    len: usize,
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self { leaves: Pages::default(), len: 0 }
    }
}

fn leaf(key: impl MapKey) -> usize {
    // Multiplying by an odd number near 2^64 / phi spreads consecutive numbers evenly.
    (key.scatter().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - LEAF_BITS)) as usize
}

impl<K: MapKey, V> Map<K, V> {
    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The value of a key.
    pub(super) fn get(&self, key: K) -> Option<&V> {
        let leaf = self.leaves.get(leaf(key))?;
        let at = leaf.binary_search_by(|(other, _)| other.cmp(&key)).ok()?;
        leaf.get(at).map(|(_, value)| value)
    }

    /// All keys with their values, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.leaves.iter().flat_map(|(_, leaf)| leaf.iter().map(|(key, value)| (*key, value)))
    }
}

impl<K: MapKey, V: Clone> Map<K, V> {
    /// The value of a key for writing, created if it is missing.
    #[expect(clippy::indexing_slicing, reason = "the position was just found or filled")]
    pub(super) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let leaf = self.leaves.get_mut(leaf(key));
        let at = match leaf.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(at) => at,
            Err(at) => {
                leaf.insert(at, (key, make()));
                self.len += 1;
                at
            }
        };
        &mut leaf[at].1
    }

    /// Sets the value of a key.
    pub(super) fn insert(&mut self, key: K, value: V) {
        let taken = || Bug::raise("the value of a new key is made twice");
        let make = |value: &mut Option<V>| value.take().unwrap_or_else(taken);
        let mut value = Some(value);
        let place = self.get_or_insert_with(key, || make(&mut value));
        if let Some(value) = value {
            *place = value;
        }
    }

    /// Removes a key.
    pub(super) fn remove(&mut self, key: K) {
        if self.get(key).is_some() {
            let index = leaf(key);
            let leaf = self.leaves.get_mut(index);
            leaf.retain(|(other, _)| *other != key);
            self.len -= 1;
            // A leaf that once had many keys must not keep their memory.
            if leaf.is_empty() {
                self.leaves.remove(index);
            } else if leaf.len() < leaf.capacity() / 4 {
                leaf.shrink_to_fit();
            }
        }
    }

    /// Releases memory reserved for further keys.
    pub(super) fn shrink(&mut self) {
        let indices: Vec<usize> = self.leaves.iter().map(|(index, _)| index).collect();
        for index in indices {
            self.leaves.get_mut(index).shrink_to_fit();
        }
    }
}
