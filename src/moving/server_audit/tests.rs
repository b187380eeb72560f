//! One planted situation of each kind is found and named, and nothing else.

use std::collections::{BTreeMap, HashMap, HashSet};

use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::classify::{Audit, Rules};
use super::cloud::{Cloud, FromDatabase, Migration, Node, Place, Server, State};
use super::finding::{Outcome, Reason, Remedy};
use super::flavor::Flavor;
use super::guard;
use super::kind::Kind;
use super::placement::{Allocations, Consumer, Details, Held, Placement, Provider, Resources};

/// The servers of this cloud are listed at this time.
const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH.saturating_add(Duration::days(20_000));
const LONG_AGO: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
/// Roots: three hosts, and a provider that shares its disk. 11 is a child of 1.
const HOSTS: [u128; 3] = [1, 2, 3];
const CHILD: u128 = 11;
const SHARED: u128 = 20;

/// What consumers are to hold, by provider; or what a person must decide.
type Done = Result<Vec<(u128, Vec<u128>)>, String>;

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
    /// Servers 101 to 120 run on the hosts in turn, and hold there what their flavor asks for.
    fn new(with_database: bool) -> Self {
        let root = |nth: u128, root: u128| Provider {
            uuid: id(nth),
            name: format!("host-{nth}"),
            generation: 1,
            root: id(root),
            shares: nth == SHARED,
        };
        let mut providers: Vec<Provider> = HOSTS.iter().map(|nth| root(*nth, *nth)).collect();
        providers.extend([root(CHILD, 1), root(SHARED, SHARED)]);
        let nodes = HOSTS.iter().map(|nth| {
            let node = Node {
                host: format!("compute-{nth}"),
                name: format!("host-{nth}"),
                deleted: false,
                has_service: true,
                created: Some(LONG_AGO),
            };
            (id(*nth), node)
        });
        let database = with_database.then(|| FromDatabase {
            migrations: HashMap::new(),
            nodes: nodes.collect(),
            elsewhere: Some(HashSet::new()),
        });
        let cloud = Cloud {
            source: "nova".to_owned(),
            taken: NOW,
            servers: HashMap::new(),
            deleted: HashMap::new(),
            database,
            doubt: None,
        };
        let rules = Rules { grace: Duration::hours(1), owners: true, delete_providers: false };
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
        let place = if self.cloud.database.is_some() {
            Place::Node(id(host))
        } else {
            Place::Named(vec![format!("host-{host}")])
        };
        let server = Server {
            state: State::Settled,
            failed: false,
            place,
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

    fn database(&mut self) -> &mut FromDatabase {
        self.cloud.database.as_mut().unwrap()
    }

    fn migration(&mut self, nth: u128, server: u128, kind: &str, status: &str) {
        let migration = Migration {
            server: Some(id(server)),
            kind: kind.to_owned(),
            status: status.to_owned(),
            source: Some(id(1)),
            target: Some(id(2)),
            changed: Some(LONG_AGO),
        };
        self.database().migrations.insert(id(nth), migration);
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
        let hosts = audit.unowned_roots().into_iter().collect();
        audit.outcome(&details, &hosts)
    }

    fn placement(&self) -> Placement {
        Placement::new("http://p".to_owned(), self.providers.clone(), self.consumers.clone())
    }

    /// The only finding: its kind and what the consumer is to hold, by provider; or that a person decides.
    fn only(&self) -> (Kind, Done) {
        let outcome = self.audit();
        let [finding] = outcome.findings.as_slice() else { panic!("{outcome:#?}") };
        let remedy = match &finding.remedy {
            Remedy::Change(changes) => {
                let each = changes.iter().map(|change| {
                    let providers = change.after.allocations.keys().map(Uuid::as_u128);
                    (change.consumer.as_u128(), providers.collect())
                });
                Ok(each.collect())
            }
            Remedy::Delete(target) => Ok(vec![(target.provider.as_u128(), vec![])]),
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
    Ok(vec![(nth, vec![])])
}

#[test]
fn a_cloud_in_order_has_no_findings() {
    for with_database in [true, false] {
        let mut world = World::new(with_database);
        // Ports and devices have providers within the host's tree; disks may be shared.
        world.server(130, 1);
        world.holds(130, &[1]);
        let child = Resources::from([("NET_BW_EGR_KILOBIT_PER_SEC".to_owned(), 5)]);
        let shared = Resources::from([("DISK_GB".to_owned(), 0)]);
        let held = &mut world.consumers.get_mut(&id(130)).unwrap().allocations;
        held.extend([(id(CHILD), child), (id(SHARED), shared)]);
        assert_eq!(world.left(), BTreeMap::new());
    }
}

#[test]
fn an_orphan() {
    for with_database in [true, false] {
        let mut world = World::new(with_database);
        world.holds(7, &[1, 2]);
        assert_eq!(world.only(), (Kind::Orphan, removes(7)));
        world.special.insert(id(7), (Some("INSTANCE"), LONG_AGO));
        assert_eq!(world.only(), (Kind::Orphan, removes(7)));
    }
}

#[test]
fn consumers_that_are_not_novas_are_no_orphans() {
    let mut world = World::new(true);
    world.holds(7, &[1]);
    world.special.insert(id(7), (Some("VALET_PLAN"), LONG_AGO));
    let reserved = Resources::from([("CUSTOM_RESERVATION_1".to_owned(), 1)]);
    world.holds(8, &[1]).allocations.insert(id(1), reserved);
    assert_eq!(world.left(), BTreeMap::from([(Reason::NotNovas, vec![7, 8])]));
}

#[test]
fn an_orphan_on_a_host_of_no_cell_that_was_read() {
    let mut world = World::new(true);
    world.database().elsewhere = None;
    world.database().nodes.remove(&id(3));
    world.cloud.servers.retain(|_, server| server.place != Place::Node(id(3)));
    world.consumers.retain(|_, consumer| !consumer.allocations.contains_key(&id(3)));
    world.holds(7, &[3]);
    let outcome = world.audit();
    let kinds: Vec<Kind> = outcome.findings.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Kind::Orphan, Kind::ProviderWithoutNode]);
    assert!(matches!(&outcome.findings[0].remedy, Remedy::Person(why) if why.contains("its cell")));
}

#[test]
fn what_nova_knows_elsewhere_is_no_orphan() {
    let mut world = World::new(true);
    world.holds(7, &[1]);
    world.database().elsewhere = Some([id(7)].into());
    assert_eq!(world.left(), BTreeMap::from([(Reason::Elsewhere, vec![7])]));
}

#[test]
fn a_deleted_server() {
    let mut world = World::new(true);
    world.holds(7, &[1]);
    world.cloud.deleted.insert(id(7), Some(LONG_AGO));
    assert_eq!(world.only(), (Kind::DeletedServer, removes(7)));
    world.cloud.deleted.insert(id(7), Some(NOW));
    assert_eq!(world.left(), BTreeMap::from([(Reason::Recent, vec![7])]));
}

#[test]
fn what_has_changed_since_the_servers_were_listed_is_left_alone() {
    let mut world = World::new(false);
    world.holds(7, &[1]);
    for modified in [NOW + Duration::minutes(5), NOW - Duration::minutes(59)] {
        world.special.insert(id(7), (None, modified));
        assert_eq!(world.left(), BTreeMap::from([(Reason::Recent, vec![7])]));
    }
    world.special.insert(id(7), (None, NOW - Duration::minutes(61)));
    assert_eq!(world.only().0, Kind::Orphan);
}

#[test]
fn what_changes_during_the_audit_is_left_alone() {
    let mut world = World::new(false);
    world.holds(7, &[1]);
    let placement = world.placement();
    let audit = Audit::new(&placement, &world.cloud, world.rules);
    let mut details = world.details(id(7));
    details.generation = Some(2);
    let outcome = audit.outcome(&HashMap::from([(id(7), details)]), &HashSet::new());
    assert_eq!((outcome.findings, outcome.left.len()), (vec![], 1));
    assert_eq!(outcome.left[&Reason::Changing], [id(7)]);
}

#[test]
fn an_ended_migration() {
    let mut world = World::new(true);
    world.server(130, 2);
    world.holds(130, &[2]);
    world.migration(7, 130, "migration", "confirmed");
    world.holds(7, &[1]);
    assert_eq!(world.only(), (Kind::EndedMigration, removes(7)));
}

#[test]
fn a_migration_under_way_is_left_alone() {
    let mut world = World::new(true);
    world.server(130, 2);
    world.holds(130, &[1, 2]);
    world.migration(7, 130, "resize", "finished");
    world.holds(7, &[1]);
    assert_eq!(world.left(), BTreeMap::from([(Reason::Busy, vec![130, 7])]));
}

/// A list of servers does not name migrations.
#[test]
fn a_consumer_that_may_be_a_migration_is_left_alone() {
    let mut world = World::new(false);
    world.server(130, 2).state = State::Busy("VERIFY_RESIZE".to_owned());
    world.holds(130, &[2]);
    world.holds(7, &[1]);
    let expected = [(Reason::Busy, vec![130]), (Reason::MaybeMigration, vec![7])];
    assert_eq!(world.left(), BTreeMap::from(expected));
    // A type says that it is none.
    world.special.insert(id(7), (Some("INSTANCE"), LONG_AGO));
    assert_eq!(world.only(), (Kind::Orphan, removes(7)));
}

#[test]
fn a_migration_that_was_not_reverted() {
    let mut world = World::new(true);
    world.server(130, 1);
    world.migration(7, 130, "migration", "error");
    world.holds(7, &[1]);
    let swap = |kind: Kind| (kind, Ok(vec![(130, vec![1]), (7, vec![])]));
    assert_eq!(world.only(), swap(Kind::UnrevertedMigration));
    world.holds(130, &[2]);
    assert_eq!(world.only(), swap(Kind::UnrevertedMigration));
}

#[test]
fn several_hosts_are_held_after_a_move() {
    for (kind, status, expected) in [
        ("evacuation", "done", Kind::LeftByEvacuation),
        ("resize", "confirmed", Kind::LeftByResize),
        ("migration", "confirmed", Kind::LeftByResize),
        ("live-migration", "completed", Kind::LeftByLiveMigration),
    ] {
        let mut world = World::new(true);
        world.server(130, 2);
        world.holds(130, &[1, 2]);
        assert_eq!(world.only(), (Kind::SeveralHosts, Ok(vec![(130, vec![2])])));
        world.migration(7, 130, kind, status);
        assert_eq!(world.only(), (expected, Ok(vec![(130, vec![2])])));
    }
    let mut world = World::new(false);
    world.server(130, 2);
    world.holds(130, &[1, CHILD, 2]);
    assert_eq!(world.only(), (Kind::SeveralHosts, Ok(vec![(130, vec![2])])));
    world.server(130, 2).failed = true;
    assert!(world.only().1.unwrap_err().contains("the server has failed"));
}

#[test]
fn a_server_that_holds_only_another_host() {
    let mut world = World::new(false);
    world.server(130, 2);
    world.holds(130, &[1]);
    let (kind, remedy) = world.only();
    assert_eq!(kind, Kind::WrongHost);
    assert!(remedy.unwrap_err().contains("nova is wrong"));
}

#[test]
fn a_server_without_a_host() {
    let mut world = World::new(false);
    world.server(130, 2).place = Place::Nowhere;
    assert_eq!(world.left(), BTreeMap::new());
    world.holds(130, &[1]);
    assert_eq!(world.only(), (Kind::WithoutHost, removes(130)));
}

#[test]
fn a_server_that_holds_nothing() {
    let mut world = World::new(false);
    world.server(130, 2);
    assert_eq!(world.only(), (Kind::NoAllocations, Ok(vec![(130, vec![2])])));
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
    let mut world = World::new(false);
    world.server(130, 2);
    let amounts = world.holds(130, &[2]).allocations.get_mut(&id(2)).unwrap();
    amounts.insert("VCPU".to_owned(), 4);
    assert_eq!(world.only(), (Kind::WrongAmounts, Ok(vec![(130, vec![2])])));
    let amounts = world.consumers.get_mut(&id(130)).unwrap();
    let amounts = amounts.allocations.get_mut(&id(2)).unwrap();
    amounts.insert("CUSTOM_LICENCE".to_owned(), 1);
    assert!(world.only().1.unwrap_err().contains("more than its flavor decides"));
}

#[test]
fn allocations_of_another_project() {
    let mut world = World::new(false);
    world.cloud.servers.get_mut(&id(105)).unwrap().project = Some("q".to_owned());
    let outcome = world.audit();
    let [finding] = outcome.findings.as_slice() else { panic!("{outcome:#?}") };
    assert_eq!((finding.kind, finding.subject), (Kind::WrongOwner, id(105)));
    assert_eq!(finding.evidence, "project p instead of q");
    let Remedy::Change(changes) = &finding.remedy else { panic!("{finding:?}") };
    assert_eq!(changes[0].after.project_id.as_deref(), Some("q"));
    assert_eq!(changes[0].after.allocations, changes[0].before.allocations);
}

#[test]
fn hosts_and_their_providers() {
    let mut world = World::new(true);
    world.server(130, 2).place = Place::Lost("compute-9".to_owned());
    assert_eq!(world.only().0, Kind::HostWithoutNode);
    let with = |change: &dyn Fn(&mut FromDatabase)| {
        let mut world = World::new(true);
        world.cloud.servers.clear();
        world.consumers.clear();
        change(world.database());
        world
    };
    let gone = with(&|it| drop(it.nodes.remove(&id(3))));
    assert_eq!(gone.only().0, Kind::ProviderWithoutNode);
    let without_service = with(&|it| it.nodes.get_mut(&id(3)).unwrap().has_service = false);
    assert_eq!(without_service.only().0, Kind::NodeWithoutService);
    let replaced = with(&|it| {
        let node = it.nodes.remove(&id(3)).unwrap();
        it.nodes.insert(id(33), node);
    });
    assert_eq!(replaced.only().0, Kind::ProviderOfReplacedNode);
    let without_provider = with(&|it| {
        let node = Node { name: "new".to_owned(), ..it.nodes[&id(3)].clone() };
        it.nodes.insert(id(33), node);
    });
    assert_eq!(without_provider.only().0, Kind::NodeWithoutProvider);
}

#[test]
fn only_an_empty_provider_of_a_deleted_node_is_deleted_and_only_if_told() {
    let mut world = World::new(true);
    world.cloud.servers.clear();
    world.consumers.clear();
    world.database().nodes.get_mut(&id(3)).unwrap().deleted = true;
    assert!(world.only().1.is_err());
    world.rules.delete_providers = true;
    assert_eq!(world.only(), (Kind::ProviderWithoutNode, removes(3)));
    world.holds(7, &[3]);
    world.special.insert(id(7), (Some("OTHER"), LONG_AGO));
    assert!(world.only().1.is_err());
}

#[test]
fn a_list_that_cannot_be_the_right_one_is_refused() {
    let refusal = |world: &World, most| {
        guard::check(&world.placement(), &world.cloud, &world.audit(), most).unwrap_err()
    };
    let mut world = World::new(false);
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

/// Whatever else there is may be too young to be an orphan, or of another type.
#[test]
fn servers_of_which_none_holds_anything_are_refused_without_orphans_as_well() {
    let check =
        |world: &World, most| guard::check(&world.placement(), &world.cloud, &world.audit(), most);
    let mut world = World::new(false);
    world.consumers.clear();
    let why = check(&world, None).unwrap_err();
    assert!(
        why.starts_with("not one of the 20 servers") && why.contains("--max-orphans 0"),
        "{why}"
    );
    assert_eq!(check(&world, Some(0)), Ok(()));
    // Nobody expects anything of these.
    world.cloud.servers.values_mut().for_each(|server| server.place = Place::Nowhere);
    assert_eq!(check(&world, None), Ok(()));
    world.cloud.servers.clear();
    assert_eq!(check(&world, None), Ok(()));
}
