//! The audit log: who has changed what, in which form, and that it stops nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use berth::audit::{AuditLog, Format, Target};
use berth::http::app::Options;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::postgres;
use crate::support::process::{Server, free_port, signal};
use crate::support::served::PATIENCE;

/// A replica with an audit log.
struct Audited {
    berth: Berth,
    log: AuditLog,
    directory: tempfile::TempDir,
    read: usize,
}

impl Audited {
    async fn new(format: Format) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::File(directory.path().join("audit.log"));
        let log = AuditLog::start(target, format).unwrap();
        let options = Options { audit: Some(log.clone()), ..Options::default() };
        let berth = Berth::with(&postgres::database().await, options).await;
        Self { berth, log, directory, read: 0 }
    }

    /// The entries since the last call.
    fn entries(&mut self) -> Vec<Value> {
        assert!(self.log.drain(PATIENCE));
        let text = std::fs::read_to_string(self.directory.path().join("audit.log")).unwrap();
        let entries: Vec<Value> =
            text.lines().skip(self.read).map(|line| serde_json::from_str(line).unwrap()).collect();
        self.read += entries.len();
        entries
    }

    /// The only entry since the last call.
    fn entry(&mut self) -> Value {
        let entries = self.entries();
        assert_eq!(entries.len(), 1, "{entries:#?}");
        entries[0].clone()
    }

    /// The changes of the only entry since the last call.
    fn changes(&mut self) -> Value {
        self.entry()["changes"].take()
    }
}

