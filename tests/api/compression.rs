//! Large answers are compressed for clients that ask for it, and say the same.

use std::io::Read;

use axum::body::to_bytes;
use axum::http::Request;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use serde_json::Value;

use crate::support::app::Berth;

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

#[tokio::test]
async fn large_answers_are_compressed_for_clients_that_ask_for_it() {
    let berth = Berth::new().await;
    for nth in 0..200 {
        berth.host(&format!("host-{nth:03}"), &[("VCPU", 8)]).await;
    }
    for path in ["/resource_providers", "/allocation_candidates?resources=VCPU:1"] {
        let (encoding, vary, plain) = ask(&berth, path, None).await;
        assert_eq!(encoding, None);
        assert!(vary.starts_with("openstack-api-version"), "{vary}");
        for (asked, expected) in
            [("gzip, deflate", "gzip"), ("zstd", "zstd"), ("gzip;q=0.5, zstd", "zstd")]
        {
            let (encoding, vary, compressed) = ask(&berth, path, Some(asked)).await;
            assert_eq!(encoding.as_deref(), Some(expected), "{asked}");
            assert!(vary.contains("accept-encoding"), "{vary}");
            assert!(compressed.len() * 4 < plain.len(), "{} bytes", compressed.len());
            let mut told = Vec::new();
            if expected == "gzip" {
                flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut told).unwrap();
            } else {
                zstd::Decoder::new(&compressed[..]).unwrap().read_to_end(&mut told).unwrap();
            }
            let [told, plain]: [Value; 2] =
                [&told, &plain].map(|text| serde_json::from_slice(text).unwrap());
            assert_eq!(told, plain);
        }
        for asked in ["identity", "br", "gzip;q=0"] {
            assert_eq!(ask(&berth, path, Some(asked)).await.0, None, "{asked}");
        }
    }
    assert_eq!(ask(&berth, "/", Some("gzip")).await.0, None, "small answers stay as they are");
}
