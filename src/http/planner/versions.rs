//! The version document, and the endpoints of the version.

use schemars::JsonSchema;
use serde::Serialize;

use super::problem::Problem;
use crate::http::api::reply::Reply;
use crate::http::layers::external_url::ExternalUrl;

/// The endpoints of the version.
const ENDPOINTS: [&str; 5] = ["groups", "placements", "plans", "resources", "status"];

/// The version document.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "PlannerVersions")]
pub(super) struct Versions {
    versions: [Version; 1],
}

#[derive(JsonSchema, Serialize)]
#[schemars(rename = "PlannerVersion")]
struct Version {
    status: &'static str,
    id: &'static str,
    links: Vec<Link>,
}

#[derive(JsonSchema, Serialize)]
#[schemars(rename = "PlannerLink")]
struct Link {
    href: String,
    rel: &'static str,
}

/// `GET /`
pub(super) async fn root(external_url: ExternalUrl) -> Result<Reply, Problem> {
    Ok(Reply::json(&versions(&[external_url.location("/v1/")])))
}

/// `GET /v1/`
pub(super) async fn endpoints(external_url: ExternalUrl) -> Result<Reply, Problem> {
    let location = |name| external_url.location(&format!("/v1/{name}/"));
    Ok(Reply::json(&versions(&ENDPOINTS.map(location))))
}

fn versions(locations: &[String]) -> Versions {
    let link = |href: &String| Link { href: href.clone(), rel: "self" };
    let links = locations.iter().map(link).collect();
    Versions { versions: [Version { status: "CURRENT", id: "v1.0", links }] }
}
