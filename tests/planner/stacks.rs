//! Whole stacks on a small site: the requests of orchestrators' templates and the first engine's own fixtures, and
//! whether they fit. The rules of groups are checked literally on the responses, within a stack and, for stored
//! groups, across all stacks.
//!
//! The site is that of the first engine's tests: two racks of two hosts with eight slots each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::site::Site;

/// The size of a host, and of a server: an eighth.
const HOST: [i64; 3] = [16, 16_000, 1_000];
const SERVER: [i64; 3] = [2, 2_000, 20];

/// A group of a stack: its id, its rule, its level, its members (servers, and groups by their
/// ids), and the name under which it is stored.
#[derive(Clone, Debug)]
struct Group {
    id: &'static str,
    kind: &'static str,
    level: &'static str,
    members: Vec<&'static str>,
    stored: Option<&'static str>,
}

/// A stack, and the status of the answer.
#[derive(Clone, Debug)]
struct Stack {
    servers: Vec<&'static str>,
    groups: Vec<Group>,
    status: u16,
}

fn words(text: &'static str) -> Vec<&'static str> {
    text.split_whitespace().collect()
}

/// A group of one stack. `asks` is its kind and its level.
fn group(id: &'static str, asks: &'static str, members: &'static str) -> Group {
    let asks = words(asks);
    Group { id, kind: asks[0], level: asks[1], members: words(members), stored: None }
}

/// A stored group.
fn stored(name: &'static str, asks: &'static str, members: &'static str) -> Group {
    Group { stored: Some(name), ..group(name, asks, members) }
}

fn stack(servers: &'static str, groups: impl IntoIterator<Item = Group>, status: u16) -> Stack {
    Stack { servers: words(servers), groups: groups.into_iter().collect(), status }
}

/// A stack that fits.
fn fits(servers: &'static str, groups: impl IntoIterator<Item = Group>) -> Stack {
    stack(servers, groups, 201)
}

/// A stack that there is no room for.
fn fails(servers: &'static str, groups: impl IntoIterator<Item = Group>) -> Stack {
    stack(servers, groups, 409)
}

const TWO: &str = "a b";
const THREE: &str = "a b c";
const FOUR: &str = "a b c d";
const FIVE: &str = "a b c d e";
const SIX: &str = "a b c d e f";
const EIGHT: &str = "a b c d e f g h";
const NINE: &str = "a b c d e f g h i";

/// Where the servers of the stacks are that have been made, by stack.
type Placed = BTreeMap<usize, BTreeMap<String, String>>;

/// Makes the stacks one after the other, checks every rule after each, and takes all away again.
async fn play(site: &Site, name: &str, stacks: &[Stack]) {
    let admin = site.admin_of(PROJECT);
    for group in stacks.iter().flat_map(|stack| &stack.groups) {
        store(site, group).await;
    }
    let mut placed = Placed::new();
    for (nth, stack) in stacks.iter().enumerate() {
        let body = body(nth, stack);
        let answer = admin.post("/v1/plans", body).await;
        assert_eq!(answer.status, stack.status, "{name}: stack {nth}: {}", answer.text());
        if stack.status != 201 {
            let why = answer.explanation(stack.status);
            assert!(!why.is_empty(), "{name}: stack {nth}");
            continue;
        }
        let view = answer.json()["placements"].as_object().unwrap().clone();
        let place = |(id, it): (&String, &Value)| {
            (id.clone(), it["location"].as_str().unwrap_or_default().to_owned())
        };
        placed.insert(nth, view.iter().map(place).collect());
        let servers: BTreeSet<&str> = stack.servers.iter().copied().collect();
        assert_eq!(servers, placed[&nth].keys().map(String::as_str).collect(), "{name}");
        check(name, stacks, &placed);
    }
    for nth in placed.keys() {
        admin.delete(&format!("/v1/plans/stack-{nth}")).await.expect(204);
    }
    let usages = site.placement().get(&format!("/usages?project_id={PROJECT}")).await.json();
    assert_eq!(usages, json!({"usages": {}}), "{name}");
    let kept = site.placement().get("/resource_providers?required=CUSTOM_VALET_EXCLUSIVE").await;
    if kept.status == 200 {
        assert_eq!(kept.json()["resource_providers"], json!([]), "{name}");
    }
}

const PROJECT: &str = "8eea4e1d9ae14bb9bcd0fa4a6d0a6b2c";

/// Stores a group if it is to be and is not yet.
async fn store(site: &Site, group: &Group) {
    let (Some(name), admin) = (group.stored, site.admin_of(PROJECT)) else { return };
    if admin.get(&format!("/v1/groups/{name}")).await.status == 200 {
        return;
    }
    let body = json!({"name": name, "type": group.kind, "level": group.level});
    admin.post("/v1/groups", body).await.expect(201);
    let members = json!({"members": [PROJECT]});
    admin.put(&format!("/v1/groups/{name}/members"), members).await.expect(201);
}

fn body(nth: usize, stack: &Stack) -> Value {
    let [vcpu, memory_mb, disk_gb] = SERVER;
    let size = json!({"VCPU": vcpu, "MEMORY_MB": memory_mb, "DISK_GB": disk_gb});
    let server = |name: &&str| {
        let server = json!({
            "type": "OS::Nova::Server", "name": name, "properties": {"resources": size},
        });
        ((*name).to_owned(), server)
    };
    let group = |group: &Group| {
        let mut properties =
            json!({"group_type": group.kind, "level": group.level, "resources": group.members});
        if let Some(name) = group.stored {
            properties["group_name"] = json!(name);
        }
        let group_type = "ATT::Valet::GroupAssignment";
        (group.id.to_owned(), json!({"type": group_type, "properties": properties}))
    };
    let servers = stack.servers.iter().map(server);
    let resources: serde_json::Map<String, Value> =
        servers.chain(stack.groups.iter().map(group)).collect();
    let id = format!("stack-{nth}");
    json!({"plan_name": id, "stack_id": id, "resources": resources})
}

/// Fails if a group of a stack violates its rule.
fn check(name: &str, stacks: &[Stack], placed: &Placed) {
    for (nth, places) in placed {
        for group in &stacks[*nth].groups {
            let parts = group.members.iter().map(|it| below(&stacks[*nth], it));
            let mut parts: Vec<BTreeSet<String>> =
                parts.map(|part| part.iter().map(|it| places[*it].clone()).collect()).collect();
            if let Some(stored) = group.stored {
                parts.extend(elsewhere(stacks, placed, *nth, stored));
            }
            let context = format!("{name}: stack {nth}: {group:?}: {placed:?}");
            hold(group, &parts, &context, placed, stacks);
        }
    }
}

/// The servers of a member: itself, or those of the group that it is.
fn below(stack: &Stack, member: &'static str) -> Vec<&'static str> {
    match stack.groups.iter().find(|group| group.id == member) {
        Some(group) => group.members.iter().flat_map(|it| below(stack, it)).collect(),
        None => vec![member],
    }
}

/// Returns the hosts of each server of other stacks that is in a stored group.
fn elsewhere(stacks: &[Stack], placed: &Placed, but: usize, stored: &str) -> Vec<BTreeSet<String>> {
    let others = placed.iter().filter(|(nth, _)| **nth != but);
    let mut found = Vec::new();
    for (nth, places) in others {
        for group in stacks[*nth].groups.iter().filter(|it| it.stored == Some(stored)) {
            let servers = group.members.iter().flat_map(|it| below(&stacks[*nth], it));
            found.extend(servers.map(|it| BTreeSet::from([places[it].clone()])));
        }
    }
    found
}

/// Fails unless the places of a group's members, part by part, follow its rule.
fn hold(
    group: &Group,
    parts: &[BTreeSet<String>],
    context: &str,
    placed: &Placed,
    stacks: &[Stack],
) {
    let unit = |host: &String| match group.level {
        "rack" => host[..3].to_owned(),
        _ => host.clone(),
    };
    let units: Vec<BTreeSet<String>> =
        parts.iter().map(|part| part.iter().map(unit).collect()).collect();
    let all: BTreeSet<String> = units.iter().flatten().cloned().collect();
    match group.kind {
        "affinity" => assert_eq!(all.len(), 1, "{context}"),
        "diversity" => {
            let sum: usize = units.iter().map(BTreeSet::len).sum();
            assert_eq!(sum, all.len(), "{context}");
        }
        _ => {
            for (nth, places) in placed {
                let members: BTreeSet<&str> = stacks[*nth]
                    .groups
                    .iter()
                    .filter(|it| it.stored == group.stored)
                    .flat_map(|it| it.members.iter().flat_map(|it| below(&stacks[*nth], it)))
                    .collect();
                let strangers = places.iter().filter(|(it, _)| !members.contains(it.as_str()));
                for (stranger, host) in strangers {
                    assert!(!all.contains(&unit(host)), "{stranger}: {context}");
                }
            }
        }
    }
}

async fn site() -> Site {
    let site = Site::new().await;
    site.racks(2, 2, HOST).await;
    site
}

/// The fixtures of the first engine, with the outcome that is right.
#[tokio::test(flavor = "multi_thread")]
async fn stacks_of_the_first_engine() {
    let site = site().await;
    let pairs = || [group("p", "affinity host", "a b"), group("q", "affinity host", "c d")];
    let cases: Vec<(&str, Vec<Stack>)> = vec![
        ("three that nothing binds", vec![fits(THREE, [])]),
        ("host affinity of 8", vec![fits(EIGHT, [group("x", "affinity host", EIGHT)])]),
        ("host affinity of 9", vec![fails(NINE, [group("x", "affinity host", NINE)])]),
        ("host diversity of 4", vec![fits(FOUR, [group("x", "diversity host", FOUR)])]),
        ("host diversity of 5", vec![fails(FIVE, [group("x", "diversity host", FIVE)])]),
        ("rack diversity of 2", vec![fits(TWO, [group("x", "diversity rack", TWO)])]),
        ("rack diversity of 3", vec![fails(THREE, [group("x", "diversity rack", THREE)])]),
        (
            "rack diversity of two host-affinity pairs",
            vec![fits(FOUR, pairs().into_iter().chain([group("x", "diversity rack", "p q")]))],
        ),
        (
            "rack affinity over host diversity of 2",
            vec![fits(TWO, [group("d", "diversity host", TWO), group("x", "affinity rack", "d")])],
        ),
        (
            "rack affinity over host diversity of 3",
            vec![fails(
                THREE,
                [group("d", "diversity host", THREE), group("x", "affinity rack", "d")],
            )],
        ),
        (
            "host affinity of 3 inside of rack affinity of 6",
            vec![fits(
                SIX,
                [group("x", "affinity host", "a b c"), group("y", "affinity rack", SIX)],
            )],
        ),
        (
            "overlapping affinity",
            vec![fits(
                THREE,
                [group("x", "affinity host", "a b"), group("y", "affinity host", "b c")],
            )],
        ),
        (
            "the inner level is higher",
            vec![stack(
                TWO,
                [group("d", "diversity rack", TWO), group("x", "affinity host", "d")],
                400,
            )],
        ),
        (
            "a group inside of itself",
            vec![stack(
                TWO,
                [group("x", "affinity host", "a y"), group("y", "affinity host", "b x")],
                400,
            )],
        ),
        ("a reference to nothing", vec![stack("a", [group("x", "affinity host", "a z")], 400)]),
    ];
    for (name, stacks) in cases {
        play(&site, name, &stacks).await;
    }
}

/// Exclusivity as in the first engine's fixtures; the cases that it admitted by mistake are refused.
#[tokio::test(flavor = "multi_thread")]
async fn stacks_with_units_of_their_own() {
    let site = site().await;
    let ex = |name| stored(name, "exclusivity host", "a");
    let rack = |name| stored(name, "exclusivity rack", "a");
    let cases: Vec<(&str, Vec<Stack>)> = vec![
        (
            "four groups and an ordinary server on four hosts; a group again has its host",
            vec![
                fits("a", [ex("e1")]),
                fits("a", [ex("e2")]),
                fits("a", [ex("e3")]),
                fits("o", []),
                fails("a", [ex("e4")]),
                fits("a", [ex("e1")]),
            ],
        ),
        (
            "rack exclusivity when both racks are in use",
            vec![fits(TWO, [group("x", "diversity rack", TWO)]), fails("a", [rack("r1")])],
        ),
        (
            "others stay out of a rack",
            vec![
                fits("a", [rack("r1")]),
                fits("o p", [group("x", "diversity host", "o p")]),
                fails("o p q", [group("x", "diversity host", "o p q")]),
                fits("a", [rack("r1")]),
                fails("a", [rack("r2")]),
            ],
        ),
        (
            "ten spill to a second host",
            vec![fits(
                "a b c d e f g h i j",
                [stored("e1", "exclusivity host", "a b c d e f g h i j")],
            )],
        ),
        (
            "exclusivity in exclusivity of one level, of different groups",
            vec![stack(
                TWO,
                [stored("e1", "exclusivity host", "a"), stored("e2", "exclusivity host", "a b")],
                400,
            )],
        ),
        (
            "diversity in exclusivity",
            vec![fits(
                TWO,
                [group("d", "diversity host", TWO), stored("e1", "exclusivity host", "d")],
            )],
        ),
        (
            "exclusivity in diversity",
            vec![fits(
                THREE,
                [stored("e1", "exclusivity host", TWO), group("d", "diversity host", "e1 c")],
            )],
        ),
        (
            "diversity in diversity",
            vec![fits(
                THREE,
                [group("d", "diversity host", TWO), group("x", "diversity rack", "a c")],
            )],
        ),
    ];
    for (name, stacks) in cases {
        play(&site, name, &stacks).await;
    }
}

/// Stored groups hold across stacks: nested stacks are plans of their own.
#[tokio::test(flavor = "multi_thread")]
async fn stacks_that_share_groups() {
    let site = site().await;
    let near = |members| stored("near", "affinity host", members);
    let close = |members| stored("close", "affinity rack", members);
    let far = |members| stored("far", "diversity host", members);
    let apart = |members| stored("apart", "diversity rack", members);
    let own = |members| stored("own", "exclusivity host", members);
    let cases: Vec<(&str, Vec<Stack>)> = vec![
        ("affinity, one in each", vec![fits("a", [near("a")]), fits("b", [near("b")])]),
        (
            "affinity, until the host is full",
            vec![fits(EIGHT, [near(EIGHT)]), fails("i", [near("i")])],
        ),
        (
            "affinity of a rack",
            vec![fits(NINE, [close(NINE)]), fits("j", [close("j")]), fits("k", [close("k")])],
        ),
        (
            "diversity, one in each of five",
            vec![
                fits("a", [far("a")]),
                fits("b", [far("b")]),
                fits("c d", [far("c d")]),
                fails("e", [far("e")]),
            ],
        ),
        (
            "diversity of racks",
            vec![fits("a", [apart("a")]), fits("b", [apart("b")]), fails("c", [apart("c")])],
        ),
        (
            "exclusivity, one in each",
            vec![fits("a", [own("a")]), fits("o", []), fits("b", [own("b")])],
        ),
        (
            "affinity and exclusivity of the same servers",
            vec![fits(TWO, [near(TWO), own(TWO)]), fits("c", [near("c"), own("c")])],
        ),
        (
            "diversity and exclusivity of the same servers",
            vec![fits(TWO, [far(TWO), own(TWO)]), fits("c", [far("c"), own("c")])],
        ),
    ];
    for (name, stacks) in cases {
        play(&site, name, &stacks).await;
    }
}

/// The templates that orchestrators were tested with.
#[tokio::test(flavor = "multi_thread")]
async fn stacks_of_templates() {
    let site = site().await;
    let own = |members| stored("own", "exclusivity host", members);
    let row = |members| stored("row", "exclusivity rack", members);
    let pair = |id, asks, members| group(id, asks, members);
    let cases: Vec<(&str, Stack)> = vec![
        ("affinity of 2", fits(TWO, [pair("x", "affinity host", TWO)])),
        ("affinity of 3", fits(THREE, [pair("x", "affinity host", THREE)])),
        ("diversity of 2", fits(TWO, [pair("x", "diversity host", TWO)])),
        ("diversity of 3", fits(THREE, [pair("x", "diversity host", THREE)])),
        ("exclusivity of 2", fits(TWO, [own(TWO)])),
        (
            "diversity between 2 affinities",
            fits(
                FOUR,
                [
                    pair("p", "affinity host", "a b"),
                    pair("q", "affinity host", "c d"),
                    pair("x", "diversity host", "p q"),
                ],
            ),
        ),
        (
            "affinity of 6 in 2 groups",
            fits(SIX, [pair("x", "affinity host", "a b c"), pair("y", "affinity host", "d e f")]),
        ),
        (
            "affinity and diversity of the same pair",
            fails(TWO, [pair("x", "affinity host", TWO), pair("y", "diversity host", TWO)]),
        ),
        ("rack affinity of 2", fits(TWO, [pair("x", "affinity rack", TWO)])),
        ("rack affinity of 5", fits(FIVE, [pair("x", "affinity rack", FIVE)])),
        ("rack diversity of 2", fits(TWO, [pair("x", "diversity rack", TWO)])),
        ("rack exclusivity of 2", fits(TWO, [row(TWO)])),
        ("exclusivity and diversity", fits(FOUR, [own("a b"), pair("x", "diversity host", "c d")])),
        (
            "exclusivity and 2 affinities",
            fits(
                SIX,
                [own("a b"), pair("x", "affinity host", "c d"), pair("y", "affinity host", "e f")],
            ),
        ),
        (
            "affinity and diversity",
            fits(FOUR, [pair("x", "affinity host", "a b"), pair("y", "diversity host", "c d")]),
        ),
        ("affinity and exclusivity", fits(TWO, [pair("x", "affinity host", TWO), own(TWO)])),
        (
            "exclusivity with a diverse and an affine server",
            fits(
                FOUR,
                [own("a b"), pair("x", "diversity host", "a c"), pair("y", "affinity rack", "b d")],
            ),
        ),
        (
            "diversity with an exclusive and an affine server",
            fits(
                FOUR,
                [pair("x", "diversity host", "a b"), own("a"), pair("y", "affinity host", "b c")],
            ),
        ),
    ];
    for (name, stack) in cases {
        play(&site, name, &[stack]).await;
    }
}

/// The same with rules of hosts and of racks at once.
#[tokio::test(flavor = "multi_thread")]
async fn stacks_of_templates_with_mixed_levels() {
    let site = site().await;
    let own = |members| stored("own", "exclusivity host", members);
    let row = |members| stored("row", "exclusivity rack", members);
    let near = |members| group("near", "affinity host", members);
    let far = |members| group("far", "diversity host", members);
    let close = |id, members| group(id, "affinity rack", members);
    let apart = |id, members| group(id, "diversity rack", members);
    let cases: Vec<(&str, Stack)> = vec![
        ("rack exclusivity, host diversity", fits(TWO, [row(TWO), far(TWO)])),
        ("rack exclusivity, host diversity of others", fits(FOUR, [row("a b"), far("c d")])),
        ("rack exclusivity, host affinity", fits(TWO, [row(TWO), near(TWO)])),
        ("rack exclusivity, host affinity of others", fits(FOUR, [row("a b"), near("c d")])),
        ("rack affinity, host diversity", fits(TWO, [close("x", TWO), far(TWO)])),
        ("rack affinity, host exclusivity", fits(TWO, [close("x", TWO), own(TWO)])),
        ("rack diversity, host affinity", fits(FOUR, [apart("x", "a c"), near("a b")])),
        ("rack diversity, host affinity of the same", fails(TWO, [apart("x", TWO), near(TWO)])),
        ("rack diversity, host exclusivity", fits(TWO, [apart("x", TWO), own(TWO)])),
        (
            "rack exclusivity, host diversity and affinity",
            fits(FOUR, [row(FOUR), far("a b"), near("c d")]),
        ),
        (
            "rack diversity, host diversity and affinity",
            fits(FOUR, [apart("x", "a b"), far("a c"), near("b d")]),
        ),
        ("rack affinity twice", fits(FOUR, [close("x", "a b"), close("y", "c d")])),
        ("rack diversity twice", fits(FOUR, [apart("x", "a b"), apart("y", "c d")])),
        (
            "rack exclusivity twice",
            fits(FOUR, [row("a b"), stored("aisle", "exclusivity rack", "c d")]),
        ),
        ("rack affinity and diversity", fits(FOUR, [close("x", "a b"), apart("y", "c d")])),
        ("rack affinity and exclusivity", fits(FOUR, [close("x", "a b"), row("c d")])),
        ("rack diversity and exclusivity", fails(FOUR, [apart("x", "a b"), row("c d")])),
        ("rack diversity and exclusivity of one", fits(THREE, [apart("x", "a b"), row("a")])),
    ];
    for (name, stack) in cases {
        play(&site, name, &[stack]).await;
    }
}
