//! Recomputes all derived values and compares them, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

use uuid::Uuid;

use super::intern::Interned;
use super::layout::World;
use super::provider::Provider;
use super::set::{BLOCK, Set};
use super::sharing::SignatureId;
use super::slot_data::NOWHERE;
use crate::model::{ClassId, TraitId};

impl World {
    /// Recomputes every derived value and compares it.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self) -> Result<(), String> {
        let providers: Vec<Provider<'_>> = self.providers().collect();
        expect(providers.len() == self.len(), || {
            format!("{} providers in trees, {} known", providers.len(), self.len())
        })?;
        for provider in &providers {
            self.check_identity(provider)?;
            self.check_place(provider.slot())?;
        }
        self.check_allocator()?;
        self.check_columns(&providers)?;
        self.check_traits(&providers)?;
        self.check_aggregates(&providers)?;
        self.check_signatures()?;
        check_lists("traits", &self.lists.traits, providers.iter().map(Provider::traits))?;
        check_lists(
            "aggregates",
            &self.lists.aggregates,
            providers.iter().map(Provider::aggregates),
        )?;
        let classes = providers.iter().map(|provider| &*provider.data.classes);
        check_lists("classes", &self.lists.classes, classes)
    }

    fn check_identity(&self, provider: &Provider<'_>) -> Result<(), String> {
        let slot = Some(&provider.slot());
        let known =
            self.by_id.get(provider.id()) == slot && self.by_uuid.get(provider.uuid()) == slot;
        expect(known && self.by_uuid.len() == self.len(), || {
            format!("provider {} is not found by its keys", provider.uuid())
        })
    }

    fn check_place(&self, slot: u32) -> Result<(), String> {
        let place = self.place(slot);
        let root = self.place(place.root);
        let is_root = place.root == slot;
        let inside = slot >= place.root && slot + place.len <= place.root + root.len;
        let roomy = root.len <= 1 << root.order && place.root.trailing_zeros() >= root.order;
        let below = if is_root {
            place.parent == NOWHERE
        } else {
            let parent = self.place(place.parent);
            place.parent < slot
                && parent.root == place.root
                && slot + place.len <= place.parent + parent.len
        };
        let children = (slot + 1..slot + place.len).filter(|&it| self.place(it).parent == slot);
        let len = 1 + children.map(|child| self.place(child).len).sum::<u32>();
        let marks = self.trees.present.contains(slot)
            && self.trees.roots.contains(slot) == is_root
            && self.trees.lone.contains(slot) == (is_root && place.len == 1)
            && self.trees.large.contains(slot) == (is_root && 1 << place.order > BLOCK);
        expect(inside && roomy && below && marks && len == place.len, || {
            format!("slot {slot} is misplaced: {place:?}")
        })
    }

    fn check_allocator(&self) -> Result<(), String> {
        let mut end = 0;
        let mut slots = 0;
        for root in self.trees.roots.iter() {
            let size = 1 << self.place(root).order;
            expect(root >= end, || format!("the runs at {root} and before overlap"))?;
            let taken = (root..root + size).all(|slot| self.trees.allocator.is_taken(slot));
            expect(taken, || format!("the run at {root} is not taken"))?;
            end = root + size;
            slots += size as usize;
        }
        expect(self.trees.present.len() == self.len(), || "empty slots are marked".to_owned())?;
        let marked = self.trees.lone.len().max(self.trees.large.len()) <= self.trees.roots.len();
        expect(marked && slots == self.trees.allocator.len(), || {
            format!("{slots} slots are in runs, {} are taken", self.trees.allocator.len())
        })
    }

    fn check_columns(&self, providers: &[Provider<'_>]) -> Result<(), String> {
        let mut rows: BTreeMap<ClassId, usize> = BTreeMap::new();
        for provider in providers {
            for &class in provider.data.classes.iter() {
                *rows.entry(class).or_default() += 1;
                expect(provider.inventory(class).is_some(), || {
                    format!("provider {} lacks its inventory of {class:?}", provider.uuid())
                })?;
            }
        }
        for (class, column) in self.columns.iter() {
            let counted = rows.remove(class).unwrap_or_default() == column.len();
            expect(counted && column.sound(), || format!("the column of {class:?} is unsound"))?;
        }
        expect(rows.is_empty() && self.columns.iter().all(|(_, column)| column.len() > 0), || {
            "columns are missing, or kept without inventories".to_owned()
        })
    }

    fn check_traits(&self, providers: &[Provider<'_>]) -> Result<(), String> {
        let mut carriers: BTreeMap<TraitId, BTreeSet<u32>> = BTreeMap::new();
        for provider in providers {
            for &id in provider.traits() {
                carriers.entry(id).or_default().insert(provider.slot());
            }
        }
        expect(carriers.len() == self.traits.len(), || {
            "traits without carriers are kept".to_owned()
        })?;
        for (id, carriers) in carriers {
            let same = self.carriers(id).iter().eq(carriers);
            expect(same, || format!("the carriers of {id:?} are not those marked"))?;
        }
        Ok(())
    }

    fn check_aggregates(&self, providers: &[Provider<'_>]) -> Result<(), String> {
        let mut members: BTreeMap<Uuid, BTreeSet<u32>> = BTreeMap::new();
        for provider in providers {
            for &id in provider.aggregates() {
                members.entry(id).or_default().insert(provider.slot());
            }
        }
        expect(members.len() == self.aggregates.len(), || {
            "aggregates without members are kept".to_owned()
        })?;
        let sharing = self.sharing();
        for (id, members) in members {
            let Some(aggregate) = self.aggregates.get(id) else {
                return Err(format!("aggregate {id} is unknown"));
            };
            let shared = members.iter().copied().filter(|&slot| sharing.contains(slot));
            let same = aggregate.sharing.iter().eq(shared) && aggregate.members.iter().eq(members);
            expect(same, || format!("the members of aggregate {id} are not those marked"))?;
        }
        Ok(())
    }

    fn check_signatures(&self) -> Result<(), String> {
        let mut roots: BTreeMap<SignatureId, Set> = BTreeMap::new();
        for root in self.trees.roots.iter() {
            let content = self.signature_content(root);
            let id = self.signature_of(root);
            let kept = id.and_then(|id| self.signature(id)).map(|signature| &*signature.aggregates);
            expect(kept.unwrap_or_default() == content, || {
                format!("the signature of the tree at {root} is not {content:?}")
            })?;
            expect(self.anchored().contains(root) == id.is_some(), || {
                format!("the tree at {root} is marked wrongly")
            })?;
            if let Some(id) = id {
                roots.entry(id).or_default().insert(root);
            }
        }
        let mut parts: BTreeMap<Uuid, Set> = BTreeMap::new();
        for (id, signature) in self.signatures() {
            let same = roots.remove(&id).is_some_and(|roots| roots == signature.roots);
            expect(same, || format!("the roots of signature {id} are not those marked"))?;
            for &aggregate in signature.aggregates.iter() {
                parts.entry(aggregate).or_default().insert(id);
            }
        }
        for (id, aggregate) in self.aggregates.iter() {
            let same = parts.remove(&id).unwrap_or_default() == aggregate.signatures;
            expect(same, || format!("the signatures of aggregate {id} are not those marked"))?;
        }
        let anchored = self.signatures().map(|(_, signature)| signature.roots.len()).sum::<usize>();
        expect(anchored == self.anchored().len(), || {
            "slots are marked that are no roots".to_owned()
        })?;
        expect(roots.is_empty() && parts.is_empty(), || "signatures are missing".to_owned())
    }
}

fn check_lists<'a, T: Clone + Eq + Hash + Ord + 'a>(
    what: &str,
    interned: &Interned<T>,
    used: impl Iterator<Item = &'a [T]>,
) -> Result<(), String> {
    let mut users: BTreeMap<&[T], usize> = BTreeMap::new();
    for list in used {
        *users.entry(list).or_default() += 1;
    }
    let same = interned.iter().all(|(list, count)| users.remove(&**list) == Some(count));
    expect(same && users.is_empty(), || format!("the lists of {what} are miscounted"))
}

fn expect(holds: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint()) }
}
