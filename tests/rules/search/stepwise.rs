//! A world changed step by step is the world built from scratch.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth::model::provider::ProviderRow;
use berth::model::{ClassId, ProviderId, TraitId};
use berth::search::Request;
use berth::world::{Catalogue, Changes, Name, World};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::search::generate::{Likeness, catalogue, likeness, request, row};
use crate::search::properties::{cases, search};

/// One thing that happens to a cloud.
#[derive(Clone, Debug)]
enum Happening {
    Create {
        parent: Option<Index>,
        like: Likeness,
    },
    /// Children go with it: the store refuses to leave them behind.
    Delete(Index),
    Move {
        who: Index,
        parent: Option<Index>,
    },
    /// Other inventories, traits and aggregates.
    Become {
        who: Index,
        like: Likeness,
    },
    Use {
        who: Index,
        used: i64,
    },
    Rename(Index),
    /// Trait names come and go; the sharing trait may be among them.
    Catalogue {
        shares: bool,
    },
    /// The same rows again.
    Repeat(Index),
}

fn happening() -> impl Strategy<Value = Happening> {
    let parent = || prop::option::weighted(0.7, any::<Index>());
    prop_oneof![
        6 => (parent(), likeness()).prop_map(|(parent, like)| Happening::Create { parent, like }),
        2 => any::<Index>().prop_map(Happening::Delete),
        3 => (any::<Index>(), parent()).prop_map(|(who, parent)| Happening::Move { who, parent }),
        3 => (any::<Index>(), likeness()).prop_map(|(who, like)| Happening::Become { who, like }),
        2 => (any::<Index>(), 0..6_i64).prop_map(|(who, used)| Happening::Use { who, used }),
        1 => any::<Index>().prop_map(Happening::Rename),
        1 => any::<bool>().prop_map(|shares| Happening::Catalogue { shares }),
        1 => any::<Index>().prop_map(Happening::Repeat),
    ]
}

/// The rows, as the database would have them.
#[derive(Clone, Debug, Default)]
struct Rows {
    rows: BTreeMap<ProviderId, ProviderRow>,
    last: i64,
}

impl Rows {
    fn pick(&self, index: Index) -> Option<ProviderId> {
        let keys: Vec<ProviderId> = self.rows.keys().copied().collect();
        (!keys.is_empty()).then(|| keys[index.index(keys.len())])
    }

    fn below(&self, id: ProviderId) -> Vec<ProviderId> {
        let children = self.rows.values().filter(|row| row.parent == Some(id));
        let deeper = children.flat_map(|row| self.below(row.id));
        std::iter::once(id).chain(deeper).collect()
    }

    fn set_root(&mut self, id: ProviderId, root: ProviderId) {
        for id in self.below(id) {
            self.rows.get_mut(&id).unwrap().root = root;
        }
    }

    /// Lets it happen; the providers that have changed by it.
    fn happen(&mut self, happening: Happening) -> Vec<ProviderId> {
        match happening {
            Happening::Create { parent, like } => {
                let parent = parent.and_then(|index| self.pick(index));
                self.last += 1;
                let root = parent.map_or(self.last, |parent| self.rows[&parent].root.0);
                let row = row(self.last, parent.map(|it| it.0), root, like);
                self.rows.insert(row.id, row);
                vec![ProviderId(self.last)]
            }
            Happening::Delete(who) => {
                let gone = self.pick(who).map(|id| self.below(id)).unwrap_or_default();
                for id in &gone {
                    self.rows.remove(id);
                }
                gone
            }
            Happening::Move { who, parent } => {
                let Some(id) = self.pick(who) else { return Vec::new() };
                let below = self.below(id);
                let parent =
                    parent.and_then(|index| self.pick(index)).filter(|it| !below.contains(it));
                let root = parent.map_or(id, |parent| self.rows[&parent].root);
                self.rows.get_mut(&id).unwrap().parent = parent;
                self.set_root(id, root);
                below
            }
            Happening::Become { who, like } => self.change(who, |it| {
                let next = row(it.id.0, None, 0, like);
                it.inventories = next.inventories;
                it.traits = next.traits;
                it.aggregates = next.aggregates;
                it.generation += 1;
            }),
            Happening::Use { who, used } => self.change(who, |it| {
                for inventory in &mut it.inventories {
                    inventory.used = used;
                }
                it.generation += 1;
            }),
            Happening::Rename(who) => self.change(who, |it| {
                it.name.push('x');
                it.updated_at += 1;
            }),
            Happening::Catalogue { .. } => Vec::new(),
            Happening::Repeat(who) => self.change(who, |_| {}),
        }
    }

    fn change(&mut self, who: Index, change: impl FnOnce(&mut ProviderRow)) -> Vec<ProviderId> {
        let Some(id) = self.pick(who) else { return Vec::new() };
        change(self.rows.get_mut(&id).unwrap());
        vec![id]
    }
}

/// A catalogue whose first trait may be another than the sharing one.
fn named(shares: bool) -> Catalogue {
    let mut catalogue = catalogue();
    if !shares {
        let name = Name { name: "CUSTOM_OTHER".to_owned(), updated_at: 1 };
        catalogue.traits.insert(TraitId(0), name);
    }
    catalogue
}

