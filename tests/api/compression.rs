//! Large responses are compressed for clients that accept it, without other changes.

use std::io::Read;
use std::process::Command;

use axum::body::{HttpBody, to_bytes};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use axum::http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::support::app::Berth;
use crate::support::served::{Served, wide};

/// The encoding of an answer, its `Vary` lines, and its bytes.
async fn ask(
    berth: &Berth,
    path: &str,
    encoding: Option<&str>,
) -> (Option<String>, String, Vec<u8>) {
    let mut request = Request::get(path)
        .header("host", "localhost")
        .header("x-auth-token", "admin")
        .header("openstack-api-version", "placement 1.39");
    if let Some(encoding) = encoding {
        request = request.header(ACCEPT_ENCODING, encoding);
    }
    let answer = berth.answer(request.body("".into()).unwrap()).await;
    assert_eq!(answer.status(), 200);
    let headers = answer.headers().clone();
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let vary: Vec<_> = headers.get_all(VARY).iter().map(|it| it.to_str().unwrap()).collect();
    let encoding = text(CONTENT_ENCODING);
    assert!(encoding.is_none() || text(CONTENT_LENGTH).is_none());
    (encoding, vary.join(","), to_bytes(answer.into_body(), usize::MAX).await.unwrap().to_vec())
}

/// The content of a body that was sent with this encoding.
fn decoded(body: &[u8], encoding: Option<&str>) -> Vec<u8> {
    let mut content = Vec::new();
    match encoding {
        None => return body.to_vec(),
        Some("gzip") => {
            flate2::read::GzDecoder::new(body).read_to_end(&mut content).unwrap();
        }
        Some("zstd") => {
            zstd::Decoder::new(body).unwrap().read_to_end(&mut content).unwrap();
        }
        Some(other) => panic!("{other}"),
    }
    content
}

#[tokio::test]
async fn large_responses_are_compressed_for_clients_that_ask_for_it() {
    let berth = Berth::new().await;
    for nth in 0..200 {
        berth.host(&format!("host-{nth:03}"), &[("VCPU", 8)]).await;
    }
    for path in ["/resource_providers", "/allocation_candidates?resources=VCPU:1"] {
        let (encoding, vary, plain) = ask(&berth, path, None).await;
        assert_eq!(encoding, None);
        assert!(vary.starts_with("openstack-api-version"), "{vary}");
        for (request, expected) in
            [("gzip, deflate", "gzip"), ("zstd", "zstd"), ("gzip;q=0.5, zstd", "zstd")]
        {
            let (encoding, vary, compressed) = ask(&berth, path, Some(request)).await;
            assert_eq!(encoding.as_deref(), Some(expected), "{request}");
            assert!(vary.contains("accept-encoding"), "{vary}");
            assert!(compressed.len() * 4 < plain.len(), "{} bytes", compressed.len());
            let output = decoded(&compressed, Some(expected));
            let [output, plain]: [Value; 2] =
                [&output, &plain].map(|text| serde_json::from_slice(text).unwrap());
            assert_eq!(output, plain);
        }
        for request in ["identity", "br", "gzip;q=0"] {
            assert_eq!(ask(&berth, path, Some(request)).await.0, None, "{request}");
        }
    }
    assert_eq!(ask(&berth, "/", Some("gzip")).await.0, None, "small answers stay as they are");
}

/// The routes whose answers may be sent while they are made, and one that is written whole.
const ROUTES: [&str; 5] = [
    "/allocation_candidates?resources=VCPU:1",
    "/-/v1/allocation_candidates?resources=VCPU:1",
    "/-/v1/providers?include=traits,inventories",
    "/resource_providers",
    CLOUD,
];
/// A route of the address of administrators.
const CLOUD: &str = "/metrics/cloud";

