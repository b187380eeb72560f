//! Stores equal lists of many providers once.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::map::Map;
use crate::model::Bug;

/// Lists with the same hash, each with the number of its users.
type Alike<T> = Vec<(Arc<[T]>, usize)>;

/// The lists in use, by hash of their content.
#[derive(Clone, Debug)]
pub(super) struct Interned<T> {
    lists: Map<u64, Alike<T>>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { lists: Map::default() }
    }
}

/// The hash of a list.
pub(super) fn hash<T: Hash>(list: &[T]) -> u64 {
    let mut hasher = DefaultHasher::new();
    list.hash(&mut hasher);
    hasher.finish()
}

impl<T: Clone + Eq + Hash> Interned<T> {
    /// Returns the shared copy of the list, and counts one more user.
    pub(super) fn get(&mut self, list: &[T]) -> Arc<[T]> {
        let same = self.lists.get_or_insert_with(hash(list), Vec::new);
        if let Some((kept, users)) = same.iter_mut().find(|(kept, _)| **kept == *list) {
            *users += 1;
            return Arc::clone(kept);
        }
        let kept: Arc<[T]> = list.into();
        same.push((Arc::clone(&kept), 1));
        kept
    }

    /// Counts one user less.
    pub(super) fn give_back(&mut self, list: &[T]) {
        let hash = hash(list);
        let same = self.lists.get_or_insert_with(hash, Vec::new);
        match same.iter_mut().find(|(kept, _)| **kept == *list) {
            Some((_, users)) => *users -= 1,
            None => Bug::raise("a list is given back that nobody has"),
        }
        same.retain(|(_, users)| *users > 0);
        if same.is_empty() {
            self.lists.remove(hash);
        }
    }

    /// The lists with the number of their users, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<[T]>, usize)> {
        self.lists.iter().flat_map(|(_, same)| same.iter().map(|(list, users)| (list, *users)))
    }
}
