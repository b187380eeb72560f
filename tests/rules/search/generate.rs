//! Random small worlds and requests.

use berth::model::provider::{InventoryRow, ProviderRow};
use berth::model::{ClassId, Inventory, ProviderId, TraitId};
use berth::search::{Group, Order, Policy, Request, Strategy as Generation};
use berth::world::{Catalogue, Name};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use uuid::Uuid;

use crate::search::cloud::unused;

pub(crate) const CLASSES: [&str; 3] = ["VCPU", "MEMORY_MB", "DISK_GB"];
pub(crate) const TRAITS: [&str; 4] = ["MISC_SHARES_VIA_AGGREGATE", "HW_A", "HW_B", "HW_C"];
const AGGREGATES: u128 = 3;

pub(crate) fn catalogue() -> Catalogue {
    let name = |name: &&str| Name { name: (*name).to_owned(), updated_at: 0 };
    Catalogue {
        classes: (0..).map(ClassId).zip(CLASSES.iter().map(name)).collect(),
        traits: (0..).map(TraitId).zip(TRAITS.iter().map(name)).collect(),
    }
}

pub(crate) fn provider_uuid(id: i64) -> Uuid {
    Uuid::from_u128(0xA000 + u128::from(id.cast_unsigned()))
}

pub(crate) fn aggregate_uuid(number: u128) -> Uuid {
    Uuid::from_u128(0xF000 + number)
}

/// The properties of a provider, apart from its place in a tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Likeness {
    inventories: Vec<InventoryRow>,
    traits: Vec<TraitId>,
    aggregates: Vec<Uuid>,
}

fn inventory(class: i32) -> impl Strategy<Value = InventoryRow> {
    let ratio = prop_oneof![4 => Just(1.0), 1 => Just(1.5), 1 => Just(0.6)];
    (2..8_i32, 0..3_i32, 1..3_i32, 1..8_i32, 1..3_i32, ratio, 0..6_i64).prop_map(
        move |(total, reserved, min_unit, max_unit, step_size, allocation_ratio, used)| {
            InventoryRow {
                class: ClassId(class),
                terms: Inventory {
                    total,
                    reserved: (reserved - 1).max(0),
                    min_unit: if min_unit == 2 && total == 3 { 2 } else { 1 },
                    max_unit: max_unit.max(2),
                    step_size: if step_size == 2 && total == 4 { 2 } else { 1 },
                    allocation_ratio,
                },
                used: (used - 4).max(0),
                updated_at: 0,
            }
        },
    )
}

pub(crate) fn likeness() -> impl Strategy<Value = Likeness> {
    let inventories =
        (weighted(0.75, inventory(0)), weighted(0.6, inventory(1)), weighted(0.65, inventory(2)));
    let traits = (0.3, 0.5, 0.4, 0.3);
    let traits = (
        prop::bool::weighted(traits.0),
        prop::bool::weighted(traits.1),
        prop::bool::weighted(traits.2),
        prop::bool::weighted(traits.3),
    );
    let aggregates = vec(prop::bool::weighted(0.45), AGGREGATES as usize);
    (inventories, traits, aggregates).prop_map(|(inventories, traits, aggregates)| Likeness {
        inventories: [inventories.0, inventories.1, inventories.2].into_iter().flatten().collect(),
        traits: (0..)
            .map(TraitId)
            .zip([traits.0, traits.1, traits.2, traits.3])
            .filter_map(|(id, has)| has.then_some(id))
            .collect(),
        aggregates: (0..)
            .map(aggregate_uuid)
            .zip(aggregates)
            .filter_map(|(id, has)| has.then_some(id))
            .collect(),
    })
}

pub(crate) fn row(id: i64, parent: Option<i64>, root: i64, like: Likeness) -> ProviderRow {
    ProviderRow {
        id: ProviderId(id),
        uuid: provider_uuid(id),
        name: format!("provider {id}"),
        generation: 0,
        parent: parent.map(ProviderId),
        root: ProviderId(root),
        updated_at: 0,
        inventories: like.inventories,
        traits: like.traits,
        aggregates: like.aggregates,
        spellings: Vec::new(),
    }
}

/// Up to `most` providers in trees, in any order.
pub(crate) fn rows(most: usize) -> impl Strategy<Value = Vec<ProviderRow>> {
    let spec = (weighted(0.6, any::<prop::sample::Index>()), likeness());
    vec(spec, 1..=most).prop_flat_map(|specs| {
        let mut rows: Vec<ProviderRow> = Vec::new();
        // Keys are not in the order of creation.
        let key = |position: usize| (position as i64 * 7) % 11 + 1;
        for (position, (parent, like)) in specs.into_iter().enumerate() {
            let parent = parent.filter(|_| position > 0).map(|it| it.index(position));
            let root = parent.map_or(key(position), |parent| rows[parent].root.0);
            rows.push(row(key(position), parent.map(key), root, like));
        }
        Just(rows).prop_shuffle()
    })
}

