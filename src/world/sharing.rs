//! Records which sharing providers each tree can use.
//!
//! A provider with the trait [`SHARING`](crate::model::traits::SHARING) offers its inventory to every tree that has
//! a member in one of its aggregates; the roots of these trees are its *anchors*. Many trees can use the same
//! sharing providers, so what they have in common is stored once: the *signature* of a tree is the set of all
//! aggregates that its members are in and that have a sharing provider.
//!
//! Example: a thousand hosts of a row are in the aggregates `row-7` and `ssd`, and a storage pool in `row-7`
//! shares. The hosts are a thousand trees with the one signature {`row-7`}; `ssd` has no sharing provider. A search
//! for hosts that reach the pool looks at signatures, and not at each host.

use std::sync::Arc;

use uuid::Uuid;

use super::intern::hash;
use super::map::Map;
use super::pages::Table;
use super::set::Set;
use crate::model::Bug;

/// The number of a signature; 0 means no signature.
pub(crate) type SignatureId = u32;

/// An aggregate that has members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aggregate {
    /// Slots of its providers.
    pub(crate) members: Set,
    /// Slots of its sharing providers.
    pub(crate) sharing: Set,
    /// The signatures it is part of.
    pub(crate) signatures: Set,
}

/// The aggregates through which trees reach the same sharing providers, and these trees.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    /// Ascending; each of them has a sharing provider.
    pub(crate) aggregates: Arc<[Uuid]>,
    /// Slots of the roots.
    pub(crate) roots: Set,
}

/// All signatures.
#[derive(Clone, Debug, Default)]
pub(super) struct Signatures {
    of_root: Table<SignatureId, 256>,
    /// Slots of the roots that have a signature.
    anchored: Set,
    all: Map<SignatureId, Signature>,
    by_content: Map<u64, Vec<SignatureId>>,
    last: SignatureId,
}

impl Signatures {
    /// The signature of the tree with this root.
    pub(super) fn of_root(&self, root: u32) -> Option<SignatureId> {
        self.of_root.get(root).copied().filter(|&id| id != 0)
    }

    pub(super) fn anchored(&self) -> &Set {
        &self.anchored
    }

    pub(super) fn get(&self, id: SignatureId) -> Option<&Signature> {
        self.all.get(id)
    }

    /// All signatures in use, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SignatureId, &Signature)> {
        self.all.iter()
    }

    /// Sets the signature of a tree, given as its aggregates, ascending. Updates [`Aggregate::signatures`]
    /// accordingly.
    pub(super) fn set(
        &mut self,
        root: u32,
        content: &[Uuid],
        aggregates: &mut Map<Uuid, Aggregate>,
    ) {
        let old = self.of_root(root);
        if old.and_then(|id| self.get(id)).map_or(&[][..], |old| &old.aggregates) == content {
            return;
        }
        if let Some(old) = old {
            self.leave(root, old, aggregates);
        }
        if content.is_empty() {
            *self.of_root.get_mut(root) = 0;
            self.anchored.remove(root);
            return;
        }
        self.anchored.insert(root);
        let id = self.find(content).unwrap_or_else(|| {
            self.last += 1;
            self.by_content.get_or_insert_with(hash(content), Vec::new).push(self.last);
            for &aggregate in content {
                aggregates
                    .get_or_insert_with(aggregate, Aggregate::default)
                    .signatures
                    .insert(self.last);
            }
            self.last
        });
        let make = || Signature { aggregates: content.into(), roots: Set::default() };
        self.all.get_or_insert_with(id, make).roots.insert(root);
        *self.of_root.get_mut(root) = id;
    }

    fn find(&self, content: &[Uuid]) -> Option<SignatureId> {
        let same = self.by_content.get(hash(content))?;
        same.iter().copied().find(|&id| self.get(id).is_some_and(|it| *it.aggregates == *content))
    }

    fn leave(&mut self, root: u32, id: SignatureId, aggregates: &mut Map<Uuid, Aggregate>) {
        let unknown = || Bug::raise(format!("the tree at {root} has unknown signature {id}"));
        let signature = self.all.get(id).unwrap_or_else(unknown);
        let content = Arc::clone(&signature.aggregates);
        let last = signature.roots.len() == 1;
        if !last {
            let make = || Signature { aggregates: content, roots: Set::default() };
            self.all.get_or_insert_with(id, make).roots.remove(root);
            return;
        }
        self.all.remove(id);
        let same = self.by_content.get_or_insert_with(hash(&content), Vec::new);
        same.retain(|&other| other != id);
        if same.is_empty() {
            self.by_content.remove(hash(&content));
        }
        for &aggregate in &*content {
            if aggregates.get(aggregate).is_some() {
                let aggregate = aggregates.get_or_insert_with(aggregate, Aggregate::default);
                aggregate.signatures.remove(id);
            }
        }
    }
}
