//! Random updates of random plans: what an update accepts is what a new plan with the same places would accept, or is
//! named as broken.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use uuid::Uuid;

use super::tests::{Resources, object, row};
use super::{CurrentPlan, Draft};
use crate::model::inventory::Inventory;
use crate::model::provider::{InventoryRow, ProviderRow};
use crate::model::{ClassId, Level, PlacementPolicy, ProviderId, TraitId};
use crate::planner::change::PlanChange;
use crate::planner::document::Document;
use crate::planner::failure::{Explanation, Failure};
use crate::planner::placement::{PlacedStack, SolvingTime};
use crate::planner::plan::{Placement, Plan};
use crate::planner::stack::Surroundings;
use crate::planner::template::Template;
use crate::planner::topology::Topology;
use crate::solver::{Progress, Rule};
use crate::world::{Catalogue, Name, World};

const CASES: u64 = 1_000;
const VCPU: ClassId = ClassId(0);
const RACKS: usize = 3;

/// Time without end.
struct Unlimited;

impl SolvingTime for Unlimited {
    fn is_up(&self, _: Duration) -> bool {
        false
    }

    fn is_share_up(&self, _: u32, _: u32) -> bool {
        false
    }

    fn is_enough(&self, found: Progress) -> bool {
        found != Progress::Nothing
    }

    fn threads(&self) -> usize {
        1
    }
}

/// A host of one provider.
#[derive(Clone, Debug)]
struct Host {
    total: i32,
    used: i64,
    rack: Option<usize>,
}

fn hosts(random: &mut Rng) -> Vec<Host> {
    let host = |random: &mut Rng| Host {
        total: random.i32(1..=5),
        used: 0,
        rack: (random.u8(..5) > 0).then(|| random.usize(..RACKS)),
    };
    (0..random.usize(2..=6)).map(|_| host(random)).collect()
}

fn world(hosts: &[Host]) -> Arc<World> {
    let name = |name: String| Name { name, updated_at: 0 };
    let racks = (0..RACKS).map(|rack| name(format!("CUSTOM_RACK_{rack}")));
    let catalogue = Catalogue {
        classes: [(VCPU, name("VCPU".to_owned()))].into(),
        traits: (0..).map(TraitId).zip(racks).collect(),
    };
    let row = |(nth, host): (usize, &Host)| {
        let id = ProviderId(1 + i64::try_from(nth).unwrap());
        let terms = Inventory {
            total: host.total,
            reserved: 0,
            min_unit: 1,
            max_unit: host.total,
            step_size: 1,
            allocation_ratio: 1.0,
        };
        ProviderRow {
            id,
            uuid: Uuid::from_u128(1 + nth as u128),
            name: format!("h{nth}"),
            generation: 0,
            parent: None,
            root: id,
            updated_at: 0,
            inventories: vec![InventoryRow { class: VCPU, terms, used: host.used, updated_at: 0 }],
            traits: host
                .rack
                .map(|rack| TraitId(i32::try_from(rack).unwrap()))
                .into_iter()
                .collect(),
            aggregates: Vec::new(),
            spellings: Vec::new(),
        }
    };
    Arc::new(World::build(catalogue, hosts.iter().enumerate().map(row).collect()))
}

/// A stack: the amounts of its servers by number, and its groups.
#[derive(Clone, Debug)]
struct Wanted {
    servers: BTreeMap<usize, i64>,
    groups: Vec<(&'static str, Level, Value, Vec<usize>)>,
}

impl Wanted {
    fn random(random: &mut Rng) -> Self {
        let servers = (0..random.usize(1..=4)).map(|nth| (nth, random.i64(1..=2))).collect();
        let mut wanted = Self { servers, groups: Vec::new() };
        wanted.add_groups(random);
        wanted
    }

    fn add_groups(&mut self, random: &mut Rng) {
        for _ in 0..random.usize(0..=2) {
            let terms = match random.u8(..4) {
                0 => json!({"max_skew": random.u32(1..=2)}),
                1 => json!({"max_per_unit": random.u32(1..=2)}),
                _ => json!({}),
            };
            let has_terms = terms != json!({});
            let kind = if has_terms || random.bool() { "diversity" } else { "affinity" };
            let level = if random.bool() { Level::Rack } else { Level::Host };
            let members = self.servers.keys().copied().filter(|_| random.u8(..3) > 0).collect();
            self.groups.push((kind, level, terms, members));
        }
    }

    /// Other servers, and perhaps other groups.
    fn changed(&self, random: &mut Rng) -> Self {
        let mut wanted = self.clone();
        wanted.servers.retain(|_, _| random.u8(..6) > 0);
        let new: Vec<usize> = (4..4 + random.usize(0..=2)).collect();
        wanted.servers.extend(new.iter().map(|nth| (*nth, random.i64(1..=2))));
        if random.bool() {
            wanted.groups.retain(|_| random.bool());
            wanted.add_groups(random);
        }
        for (.., members) in &mut wanted.groups {
            members.extend(new.iter().copied().filter(|_| random.bool()));
            members.sort_unstable();
            members.dedup();
            members.retain(|nth| wanted.servers.contains_key(nth));
        }
        wanted
    }

