//! Each test plants one problem, and expects exactly one finding of its kind.

use std::collections::{BTreeMap, HashMap, HashSet};

use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::classify::{Audit, Rules};
use super::cloud::{Cloud, Place, Server, ServerState};
use super::finding::{Outcome, Reason, Remedy};
use super::flavor::Flavor;
use super::guard;
use super::kind::Kind;
use super::placement::{Allocations, Consumer, Details, Held, Placement, Provider, Resources};

/// Time at which the servers of this cloud are listed.
const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH.saturating_add(Duration::days(20_000));
const LONG_AGO: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
/// Roots: three hosts, and a provider that shares its disk. 11 is a child of 1.
const HOSTS: [u128; 3] = [1, 2, 3];
const CHILD: u128 = 11;
const SHARED: u128 = 20;

/// The providers of which a consumer is to hold something; or what a person must decide.
type Done = Result<(u128, Vec<u128>), String>;

fn id(nth: u128) -> Uuid {
    Uuid::from_u128(nth)
}

struct World {
    cloud: Cloud,
    consumers: HashMap<Uuid, Consumer>,
    /// Type and time of consumers that differ from the others.
    special: HashMap<Uuid, (Option<&'static str>, OffsetDateTime)>,
    providers: Vec<Provider>,
    rules: Rules,
}

impl World {
    /// Servers 101 to 120 run on the hosts in turn, and have the allocations of their flavor there.
    fn new() -> Self {
        let root = |nth: u128, root: u128| Provider {
            uuid: id(nth),
            name: format!("host-{nth}"),
            root: id(root),
            shares: nth == SHARED,
        };
        let mut providers: Vec<Provider> = HOSTS.iter().map(|nth| root(*nth, *nth)).collect();
        providers.extend([root(CHILD, 1), root(SHARED, SHARED)]);
        let cloud = Cloud {
            source: "nova".to_owned(),
            taken: NOW,
            servers: HashMap::new(),
            deleted: HashSet::new(),
            doubt: None,
        };
        let rules = Rules { grace: Duration::hours(1), owners: true };
        let mut world =
            Self { cloud, consumers: HashMap::new(), special: HashMap::new(), providers, rules };
        for nth in 101..=120 {
            let host = nth % 3 + 1;
            world.server(nth, host);
            world.holds(nth, &[host]);
        }
        world
    }

    fn server(&mut self, nth: u128, host: u128) -> &mut Server {
        let flavor = Flavor { vcpus: 2, memory_mb: 512, ..Flavor::default() };
        let server = Server {
            state: ServerState::Settled,
            failed: false,
            place: Place::Named(vec![format!("host-{host}")]),
            project: Some("p".to_owned()),
            user: Some("u".to_owned()),
            changed: Some(LONG_AGO),
            needs: Some(flavor.needs(Some(true))),
        };
        self.cloud.servers.insert(id(nth), server);
        self.cloud.servers.get_mut(&id(nth)).unwrap()
    }

    fn holds(&mut self, nth: u128, providers: &[u128]) -> &mut Consumer {
        let resources = Resources::from([("VCPU".to_owned(), 2), ("MEMORY_MB".to_owned(), 512)]);
        let allocations: Allocations =
            providers.iter().map(|nth| (id(*nth), resources.clone())).collect();
        self.consumers.insert(id(nth), Consumer { allocations, generation: Some(1) });
        self.consumers.get_mut(&id(nth)).unwrap()
    }

    fn details(&self, nth: Uuid) -> Details {
        let nothing = Consumer::default();
        let consumer = self.consumers.get(&nth).map_or(&nothing, |it| it);
        let owner = |name: &str| (!consumer.allocations.is_empty()).then(|| name.to_owned());
        let (kind, modified) = self.special.get(&nth).copied().unwrap_or((None, LONG_AGO));
        Details {
            held: Held {
                allocations: consumer.allocations.clone(),
                project_id: owner("p"),
                user_id: owner("u"),
            },
            generation: consumer.generation,
            kind: kind.map(str::to_owned),
            modified: Some(modified),
        }
    }

    fn audit(&self) -> Outcome {
        let placement = self.placement();
        let audit = Audit::new(&placement, &self.cloud, self.rules);
        let details = audit.suspects().into_iter().map(|nth| (nth, self.details(nth))).collect();
        audit.outcome(&details)
    }

    fn placement(&self) -> Placement {
        Placement::new("http://p".to_owned(), self.providers.clone(), self.consumers.clone())
    }

    /// The only finding: its kind and the new allocations, by provider; or the decision for an operator.
    fn only(&self) -> (Kind, Done) {
        let outcome = self.audit();
        let [finding] = outcome.findings.as_slice() else { panic!("{outcome:#?}") };
        let remedy = match &finding.remedy {
            Remedy::Change(change) => {
                let providers = change.after.allocations.keys().map(Uuid::as_u128);
                Ok((change.consumer.as_u128(), providers.collect()))
            }
            Remedy::Person(question) => Err(question.clone()),
        };
        (finding.kind, remedy)
    }

