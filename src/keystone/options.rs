//! How Keystone is reached, and how its answers are judged.

use std::time::Duration;

use super::credentials::Credentials;

/// Where Keystone is, as whom to ask it, and how patiently.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where Berth gets its own token, with or without `/v3`.
    pub auth_url: String,
    /// As whom.
    pub credentials: Credentials,
    /// Where tokens are validated, if the catalog is not to be asked.
    pub endpoint: Option<String>,
    /// Which of its endpoints the catalog is asked for: `internal`, `public` or `admin`.
    pub interface: String,
    /// Of which region.
    pub region: Option<String>,
    /// How Keystone is reached.
    pub connection: Connection,
    /// How long an answer may take, with everything that has to be asked for it.
    pub timeout: Duration,
    /// How often a connection is tried again.
    pub retries: u32,
    /// How long a valid token is believed without asking again; 0: not at all.
    pub cache_time: Duration,
}

/// How Keystone is reached by TLS. All are PEM.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// The authorities that are trusted instead of the system's.
    pub ca: Option<Vec<u8>>,
    /// A certificate with its key, by which Berth shows who it is.
    pub identity: Option<Vec<u8>>,
    /// Whether any certificate is believed.
    pub insecure: bool,
}

/// How callers are judged by what Keystone says of them.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// Where those who are turned away are told to get a token; the auth URL unless it is given.
    pub www_authenticate_uri: Option<String>,
    /// Roles of which a service that asks on behalf of a user has one.
    pub service_token_roles: Vec<String>,
    /// Whether a service token without one of them turns the request away.
    pub service_token_roles_required: bool,
    /// The type of this service in access rules.
    pub service_type: String,
}
