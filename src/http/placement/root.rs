//! `/`: which versions there are. Needs no token.

use serde_json::json;

use super::call::Call;
use super::microversion::{INITIAL, LATEST};
use super::problem::Problem;
use super::reply::Reply;

/// `GET /`
pub(super) async fn show(call: Call) -> Result<Reply, Problem> {
    let versions = json!({
        "versions": [{
            "id": format!("v{INITIAL}"),
            "max_version": LATEST.to_string(),
            "min_version": INITIAL.to_string(),
            "status": "CURRENT",
            // This very place, wherever the client found it.
            "links": [{ "rel": "self", "href": "" }],
        }]
    });
    Ok(Reply::json(&versions).modified(call.now()))
}