fn inventory(total: i32) -> Value {
    json!({"total": total, "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1,
           "allocation_ratio": 1.0})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_has_the_caller_the_request_and_its_outcome() {
    let mut audited = Audited::new(Format::Json).await;
    let global = format!("req-{}", Uuid::new_v4());
    let berth = audited.berth.header("x-openstack-request-id", &global);
    let answer = berth.put("/traits/CUSTOM_A", json!({})).await.expect(201);
    let entry = audited.entry();
    assert_eq!(entry["request_id"], answer.headers["x-openstack-request-id"].to_str().unwrap());
    assert_eq!(entry["global_request_id"], global);
    assert_eq!(entry["caller"]["user"], "admin");
    assert_eq!(entry["caller"]["roles"], json!(["admin"]));
    assert_eq!(
        (&entry["api"], &entry["method"], &entry["path"], &entry["status"], &entry["outcome"]),
        (
            &json!("placement"),
            &json!("PUT"),
            &json!("/traits/CUSTOM_A"),
            &json!(201),
            &json!("success")
        )
    );
    let change = json!([{"type": "trait", "id": "CUSTOM_A", "before": null,
                         "after": {"name": "CUSTOM_A"}}]);
    assert_eq!(entry["changes"], change);

    // Reads are not in it; what was refused is, with who it was if that is known.
    audited.berth.get("/traits").await.expect(200);
    audited.berth.without("x-auth-token").delete("/traits/CUSTOM_A").await.expect(401);
    let refused = audited.entry();
    assert_eq!((&refused["status"], &refused["outcome"]), (&json!(401), &json!("failure")));
    assert_eq!((refused.get("caller"), &refused["changes"]), (None, &json!([])));
    audited.berth.delete("/traits/CUSTOM_B").await.expect(404);
    assert_eq!(audited.entry()["caller"]["user"], "admin");
}

/// Names are those of clients. They mean the same to a program that reads the log, and do nothing to its terminal.
#[tokio::test(flavor = "multi_thread")]
async fn no_name_in_an_entry_acts_on_a_terminal() {
    let name = "\u{1b}[2J\r\n\u{9b}2J\u{7f}\u{85}\u{2028}\u{2029}\u{202e}\u{2066}\u{200e}\u{feff}\u{e0041}";
    for format in [Format::Json, Format::Cadf] {
        let mut audited = Audited::new(format).await;
        audited.berth.post("/resource_providers", json!({"name": name})).await.expect(200);
        let entry = audited.entry();
        let changes = match format {
            Format::Json => &entry["changes"],
            Format::Cadf => &entry["attachments"][0]["content"],
        };
        assert_eq!(changes[0]["after"]["name"], name);
        let written = std::fs::read_to_string(audited.directory.path().join("audit.log")).unwrap();
        assert!(
            written.trim_end_matches('\n').bytes().all(|it| matches!(it, b' '..=b'~')),
            "{written:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_provider_have_both_states() {
    let mut audited = Audited::new(Format::Json).await;
    let berth = audited.berth.clone();
    let provider = Uuid::new_v4();
    let path = |rest: &str| format!("/resource_providers/{provider}{rest}");
    berth.post("/resource_providers", json!({"name": "a", "uuid": provider})).await.expect(200);
    let state = |name| json!({"generation": 0, "name": name, "parent": null});
    let change = |kind: &str, before: Value, after: Value| json!([{"type": kind, "id": provider, "before": before, "after": after}]);
    assert_eq!(audited.changes(), change("resource_provider", Value::Null, state("a")));
    berth.put(&path(""), json!({"name": "b"})).await.expect(200);
    assert_eq!(audited.changes(), change("resource_provider", state("a"), state("b")));

    // Of the states, only the differences.
    let body = json!({"resource_provider_generation": 0,
                      "inventories": {"VCPU": inventory(8), "DISK_GB": inventory(100)}});
    berth.put(&path("/inventories"), body).await.expect(200);
    audited.entries();
    let body = json!({"resource_provider_generation": 1,
                      "inventories": {"VCPU": inventory(16), "DISK_GB": inventory(100)}});
    berth.put(&path("/inventories"), body).await.expect(200);
    let terms = |generation: i32, total| json!({"generation": generation, "inventories": {"VCPU": inventory(total)}});
    assert_eq!(audited.changes(), change("inventories", terms(1, 8), terms(2, 16)));
    berth.delete(&path("/inventories/DISK_GB")).await.expect(204);
    let disk = json!({"generation": 2, "inventories": {"DISK_GB": inventory(100)}});
    let none = json!({"generation": 3, "inventories": {}});
    assert_eq!(audited.changes(), change("inventories", disk, none));

    let traits = |generation, names: Value| json!({"resource_provider_generation": generation, "traits": names});
    berth.put(&path("/traits"), traits(3, json!(["HW_CPU_X86_AVX"]))).await.expect(200);
    audited.entries();
    berth.put(&path("/traits"), traits(4, json!(["HW_CPU_X86_AVX2"]))).await.expect(200);
    let before = json!({"generation": 4, "traits": ["HW_CPU_X86_AVX"]});
    let after = json!({"generation": 5, "traits": ["HW_CPU_X86_AVX2"]});
    assert_eq!(audited.changes(), change("traits", before, after));

    let aggregate = Uuid::new_v4();
    let body = json!({"resource_provider_generation": 5, "aggregates": [aggregate]});
    berth.put(&path("/aggregates"), body).await.expect(200);
    let before = json!({"generation": 5, "aggregates": []});
    let after = json!({"generation": 6, "aggregates": [aggregate]});
    assert_eq!(audited.changes(), change("aggregates", before, after));

    // A refused request has changed nothing.
    berth.put(&path("/traits"), traits(3, json!([]))).await.expect(409);
    assert_eq!(audited.changes(), json!([]));
    berth.delete(&path("")).await.expect(204);
    let last = json!({"generation": 6, "name": "b", "parent": null});
    assert_eq!(audited.changes(), change("resource_provider", last, Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_claim_has_its_own_effect_also_when_they_are_written_together() {
    let mut audited = Audited::new(Format::Json).await;
    let berth = audited.berth.clone();
    let provider = Uuid::new_v4();
    berth.post("/resource_providers", json!({"name": "a", "uuid": provider})).await.expect(200);
    let body = json!({"resource_provider_generation": 0, "inventories": {"VCPU": inventory(20)}});
    let path = format!("/resource_providers/{provider}/inventories");
    berth.put(&path, body).await.expect(200);
    audited.entries();
    let claim = |amount: i32, generation: Value| {
        json!({"allocations": {provider.to_string(): {"resources": {"VCPU": amount}}},
               "project_id": "p", "user_id": "u", "consumer_generation": generation,
               "consumer_type": "INSTANCE"})
    };
    let consumers: Vec<Uuid> = (0..40).map(|_| Uuid::new_v4()).collect();
    let request = consumers.iter().map(|consumer| {
        let (berth, body) = (berth.clone(), claim(1, Value::Null));
        async move { berth.put(&format!("/allocations/{consumer}"), body).await.status }
    });
    let statuses = futures_util::future::join_all(request).await;
    assert_eq!(statuses.iter().filter(|status| **status == 204).count(), 20);
    let entries = audited.entries();
    assert_eq!(entries.len(), 40);
    for entry in &entries {
        let consumer = entry["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let after = json!({"generation": 1, "allocations": {provider.to_string(): {"VCPU": 1}}});
        let change =
            json!([{"type": "allocations", "id": consumer, "before": null, "after": after}]);
        let expected = if entry["status"] == 204 { change } else { json!([]) };
        assert_eq!(entry["changes"], expected);
    }
    let nth = statuses.iter().position(|status| *status == 204).unwrap();
    berth.delete(&format!("/allocations/{}", consumers[nth])).await.expect(204);
    let changes = audited.changes();
    assert_eq!(changes[0]["before"]["allocations"][provider.to_string()]["VCPU"], 1);
    assert_eq!(changes[0]["after"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reshaping_and_the_planner_tell_all_that_they_change() {
    let mut audited = Audited::new(Format::Json).await;
    let berth = audited.berth.clone();
    let (provider, consumer) = (Uuid::new_v4(), Uuid::new_v4());
    berth.post("/resource_providers", json!({"name": "a", "uuid": provider})).await.expect(200);
    audited.entries();
    let reshaping = json!({
        "inventories": {provider.to_string(): {
            "resource_provider_generation": 0, "inventories": {"VCPU": inventory(4)}}},
        "allocations": {consumer.to_string(): {
            "allocations": {provider.to_string(): {"resources": {"VCPU": 2}}},
            "project_id": "p", "user_id": "u", "consumer_generation": null,
            "consumer_type": "INSTANCE"}},
    });
    let service = berth.header("x-roles", "service");
    service.post("/reshaper", reshaping).await.expect(204);
    let changes = audited.changes();
    let kinds: Vec<&str> =
        changes.as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["allocations", "inventories"], "{changes:#}");
    assert_eq!(changes[1]["before"], json!({"generation": 0, "inventories": {}}));
    assert_eq!(changes[1]["after"]["inventories"]["VCPU"]["total"], 4);

    let planner = berth.planner();
    let group = json!({"name": "g", "type": "affinity", "level": "host"});
    let made = planner.post("/v1/groups", group).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let entry = audited.entry();
    assert_eq!((&entry["api"], &entry["changes"][0]["type"]), (&json!("planner"), &json!("group")));
    assert_eq!(entry["changes"][0]["after"], json!({"name": "g"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_log_blocks_neither_requests_nor_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("audit");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let options = ["--audit-log", pipe.to_str().unwrap()];
    let mut server = Server::start_with(directory.path(), &options).await;
    for number in 0..50 {
        let path = format!("/traits/CUSTOM_{number}");
        assert_eq!(server.ask("PUT", &path, None).await.unwrap().0, 201);
    }
    signal("TERM", &server.pid());
    let (code, log) = server.ended().await;
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("the end of the audit log was not written"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_before_the_end_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let options = ["--audit-log", path.to_str().unwrap(), "--audit-format", "cadf"];
    let mut server = Server::start_with(directory.path(), &options).await;
    assert_eq!(server.ask("PUT", "/traits/CUSTOM_A", None).await.unwrap().0, 201);
    signal("TERM", &server.pid());
    assert_eq!(server.ended().await.0, Some(0));
    let event: Value = serde_json::from_str(&read(&path)).unwrap();
    assert_eq!(event["typeURI"], "http://schemas.dmtf.org/cloud/audit/1.0/event");
    assert_eq!((&event["action"], &event["outcome"]), (&json!("update"), &json!("success")));
    assert_eq!(event["target"], json!({"id": "CUSTOM_A", "typeURI": "service/placement/trait"}));
    assert_eq!(event["initiator"]["id"], "admin");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// A disk that is full is seen before anything is dropped, and what is lost at the end is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_seen_in_the_metrics_and_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let admin = format!("127.0.0.1:{}", free_port());
    let options = ["--admin-listen", &admin, "--audit-log", "/dev/full"];
    let mut server = Server::start_with(directory.path(), &options).await;
    for name in ["CUSTOM_ONE", "CUSTOM_TWO"] {
        let path = format!("/traits/{name}");
        assert_eq!(server.ask("PUT", &path, Some(&json!({}))).await.unwrap().0, 201);
    }
    let began = Instant::now();
    loop {
        let response = server.client.get(format!("http://{admin}/metrics")).send().await.unwrap();
        let metrics = response.text().await.unwrap();
        let number = |name: &str| -> f64 {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name}")).trim().parse().unwrap()
        };
        if number("berth_audit_write_failures_total ") > 0.0
            && number("berth_audit_entries_waiting ") >= 2.0
        {
            assert!(number("berth_audit_entries_dropped_total ").abs() < 0.5, "{metrics}");
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{metrics}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    signal("TERM", &server.pid());
    assert_eq!(server.ended().await.0, Some(0));
    let log = server.log();
    assert!(log.contains("the end of the audit log was not written entries=2"), "{log}");
}
