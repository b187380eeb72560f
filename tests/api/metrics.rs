//! `/metrics`, `/metrics/cloud`, reloads, and what `deploy/` has for them.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use berth::http::Options;
use regex::Regex;
use serde_json::{Value, json};
use sqlx::Executor;
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::claim_body;
use crate::support::cluster::until;
use crate::support::postgres;
use crate::support::process::{Server, free_port, signal};
use crate::support::served::{PATIENCE, Served, converse, get, wide};

/// Runs promtool, which must be there.
fn promtool(arguments: &[&str], input: &str) {
    let spawned = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.unwrap_or_else(|why| {
        panic!("promtool: {why}; `tools/install promtool` installs it, of the package prometheus")
    });
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}: {words}");
}

fn deployed(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(path).display().to_string()
}

async fn scrape(served: &Served, path: &str) -> String {
    let stream = tokio::net::TcpStream::connect(served.admin_address()).await.unwrap();
    let answer = converse(stream, get(path).as_bytes()).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    if head.contains("transfer-encoding: chunked") { dechunked(body) } else { body.to_owned() }
}

fn dechunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        text.push_str(&rest[..size]);
        body = &rest[(size + 2).min(rest.len())..];
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_claims_are_counted_under_names_that_prometheus_accepts() {
    let berth = Berth::new().await;
    let served = Served::with_admin(berth.app(), wide()).await;
    scrape(&served, "/metrics").await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 1)]).await.expect(204);
    berth.claim(Uuid::new_v4(), None, &[(host, "VCPU", 9)]).await.expect(409);
    berth.get("/allocation_candidates?resources=VCPU:1").await.expect(200);
    let nobody = berth.without("x-auth-token").header("x-auth-token", "somebody");
    nobody.post("/resource_providers", json!({"name": "other"})).await.expect(403);
    berth.get(&format!("/nowhere/{}", Uuid::new_v4())).await.expect(404);
    let metrics = scrape(&served, "/metrics").await;
    // Other tests of this process are counted, too.
    for series in [
        "berth_ready 1",
        "berth_claims_refused_total{reason=\"capacity_exceeded\"} ",
        "berth_claims_total{outcome=\"written\"} ",
        "berth_requests_total{api=\"placement\",method=\"PUT\",route=\"/allocations/{consumer}\",\
         status=\"409\",microversion=\"1.39\"} ",
        "berth_policy_denials_total{rule=\"placement:resource_providers:create\"} ",
        "berth_claim_batch_duration_seconds_bucket{le=\"0.1\"} ",
        "berth_changes_total{change=\"",
        "berth_refresh_duration_seconds_count ",
        "berth_refresh_timestamp_seconds ",
        "berth_database_pool_connections_max ",
        "berth_turns_held{kind=\"plan\"} ",
        "berth_build_info{version=\"",
        "process_cpu_seconds_total ",
        "process_resident_memory_bytes ",
    ] {
        assert!(metrics.lines().any(|it| it.starts_with(series)), "{series}: {metrics}");
    }
    assert!(metrics.contains("route=\"unmatched\"") && !metrics.contains("/nowhere"), "{metrics}");
    promtool(&["check", "metrics"], &metrics);
    served.stop().await;
}

/// The procedure of openstack-exporter: the list of providers, then inventories and usages of each.
async fn as_the_exporter_reads(berth: &Berth) -> BTreeSet<String> {
    let mut series = BTreeSet::from(["openstack_placement_up 1".to_owned()]);
    let providers = berth.get("/resource_providers").await.expect(200).json();
    for provider in providers["resource_providers"].as_array().unwrap() {
        let url = format!("/resource_providers/{}", provider["uuid"].as_str().unwrap());
        let name = provider["name"].as_str().unwrap().replace('\\', "\\\\").replace('"', "\\\"");
        let mut add = |what: &str, class: &str, value: &Value| {
            let value = value.as_f64().unwrap();
            series.insert(format!(
                "openstack_placement_resource_{what}{{hostname=\"{name}\",resourcetype=\"{class}\"}} {value}"
            ));
        };
        let inventories = berth.get(&format!("{url}/inventories")).await.expect(200).json();
        for (class, inventory) in inventories["inventories"].as_object().unwrap() {
            for what in ["total", "reserved", "allocation_ratio"] {
                add(what, class, &inventory[what]);
            }
            add("generation", class, &inventories["resource_provider_generation"]);
        }
        let usages = berth.get(&format!("{url}/usages")).await.expect(200).json();
        for (class, used) in usages["usages"].as_object().unwrap() {
            add("usage", class, used);
        }
    }
    series
}

