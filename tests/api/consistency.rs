//! The faults that `berth db check` finds, and the repairs in docs/operating/consistency.md.

use std::process::Command;

use serde_json::json;
use sqlx::ConnectOptions;
use uuid::Uuid;

use crate::support::app::Berth;
use crate::support::cloud::Host;

/// A fault: its section of the page, the statements that cause it, and values for the placeholders of the
/// section.
struct Fault {
    section: &'static str,
    make: String,
    placeholders: Vec<(&'static str, String)>,
}

/// The text below a heading of the page.
fn section(heading: &str) -> String {
    let page = std::fs::read_to_string("docs/operating/consistency.md").unwrap();
    let (_, text) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    text.split("\n## ").next().unwrap().to_owned()
}

/// The blocks of code of a section, without their indentation.
fn blocks(section: &str) -> Vec<String> {
    let paragraphs =
        section.split("\n\n").filter(|it| it.trim_start_matches('\n').starts_with("    "));
    paragraphs.map(|it| it.trim().replace("\n    ", "\n")).collect()
}

/// Makes the fault, compares what the check says with the page, and repairs it as the page says, while
/// a replica serves.
async fn is_found_and_repaired(berth: &Berth, fault: Fault) {
    let mut conn = berth.session().await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(fault.make)).execute(&mut conn).await.unwrap();
    let filled = |text: &str| {
        fault.placeholders.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    };
    let blocks: Vec<String> = blocks(&section(fault.section)).iter().map(|it| filled(it)).collect();
    let [message, repair] = blocks.as_slice() else { panic!("{blocks:#?}") };
    let found = berth::store::consistency::faults(&mut conn).await.unwrap();
    assert_eq!(found, [message.as_str()]);

    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("repair.sql");
    std::fs::write(&script, repair).unwrap();
    let url = berth.database.to_url_lossy();
    let mut shell = Command::new(env!("CARGO_BIN_EXE_berth"));
    shell.args(["db", "shell", "--database-url", url.as_str(), "--"]);
    shell.args(["-X", "-v", "ON_ERROR_STOP=1", "-f"]).arg(script);
    let output = tokio::task::spawn_blocking(move || shell.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    berth.assert_consistent().await;
}

/// A host with eight processors, four of which are claimed.
async fn with_one_claim() -> (Berth, Host, Uuid) {
    let berth = Berth::new().await;
    let host = berth.host("host", &[("VCPU", 8)]).await;
    let consumer = Uuid::new_v4();
    berth.claim(consumer, None, &[(host, "VCPU", 4)]).await.expect(204);
    (berth, host, consumer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_usage_that_differs_from_the_allocations() {
    let (berth, host, _) = with_one_claim().await;
    let fault = Fault {
        section: "A usage that differs from the allocations",
        make: "update inventories set used = 6".to_owned(),
        placeholders: vec![("PROVIDER", host.0.to_string())],
    };
    is_found_and_repaired(&berth, fault).await;
    assert_eq!(berth.usages(host).await, json!({"VCPU": 4}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocation_from_an_inventory_that_does_not_exist() {
    let (berth, host, consumer) = with_one_claim().await;
    let mut conn = berth.session().await;
    let provider: i64 =
        sqlx::query_scalar("select id from providers").fetch_one(&mut conn).await.unwrap();
    let fault = Fault {
        section: "An allocation from an inventory that does not exist",
        make: "alter table inventories disable trigger allocations_inventory;
               delete from inventories"
            .to_owned(),
        placeholders: vec![
            ("CONSUMER", consumer.to_string()),
            ("provider 17", format!("provider {provider}")),
        ],
    };
    is_found_and_repaired(&berth, fault).await;
    assert_eq!(berth.held(consumer).await, json!({}));
    berth.delete(&format!("/resource_providers/{}", host.0)).await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn allocations_without_a_consumer() {
    let (berth, host, _) = with_one_claim().await;
    let mut conn = berth.session().await;
    let consumer: i64 =
        sqlx::query_scalar("select id from consumers").fetch_one(&mut conn).await.unwrap();
    let fault = Fault {
        section: "Allocations without a consumer",
        make: "alter table consumers disable trigger allocations_consumer;
               delete from consumers"
            .to_owned(),
        placeholders: vec![("42", consumer.to_string())],
    };
    is_found_and_repaired(&berth, fault).await;
    assert_eq!(berth.usages(host).await, json!({"VCPU": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_without_its_project_user_or_type() {
    let (berth, _, consumer) = with_one_claim().await;
    let fault = Fault {
        section: "A consumer without its project, user or type",
        make: "update consumers set project_id = 999999, consumer_type_id = 999999".to_owned(),
        placeholders: vec![("CONSUMER", consumer.to_string())],
    };
    is_found_and_repaired(&berth, fault).await;
    let answer = berth.get(&format!("/allocations/{consumer}")).await.expect(200).json();
    assert_eq!(answer["project_id"], Uuid::nil().to_string());
    assert_eq!(answer["user_id"], "user", "what is right stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_holds_nothing() {
    let (berth, host, _) = with_one_claim().await;
    let consumer = Uuid::new_v4();
    let fault = Fault {
        section: "A consumer that holds nothing",
        make: format!(
            "insert into consumers (uuid, project_id, user_id, generation)
             select '{consumer}', project_id, user_id, 3 from consumers limit 1"
        ),
        placeholders: vec![("CONSUMER", consumer.to_string())],
    };
    is_found_and_repaired(&berth, fault).await;
    berth.claim(consumer, None, &[(host, "VCPU", 1)]).await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_provider_tree() {
    let berth = Berth::new().await;
    let root = berth.host("root", &[]).await;
    let child = berth.child("child", Some(root), &[("VCPU", 8)]).await;
    let fault = Fault {
        section: "A broken provider tree",
        make: "update providers set root_id = id".to_owned(),
        placeholders: vec![("PROVIDER", child.0.to_string())],
    };
    is_found_and_repaired(&berth, fault).await;
    let shown = berth.get(&format!("/resource_providers/{}", child.0)).await.expect(200).json();
    assert_eq!(shown["root_provider_uuid"], root.0.to_string());
}
