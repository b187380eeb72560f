//! A planned server can express everything that a query for allocation candidates can: numbered groups, aggregates,
//! trees, subtrees, and one of several traits.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::Site;
use crate::stack::{create, host, plan};
use crate::trees::{join, provider, used};

/// One server with these properties.
#[expect(clippy::needless_pass_by_value, reason = "the properties are made where they are named")]
fn only(properties: Value) -> Value {
    json!({"it": {"type": "OS::Nova::Server", "name": "it", "properties": properties}})
}

/// Creates a host with processors, and network cards with these numbers of virtual functions.
async fn host_of_cards(site: &Site, name: &str, cards: &[i64]) -> Vec<Uuid> {
    let cpus = json!({"VCPU": {"total": 16}, "MEMORY_MB": {"total": 4096}});
    let root = provider(site, name, None, cpus, &[]).await;
    let mut ids = vec![root];
    for (nth, total) in cards.iter().enumerate() {
        let functions = json!({"SRIOV_NET_VF": {"total": total}});
        let card = format!("{name}-card-{nth}");
        ids.push(provider(site, &card, Some(root), functions, &[]).await);
    }
    ids
}

/// Two groups of one virtual function each.
fn two_functions(policy: &str) -> Value {
    json!({
        "resources": {"VCPU": 1},
        "numbered_groups": {
            "1": {"resources": {"SRIOV_NET_VF": 1}},
            "_B": {"resources": {"SRIOV_NET_VF": 1}},
        },
        "group_policy": policy,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn numbered_groups_may_have_one_provider_or_must_have_several() {
    let site = Site::new().await;
    let one = host_of_cards(&site, "one", &[4]).await;
    let two = host_of_cards(&site, "two", &[1, 1]).await;
    let admin = site.admin();
    let made = create(&admin, "apart", only(two_functions("isolate"))).await;
    assert_eq!(host(&made, "it"), "two");
    for card in &two[1..] {
        assert_eq!(used(&site, *card, "SRIOV_NET_VF").await, 1);
    }
    let made = create(&admin, "any", only(two_functions("none"))).await;
    assert_eq!(host(&made, "it"), "one");
    assert_eq!(used(&site, one[1], "SRIOV_NET_VF").await, 2);
    let full = admin.post("/v1/plans", plan("more", only(two_functions("isolate")))).await;
    assert!(full.explanation(409).starts_with("Ostro error: "), "{}", full.text());
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_providers_of_groups_can_be_in_one_subtree() {
    let site = Site::new().await;
    let memory = json!({"MEMORY_MB": {"total": 4096}});
    let root = provider(&site, "host", None, memory, &[]).await;
    let mut cards = Vec::new();
    for (nth, cpus) in [2, 8].into_iter().enumerate() {
        let inventory = json!({"VCPU": {"total": cpus}});
        let node = provider(&site, &format!("node-{nth}"), Some(root), inventory, &[]).await;
        let functions = json!({"SRIOV_NET_VF": {"total": 4}});
        cards.push(provider(&site, &format!("card-{nth}"), Some(node), functions, &[]).await);
    }
    let admin = site.admin();
    let near = json!({
        "numbered_groups": {
            "_CPU": {"resources": {"VCPU": 4}},
            "_NET": {"resources": {"SRIOV_NET_VF": 1}},
        },
        "group_policy": "none",
        "same_subtree": [["_CPU", "_NET"]],
    });
    for stack in ["s", "t"] {
        create(&admin, stack, only(near.clone())).await;
    }
    assert_eq!(used(&site, cards[0], "SRIOV_NET_VF").await, 0, "it is below another node");
    assert_eq!(used(&site, cards[1], "SRIOV_NET_VF").await, 2);
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aggregates_trees_and_traits_choose_the_host() {
    let site = Site::new().await;
    let cpus = || json!({"VCPU": {"total": 8}});
    let a = provider(&site, "a", None, cpus(), &["HW_CPU_X86_AVX"]).await;
    let b = provider(&site, "b", None, cpus(), &["HW_CPU_X86_AVX2"]).await;
    provider(&site, "c", None, cpus(), &[]).await;
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    join(&site, a, first).await;
    join(&site, b, second).await;
    let admin = site.admin();
    let either = "in:HW_CPU_X86_AVX,HW_CPU_X86_AVX2";
    for (stack, demands, expected) in [
        ("in-first", json!({"member_of": [first]}), "a"),
        ("in-second", json!({"member_of": format!("in:{second},{}", Uuid::new_v4())}), "b"),
        ("in-none", json!({"member_of": [format!("!{first}"), format!("!in:{second}")]}), "c"),
        ("in-tree", json!({"in_tree": b}), "b"),
        ("either", json!({"required": [either], "member_of": [format!("!{first}")]}), "b"),
    ] {
        let mut properties = demands;
        properties["resources"] = json!({"VCPU": 1});
        let made = create(&admin, stack, only(properties)).await;
        assert_eq!(host(&made, "it"), expected, "{stack}");
    }
    let nowhere = json!({"resources": {"VCPU": 1}, "member_of": [Uuid::new_v4()]});
    let refused = admin.post("/v1/plans", plan("nowhere", only(nowhere))).await;
    assert!(refused.explanation(409).contains("member_of=in:"), "{}", refused.text());
    let other = json!({"resources": {"VCPU": 1}, "member_of": [second]});
    let changed = admin.post("/v1/plans", plan("in-first", only(other))).await;
    assert!(changed.explanation(409).contains("asks for member_of=in:"), "{}", changed.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn flavors_have_numbered_groups() {
    let site = Site::new().await;
    host_of_cards(&site, "one", &[4]).await;
    host_of_cards(&site, "two", &[1, 1]).await;
    let properties =
        ["resources1:SRIOV_NET_VF=1", "resources2:SRIOV_NET_VF=1", "group_policy=isolate"];
    let mut arguments = vec!["set", "net", "--vcpus", "1", "--ram", "64"];
    arguments.extend(properties.iter().flat_map(|it| ["--property", *it]));
    site.command("flavor", &arguments).await.unwrap();
    let made = create(&site.admin(), "s", only(json!({"flavor": "net"}))).await;
    assert_eq!(host(&made, "it"), "two");
    let third = json!({"flavor": "net", "numbered_groups": {"1": {"resources": {"VCPU": 1}}}});
    let twice = site.admin().post("/v1/plans", plan("t", only(third))).await;
    assert!(twice.explanation(400).contains("the group '1' is in both the flavor and the server"));
}

/// One consumer may have 2 of a card: two groups of 2 need two cards, although one has room for both.
#[tokio::test(flavor = "multi_thread")]
async fn groups_of_one_provider_stay_within_its_max_unit() {
    let site = Site::new().await;
    let root = provider(&site, "host", None, json!({"VCPU": {"total": 8}}), &[]).await;
    let functions = || json!({"SRIOV_NET_VF": {"total": 8, "max_unit": 2}});
    let one = provider(&site, "card-1", Some(root), functions(), &[]).await;
    let admin = site.admin();
    let both = json!({
        "resources": {"VCPU": 1},
        "numbered_groups": {
            "1": {"resources": {"SRIOV_NET_VF": 2}},
            "2": {"resources": {"SRIOV_NET_VF": 2}},
        },
        "group_policy": "none",
    });
    admin.post("/v1/plans", plan("s", only(both.clone()))).await.expect(409);
    let two = provider(&site, "card-2", Some(root), functions(), &[]).await;
    create(&admin, "s", only(both)).await;
    for card in [one, two] {
        assert_eq!(used(&site, card, "SRIOV_NET_VF").await, 2);
    }
    site.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn demands_that_make_no_sense_are_refused() {
    let site = Site::new().await;
    let admin = site.admin();
    let group = || json!({"resources": {"SRIOV_NET_VF": 1}});
    for (properties, words) in [
        (json!({"numbered_groups": {"1": group(), "2": group()}}), "group_policy"),
        (json!({"numbered_groups": {}}), "has neither flavor nor resources"),
        (
            json!({"resources": {"VCPU": 1}, "numbered_groups": {"a b": group()}}),
            "not a valid suffix of a group",
        ),
        (json!({"resources": {"VCPU": 1}, "in_tree": "host"}), "in_tree: 'host' is not a UUID"),
        (json!({"resources": {"VCPU": 1}, "member_of": ["in:"]}), "'' is not a UUID"),
        (json!({"resources": {"VCPU": 1}, "same_subtree": [["_A"]]}), "unknown group '_A'"),
        (
            json!({"numbered_groups": {"1": group()}, "required": ["HW_NUMA_ROOT"]}),
            "outside of numbered",
        ),
    ] {
        let answer = admin.post("/v1/plans", plan("s", only(properties))).await;
        let why = answer.explanation(400);
        assert!(why.contains(words), "{why}");
    }
}