#[tokio::test(flavor = "multi_thread")]
async fn the_figures_of_the_cloud_are_those_that_the_exporter_reads() {
    let berth = Berth::new().await;
    let served = Served::with_admin(berth.app(), wide()).await;
    let empty = scrape(&served, "/metrics/cloud").await;
    assert!(empty.contains("openstack_placement_up 1\n"), "{empty}");
    promtool(&["check", "metrics"], &empty);
    // More than one piece of text.
    for nth in 0..400 {
        let name = if nth == 7 { "a \"strange\\ name".to_owned() } else { format!("host-{nth}") };
        let host = berth.host(&name, &[("VCPU", 8 + nth), ("MEMORY_MB", 4096)]).await;
        if nth % 50 == 0 {
            let wanted = [(host, "VCPU", 2), (host, "MEMORY_MB", 512)];
            berth.claim(Uuid::new_v4(), None, &wanted).await.expect(204);
        }
    }
    let figures = scrape(&served, "/metrics/cloud").await;
    let series: Vec<&str> = figures.lines().filter(|line| !line.starts_with('#')).collect();
    let distinct: BTreeSet<String> = series.iter().map(|it| (*it).to_owned()).collect();
    assert_eq!(distinct.len(), series.len(), "a series is there twice");
    let of_projects = |it: &String| it.starts_with("openstack_placement_project");
    let (projects, rest): (BTreeSet<_>, BTreeSet<_>) = distinct.into_iter().partition(of_projects);
    assert_eq!(projects.len(), 4, "{projects:?}");
    assert_eq!(rest.len(), 400 * 2 * 5 + 1);
    assert_eq!(rest, as_the_exporter_reads(&berth).await);
    promtool(&["check", "metrics"], &figures);
    berth.host("\u{1b}]0;x\u{7}\r\u{9b}2J\u{7f}\u{2028}\u{202e}", &[("VCPU", 8)]).await;
    let figures = scrape(&served, "/metrics/cloud").await;
    let acts = |it: char| it != '\n' && it.is_control() || matches!(it, '\u{2028}' | '\u{202e}');
    assert!(!figures.contains(acts), "{figures:?}");
    let label = r#"hostname="\\u{1b}]0;x\\u{7}\\r\\u{9b}2J\\u{7f}\\u{2028}\\u{202e}""#;
    assert!(figures.contains(label), "{figures}");
    promtool(&["check", "metrics"], &figures);
    served.stop().await;
}

