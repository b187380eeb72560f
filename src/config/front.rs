//! Options of the front: encryption, proxies, how much is worked on at once, and requests from
//! pages of other origins.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::http::cors::Cors;
use crate::http::listener::Endpoint;
use crate::http::proxy::Trusted;
use crate::http::tls::Files;

/// How to be reached beside the address.
#[derive(Args, Clone, Debug)]
pub struct FrontOptions {
    /// Addresses to tell the state of the server on, `ADDRESS:PORT` or `unix:/path`, without TLS and
    /// without tokens: `/healthz`, whether the process answers; `/readyz`, whether the database
    /// does, too; `/metrics`, in the text format of Prometheus. Their connections do not count for
    /// --max-connections. None: it is told nowhere.
    #[arg(long, env = "BERTH_ADMIN_LISTEN", value_name = "ADDRESS", value_delimiter = ',')]
    pub admin_listen: Vec<Endpoint>,

    /// Seconds a kept-alive connection may be idle after an answer. It is to be longer than the
    /// period in which clients come back: nova-compute does every 60 seconds.
    #[arg(long, env = "BERTH_IDLE_TIMEOUT", default_value = "120", value_name = "SECONDS",
          value_parser = super::seconds)]
    pub idle_timeout: Duration,

    /// Proxies in front whose word counts, as addresses, networks such as 10.0.0.0/8, or `unix:`
    /// for whoever comes by a Unix socket. Only they may say, by Forwarded or X-Forwarded-For,
    /// -Proto, -Host and -Prefix, who a client is and where it found the API.
    #[arg(long, env = "BERTH_TRUSTED_PROXIES", value_delimiter = ',', value_name = "NETWORKS")]
    pub trusted_proxies: Vec<String>,

    /// The certificate to serve with over TLS: a file in PEM, the server's own certificate first,
    /// then those that lead to the authority. With it and --tls-key, every address of --listen
    /// and --planner-listen that is not a Unix socket is served over TLS. The files are read again when they change, and on
    /// SIGHUP.
    #[arg(long, env = "BERTH_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of the certificate: a file in PEM (PKCS #8, PKCS #1 or SEC 1).
    #[arg(long, env = "BERTH_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Authorities whose certificates clients must present over TLS: a file in PEM. Without it,
    /// clients need none.
    #[arg(long, env = "BERTH_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,

    /// Requests worked on at once; further ones are answered with 503 at once. `GET /` does not
    /// count.
    #[arg(long, env = "BERTH_MAX_REQUESTS", default_value = "1024", value_name = "COUNT",
          value_parser = super::count)]
    pub max_requests: usize,

    /// Origins whose pages may use the API from a browser, as `https://HOST[:PORT]`, or `*` for all.
    /// None: no answer has headers for them.
    #[arg(long, env = "BERTH_CORS_ALLOWED_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    pub cors_allowed_origin: Vec<String>,

    /// Whether pages of allowed origins may send credentials.
    #[arg(long, env = "BERTH_CORS_ALLOW_CREDENTIALS", default_value = "true", num_args = 0..=1,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub cors_allow_credentials: bool,

    /// Seconds a browser may remember what it was allowed; 0 says nothing of it.
    #[arg(long, env = "BERTH_CORS_MAX_AGE", default_value = "3600", value_name = "SECONDS")]
    pub cors_max_age: u64,

    /// Methods that pages of allowed origins may use.
    #[arg(
        long,
        env = "BERTH_CORS_ALLOW_METHODS",
        value_name = "METHOD",
        value_delimiter = ',',
        default_value = "GET,PUT,POST,DELETE,PATCH"
    )]
    pub cors_allow_methods: Vec<String>,

    /// Headers that pages of allowed origins may send, beside those that are always harmless.
    #[arg(
        long,
        env = "BERTH_CORS_ALLOW_HEADERS",
        value_name = "HEADER",
        value_delimiter = ',',
        default_value = "X-Auth-Token,X-Openstack-Request-Id,X-Identity-Status,X-Roles,\
                           X-Service-Catalog,X-User-Id,X-Tenant-Id,OpenStack-API-Version"
    )]
    pub cors_allow_headers: Vec<String>,

    /// Headers of answers that pages of allowed origins may read.
    #[arg(
        long,
        env = "BERTH_CORS_EXPOSE_HEADERS",
        value_name = "HEADER",
        value_delimiter = ',',
        default_value = "X-Auth-Token,X-Openstack-Request-Id,X-Subject-Token,X-Service-Token,\
                           OpenStack-API-Version"
    )]
    pub cors_expose_headers: Vec<String>,
}

impl FrontOptions {
    /// Whose word about clients counts.
    ///
    /// # Errors
    /// Which entry is neither an address nor a network.
    pub fn trusted(&self) -> Result<Trusted, String> {
        Trusted::parse(&self.trusted_proxies).map_err(|why| format!("--trusted-proxies: {why}"))
    }

    /// What is asked for by pages of other origins, unless none is allowed any.
    ///
    /// # Errors
    /// Which option cannot stand in a header.
    pub fn cors(&self) -> Result<Option<Cors>, String> {
        let origins = entries(&self.cors_allowed_origin);
        if origins.is_empty() {
            return Ok(None);
        }
        let cors = Cors::new(&origins)?
            .with_credentials(self.cors_allow_credentials)
            .with_max_age(self.cors_max_age)
            .with_methods(entries(&self.cors_allow_methods))
            .with_headers(entries(&self.cors_allow_headers));
        cors.exposing(&entries(&self.cors_expose_headers)).map(Some)
    }

    /// The files to serve over TLS with, if it is asked for.
    ///
    /// # Errors
    /// One is named and not the other.
    pub fn tls(&self) -> Result<Option<Files>, String> {
        let client_ca = self.tls_client_ca.clone();
        match (self.tls_cert.clone(), self.tls_key.clone()) {
            (Some(cert), Some(key)) => Ok(Some(Files { cert, key, client_ca })),
            (None, None) if client_ca.is_none() => Ok(None),
            _ => Err("TLS takes both --tls-cert and --tls-key".to_owned()),
        }
    }
}

/// The entries of a list, without blanks around them and empty ones.
fn entries(list: &[String]) -> Vec<String> {
    let trimmed = list.iter().map(|entry| entry.trim());
    trimmed.filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}