/// Adds providers up to this number. Each takes about 3 KB in most of the answers above.
async fn fill(berth: &Berth, providers: i32) {
    for nth in 0..10 {
        let path = format!("/traits/CUSTOM_{nth}{}", "Y".repeat(240));
        let status = berth.ask(Method::PUT, &path, None).await.status;
        assert!(status == 201 || status == 204, "{status}");
    }
    let fill = format!(
        "with added as (
             insert into providers (id, uuid, name, root_id) overriding system value
                 select n, gen_random_uuid(), repeat('x', 180) || n, n
                 from generate_series(coalesce((select max(id) from providers), 0) + 1, {providers}) n
                 returning id
         ), stocked as (
             insert into inventories (provider_id, class_id, total, reserved, min_unit, max_unit,
                                      step_size, allocation_ratio)
                 select added.id, classes.id, 8, 0, 1, 8, 1, 1.0
                 from added, resource_classes classes where name in ('VCPU', 'MEMORY_MB')
         ), described as (
             insert into provider_traits (provider_id, trait_id)
                 select added.id, traits.id from added, traits where name like 'CUSTOM%YYY'
         )
         insert into change_log (providers)
             select array_agg(id) from added having count(*) > 0;"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(fill)).execute(&mut berth.session().await).await.unwrap();
}

/// The content of an answer that curl has read without a complaint.
async fn by_curl(url: &str, accepts: &[&str]) -> Vec<u8> {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--fail", "--noproxy", "*", "--compressed", "--max-time", "600"])
        .args(["-H", "X-Auth-Token: admin", "-H", "OpenStack-API-Version: placement 1.39"])
        .args(["-H", "TE: trailers", "-H", "Connection: TE"])
        .args(accepts)
        .arg(url);
    let read = tokio::task::spawn_blocking(move || curl.output()).await.unwrap();
    let read = read.unwrap_or_else(|why| panic!("curl: {why}; `tools/install` installs it"));
    let words = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "curl {accepts:?} {url}: {}: {words}", read.status);
    read.stdout
}

/// The content of an answer that reqwest has read.
async fn by_reqwest(client: &reqwest::Client, url: &str, accepts: Option<&str>) -> Vec<u8> {
    let mut request = client
        .get(url)
        .header("x-auth-token", "admin")
        .header("openstack-api-version", "placement 1.39")
        .header("te", "trailers")
        .header("connection", "TE");
    if let Some(encoding) = accepts {
        request = request.header("accept-encoding", encoding);
    }
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{url}");
    let encoding = answer.headers().get("content-encoding").cloned();
    let body = answer.bytes().await.unwrap_or_else(|why| panic!("{accepts:?} {url}: {why:?}"));
    decoded(&body, encoding.as_ref().map(|it| it.to_str().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_any_size_are_read_to_their_end_in_every_encoding() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let berth = Berth::new().await;
    let served = Served::with_admin(berth.app(), wide()).await;
    let (api, admin) = (served.address(), served.admin_address());
    for (providers, bytes) in [(0, 10), (900, 2 << 20), (4500, 10 << 20)] {
        fill(&berth, providers).await;
        for path in ROUTES {
            let address = if path == CLOUD { admin } else { api };
            let url = format!("http://{address}{path}");
            let plain = by_reqwest(&client, &url, None).await;
            let is_large = path == "/resource_providers" || plain.len() >= bytes;
            assert!(is_large, "{path} has {} bytes with {providers} providers", plain.len());
            for encoding in ["identity", "gzip", "zstd"] {
                let read = by_reqwest(&client, &url, Some(encoding)).await;
                assert!(read == plain, "reqwest, {encoding}, {path}, {providers} providers");
                let read = by_curl(&url, &["-H", &format!("Accept-Encoding: {encoding}")]).await;
                assert!(read == plain, "curl, {encoding}, {path}, {providers} providers");
            }
            assert!(by_curl(&url, &[]).await == plain, "curl, {path}, {providers} providers");
        }
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_body_may_be_polled_again() {
    let berth = Berth::new().await;
    fill(&berth, 700).await;
    for path in ROUTES.into_iter().filter(|path| *path != CLOUD) {
        for encoding in ["identity", "gzip", "zstd"] {
            let request = Request::get(path)
                .header("host", "localhost")
                .header("x-auth-token", "admin")
                .header(ACCEPT_ENCODING, encoding);
            let mut body = berth.answer(request.body("".into()).unwrap()).await.into_body();
            while let Some(frame) = body.frame().await {
                frame.unwrap();
            }
            for _ in 0..3 {
                assert!(body.frame().await.is_none(), "{encoding}, {path}");
            }
            assert!(body.is_end_stream() || encoding != "identity", "{path}");
        }
    }
}