/// The series of a scrape whose names begin so.
async fn series(served: &Served, beginning: &str) -> BTreeSet<String> {
    let figures = scrape(served, "/metrics/cloud").await;
    figures.lines().filter(|line| line.starts_with(beginning)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_figures_of_the_cloud_say_what_projects_use_and_which_traits_hosts_have() {
    const PROJECTS: &str = "openstack_placement_project";
    let database = postgres::database().await;
    let showing = async |metrics_projects| {
        let options = Options { metrics_projects, ..Options::default() };
        Berth::with(&database, options).await
    };
    let berth = showing(1000).await;
    let served = Served::with_admin(berth.app(), wide()).await;
    assert_eq!(series(&served, PROJECTS).await, set(&["openstack_placement_projects 0"]));
    let one = berth.host("host \"1\"", &[("VCPU", 64), ("MEMORY_MB", 4096)]).await;
    let two = berth.host("host 2", &[("VCPU", 64)]).await;
    let traits = ["HW_CPU_X86_AVX2", "COMPUTE_STATUS_DISABLED"];
    let traits = json!({"resource_provider_generation": 1, "traits": traits});
    berth.put(&format!("/resource_providers/{}/traits", one.0), traits).await.expect(200);
    for (project, wants) in [
        ("a", vec![(one, "VCPU", 2), (one, "MEMORY_MB", 512)]),
        ("b\\\"", vec![(one, "VCPU", 3), (two, "VCPU", 4)]),
        ("b\\\"", vec![(two, "VCPU", 5)]),
    ] {
        let mut body = claim_body(None, &wants);
        body["project_id"] = json!(project);
        berth.put(&format!("/allocations/{}", Uuid::new_v4()), body).await.expect(204);
    }
    let all = set(&[
        "openstack_placement_projects 2",
        "openstack_placement_project_consumers{tenant_id=\"a\"} 1",
        "openstack_placement_project_consumers{tenant_id=\"b\\\\\\\"\"} 2",
        "openstack_placement_project_usage{tenant_id=\"a\",resourcetype=\"VCPU\"} 2",
        "openstack_placement_project_usage{tenant_id=\"a\",resourcetype=\"MEMORY_MB\"} 512",
        "openstack_placement_project_usage{tenant_id=\"b\\\\\\\"\",resourcetype=\"VCPU\"} 12",
    ]);
    assert_eq!(series(&served, PROJECTS).await, all);
    let traits = set(&["openstack_placement_resource_traits{hostname=\"host \\\"1\\\"\",\
                        resource_traits=\"COMPUTE_STATUS_DISABLED,HW_CPU_X86_AVX2\"} 1"]);
    assert_eq!(series(&served, "openstack_placement_resource_traits").await, traits);
    promtool(&["check", "metrics"], &scrape(&served, "/metrics/cloud").await);
    // Those with most consumers are shown, and how many there are.
    let few = Served::with_admin(showing(1).await.app(), wide()).await;
    let biggest = |it: &String| !it.contains("tenant_id=\"a\"");
    let expected: BTreeSet<String> = all.iter().filter(|it| biggest(it)).cloned().collect();
    assert_eq!(series(&few, PROJECTS).await, expected);
    // The other figures are returned even if these cannot be read in time.
    let mut session = berth.session().await;
    session.execute("begin; lock table consumers in access exclusive mode").await.unwrap();
    assert_eq!(series(&served, PROJECTS).await, BTreeSet::new());
    assert_eq!(series(&served, "openstack_placement_up").await, set(&["openstack_placement_up 1"]));
    session.execute("rollback").await.unwrap();
    assert_eq!(series(&served, PROJECTS).await, all);
    for served in [served, few] {
        served.stop().await;
    }
}

fn set(series: &[&str]) -> BTreeSet<String> {
    series.iter().map(|it| (*it).to_owned()).collect()
}

/// Alert rules fire when they should, and every expression is about series that exist.
#[test]
fn alerts_and_dashboard_are_about_what_there_is() {
    let rules = deployed("prometheus/berth.rules.yml");
    promtool(&["check", "rules", &rules], "");
    promtool(&["test", "rules", &deployed("prometheus/berth.rules.test.yml")], "");
    let dashboard = std::fs::read_to_string(deployed("grafana/berth.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let shown: Vec<String> = targets
        .map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "5m"))
        .collect();
    assert!(shown.len() > 20);
    let as_rules: Vec<Value> = shown
        .iter()
        .enumerate()
        .map(|(nth, expr)| json!({"record": format!("panel:{nth}"), "expr": expr}))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dashboard.yml");
    let groups = json!({"groups": [{"name": "dashboard", "rules": as_rules}]});
    std::fs::write(&path, groups.to_string()).unwrap();
    promtool(&["check", "rules", path.to_str().unwrap()], "");

    let known: BTreeSet<String> = berth::observe::metrics::names().into_iter().collect();
    let name = Regex::new("\\b(berth|http_server)_[a-z_]+\\b").unwrap();
    let alerts = std::fs::read_to_string(rules).unwrap();
    let alerts = alerts.lines().filter(|line| !line.starts_with('#'));
    for text in shown.iter().map(String::as_str).chain(alerts) {
        for found in name.find_iter(text) {
            assert!(known.contains(found.as_str()), "{} in {text}", found.as_str());
        }
    }
}

/// Starts a server with metrics that asks a Keystone at a URL, and waits until it serves.
async fn served_with_keystone(directory: &Path, admin: &str, url: &str) -> Server {
    let options = [
        ["--admin-listen", admin],
        ["--auth", "keystone"],
        ["--keystone-auth-url", url],
        ["--keystone-username", "berth"],
        ["--keystone-password", "berth"],
        ["--keystone-project-name", "service"],
        ["--keystone-user-domain-name", "Default"],
        ["--keystone-project-domain-name", "Default"],
        ["--keystone-timeout", "1"],
        ["--keystone-token-cache-time", "1"],
    ];
    let server = Server::spawn(directory, options.as_flattened());
    server.logged("serving health and metrics").await;
    server
}

/// Reads the metrics of a server.
pub(crate) async fn metrics_of(server: &Server, admin: &str) -> String {
    let answer = server.client.get(format!("http://{admin}/metrics")).send().await.unwrap();
    answer.text().await.unwrap()
}

/// Rates of a counter need its first value. Times in the log are in milliseconds, and PostgreSQL's notices about
/// existing tables are not in it.
#[tokio::test(flavor = "multi_thread")]
async fn rare_events_are_counted_from_zero() {
    let directory = tempfile::tempdir().unwrap();
    let admin = format!("127.0.0.1:{}", free_port());
    let server = served_with_keystone(directory.path(), &admin, "http://127.0.0.1:1/v3").await;
    let metrics = metrics_of(&server, &admin).await;
    for series in [
        "berth_policy_denials_total{rule=\"placement:reshaper:reshape\"} 0",
        "berth_transactions_retried_total{change=\"Claims\",reason=\"conflict\"} 0",
        "berth_transactions_retried_total{change=\"CreateProvider\",reason=\"lock\"} 0",
        "berth_keystone_requests_total{result=\"timeout\"} 0",
        "berth_keystone_tokens_total{source=\"keystone\"} 0",
        "berth_claims_total{outcome=\"refused\"} 0",
        "berth_audit_write_failures_total 0",
    ] {
        assert!(metrics.lines().any(|line| line == series), "{series}: {metrics}");
    }
    let line = server.logged("applied: initial").await;
    assert!(Regex::new(r"took_ms=\d+\.\d$").unwrap().is_match(&line), "{line}");
    let log = server.log();
    assert!(!log.contains("already exists"), "{log}");
}

/// A Keystone that accepts connections and never responds is counted, or its alert would not fire.
#[tokio::test(flavor = "multi_thread")]
async fn a_keystone_that_hangs_is_counted() {
    let keystone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v3", keystone.local_addr().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let admin = format!("127.0.0.1:{}", free_port());
    let server = served_with_keystone(directory.path(), &admin, &url).await;
    assert_eq!(server.ask("GET", "/resource_providers", None).await.unwrap().0, 503);
    until("the timeout is counted", async || {
        let metrics = metrics_of(&server, &admin).await;
        let timeouts = metrics.lines().find_map(|line| {
            line.strip_prefix("berth_keystone_requests_total{result=\"timeout\"} ")
        });
        timeouts.unwrap() != "0"
    })
    .await;
}

/// The operator sees more for a while, and less again.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_changed_while_the_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("berth.toml");
    let configure = |text: &str| std::fs::write(&file, text).unwrap();
    configure("log = \"info\"\n");
    let server = Server::start_with(directory.path(), &["--config", file.to_str().unwrap()]).await;
    let reload = async |text: &str, message: &str| {
        configure(text);
        signal("HUP", &server.pid());
        server.logged(message).await;
    };
    assert_eq!(server.ask("GET", "/", None).await.unwrap().0, 200);
    assert!(!server.log().contains("GET / 200"));
    reload("log = \"info,berth::http=debug\"\n", "SIGHUP: the log filter has changed").await;
    assert_eq!(server.ask("GET", "/", None).await.unwrap().0, 200);
    server.logged("GET / 200").await;
    let json = "log = \"info\"\nlog-format = \"json\"\n";
    reload(json, "\"message\":\"SIGHUP: the log format has changed\"").await;
    assert_eq!(server.ask("GET", "/traits?name=in:X", None).await.unwrap().0, 200);
    let line = server.logged("/traits?name=in:X").await;
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["status"], 200, "{line}");
    let human = " INFO berth::server::reload: SIGHUP: the log format has changed";
    reload("log = \"info\"\n", human).await;
    assert_eq!(server.ask("GET", "/traits?name=in:Y", None).await.unwrap().0, 200);
    server.logged(" INFO berth::http::layers::access_log: GET /traits?name=in:Y 200").await;
}