    fn left(&self) -> BTreeMap<Reason, Vec<u128>> {
        let outcome = self.audit();
        assert_eq!(outcome.findings, []);
        let numbers = |all: Vec<Uuid>| all.into_iter().map(|it| it.as_u128()).collect();
        outcome.left.into_iter().map(|(reason, all)| (reason, numbers(all))).collect()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "what is compared may be a question")]
fn removes(nth: u128) -> Done {
    Ok((nth, vec![]))
}

#[test]
fn a_cloud_in_order_has_no_findings() {
    let mut world = World::new();
    // Ports and devices have providers within the host's tree; disks may be shared.
    world.server(130, 1);
    world.holds(130, &[1]);
    let child = Resources::from([("NET_BW_EGR_KILOBIT_PER_SEC".to_owned(), 5)]);
    let shared = Resources::from([("DISK_GB".to_owned(), 0)]);
    let held = &mut world.consumers.get_mut(&id(130)).unwrap().allocations;
    held.extend([(id(CHILD), child), (id(SHARED), shared)]);
    assert_eq!(world.left(), BTreeMap::new());
}

#[test]
fn an_orphan() {
    let mut world = World::new();
    world.holds(7, &[1, 2]);
    assert_eq!(world.only(), (Kind::Orphan, removes(7)));
    world.special.insert(id(7), (Some("INSTANCE"), LONG_AGO));
    assert_eq!(world.only(), (Kind::Orphan, removes(7)));
}

#[test]
fn consumers_that_are_not_novas_are_no_orphans() {
    let mut world = World::new();
    world.holds(7, &[1]);
    world.special.insert(id(7), (Some("VALET_PLAN"), LONG_AGO));
    let reserved = Resources::from([("CUSTOM_RESERVATION_1".to_owned(), 1)]);
    world.holds(8, &[1]).allocations.insert(id(1), reserved);
    assert_eq!(world.left(), BTreeMap::from([(Reason::NotNovas, vec![7, 8])]));
}

#[test]
fn a_deleted_server() {
    let mut world = World::new();
    world.holds(7, &[1]);
    world.cloud.deleted.insert(id(7));
    assert_eq!(world.only(), (Kind::DeletedServer, removes(7)));
    world.special.insert(id(7), (None, NOW));
    assert_eq!(world.left(), BTreeMap::from([(Reason::Recent, vec![7])]));
}

#[test]
fn servers_that_changed_since_the_list_are_skipped() {
    let mut world = World::new();
    world.holds(7, &[1]);
    for modified in [NOW + Duration::minutes(5), NOW - Duration::minutes(59)] {
        world.special.insert(id(7), (None, modified));
        assert_eq!(world.left(), BTreeMap::from([(Reason::Recent, vec![7])]));
    }
    world.special.insert(id(7), (None, NOW - Duration::minutes(61)));
    assert_eq!(world.only().0, Kind::Orphan);
}

#[test]
fn servers_that_change_during_the_audit_are_skipped() {
    let mut world = World::new();
    world.holds(7, &[1]);
    let placement = world.placement();
    let audit = Audit::new(&placement, &world.cloud, world.rules);
    let mut details = world.details(id(7));
    details.generation = Some(2);
    let outcome = audit.outcome(&HashMap::from([(id(7), details)]));
    assert_eq!((outcome.findings, outcome.left.len()), (vec![], 1));
    assert_eq!(outcome.left[&Reason::Changing], [id(7)]);
}

/// A list of servers omits migrations.
#[test]
fn a_consumer_that_may_be_a_migration_is_left_alone() {
    let mut world = World::new();
    world.server(130, 2).state = ServerState::Busy("VERIFY_RESIZE".to_owned());
    world.holds(130, &[2]);
    world.holds(7, &[1]);
    let expected = [(Reason::Busy, vec![130]), (Reason::MaybeMigration, vec![7])];
    assert_eq!(world.left(), BTreeMap::from(expected));
    // Its type shows that it is not a migration.
    world.special.insert(id(7), (Some("INSTANCE"), LONG_AGO));
    assert_eq!(world.only(), (Kind::Orphan, removes(7)));
}

#[test]
fn a_server_that_holds_several_hosts() {
    let mut world = World::new();
    world.server(130, 2);
    world.holds(130, &[1, CHILD, 2]);
    assert_eq!(world.only(), (Kind::SeveralHosts, Ok((130, vec![2]))));
    world.server(130, 2).failed = true;
    assert!(world.only().1.unwrap_err().contains("the server has failed"));
}

#[test]
fn a_server_that_holds_only_another_host() {
    let mut world = World::new();
    world.server(130, 2);
    world.holds(130, &[1]);
    let (kind, remedy) = world.only();
    assert_eq!(kind, Kind::WrongHost);
    assert!(remedy.unwrap_err().contains("nova is wrong"));
}

#[test]
fn a_server_without_a_host() {
    let mut world = World::new();
    world.server(130, 2).place = Place::Nowhere;
    assert_eq!(world.left(), BTreeMap::new());
    world.holds(130, &[1]);
    assert_eq!(world.only(), (Kind::WithoutHost, removes(130)));
}

#[test]
fn a_server_that_holds_nothing() {
    let mut world = World::new();
    world.server(130, 2);
    assert_eq!(world.only(), (Kind::NoAllocations, Ok((130, vec![2]))));
    world.server(130, 2).needs = None;
    assert!(world.only().1.unwrap_err().contains("heal_allocations --instance"));
    world.server(130, 2).user = None;
    assert!(world.only().1.unwrap_err().contains("project and user"));
    world.server(130, 9);
    assert_eq!(world.left(), BTreeMap::from([(Reason::UnknownHost, vec![130])]));
    world.server(130, 2).changed = Some(NOW);
    assert_eq!(world.left(), BTreeMap::from([(Reason::Recent, vec![130])]));
}

#[test]
fn other_amounts_than_the_flavors() {
    let mut world = World::new();
    world.server(130, 2);
    let amounts = world.holds(130, &[2]).allocations.get_mut(&id(2)).unwrap();
    amounts.insert("VCPU".to_owned(), 4);
    assert_eq!(world.only(), (Kind::WrongAmounts, Ok((130, vec![2]))));
    let amounts = world.consumers.get_mut(&id(130)).unwrap();
    let amounts = amounts.allocations.get_mut(&id(2)).unwrap();
    amounts.insert("CUSTOM_LICENCE".to_owned(), 1);
    assert!(world.only().1.unwrap_err().contains("more than its flavor decides"));
}

#[test]
fn allocations_of_another_project() {
    let mut world = World::new();
    world.cloud.servers.get_mut(&id(105)).unwrap().project = Some("q".to_owned());
    let outcome = world.audit();
    let [finding] = outcome.findings.as_slice() else { panic!("{outcome:#?}") };
    assert_eq!((finding.kind, finding.subject), (Kind::WrongOwner, id(105)));
    assert_eq!(finding.evidence, "project p instead of q");
    let Remedy::Change(change) = &finding.remedy else { panic!("{finding:?}") };
    assert_eq!(change.after.project_id.as_deref(), Some("q"));
    assert_eq!(change.after.allocations, change.before.allocations);
}

#[test]
fn a_list_that_cannot_be_the_right_one_is_refused() {
    let refusal = |world: &World, most| {
        guard::check(&world.placement(), &world.cloud, &world.audit(), most).unwrap_err()
    };
    let mut world = World::new();
    for nth in 1..=2 {
        world.holds(nth, &[1]);
    }
    let check =
        |world: &World, most| guard::check(&world.placement(), &world.cloud, &world.audit(), most);
    assert_eq!(check(&world, None), Ok(()));
    world.cloud.doubt = Some("It may be cut off".to_owned());
    assert!(refusal(&world, None).contains("may not be complete"));
    world.cloud.doubt = None;
    world.holds(3, &[1]);
    let why = refusal(&world, None);
    assert!(why.starts_with("3 of 23 consumers") && why.contains("--max-orphans 3"), "{why}");
    assert_eq!(check(&world, Some(3)), Ok(()));
    assert!(refusal(&world, Some(2)).contains("at most 2"));
    // Another cloud.
    world.cloud.servers = world.cloud.servers.drain().map(|(_, it)| (Uuid::new_v4(), it)).collect();
    assert!(refusal(&world, None).starts_with("not one of the 20 servers"));
}

/// Other consumers may be too young to be orphans, or of another type.
#[test]
fn servers_of_which_none_holds_anything_are_refused_without_orphans_as_well() {
    let check =
        |world: &World, most| guard::check(&world.placement(), &world.cloud, &world.audit(), most);
    let mut world = World::new();
    world.consumers.clear();
    let why = check(&world, None).unwrap_err();
    assert!(
        why.starts_with("not one of the 20 servers") && why.contains("--max-orphans 0"),
        "{why}"
    );
    assert_eq!(check(&world, Some(0)), Ok(()));
    // These are not expected to have allocations.
    world.cloud.servers.values_mut().for_each(|server| server.place = Place::Nowhere);
    assert_eq!(check(&world, None), Ok(()));
    world.cloud.servers.clear();
    assert_eq!(check(&world, None), Ok(()));
}
