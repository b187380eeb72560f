//! Panics in every place, and interrupted responses: each is logged with its request, and counted once.
//!
//! The hook for panics belongs to the process, so the server runs in its own process, which is this test again.

#![expect(
    clippy::print_stdout,
    reason = "the server of a test runs in a process of its own, and reports so"
)]

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use berth::config::{LogFormat, LogOptions};
use berth::fairness::watch::Watch;
use berth::http::Options;
use serde_json::Value;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use crate::support::app::Berth;
use crate::support::postgres;
use crate::support::served::{PATIENCE, Served, wide};

/// The variable with the database for the process of the server.
const DATABASE: &str = "BERTH_TEST_PANICS_DATABASE";
/// The name of this test.
const TEST: &str =
    "panics::each_panic_is_counted_once_and_logged_with_its_request_and_so_is_a_broken_answer";
/// A search whose answer is sent while it is found.
const LARGE: &str = "/allocation_candidates?group_policy=none&resources1=VGPU:1&resources2=VGPU:1\
    &resources3=VGPU:1&resources4=VGPU:1&resources5=VGPU:1&resources6=VGPU:1";

/// Whether the clock and the watch panic.
static IS_BROKEN: AtomicBool = AtomicBool::new(false);

fn look() {
    assert!(!IS_BROKEN.load(Ordering::Relaxed), "no time");
}

fn clock() -> i64 {
    look();
    0
}

#[tokio::test(flavor = "multi_thread")]
async fn each_panic_is_counted_once_and_logged_with_its_request_and_so_is_a_broken_answer() {
    if let Ok(database) = std::env::var(DATABASE) {
        return serve(&database.parse().unwrap()).await;
    }
    let database = postgres::database().await.to_url_lossy().to_string();
    let mut server = Command::new(std::env::current_exe().unwrap());
    server.args(["--nocapture", "--exact", TEST]).env(DATABASE, database);
    let ended = tokio::task::spawn_blocking(move || server.output().unwrap()).await.unwrap();
    let (text, log) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{text}\n{log}");
    let ids: Vec<&str> =
        text.lines().filter_map(|line| Some(line.split_once("request: ")?.1)).collect();
    let is_told = |metric: &str| text.lines().any(|line| line == metric);
    let lines: Vec<Value> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let named = |words: &str| -> Vec<&Value> {
        let message = |line: &&Value| line["message"].as_str().is_some_and(|it| it.contains(words));
        lines.iter().filter(message).collect()
    };
    let id_of = |line: &Value| line["span"]["request_id"].as_str().unwrap().to_owned();

    let panics: Vec<String> = named("panicked at").into_iter().map(id_of).collect();
    assert_eq!(panics, ids[..3], "{log}");
    assert!(is_told("berth_panics_total 3"), "{text}");
    let broken = named("a response was cut off");
    assert_eq!(broken.iter().copied().map(id_of).collect::<Vec<_>>(), ids[2..], "{log}");
    for (line, reason) in broken.into_iter().zip(["panic", "gone"]) {
        assert_eq!((&line["reason"], &line["status"]), (&reason.into(), &200.into()));
        assert!(line["bytes"].as_u64().unwrap() > 0, "{line}");
        let counted = format!("berth_responses_broken_off_total{{reason=\"{reason}\"}} 1");
        assert!(is_told(&counted), "{text}");
    }
}

/// Provokes three panics, in a handler, on a thread of a search and while an answer is sent, and takes another
/// answer in only in part. Tells the ids of these requests and the metrics.
async fn serve(database: &PgConnectOptions) {
    let logs = LogOptions { log: "info".to_owned(), log_format: LogFormat::Json };
    let telemetry = berth::observe::telemetry::start(logs.settings(), None).unwrap();
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let watch = Watch::of(|| {
        look();
        Instant::now()
    });
    let berth = Berth::with(database, Options::default()).await.with_watch(watch);
    let root = berth.host("root", &[]).await;
    for nth in 0..8 {
        berth.child(&format!("device-{nth}"), Some(root), &[("VGPU", 1)]).await;
    }
    let mut app = berth.app();
    app.clock = clock;
    let served = Served::with_admin(app, wide()).await;
    let (api, admin) = (served.address(), served.admin_address());
    let ask = async |path: &str| {
        let request = client.get(format!("http://{api}{path}")).header("x-auth-token", "admin");
        let request = request.header("openstack-api-version", "placement 1.39");
        let answer = request.send().await.unwrap();
        println!("request: {}", answer.headers()["x-openstack-request-id"].to_str().unwrap());
        answer
    };

    IS_BROKEN.store(true, Ordering::Relaxed);
    for path in ["/resource_providers", "/-/v1/moves?make-room-for=resources%3DVGPU:1"] {
        assert_eq!(ask(path).await.status(), 500, "{path}");
    }
    IS_BROKEN.store(false, Ordering::Relaxed);
    let mut sent = ask(LARGE).await;
    assert_eq!(sent.status(), 200);
    IS_BROKEN.store(true, Ordering::Relaxed);
    while let Ok(part) = sent.chunk().await {
        assert!(part.is_some(), "an answer that broke off must not look whole");
    }
    IS_BROKEN.store(false, Ordering::Relaxed);
    let mut left = ask(LARGE).await;
    left.chunk().await.unwrap().unwrap();
    drop(left);
    let gone = "berth_responses_broken_off_total{reason=\"gone\"} 1";
    loop {
        let metrics = client.get(format!("http://{admin}/metrics")).send().await.unwrap();
        let metrics = metrics.text().await.unwrap();
        if metrics.lines().any(|line| line == gone) {
            println!("{metrics}");
            break;
        }
        tokio::task::yield_now().await;
    }
    served.stop().await;
    assert!(telemetry.end());
}