fn trait_name() -> impl Strategy<Value = String> {
    prop_oneof![150 => (0..TRAITS.len()).prop_map(|it| TRAITS[it].to_owned()), 1 => Just("NO_SUCH".to_owned())]
}

fn aggregate() -> impl Strategy<Value = Uuid> {
    prop_oneof![40 => (0..AGGREGATES).prop_map(aggregate_uuid), 1 => Just(aggregate_uuid(99))]
}

fn group(
    suffix: String,
    resources: impl Strategy<Value = Vec<(String, i64)>>,
) -> impl Strategy<Value = Group> {
    let required = prop_oneof![
        7 => Just(Vec::new()),
        2 => vec(vec(trait_name(), 1..=2), 1..=1),
        1 => vec(vec(trait_name(), 1..=2), 2..=2)
    ];
    let forbidden = prop_oneof![9 => Just(Vec::new()), 1 => vec(trait_name(), 1..=2)];
    let member_of = prop_oneof![
        9 => Just(Vec::new()),
        2 => vec(vec(aggregate(), 1..=2), 1..=1),
        1 => vec(vec(aggregate(), 1..=2), 2..=2)
    ];
    let not_member_of = prop_oneof![12 => Just(Vec::new()), 1 => vec(aggregate(), 1..=2)];
    let in_tree = weighted(
        0.08,
        prop_oneof![40 => (1..12_i64).prop_map(provider_uuid), 1 => Just(Uuid::nil())],
    );
    (resources, required, forbidden, member_of, not_member_of, in_tree).prop_map(
        move |(resources, required, forbidden, member_of, not_member_of, in_tree)| Group {
            suffix: suffix.clone(),
            resources,
            required,
            forbidden,
            member_of,
            not_member_of,
            in_tree,
        },
    )
}

fn resources(least: usize) -> impl Strategy<Value = Vec<(String, i64)>> {
    let class = prop_oneof![
        200 => prop::sample::subsequence(CLASSES.to_vec(), least..=2).prop_shuffle(),
        1 => Just(vec!["NO_SUCH"])
    ];
    (class, vec(1..5_i64, 3)).prop_map(|(classes, amounts)| {
        classes
            .into_iter()
            .map(str::to_owned)
            .zip(amounts.into_iter().map(|it| (it - 2).max(1)))
            .collect()
    })
}

fn groups() -> impl Strategy<Value = Vec<Group>> {
    let unsuffixed = weighted(0.6, group(String::new(), resources(1)));
    let suffixed = |suffix: &str, likely: f64| {
        let resources = prop_oneof![4 => resources(1), 1 => Just(Vec::new())];
        weighted(likely, group(suffix.to_owned(), resources))
    };
    let groups = (unsuffixed, suffixed("1", 0.5), suffixed("_A", 0.45), suffixed("_B", 0.3));
    groups
        .prop_map(|(u, a, b, c)| [u, a, b, c].into_iter().flatten().collect::<Vec<_>>())
        .prop_shuffle()
}

/// A request without bounds.
pub(crate) fn request() -> impl Strategy<Value = Request> {
    let same_subtree = prop_oneof![
        5 => Just(Vec::new()),
        1 => Just(vec![vec!["1", "_A"]]),
        1 => Just(vec![vec!["_A", "_B"]]),
        1 => Just(vec![vec!["1", "_A", "_B"]]),
        1 => Just(vec![vec!["1", "_A"], vec!["_A", "_B"]]),
        1 => Just(vec![vec!["1", "_A", "_B"], vec!["_B", "1"]]),
        1 => Just(vec![vec!["_B", "1"], vec!["1", "_A"], vec!["_A", "_B"]]),
    ];
    let root_traits = prop_oneof![12 => Just(Vec::new()), 1 => vec(trait_name(), 1..=1)];
    let forbidden = prop_oneof![12 => Just(Vec::new()), 1 => vec(trait_name(), 1..=1)];
    let flags = (prop::bool::weighted(0.3), prop::bool::weighted(0.8));
    (groups(), same_subtree, root_traits, forbidden, flags).prop_map(
        |(groups, same_subtree, root_required, root_forbidden, (isolate, nested))| Request {
            same_subtree: same_subtree
                .into_iter()
                .map(|set| {
                    let known =
                        set.into_iter().filter(|it| groups.iter().any(|group| group.suffix == *it));
                    known.map(str::to_owned).collect()
                })
                .collect(),
            groups,
            policy: if isolate { Policy::Isolate } else { Policy::None },
            root_required,
            root_forbidden,
            nested,
            ..Request::default()
        },
    )
}

