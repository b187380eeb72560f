//! Which versions there are, and what the one there is consists of.

use serde_json::{Value, json};

use super::call::Call;
use super::problem::Problem;
use super::reply::Reply;

/// What the version has, as it is linked.
const ENDPOINTS: [&str; 4] = ["groups", "placements", "plans", "status"];

/// `GET /`
pub(super) async fn root(call: Call) -> Result<Reply, Problem> {
    Ok(Reply::json(&versions(&[call.site.location("/v1/")])))
}

/// `GET /v1/`
pub(super) async fn endpoints(call: Call) -> Result<Reply, Problem> {
    let location = |name| call.site.location(&format!("/v1/{name}/"));
    Ok(Reply::json(&versions(&ENDPOINTS.map(location))))
}

fn versions(locations: &[String]) -> Value {
    let links: Vec<Value> =
        locations.iter().map(|href| json!({"href": href, "rel": "self"})).collect();
    json!({"versions": [{"status": "CURRENT", "id": "v1.0", "links": links}]})
}
