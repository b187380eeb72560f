//! Network options: TLS, proxies, the number of concurrent requests, and CORS.

use std::path::PathBuf;

use clap::Args;

use super::address_or_none::{AddressOrNone, endpoints};
use super::values::count;
use crate::fairness::rate_limits::Rate;
use crate::http::admin::token::AdminToken;
use crate::http::edge::listener::Endpoint;
use crate::http::edge::tls::Files;
use crate::http::layers::cors::Cors;
use crate::http::layers::proxy::Trusted;

/// The maximum number of flavors in `/metrics`.
const FIT_FLAVORS_MAX: usize = 64;

/// Network options.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Network, TLS and CORS")]
pub struct NetworkOptions {
    /// Addresses for health checks and metrics, as `ADDRESS:PORT` or `unix:/path`; `none`, the
    /// default: neither is served.
    ///
    /// Served without TLS and without tokens by default: `/healthz` (the process answers), `/readyz` (the
    /// database answers, too) and `/metrics` (in Prometheus's text format). These connections do
    /// not count towards --max-connections.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub admin_listen: Vec<AddressOrNone>,

    /// Serve --admin-listen over TLS, with --tls-cert and as the APIs are, except on a Unix socket.
    #[arg(long, default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub admin_tls: bool,

    /// File with a token that requests for `/metrics` and `/metrics/cloud` must have.
    ///
    /// As `Authorization: Bearer TOKEN`. Health checks need none.
    #[arg(long, value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,

    /// Flavors whose remaining capacity is shown in `/metrics`, by name or ID. Default: none.
    ///
    /// At most 64. They are counted once a minute, beside requests.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub fit_flavors: Vec<String>,

    /// Proxies whose forwarding headers are trusted: addresses, networks such as 10.0.0.0/8, or
    /// `unix:` for all clients of a Unix socket.
    ///
    /// These proxies report the client's address and how it reached the API, by Forwarded or by
    /// X-Forwarded-For, -Proto, -Host and -Prefix.
    #[arg(long, value_delimiter = ',', value_name = "NETWORKS")]
    pub trusted_proxies: Vec<String>,

    /// Certificate for TLS: a PEM file, the server's certificate first, then the chain to the
    /// authority.
    ///
    /// With it and --tls-key, every address of --listen and --planner-listen that is not a Unix
    /// socket is served over TLS. The files are read again when they change, and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate: a PEM file (PKCS #8, PKCS #1 or SEC 1).
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Require client certificates signed by these authorities: a PEM file.
    ///
    /// Without it, clients need no certificate.
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,

    /// Maximum number of concurrent requests; further ones are refused with 503 at once.
    ///
    /// `GET /` does not count.
    #[arg(long, default_value = "1024", value_name = "COUNT", value_parser = count)]
    pub max_requests: usize,

    /// Maximum rate of requests of a project, as `RATE` or `RATE:BURST`. Default: none.
    ///
    /// RATE is in requests a second; BURST, by default the same, is the number of requests at once
    /// after a pause. Beyond it, requests get 429 with Retry-After. Each replica counts its own.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate_limit_project: Option<Rate>,

    /// The same for a user.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate_limit_user: Option<Rate>,

    /// Origins whose pages may use the API from a browser, as `https://HOST[:PORT]`, or `*` for
    /// all.
    ///
    /// Default: none; responses then have no CORS headers.
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub cors_allowed_origin: Vec<String>,
}

impl NetworkOptions {
    /// The proxies whose forwarding headers are trusted.
    ///
    /// # Errors
    /// The entry that is neither an address nor a network.
    pub fn trusted(&self) -> Result<Trusted, String> {
        Trusted::parse(&self.trusted_proxies).map_err(|why| format!("--trusted-proxies: {why}"))
    }

    /// Permissions of pages from other origins; `None` if no origin is allowed.
    ///
    /// # Errors
    /// An origin that cannot be part of a header.
    pub fn cors(&self) -> Result<Option<Cors>, String> {
        let origins = entries(&self.cors_allowed_origin);
        if origins.is_empty() {
            return Ok(None);
        }
        Cors::new(&origins).map(Some)
    }

    /// The addresses for health checks and metrics.
    ///
    /// # Errors
    /// A message: the list has addresses and `none`.
    pub fn admin_endpoints(&self) -> Result<Vec<&Endpoint>, String> {
        endpoints("--admin-listen", &self.admin_listen)
    }

    /// The token for metrics.
    ///
    /// # Errors
    /// The file cannot be read, or is empty.
    pub fn admin_token(&self) -> Result<Option<AdminToken>, String> {
        self.admin_token_file.as_deref().map(AdminToken::read).transpose()
    }

    /// Returns whether health checks and metrics are served.
    pub fn has_admin(&self) -> bool {
        self.admin_endpoints().is_ok_and(|endpoints| !endpoints.is_empty())
    }

    /// The flavors whose remaining capacity is counted, if metrics are served.
    pub fn counted_flavors(&self) -> Vec<String> {
        if self.has_admin() { entries(&self.fit_flavors) } else { Vec::new() }
    }

    /// Checks that flavors can be counted.
    ///
    /// # Errors
    /// There are too many.
    pub fn check_flavors(&self) -> Result<(), String> {
        if self.fit_flavors.len() <= FIT_FLAVORS_MAX {
            return Ok(());
        }
        Err(format!("--fit-flavors: at most {FIT_FLAVORS_MAX} flavors can be counted"))
    }

    /// The files for TLS; `None` without TLS.
    ///
    /// # Errors
    /// Only one of certificate and key is given.
    pub fn tls(&self) -> Result<Option<Files>, String> {
        if self.admin_tls && self.tls_cert.is_none() {
            return Err("--admin-tls needs --tls-cert and --tls-key".to_owned());
        }
        let client_ca = self.tls_client_ca.clone();
        match (self.tls_cert.clone(), self.tls_key.clone()) {
            (Some(cert), Some(key)) => Ok(Some(Files { cert, key, client_ca })),
            (None, None) if client_ca.is_none() => Ok(None),
            _ => Err("TLS needs both --tls-cert and --tls-key".to_owned()),
        }
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let (per_second, burst) = text.split_once(':').map_or((text, text), |both| both);
    match (per_second.parse(), burst.parse()) {
        (Ok(per_second), Ok(burst)) => Ok(Rate { per_second, burst }),
        _ => Err("must be RATE or RATE:BURST, numbers of requests above 0".to_owned()),
    }
}

/// The entries of a list that are not empty, trimmed.
fn entries(list: &[String]) -> Vec<String> {
    let trimmed = list.iter().map(|entry| entry.trim());
    trimmed.filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}