/// Everything readers may see.
fn seen(world: &World) -> BTreeMap<ProviderId, (ProviderRow, Vec<ProviderId>)> {
    let seen = |provider: berth::world::Provider<'_>| {
        let row = provider.row();
        assert_eq!(world.provider(row.uuid).map(|it| it.id()), Some(row.id));
        assert_eq!(world.provider_by_id(row.id).map(|it| it.uuid()), Some(row.uuid));
        for class in (0..4).map(ClassId) {
            let listed = row.inventories.iter().find(|it| it.class == class).copied();
            assert_eq!(provider.inventory(class), listed);
        }
        let mut tree: Vec<ProviderId> = provider.tree().map(|it| it.id()).collect();
        tree.sort();
        (row.id, (row, tree))
    };
    world.providers().map(seen).collect()
}

fn candidates(
    world: &Arc<World>,
    request: &Request,
) -> Option<Vec<crate::search::oracle::Candidate>> {
    let mut found = search(world, request).ok()?.0;
    found.sort();
    Some(found)
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn step_by_step_is_from_scratch(
        steps in vec(vec(happening(), 1..6), 1..12),
        request in request(),
    ) {
        let mut rows = Rows::default();
        let mut shares = true;
        let mut world = Arc::new(World::build(named(shares), Vec::new()));
        for step in steps {
            let before = (Arc::clone(&world), seen(&world));
            let mut changed = Vec::new();
            let mut catalogue = None;
            for happening in step {
                if let Happening::Catalogue { shares: named_so } = happening {
                    shares = named_so;
                    catalogue = Some(named(shares));
                }
                changed.extend(rows.happen(happening));
            }
            changed.sort();
            changed.dedup();
            let providers = changed.into_iter().map(|id| (id, rows.rows.get(&id).cloned())).collect();
            world = Arc::new(world.apply(Changes { catalogue, providers, ..Changes::default() }));
            prop_assert_eq!(world.check(), Ok(()));
            prop_assert_eq!(seen(&before.0), before.1, "the world before has changed");

            let all: Vec<ProviderRow> = rows.rows.values().cloned().collect();
            prop_assert_eq!(world.len(), all.len());
            let scratch = Arc::new(World::build(named(shares), all.clone()));
            prop_assert_eq!(scratch.check(), Ok(()));
            prop_assert_eq!(seen(&world), seen(&scratch));
            let listed: Vec<ProviderRow> = seen(&world).into_values().map(|(row, _)| row).collect();
            prop_assert_eq!(listed, all);
            prop_assert_eq!(world.catalogue(), scratch.catalogue());
            for id in (0..4).map(TraitId) {
                prop_assert_eq!(world.trait_in_use(id), scratch.trait_in_use(id));
            }
            // With thirty providers there may be very many candidates.
            let few = Request { limit: Some(2000), ..request.clone() };
            let found = candidates(&world, &few);
            let count = found.as_ref().map(Vec::len);
            let expected = candidates(&scratch, &few);
            prop_assert_eq!(count, expected.as_ref().map(Vec::len));
            if count.is_none_or(|count| count < 2000) {
                prop_assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn a_tree_may_grow_beyond_a_block_and_shrink_again() {
    let mut rows = Rows::default();
    let like = |id: i64| {
        let mut like = row(id, None, id, Likeness::default());
        like.inventories =
            vec![crate::search::cloud::inventory("VCPU", i32::try_from(id).unwrap())];
        like
    };
    let mut world = World::build(catalogue(), vec![like(1)]);
    rows.rows.insert(ProviderId(1), like(1));
    for id in 2..=700 {
        // A chain of bushes: every tenth provider is the parent of the next ten.
        let parent = (id - 1) / 10 * 10;
        let row = ProviderRow {
            parent: Some(ProviderId(parent.max(1))),
            root: ProviderId(1),
            ..like(id)
        };
        rows.rows.insert(row.id, row.clone());
        world = world.apply(Changes { providers: vec![(row.id, Some(row))], ..Changes::default() });
        if id % 50 == 0 {
            assert_eq!(world.check(), Ok(()));
        }
    }
    let scratch = World::build(catalogue(), rows.rows.values().cloned().collect());
    assert_eq!(seen(&world), seen(&scratch));
    let found = |world: &World| {
        let request =
            crate::search::cloud::request("resources1=VCPU:300&resources2=VCPU:690&limit=100000");
        candidates(&Arc::new(world.clone()), &request).unwrap()
    };
    // 690 fits into eleven providers, and 300 then into all others.
    assert_eq!(found(&world).len(), 11 * 400);
    assert_eq!(found(&world), found(&scratch));
    for id in (2..=700).rev() {
        let gone = vec![(ProviderId(id), None)];
        world = world.apply(Changes { providers: gone, ..Changes::default() });
        if id % 50 == 0 {
            assert_eq!(world.check(), Ok(()));
        }
    }
    assert_eq!(world.check(), Ok(()));
    assert_eq!(world.len(), 1);
}
