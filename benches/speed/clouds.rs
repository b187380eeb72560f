//! Clouds of any size to search in, each with a request: what is measured here is counted in
//! `tests/rules/cost.rs`.

#![expect(clippy::indexing_slicing, reason = "classes and aggregates are those listed here")]

use std::sync::Arc;

use berth::model::provider::{InventoryRow, ProviderRow};
use berth::model::{ClassId, Inventory, ProviderId, TraitId};
use berth::search::{Group, Policy, Request};
use berth::world::{Catalogue, Name, World};
use uuid::Uuid;

const VCPU: i32 = 0;
const MEMORY_MB: i32 = 1;
const DISK_GB: i32 = 2;
const FPGA: i32 = 3;
const PGPU: i32 = 4;
const VF: i32 = 5;
const CLASSES: [&str; 6] = ["VCPU", "MEMORY_MB", "DISK_GB", "FPGA", "PGPU", "SRIOV_NET_VF"];

const AVX2: i32 = 0;
const MULTI_ATTACH: i32 = 4;
const FOO: i32 = 5;
const TRAITS: [&str; 6] = [
    "HW_CPU_X86_AVX2",
    "HW_CPU_X86_SSE2",
    "HW_CPU_X86_SSE",
    "HW_CPU_X86_MMX",
    "COMPUTE_VOLUME_MULTI_ATTACH",
    "CUSTOM_FOO",
];

/// The aggregates of [`flat`].
const AGGREGATES: [u128; 3] = [0xF1, 0xF2, 0xF3];

/// A cloud with a request.
pub(crate) struct Cloud {
    pub(crate) name: &'static str,
    pub(crate) world: Arc<World>,
    pub(crate) request: Request,
}

impl Cloud {
    fn new(name: &'static str, rows: Vec<ProviderRow>, request: Request) -> Self {
        let catalogue = Catalogue {
            classes: (0..).map(ClassId).zip(CLASSES.map(named)).collect(),
            traits: (0..).map(TraitId).zip(TRAITS.map(named)).collect(),
        };
        Self { name, world: Arc::new(World::build(catalogue, rows)), request }
    }

    /// Returns the request with a limit.
    pub(crate) fn limited(&self, limit: usize) -> Request {
        Request { limit: Some(limit), ..self.request.clone() }
    }
}

/// Hosts that are alone in their trees, each in one to three of three aggregates; two thirds of them
/// are candidates.
pub(crate) fn flat(hosts: i64) -> Cloud {
    let host = |id: i64| {
        let first = usize::try_from(id).unwrap();
        let aggregates =
            (0..=first / 3 % 3).map(|nth| Uuid::from_u128(AGGREGATES[(first + nth) % 3]));
        let mut aggregates: Vec<Uuid> = aggregates.collect();
        aggregates.sort_unstable();
        ProviderRow {
            inventories: vec![
                inventory(VCPU, Inventory { max_unit: 16, ..plenty(32) }),
                inventory(MEMORY_MB, Inventory { min_unit: 128, ..plenty(8192) }),
                inventory(DISK_GB, Inventory { min_unit: 5, ..plenty(8192) }),
            ],
            traits: (AVX2..MULTI_ATTACH).map(TraitId).collect(),
            aggregates,
            ..provider(id, None)
        }
    };
    let group = Group {
        required: vec![vec![TRAITS[0].to_owned()]],
        member_of: vec![vec![Uuid::from_u128(AGGREGATES[0])]],
        ..group("", &[(VCPU, 1), (DISK_GB, 10), (MEMORY_MB, 256)])
    };
    Cloud::new("flat", (1..=hosts).map(host).collect(), request(vec![group], Policy::None))
}

/// Hosts of seven providers: two NUMA nodes, three FPGAs and a GPU below them. Three candidates each.
pub(crate) fn nested(hosts: i64) -> Cloud {
    let disk = Group { required: vec![vec![TRAITS[4].to_owned()]], ..group("", &[(DISK_GB, 10)]) };
    let compute = group("_COMPUTE", &[(VCPU, 1), (MEMORY_MB, 512)]);
    let requested = Request {
        same_subtree: vec![vec!["_COMPUTE".to_owned(), "_FPGA".to_owned()]],
        ..request(vec![disk, compute, group("_FPGA", &[(FPGA, 1)])], Policy::None)
    };
    Cloud::new("nested", trees(hosts), requested)
}

