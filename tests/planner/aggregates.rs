//! Metadata of host aggregates, and flavors that demand some.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::site::Site;
use crate::stack::{create, flavored, host, plan};

const SSD: Uuid = Uuid::from_u128(0x0a66_0000_0000_4000_8000_0000_0000_0001);
const FAST: Uuid = Uuid::from_u128(0x0a66_0000_0000_4000_8000_0000_0000_0002);

async fn aggregate(site: &Site, arguments: &[&str]) -> Result<String, String> {
    site.command("aggregate", arguments).await
}

async fn flavor(site: &Site, name: &str, specs: &[(&str, &str)]) -> Result<String, String> {
    let mut arguments = vec!["set", name, "--vcpus", "1", "--ram", "1"];
    let specs: Vec<String> = specs
        .iter()
        .map(|(key, value)| format!("aggregate_instance_extra_specs:{key}={value}"))
        .collect();
    arguments.extend(specs.iter().flat_map(|spec| ["--property", spec.as_str()]));
    site.command("flavor", &arguments).await
}

/// Three hosts: one without aggregates, one in the first, one in both.
async fn hosts(site: &Site) {
    let ids = site.racks(1, 3, [8, 999, 99]).await;
    for (id, aggregates) in ids.iter().zip([json!([]), json!([SSD]), json!([SSD, FAST])]) {
        let path = format!("/resource_providers/{id}/aggregates");
        let seen = site.placement().get(&path).await.expect(200).json();
        let generation = &seen["resource_provider_generation"];
        let body = json!({"aggregates": aggregates, "resource_provider_generation": generation});
        site.placement().put(&path, body).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r70_a_flavor_demands_metadata_of_aggregates() {
    let site = Site::new().await;
    hosts(&site).await;
    let (ssd, fast) = (SSD.to_string(), FAST.to_string());
    aggregate(&site, &["set", &ssd, "ssd=true", "iops=500", "zone=a,b"]).await.unwrap();
    aggregate(&site, &["set", &fast, "iops=9000", "cpu=avx avx2"]).await.unwrap();
    let tenant = site.tenant("p");
    for (nth, (specs, expected)) in [
        (&[("ssd", "true")][..], Some(&["r01h02", "r01h03"][..])),
        (&[("ssd", "false")], None),
        (&[("iops", "= 501")], Some(&["r01h03"])),
        (&[("iops", "<= 500"), ("ssd", "s== true")], Some(&["r01h02", "r01h03"])),
        // The aggregates of a host count together.
        (&[("cpu", "<all-in> avx avx2"), ("ssd", "true")], Some(&["r01h03"])),
        (&[("zone", "<or> c <or> b")], Some(&["r01h02", "r01h03"])),
        (&[("unknown", "x")], None),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("f{nth}");
        flavor(&site, &name, specs).await.unwrap();
        let body = plan(&name, json!({"a": flavored("a", &name)}));
        let answer = tenant.post("/v1/plans", body).await;
        if let Some(hosts) = expected {
            let made = answer.expect(201).json();
            assert!(hosts.contains(&host(&made, "a").as_str()), "{specs:?} {made}");
        } else {
            let why = answer.explanation(409);
            assert!(why.contains("not in aggregates with the metadata"), "{specs:?} {why}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r70_metadata_count_as_they_are_when_hosts_are_chosen() {
    let site = Site::new().await;
    hosts(&site).await;
    let ssd = SSD.to_string();
    flavor(&site, "quick", &[("ssd", "true")]).await.unwrap();
    let tenant = site.tenant("p");
    let body = plan("s", json!({"a": flavored("a", "quick")}));
    tenant.post("/v1/plans", body).await.explanation(409);
    aggregate(&site, &["set", &ssd, "ssd=true"]).await.unwrap();
    let made = create(&tenant, "s", json!({"a": flavored("a", "quick")})).await;
    aggregate(&site, &["unset", &ssd]).await.unwrap();
    // The server stays; a new one has no host any more.
    assert_eq!(create(&tenant, "s", json!({"a": flavored("a", "quick")})).await, made);
    let more = json!({"a": flavored("a", "quick"), "b": flavored("b", "quick")});
    let update = json!({"action": "update", "resources": more});
    tenant.put("/v1/plans/s", update).await.explanation(409);
}

#[tokio::test(flavor = "multi_thread")]
async fn r70_metadata_are_managed_by_commands() {
    let site = Site::new().await;
    let ssd = SSD.to_string();
    assert_eq!(aggregate(&site, &["set", &ssd, "a=1", "b=x=y"]).await, Ok(String::new()));
    aggregate(&site, &["set", &ssd, "a=2"]).await.unwrap();
    let listed = aggregate(&site, &["list", "--format", "json"]).await.unwrap();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed, json!([{"uuid": ssd, "metadata": {"a": "2", "b": "x=y"}}]));
    let table = aggregate(&site, &["list"]).await.unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
    let why = aggregate(&site, &["unset", &ssd, "a", "c"]).await.unwrap_err();
    assert!(why.contains("has no metadata c"), "{why}");
    aggregate(&site, &["unset", &ssd, "a"]).await.unwrap();
    aggregate(&site, &["unset", &ssd]).await.unwrap();
    assert_eq!(aggregate(&site, &["list", "--format", "json"]).await.unwrap().trim(), "[]");
    for (arguments, words) in [
        (&["set", "ssd", "a=1"][..], "AGGREGATE"),
        (&["set", &ssd], "KEY=VALUE"),
        (&["set", &ssd, "a"], "NAME=VALUE"),
        (&["set", &ssd, "=1"], "a key is empty"),
    ] {
        let why = aggregate(&site, arguments).await.unwrap_err();
        assert!(why.to_lowercase().contains(&words.to_lowercase()), "{arguments:?}: {why}");
    }
    let why = flavor(&site, "bad", &[("iops", "= many")]).await.unwrap_err();
    assert!(why.contains("is not a number"), "{why}");
}