    fn resources(&self) -> Resources {
        let server = |(nth, amount): (&usize, &i64)| {
            let properties = json!({"resources": {"VCPU": amount}});
            (format!("s{nth}"), json!({"type": "OS::Nova::Server", "properties": properties}))
        };
        let group =
            |(nth, (kind, level, terms, members)): (usize, &(_, Level, Value, Vec<usize>))| {
                let members: Vec<String> = members.iter().map(|nth| format!("s{nth}")).collect();
                let mut properties = terms.clone();
                properties["group_type"] = Value::from(*kind);
                properties["level"] = level.name().into();
                properties["resources"] = members.into();
                (
                    format!("g{nth}"),
                    json!({"type": "OS::Valet::GroupAssignment", "properties": properties}),
                )
            };
        let groups = self.groups.iter().filter(|(.., members)| !members.is_empty());
        self.servers.iter().map(server).chain(groups.enumerate().map(group)).collect()
    }
}

/// A new plan on these hosts, and its placements; `None`: nothing fits.
fn planned(wanted: &Wanted, hosts: &mut [Host]) -> Option<CurrentPlan> {
    let world = world(hosts);
    let mut document = Document::new(object(wanted.resources()), None, PlacementPolicy::DEFAULT);
    let template = document.template().unwrap();
    document.measure(&template, &Template::default(), &[]).unwrap();
    let plan = Plan::new("p", "p", "project", "user");
    let mut draft = Draft::new(plan.clone(), document.clone(), &template, &[]).unwrap();
    let solution = solved(&mut draft, &world).ok()??;
    let places = solution.places.iter().map(|place| place.as_ref().unwrap());
    let rows = template.servers.iter().zip(places).enumerate().map(|(nth, (entry, place))| {
        let amounts = place.wants.iter().flatten();
        let amount: i64 = amounts.map(|(.., amount)| amount).sum();
        hosts[host_number(place.root)].used += amount;
        Placement { holds: vec![(place.root, VCPU, amount)], ..row(plan.id, nth, entry) }
    });
    let placements = rows.collect();
    let topology = Topology::of(&world, false);
    let (leaving, groups) = (Vec::new(), Vec::new());
    Some(CurrentPlan { plan, document, template, placements, leaving, groups, world, topology })
}

fn host_number(root: ProviderId) -> usize {
    usize::try_from(root.0 - 1).unwrap()
}

/// The solved draft; `None` if no server needs a place.
///
/// # Errors
/// There are no places.
fn solved(draft: &mut Draft, world: &Arc<World>) -> Result<Option<PlacedStack>, Explanation> {
    match draft.solve(world, &Surroundings::default(), &Unlimited) {
        Ok(solution) => Ok(solution),
        Err(Failure::NoPlaces(why)) => Err(why),
        Err(failure) => panic!("{failure:?}"),
    }
}

/// Changes the cloud between the plan and its update: reservations, instances that arrive, some of them elsewhere, and
/// hosts that leave their racks. Returns whether something moved.
fn disturb(current: &mut CurrentPlan, hosts: &mut [Host], random: &mut Rng) -> bool {
    let mut is_moved = false;
    for (nth, row) in current.placements.iter_mut().enumerate() {
        row.reserved = (random.u8(..3) == 0).then_some(true);
        if random.u8(..3) == 0 {
            row.consumer = Uuid::from_u128(100 + nth as u128);
            let (root, _, amount) = row.holds[0];
            let target = random.usize(..hosts.len());
            if random.bool() && hosts[target].used + amount <= i64::from(hosts[target].total) {
                hosts[host_number(root)].used -= amount;
                hosts[target].used += amount;
                row.holds[0].0 = ProviderId(1 + i64::try_from(target).unwrap());
                is_moved = true;
            }
        }
    }
    if random.u8(..4) == 0 {
        let host = random.usize(..hosts.len());
        is_moved |= hosts[host].rack.take().is_some();
    }
    current.world = world(hosts);
    current.topology = Topology::of(&current.world, false);
    is_moved
}

/// The rules that servers on these hosts break, by the number of the rule's group; servers in `named` do not count
/// for a group.
fn broken(
    draft: &Draft,
    places: &[usize],
    hosts: &[Host],
    named: &HashSet<(String, String)>,
) -> Vec<(Rule, String)> {
    let stack = &draft.stack;
    let mut faults = Vec::new();
    for (group, rule) in stack.rules().unwrap().rules {
        let group = &stack.groups[group];
        let counts = |server: &usize| {
            !named.contains(&(stack.servers[*server].id.clone(), group.name.clone()))
        };
        let unit = |server: usize| match rule.level() {
            Level::Host => Some(places[server]),
            Level::Rack | Level::Cluster => hosts[places[server]].rack,
        };
        let parts: Vec<Vec<usize>> =
            rule.parts().iter().map(|part| part.iter().copied().filter(counts).collect()).collect();
        let all = parts.concat();
        let mut in_unit: BTreeMap<usize, u32> = BTreeMap::new();
        for server in &all {
            match unit(*server) {
                Some(unit) => *in_unit.entry(unit).or_insert(0) += 1,
                None => faults.push((rule.clone(), format!("server {server} is in no unit"))),
            }
        }
        let has_at_most = |most: u32| in_unit.values().all(|count| *count <= most);
        let is_kept = match &rule {
            Rule::Together(..) => in_unit.len() <= 1,
            Rule::Apart(..) => has_at_most(1),
            Rule::AtMost(_, limit, _) => has_at_most(*limit),
            Rule::Skew(skew) => {
                // The capacity as it would be without the servers that may move.
                let mut free: Vec<i64> =
                    hosts.iter().map(|host| i64::from(host.total) - host.used).collect();
                for server in stack.servers.iter().filter(|server| !server.is_fixed()) {
                    let present = server.present.iter().filter(|present| present.is_released());
                    for (root, _, amount) in present.flat_map(|present| &present.holds) {
                        free[host_number(*root)] += amount;
                    }
                }
                for (root, _, amount) in &stack.given_up {
                    free[host_number(*root)] += amount;
                }
                let is_domain = |host: &usize| {
                    let mut needs =
                        skew.servers.iter().map(|it| stack.servers[*it].size.needs["VCPU"]);
                    needs.any(|amount| amount <= free[*host])
                };
                let domains =
                    (0..hosts.len()).filter(is_domain).filter_map(|host| match rule.level() {
                        Level::Host => Some(host),
                        Level::Rack | Level::Cluster => hosts[host].rack,
                    });
                let mut counts = in_unit.clone();
                for domain in domains {
                    counts.entry(domain).or_insert(0);
                }
                let least = counts.values().copied().min();
                least.is_none_or(|least| has_at_most(least + skew.most))
            }
            Rule::Alone(..) => unreachable!("there are no exclusivity groups"),
        };
        if !is_kept {
            faults.push((rule, format!("{in_unit:?}")));
        }
    }
    faults
}

#[test]
fn an_update_accepts_what_a_new_plan_accepts_or_names_what_is_broken() {
    let (mut accepted, mut with_broken) = (0, 0);
    for seed in 0..CASES {
        let random = &mut Rng::with_seed(seed);
        let mut hosts = hosts(random);
        let wanted = Wanted::random(random);
        let Some(mut current) = planned(&wanted, &mut hosts) else { continue };
        let is_moved = random.bool() && disturb(&mut current, &mut hosts, random);
        current.world = world(&hosts);
        let update = wanted.changed(random);
        let change = PlanChange::Replace {
            resources: object(update.resources()),
            policy: None,
            may_migrate: true,
        };
        let document = change.document(&current).unwrap();
        let mut draft = change.draft(&current, document, &[]).unwrap();
        let Ok(solution) = solved(&mut draft, &current.world) else { continue };
        let places: Vec<usize> = match &solution {
            Some(solution) => {
                solution.places.iter().map(|it| host_number(it.as_ref().unwrap().root)).collect()
            }
            None if is_moved => continue,
            None => {
                let rows = draft.servers.iter().map(|it| it.placement.as_ref().unwrap());
                rows.map(|row| host_number(row.holds[0].0)).collect()
            }
        };
        let named = solution.iter().flat_map(|solution| &solution.broken);
        let named: HashSet<(String, String)> =
            named.map(|it| (it.server.clone(), it.group.clone())).collect();
        let mut faults = broken(&draft, &places, &hosts, &named);
        // An even distribution is not restored when servers are only removed.
        faults.retain(|(rule, _)| solution.is_some() || !matches!(rule, Rule::Skew(_)));
        assert!(
            faults.is_empty(),
            "seed {seed}: {faults:?}, on {places:?} of {hosts:?}, named {named:?}\nfirst {wanted:?}\nthen {update:?}"
        );
        // A small server that is added to an even distribution opens further domains.
        let is_even = |(_, name): &(String, String)| {
            let group = draft.stack.groups.iter().find(|group| group.name == *name);
            group.is_some_and(|group| group.terms.max_skew.is_some())
        };
        assert!(
            is_moved || named.iter().all(is_even),
            "seed {seed}: {named:?}\nfirst {wanted:?}\nthen {update:?}"
        );
        accepted += 1;
        with_broken += usize::from(!named.is_empty());
    }
    assert!(
        accepted > 500 && with_broken > 1,
        "{accepted} updates, {with_broken} with broken rules"
    );
}
