//! Options for connecting to Keystone and for interpreting its responses.

use std::time::Duration;

use super::credentials::Credentials;
use crate::http_client::ClientTls;

/// Options of the connection to Keystone.
#[derive(Clone, Debug)]
pub struct Options {
    /// The URL at which Berth gets its own token, with or without `/v3`.
    pub auth_url: String,
    /// Berth's credentials.
    pub credentials: Credentials,
    /// The interface of the endpoint in the catalog: `internal`, `public` or `admin`.
    pub interface: String,
    /// Its region.
    pub region: Option<String>,
    /// TLS to Keystone.
    pub tls: ClientTls,
    /// Timeout for the result of a query, including all requests that it takes.
    pub timeout: Duration,
    /// Number of retries of a request without a response.
    pub retries: u32,
    /// Time for which valid tokens are cached; 0 disables the cache.
    pub cache_time: Duration,
}

/// Options for identifying callers by Keystone's responses.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// The URL in 401 responses at which clients get a token; by default the auth URL.
    pub www_authenticate_uri: Option<String>,
    /// Roles, one of which a service token must have.
    pub service_token_roles: Vec<String>,
    /// Refuses requests whose service token has none of these roles.
    pub service_token_roles_required: bool,
}