/// The same hosts, with a request for two groups of the same class, which may compete. Four
/// candidates each.
pub(crate) fn contended(hosts: i64) -> Cloud {
    let groups = vec![group("_A", &[(VCPU, 1)]), group("_B", &[(VCPU, 1)])];
    Cloud::new("contended", trees(hosts), request(groups, Policy::None))
}

/// One host with eight devices of one unit each, and a request for six of them in separate groups:
/// 20,160 candidates.
pub(crate) fn wide() -> Cloud {
    let host = ProviderRow { inventories: vec![inventory(VCPU, plenty(64))], ..provider(1, None) };
    let device = |id| ProviderRow {
        inventories: vec![inventory(VF, plenty(1))],
        ..provider(id, Some((1, 1)))
    };
    let rows = std::iter::once(host).chain((2..10).map(device)).collect();
    let groups = (1..7).map(|nth| group(&nth.to_string(), &[(VF, 1)])).collect();
    Cloud::new("wide", rows, request(groups, Policy::None))
}

fn trees(hosts: i64) -> Vec<ProviderRow> {
    let tree = |host: i64| {
        let id = |nth: i64| host * 7 + nth;
        let below = |nth, parent| provider(id(nth), Some((id(parent), id(1))));
        let numa = |nth, least, most, traits| ProviderRow {
            inventories: vec![
                inventory(VCPU, Inventory { reserved: 2, ..plenty(4) }),
                inventory(
                    MEMORY_MB,
                    Inventory { min_unit: least, max_unit: most, step_size: 256, ..plenty(2048) },
                ),
            ],
            traits,
            ..below(nth, 1)
        };
        let device = |nth, parent, class| ProviderRow {
            inventories: vec![inventory(class, plenty(1))],
            ..below(nth, parent)
        };
        [
            ProviderRow {
                inventories: vec![inventory(DISK_GB, Inventory { min_unit: 5, ..plenty(2048) })],
                traits: vec![TraitId(MULTI_ATTACH)],
                ..provider(id(1), None)
            },
            numa(2, 512, 2048, Vec::new()),
            numa(3, 256, 1024, vec![TraitId(FOO)]),
            device(4, 2, FPGA),
            device(5, 2, PGPU),
            device(6, 3, FPGA),
            device(7, 3, FPGA),
        ]
    };
    (0..hosts).flat_map(tree).collect()
}

fn named(name: &str) -> Name {
    Name { name: name.to_owned(), updated_at: 0 }
}

/// Returns an inventory with this total, which can be allocated in any amount.
fn plenty(total: i32) -> Inventory {
    let (min_unit, step_size) = (1, 1);
    Inventory { total, reserved: 0, min_unit, max_unit: total, step_size, allocation_ratio: 1.0 }
}

fn inventory(class: i32, terms: Inventory) -> InventoryRow {
    InventoryRow { class: ClassId(class), terms, used: 0, updated_at: 0 }
}

/// Returns an empty provider, with the keys of its parent and its root.
fn provider(id: i64, above: Option<(i64, i64)>) -> ProviderRow {
    ProviderRow {
        id: ProviderId(id),
        uuid: Uuid::from_u64_pair(0xB0, id.unsigned_abs()),
        name: format!("provider {id}"),
        generation: 1,
        parent: above.map(|(parent, _)| ProviderId(parent)),
        root: ProviderId(above.map_or(id, |(_, root)| root)),
        updated_at: 0,
        inventories: Vec::new(),
        traits: Vec::new(),
        aggregates: Vec::new(),
        spellings: Vec::new(),
    }
}

fn group(suffix: &str, resources: &[(i32, i64)]) -> Group {
    let named =
        |&(class, amount): &(i32, i64)| (CLASSES[class.unsigned_abs() as usize].to_owned(), amount);
    Group {
        suffix: suffix.to_owned(),
        resources: resources.iter().map(named).collect(),
        ..Group::default()
    }
}

fn request(groups: Vec<Group>, policy: Policy) -> Request {
    Request { groups, policy, nested: true, ..Request::default() }
}
