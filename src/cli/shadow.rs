//! `berth shadow`: options of the proxy that compares Berth with the service behind it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::config::LogOptions;
use crate::config::values::{bounded, count, seconds};
use crate::http::edge::bounds::{Bounds, HEADER_TIMEOUT, IDLE_TIMEOUT};
use crate::http::edge::listener::Endpoint;
use crate::http::edge::tls::Files;
use crate::moving::shadow::{self, Options, ServiceUrl};
use crate::observe::telemetry::Telemetry;
use crate::server::failure::Failure;

const MIB: usize = 1 << 20;

/// Options of `shadow`.
#[derive(Args, Clone, Debug)]
pub struct ShadowOptions {
    /// The placement service whose responses clients get, as `http://HOST[:PORT][/PREFIX]`.
    #[arg(long, env = "BERTH_SHADOW_UPSTREAM", value_name = "URL")]
    pub upstream: ServiceUrl,

    /// The Berth service to compare with it.
    ///
    /// It gets the same requests with the clients' own tokens, so it must use the same Keystone, or
    /// `--auth noauth2` like the upstream.
    #[arg(long, env = "BERTH_SHADOW_BERTH", value_name = "URL")]
    pub berth: ServiceUrl,

    /// Addresses for clients, as `ADDRESS:PORT` or `unix:/path`.
    #[arg(
        long,
        env = "BERTH_SHADOW_LISTEN",
        default_value = "127.0.0.1:8778",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub listen: Vec<Endpoint>,

    /// Addresses for operators: metrics, the summary, and the switch of the mirror.
    ///
    /// Served without TLS and without tokens.
    #[arg(
        long,
        env = "BERTH_SHADOW_ADMIN_LISTEN",
        default_value = "127.0.0.1:8780",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub admin_listen: Vec<Endpoint>,

    /// Repeat the writes that the upstream accepted in Berth, in the order of acceptance.
    ///
    /// Without it, only reads are compared; later changes in the upstream then show as differences.
    #[arg(long, env = "BERTH_SHADOW_MIRROR_WRITES")]
    pub mirror_writes: bool,

    /// Write each difference to this file, one JSON object per line.
    #[arg(long, env = "BERTH_SHADOW_DIFFERENCES", value_name = "FILE")]
    pub differences: Option<PathBuf>,

    /// Maximum size of that file in MiB; further differences are only counted.
    #[arg(long, env = "BERTH_SHADOW_DIFFERENCES_MAX", default_value = "100", value_name = "MIB",
          value_parser = count)]
    pub differences_max: usize,

    /// Number of repetitions, in both services, after which a difference counts.
    ///
    /// A write to the same object in between makes it inconclusive. Differences that disappear, or change, are
    /// counted as `changing`.
    #[arg(long, env = "BERTH_SHADOW_CONFIRMATIONS", default_value = "2", value_name = "COUNT",
          value_parser = confirmations)]
    pub confirmations: usize,

    /// Maximum number of reads, and of writes, that wait to be mirrored.
    ///
    /// Further requests are not mirrored, but counted.
    #[arg(long, env = "BERTH_SHADOW_QUEUE", default_value = "1000", value_name = "COUNT",
          value_parser = count)]
    pub queue: usize,

    /// Number of reads that are mirrored at once.
    #[arg(long, env = "BERTH_SHADOW_WORKERS", default_value = "4", value_name = "COUNT",
          value_parser = workers)]
    pub workers: usize,

    /// Maximum memory of all requests and responses that wait or are compared, in MiB.
    #[arg(long, env = "BERTH_SHADOW_MEMORY", default_value = "256", value_name = "MIB",
          value_parser = mebibytes)]
    pub memory: usize,

    /// Maximum size of a response that is compared, in MiB. Longer ones are only forwarded.
    #[arg(long, env = "BERTH_SHADOW_ANSWER_MAX", default_value = "32", value_name = "MIB",
          value_parser = mebibytes)]
    pub answer_max: usize,

    /// Timeout until the upstream begins its response, in seconds; then the client gets 504.
    #[arg(long, env = "BERTH_SHADOW_UPSTREAM_TIMEOUT", default_value = "600",
          value_name = "SECONDS", value_parser = seconds)]
    pub upstream_timeout: Duration,

    /// Timeout for a response of Berth, in seconds.
    #[arg(long, env = "BERTH_SHADOW_BERTH_TIMEOUT", default_value = "30", value_name = "SECONDS",
          value_parser = seconds)]
    pub berth_timeout: Duration,

    /// Trust certificates of both services that are signed by these authorities: a PEM file.
    ///
    /// Default: the system's.
    #[arg(long, env = "BERTH_SHADOW_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

    /// Certificate for TLS with clients: a PEM file, the server's certificate first.
    ///
    /// Read again when it changes, and on SIGHUP.
    #[arg(long, env = "BERTH_SHADOW_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate: a PEM file.
    #[arg(long, env = "BERTH_SHADOW_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Maximum number of connections of clients.
    ///
    /// Another connection closes the one that has been idle longest.
    #[arg(long, env = "BERTH_SHADOW_MAX_CONNECTIONS", default_value = "2048",
          value_name = "COUNT", value_parser = count)]
    pub max_connections: usize,

    /// Time for finishing requests in progress, and then the mirror, after SIGTERM, in seconds.
    #[arg(long, env = "BERTH_SHADOW_SHUTDOWN_GRACE", default_value = "30", value_name = "SECONDS",
          value_parser = seconds)]
    pub shutdown_grace: Duration,

    /// The logs.
    #[command(flatten)]
    pub logs: LogOptions,
}

/// More cannot be reached within the pauses.
fn confirmations(text: &str) -> Result<usize, String> {
    bounded(text, 0, 6)
}

fn workers(text: &str) -> Result<usize, String> {
    bounded(text, 1, 256)
}

fn mebibytes(text: &str) -> Result<usize, String> {
    bounded(text, 1, 1 << 20)
}

impl ShadowOptions {
    fn options(&self) -> Options {
        let tls = self.tls_cert.clone().zip(self.tls_key.clone());
        let differences_max = u64::try_from(self.differences_max.saturating_mul(MIB));
        Options {
            upstream: self.upstream.clone(),
            berth: self.berth.clone(),
            listen: self.listen.clone(),
            admin_listen: self.admin_listen.clone(),
            tls: tls.map(|(cert, key)| Files { cert, key, client_ca: None }),
            ca_file: self.ca_file.clone(),
            mirror_writes: self.mirror_writes,
            queue: self.queue,
            workers: self.workers,
            memory: self.memory.saturating_mul(MIB),
            body: self.answer_max.saturating_mul(MIB),
            confirmations: self.confirmations,
            differences: self.differences.clone().zip(differences_max.ok()),
            upstream_timeout: self.upstream_timeout,
            berth_timeout: self.berth_timeout,
            bounds: Bounds {
                connections: self.max_connections,
                header_timeout: HEADER_TIMEOUT,
                idle_timeout: IDLE_TIMEOUT,
                write_timeout: self.upstream_timeout,
                shutdown_delay: Duration::ZERO,
                shutdown_grace: self.shutdown_grace,
            },
        }
    }
}

/// Serves until stopped, and returns the summary as text.
///
/// # Errors
/// Something needed could not be set up.
pub async fn run(options: &ShadowOptions, telemetry: &Arc<Telemetry>) -> Result<String, Failure> {
    shadow::run(options.options(), telemetry).await.map_err(Failure)
}
