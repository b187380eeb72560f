//! The options that the walk over trees gives, combined literally, are the candidates that have a
//! host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth::model::ClassId;
use berth::search::trees::{Tree, TreeOption, Trees, trees};
use berth::search::{Next, Request};
use berth::world::World;
use proptest::prelude::*;
use uuid::Uuid;

use crate::search::generate::{catalogue, request, rows};
use crate::search::properties::{cases, search};

type Allocations = BTreeMap<(Uuid, ClassId), i64>;

/// The allocations of every choice of options in a tree that goes together and is on the host.
fn combined(world: &World, walk: &Walk, tree: &Tree<'_>) -> BTreeSet<Allocations> {
    let root = tree.root().unwrap();
    let parts: Vec<Vec<Option<TreeOption<'_>>>> = (0..walk.amounts.len())
        .map(
            |part| {
                if tree.is_solo() { vec![None] } else { tree.options(part).map(Some).collect() }
            },
        )
        .collect();
    let mut choices: Vec<Vec<Option<TreeOption<'_>>>> = vec![Vec::new()];
    for options in parts {
        choices = choices
            .iter()
            .flat_map(|chosen| {
                options.iter().map(move |it| [chosen.clone(), vec![it.clone()]].concat())
            })
            .collect();
    }
    let mut found = BTreeSet::new();
    for chosen in choices {
        let mut sums = Allocations::new();
        for (option, amounts) in chosen.iter().zip(&walk.amounts) {
            let provider = option.as_ref().map_or(root.uuid(), |it| it.provider.uuid());
            for (class, amount) in amounts {
                *sums.entry((provider, *class)).or_default() += amount;
            }
        }
        let chosen: Vec<TreeOption<'_>> = chosen.into_iter().flatten().collect();
        let fits = sums.iter().all(|((provider, class), sum)| {
            let row = world.provider(*provider).unwrap().inventory(*class).unwrap();
            row.used + sum <= row.terms.capacity() && *sum <= i64::from(row.terms.max_unit)
        });
        if fits && (tree.is_solo() || walk.admits(&chosen)) {
            found.insert(sums);
        }
    }
    found
}

/// The conditions that the walk extracts from the request.
struct Walk {
    amounts: Vec<Vec<(ClassId, i64)>>,
    clauses: usize,
    isolated: Vec<usize>,
    subtrees: Vec<Vec<usize>>,
}

impl Walk {
    fn of(trees: &Trees) -> Self {
        let amounts = (0..trees.parts()).map(|part| trees.amounts(part).collect()).collect();
        let (clauses, isolated) = (trees.clauses(), trees.isolated());
        Self { amounts, clauses, isolated, subtrees: trees.subtrees() }
    }

    fn admits(&self, chosen: &[TreeOption<'_>]) -> bool {
        let used: BTreeSet<Uuid> =
            self.isolated.iter().map(|part| chosen[*part].provider.uuid()).collect();
        let is_below_one = |set: &Vec<usize>| {
            set.is_empty()
                || set.iter().any(|top| {
                    let span = chosen[*top].number..=chosen[*top].last;
                    set.iter().all(|part| span.contains(&chosen[*part].number))
                })
        };
        let is_own = |it: &TreeOption<'_>| it.is_inside && !it.is_shared;
        (0..self.clauses).all(|clause| chosen.iter().any(|it| it.meets[clause]))
            && used.len() == self.isolated.len()
            && self.subtrees.iter().all(is_below_one)
            && (chosen.iter().any(is_own) || chosen.iter().all(|it| it.is_inside))
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn options_of_trees_combine_to_the_candidates(rows in rows(7), request in request()) {
        let request = Request { nested: true, limit: None, max_candidates: None, ..request };
        let world = Arc::new(World::build(catalogue(), rows));
        let candidates = match search(&world, &request) {
            Ok((candidates, _)) => candidates,
            Err(unknown) => {
                prop_assert_eq!(trees(Arc::clone(&world), &request).err(), Some(unknown));
                return Ok(());
            }
        };
        let sharing = world.trait_id("MISC_SHARES_VIA_AGGREGATE").unwrap();
        let mut expected: BTreeSet<(Uuid, Allocations)> = BTreeSet::new();
        // Other trees that share with a provider give these as well, so its own need not be an anchor.
        let mut possible = BTreeSet::new();
        for candidate in candidates {
            let providers: BTreeSet<Uuid> =
                candidate.mappings.values().flatten().copied().collect();
            let providers = providers.iter().map(|uuid| world.provider(*uuid).unwrap());
            let (own, shared): (Vec<_>, Vec<_>) =
                providers.partition(|it| !it.traits().contains(&sharing));
            let host = own.first().or(shared.first()).unwrap().root().uuid();
            if own.is_empty() && shared.iter().any(|it| it.root().uuid() != host) {
                continue;
            }
            let list = if own.is_empty() { &mut possible } else { &mut expected };
            list.insert((host, candidate.allocations));
        }
        let mut walk = trees(Arc::clone(&world), &request).unwrap();
        let about = Walk::of(&walk);
        let mut found = BTreeSet::new();
        loop {
            match walk.next_tree() {
                Next::Found(tree) => {
                    for allocations in combined(&world, &about, &tree) {
                        let host = tree.root().unwrap().uuid();
                        prop_assert!(found.insert((host, allocations)), "{} comes twice", host);
                    }
                }
                Next::Paused => {}
                Next::Exhausted => break,
            }
        }
        found.retain(|it| expected.contains(it) || !possible.contains(it));
        prop_assert_eq!(found, expected);
    }
}