/// Bounds and order, to be put into a request.
pub(crate) fn bounds() -> impl Strategy<Value = Request> {
    let limit = weighted(0.5, 1..6_usize);
    let max = weighted(0.3, 1..8_usize);
    let order = prop_oneof![Just(Generation::DepthFirst), Just(Generation::BreadthFirst)];
    (limit, max, order, weighted(0.5, any::<u64>())).prop_map(
        |(limit, max_candidates, strategy, seed)| Request {
            limit,
            max_candidates,
            strategy,
            order: seed.map_or(Order::Stored, Order::Random),
            ..Request::default()
        },
    )
}

/// Up to `most` providers that stand alone; nothing is shared.
pub(crate) fn flat_rows(most: usize) -> impl Strategy<Value = Vec<ProviderRow>> {
    vec(likeness(), 1..=most).prop_map(|likenesses| {
        let alone = |(id, mut like): (i64, Likeness)| {
            like.traits.retain(|id| TRAITS[id.0 as usize] != "MISC_SHARES_VIA_AGGREGATE");
            row(id, None, id, like)
        };
        (1..).zip(likenesses).map(alone).collect()
    })
}

/// Makes trees of equal nodes with equal devices: there are two kinds of devices, and everything exists many times.
pub(crate) fn like_rows() -> impl Strategy<Value = Vec<ProviderRow>> {
    let device = (1..4_i32, prop::bool::ANY).prop_map(|(total, has_trait)| Likeness {
        inventories: vec![unused(ClassId(0), total)],
        traits: if has_trait { vec![TraitId(1)] } else { Vec::new() },
        aggregates: Vec::new(),
    });
    let kinds = (device.clone(), device);
    let nodes = vec(vec(prop::bool::weighted(0.3), 0..=3), 1..=3);
    (kinds, nodes, prop::bool::weighted(0.5)).prop_map(|(kinds, nodes, have_own)| {
        let mut rows = vec![row(1, None, 1, Likeness::default())];
        for devices in nodes {
            let node = rows.len() as i64 + 1;
            let like = if have_own { kinds.0.clone() } else { Likeness::default() };
            rows.push(row(node, Some(1), 1, like));
            for is_other in devices {
                let like = if is_other { kinds.1.clone() } else { kinds.0.clone() };
                rows.push(row(rows.len() as i64 + 1, Some(node), 1, like));
            }
        }
        rows
    })
}

/// A request for like groups, some without resources, in sets that may overlap.
pub(crate) fn like_request() -> impl Strategy<Value = Request> {
    let group = (prop::bool::weighted(0.8), 1..3_i64, prop::bool::weighted(0.3));
    let sets = vec(vec(0..5_usize, 2..=3), 0..=3);
    let spread = weighted(0.3, prop::bool::ANY);
    (vec(group, 2..=5), sets, prop::bool::weighted(0.4), spread).prop_map(
        |(groups, sets, isolate, spread)| {
            let count = groups.len();
            let required = |wanted: bool| {
                if wanted { vec![vec![TRAITS[1].to_owned()]] } else { Vec::new() }
            };
            let mut all: Vec<Group> = Vec::new();
            all.extend(spread.map(|wanted| Group {
                resources: vec![(CLASSES[0].to_owned(), 1)],
                required: required(wanted),
                ..Group::default()
            }));
            for (nth, (has_amount, amount, wants_trait)) in groups.into_iter().enumerate() {
                let amounts = has_amount.then(|| (CLASSES[0].to_owned(), amount));
                all.push(Group {
                    suffix: format!("_{nth}"),
                    resources: amounts.into_iter().collect(),
                    required: required(wants_trait || !has_amount),
                    ..Group::default()
                });
            }
            let set = |set: Vec<usize>| {
                let numbers: std::collections::BTreeSet<usize> =
                    set.into_iter().map(|nth| nth % count).collect();
                numbers.into_iter().map(|nth| format!("_{nth}")).collect()
            };
            Request {
                groups: all,
                same_subtree: sets.into_iter().map(set).collect(),
                policy: if isolate { Policy::Isolate } else { Policy::None },
                nested: true,
                ..Request::default()
            }
        },
    )
}
