//! The version document, and the endpoints of the version.

use serde_json::{Value, json};

use super::problem::Problem;
use crate::http::api::reply::Reply;
use crate::http::layers::external_url::ExternalUrl;

/// The endpoints of the version.
const ENDPOINTS: [&str; 5] = ["groups", "placements", "plans", "resources", "status"];

/// `GET /`
pub(super) async fn root(external_url: ExternalUrl) -> Result<Reply, Problem> {
    Ok(Reply::json(&versions(&[external_url.location("/v1/")])))
}

/// `GET /v1/`
pub(super) async fn endpoints(external_url: ExternalUrl) -> Result<Reply, Problem> {
    let location = |name| external_url.location(&format!("/v1/{name}/"));
    Ok(Reply::json(&versions(&ENDPOINTS.map(location))))
}

fn versions(locations: &[String]) -> Value {
    let links: Vec<Value> =
        locations.iter().map(|href| json!({"href": href, "rel": "self"})).collect();
    json!({"versions": [{"status": "CURRENT", "id": "v1.0", "links": links}]})
}
