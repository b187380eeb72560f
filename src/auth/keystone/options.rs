//! How Keystone is reached, and how its answers are interpreted.

use std::time::Duration;

use super::credentials::Credentials;
use crate::http_client::ClientTls;

/// How Keystone is queried.
#[derive(Clone, Debug)]
pub struct Options {
    /// The URL at which Berth gets its own token, with or without `/v3`.
    pub auth_url: String,
    /// Berth's credentials.
    pub credentials: Credentials,
    /// The URL at which tokens are validated, instead of the one in the catalog.
    pub endpoint: Option<String>,
    /// The interface of the endpoint in the catalog: `internal`, `public` or `admin`.
    pub interface: String,
    /// Its region.
    pub region: Option<String>,
    /// TLS to Keystone.
    pub tls: ClientTls,
    /// The time for an answer, including all requests that are necessary for it.
    pub timeout: Duration,
    /// How often a request without an answer is retried.
    pub retries: u32,
    /// How long a valid token is cached; 0 disables the cache.
    pub cache_time: Duration,
}

/// How callers are identified by Keystone's answers.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// The URL in a 401 at which clients get a token; by default the auth URL.
    pub www_authenticate_uri: Option<String>,
    /// Roles, one of which a service token must have.
    pub service_token_roles: Vec<String>,
    /// Whether a request is refused if its service token has none of them.
    pub service_token_roles_required: bool,
    /// The type of this service in access rules.
    pub service_type: String,
}