/// SIGHUP takes over what can be taken over, if all is valid, and names the rest.
#[tokio::test(flavor = "multi_thread")]
async fn reloaded_options_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("berth.toml");
    let configure = |text: &str| std::fs::write(&file, text).unwrap();
    configure("log = \"info\"\nkeystone-password = \"one\"\npath-prefix = \"/here\"\n");
    let server = Server::start_with(directory.path(), &["--config", file.to_str().unwrap()]).await;
    signal("HUP", &server.pid());
    server.logged("SIGHUP: the log filter is unchanged").await;
    let valid = "log = \"info,berth::store=debug\"\nlog-format = \"json\"\nmax-requests = 7\n\
                 keystone-password = \"two\"\n";
    configure(valid);
    signal("HUP", &server.pid());
    server.logged("SIGHUP: the log filter has changed").await;
    server.logged("SIGHUP: the log format has changed").await;
    let others = "\"options\":\"keystone-password, max-requests, path-prefix\"";
    server.logged(others).await;
    server.logged("SIGHUP: the policy is unchanged").await;
    // They are as different from those of the process as before.
    signal("HUP", &server.pid());
    server.logged_times(others, 2).await;
    configure("log = \"nothing=like=this\"\n");
    signal("HUP", &server.pid());
    server.logged("SIGHUP: the configuration stays as it is").await;
    server.logged("this is no level").await;
    configure("log = \"warn\"\nmax-requests = 8\npolicy-file = \"/no/such/file\"\n");
    signal("HUP", &server.pid());
    server
        .logged("the configuration stays as it is: --policy-file /no/such/file: No such file")
        .await;
    configure("no-option = 1\n");
    signal("HUP", &server.pid());
    server.logged("there is no option").await;
    // Neither filter nor format has changed with what is not valid.
    configure(valid);
    signal("HUP", &server.pid());
    server.logged_times(others, 3).await;
    let log = server.log();
    let changes = |of: &str| log.matches(&format!("SIGHUP: the log {of} has changed")).count();
    assert_eq!((changes("filter"), changes("format")), (1, 1), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_further_instances_of_a_flavor_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let admin = format!("127.0.0.1:{}", free_port());
    let listen = format!("--admin-listen={admin}");
    let options = [listen.as_str(), "--fit-flavors=m1.tiny,none"];
    let server = Server::start_with(directory.path(), &options).await;
    let begun = Instant::now();
    let series = "berth_flavor_fits{flavor=\"m1.tiny\",bound=\"upper\"} 0";
    loop {
        let stream = tokio::net::TcpStream::connect(&admin).await.unwrap();
        let metrics = converse(stream, get("/metrics").as_bytes()).await;
        if metrics.contains(series) && metrics.contains("flavor=\"none\",bound=\"lower\"} NaN") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{metrics}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    server.logged("there is no flavor none").await;
}
