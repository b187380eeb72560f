//! Requests to a running server on this machine: whether it responds or is ready, and its metrics.

use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    SignatureScheme, StreamOwned,
};

use crate::config::{AddressOrNone, Config, endpoints, planner_endpoints};
use crate::http::edge::listener::Endpoint;
use crate::server::failure::Failure;

/// Timeout for each step.
const STEP_MAX: Duration = Duration::from_secs(5);
/// Maximum length of the response to a probe, in bytes.
const PROBE_RESPONSE_MAX: u64 = 4096;
/// Maximum length of the metrics, in bytes.
const METRICS_MAX: u64 = 16 << 20;

/// Options of `health`: those of `serve` for reaching the server.
#[derive(Args, Clone, Debug)]
pub struct HealthOptions {
    /// Read the server's options from this TOML file.
    ///
    /// Default: /etc/berth/berth.toml if it exists; /dev/null means no file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Ask whether the server is ready: its database responds, and it is not shutting down.
    ///
    /// Asks `/readyz` of both APIs, instead of `/` of the Placement API.
    #[arg(long)]
    pub ready: bool,

    /// Addresses of the server. All of them are probed.
    #[arg(long, default_value = "127.0.0.1:8778", value_name = "ADDRESS", value_delimiter = ',')]
    pub listen: Vec<Endpoint>,

    /// Addresses of the planner, which --ready asks too; `none`: it is not served.
    #[arg(long, default_value = "127.0.0.1:8090", value_name = "ADDRESS", value_delimiter = ',')]
    pub planner_listen: Vec<AddressOrNone>,

    /// Addresses of the server for health checks and metrics.
    ///
    /// An address of --listen that is among them is probed without TLS, unless --admin-tls is set.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub admin_listen: Vec<AddressOrNone>,

    /// Whether those addresses have TLS.
    #[arg(long, default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub admin_tls: bool,

    /// Certificate of the server, if it has one.
    ///
    /// The server is then probed over TLS, except on a Unix socket. The certificate is not verified.
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// Authorities of the clients' certificates, if the server requires them.
    ///
    /// Readiness is then checked at --admin-listen, if set.
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
}

/// Runs `berth health`, and returns a message for each address that fails.
///
/// # Errors
/// The addresses of the planner contradict each other.
pub fn run(options: &HealthOptions) -> Result<Vec<String>, Failure> {
    let mut apis = options.listen.clone();
    if options.ready {
        let planner = planner_endpoints(&options.planner_listen).map_err(Failure)?;
        apis.extend(planner.into_iter().cloned());
    }
    let admin = endpoints("--admin-listen", &options.admin_listen).map_err(Failure)?;
    let probe = if options.ready { Probe::IsReady } else { Probe::Answers };
    let addresses = ServerAddresses {
        apis,
        admin: admin.into_iter().cloned().collect(),
        has_tls: options.tls_cert.is_some(),
        admin_has_tls: options.admin_tls,
        demands_certificates: options.tls_client_ca.is_some(),
    };
    let outcomes = addresses.probe(probe).into_iter();
    let failures = outcomes
        .filter_map(|(endpoint, outcome)| outcome.err().map(|why| format!("{endpoint}: {why}")));
    Ok(failures.collect())
}

/// Asks the server that has this configuration whether it is ready, at each of its addresses.
///
/// # Errors
/// The addresses contradict each other. Of an address: it does not respond, or is not ready.
pub fn readiness(config: &Config) -> Result<Vec<(Endpoint, io::Result<String>)>, String> {
    let planner = config.planner.endpoints()?;
    let admin = config.network.admin_endpoints()?;
    let addresses = ServerAddresses {
        apis: config.listen.iter().chain(planner).cloned().collect(),
        admin: admin.into_iter().cloned().collect(),
        has_tls: config.network.tls_cert.is_some(),
        admin_has_tls: config.network.admin_tls,
        demands_certificates: config.network.tls_client_ca.is_some(),
    };
    Ok(addresses.probe(Probe::IsReady))
}

/// The kind of probe. Neither request carries a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The server responds.
    Answers,
    /// Its database responds too, and it is not shutting down.
    IsReady,
}

impl Probe {
    fn request(self) -> String {
        let path = match self {
            Self::Answers => "/",
            Self::IsReady => "/readyz",
        };
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    }
}

/// Listeners of a server, from its options.
#[derive(Clone, Debug)]
struct ServerAddresses {
    /// Addresses to probe.
    apis: Vec<Endpoint>,
    /// Addresses for health checks. They may be among those to probe.
    admin: Vec<Endpoint>,
    /// Whether the APIs use TLS.
    has_tls: bool,
    /// Whether the addresses for health checks use TLS.
    admin_has_tls: bool,
    /// Whether they require client certificates.
    demands_certificates: bool,
}

impl ServerAddresses {
    /// Probes the server at each address. Returns the texts of its responses.
    fn probe(&self, probe: Probe) -> Vec<(Endpoint, io::Result<String>)> {
        let targets = self.targets(probe).into_iter();
        targets
            .map(|(endpoint, with_tls)| (endpoint.clone(), health(endpoint, with_tls, probe)))
            .collect()
    }

    /// The addresses to probe, and whether to use TLS. An address that requires client certificates cannot be probed
    /// for readiness; the addresses for health checks can, and report the state of all APIs.
    fn targets(&self, probe: Probe) -> Vec<(&Endpoint, bool)> {
        let is_admin = |endpoint| self.admin.iter().any(|admin| is_same(admin, endpoint));
        let mut targets: Vec<(&Endpoint, bool)> = Vec::new();
        for endpoint in &self.apis {
            let is_plain = is_admin(endpoint) && !self.admin_has_tls;
            let with_tls = self.has_tls && matches!(endpoint, Endpoint::Tcp(_)) && !is_plain;
            let is_closed = with_tls && self.demands_certificates && probe == Probe::IsReady;
            if is_closed && !self.admin.is_empty() && !self.admin_has_tls {
                targets.extend(self.admin.iter().map(|admin| (admin, false)));
            } else {
                targets.push((endpoint, with_tls));
            }
        }
        let mut once = Vec::new();
        targets.retain(|(endpoint, _)| {
            let is_new = !once.contains(endpoint);
            once.push(*endpoint);
            is_new
        });
        targets
    }
}

/// Returns whether a request to one address reaches the listener of the other.
fn is_same(listener: &Endpoint, target: &Endpoint) -> bool {
    match (listener, target) {
        (Endpoint::Tcp(listener), Endpoint::Tcp(target)) => {
            let everywhere = listener.ip().is_unspecified();
            listener.port() == target.port()
                && (everywhere || reachable(*listener) == reachable(*target))
        }
        (listener, target) => listener == target,
    }
}

/// Probes the server at an endpoint; TCP is with or without TLS. Returns the text of its response.
///
/// # Errors
/// It does not respond, or not with 200.
pub fn health(endpoint: &Endpoint, with_tls: bool, probe: Probe) -> io::Result<String> {
    let encryption = if with_tls { Encryption::Any } else { Encryption::None };
    let response = exchange(endpoint, encryption, &probe.request(), PROBE_RESPONSE_MAX);
    let response = match (response, probe) {
        // A server that demands a client certificate is alive.
        (Err(error), Probe::Answers) if requires_certificate(&error) => return Ok(String::new()),
        (Err(error), Probe::IsReady) if requires_certificate(&error) => {
            let why = "it demands a client certificate; ask its --admin-listen instead";
            return Err(io::Error::other(why));
        }
        (outcome, _) => outcome?,
    };
    let words = response.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
    if response.starts_with("HTTP/1.1 200 ") {
        return Ok(words.to_owned());
    }
    let status = status_line(&response);
    Err(io::Error::other(match (probe, words) {
        (Probe::IsReady, words) if !words.is_empty() => {
            format!("it responded with {status}: {words}")
        }
        (Probe::Answers | Probe::IsReady, _) => format!("it responded with {status}"),
    }))
}

/// The encryption of an exchange.
#[derive(Debug)]
enum Encryption {
    None,
    /// TLS, whatever the server's certificate. For requests without secrets.
    Any,
    /// TLS with the server that has this certificate.
    By(CertificateDer<'static>),
}

/// Sends a request to an endpoint, and returns the response with its head, of at most this number of bytes.
fn exchange(
    endpoint: &Endpoint,
    encryption: Encryption,
    request: &str,
    at_most: u64,
) -> io::Result<String> {
    match endpoint {
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(STEP_MAX))?;
            stream.set_write_timeout(Some(STEP_MAX))?;
            ask(stream, request, at_most)
        }
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect_timeout(&reachable(*address), STEP_MAX)?;
            stream.set_read_timeout(Some(STEP_MAX))?;
            stream.set_write_timeout(Some(STEP_MAX))?;
            match encryption {
                Encryption::None => ask(stream, request, at_most),
                Encryption::Any => ask(encrypted(stream, None)?, request, at_most),
                Encryption::By(server) => ask(encrypted(stream, Some(server))?, request, at_most),
            }
        }
    }
}

fn status_line(response: &str) -> &str {
    response.lines().next().unwrap_or("nothing")
}

/// Reads the metrics of the server that has this configuration.
///
/// # Errors
/// It serves none, or does not respond.
pub fn metrics(config: &Config) -> Result<String, String> {
    let endpoints = config.network.admin_endpoints()?;
    let endpoint = endpoints.first().ok_or("there is no --admin-listen")?;
    let token = config.network.admin_token()?;
    let token =
        token.map_or_else(String::new, |it| format!("Authorization: {}\r\n", it.authorization()));
    let request =
        format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n");
    let encryption = match &config.network.tls_cert {
        // The token is for the server that has this certificate.
        Some(file) if config.network.admin_tls => Encryption::By(
            CertificateDer::from_pem_file(file)
                .map_err(|error| format!("--tls-cert {}: {error}", file.display()))?,
        ),
        Some(_) | None => Encryption::None,
    };
    let response = exchange(endpoint, encryption, &request, METRICS_MAX);
    let response = response.map_err(|error| format!("{endpoint}: {error}"))?;
    match response.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
        _ => Err(format!("{endpoint}: {}", status_line(&response))),
    }
}

/// An address at which a server that listens on all addresses can be reached.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => ([127, 0, 0, 1], v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, v6.port()).into(),
        SocketAddr::V4(_) | SocketAddr::V6(_) => address,
    }
}

fn ask(mut stream: impl Read + Write, request: &str, at_most: u64) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.take(at_most).read_to_string(&mut response)?;
    Ok(response)
}

/// Encrypts a connection to the server that has a certificate, or to any.
fn encrypted(
    stream: TcpStream,
    expected: Option<CertificateDer<'static>>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ExpectedCertificate(expected)))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let client = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(client, stream))
}

fn requires_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    inner == Some(&Error::AlertReceived(AlertDescription::CertificateRequired))
}

/// Accepts one certificate, or every one: a probe of this machine's addresses sends no secrets, so it need not
/// authenticate the server.
#[derive(Debug)]
struct ExpectedCertificate(Option<CertificateDer<'static>>);

impl ServerCertVerifier for ExpectedCertificate {
    fn verify_server_cert(
        &self,
        given: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.0 {
            Some(expected) if expected != given => {
                Err(Error::General("its certificate is not that of --tls-cert".to_owned()))
            }
            Some(_) | None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.0.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.0.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::{Probe, ServerAddresses};

    fn targets(listen: &str, admin: &str, probe: Probe) -> Vec<String> {
        let read = |list: &str| list.split_terminator(',').map(|it| it.parse().unwrap()).collect();
        let addresses = ServerAddresses {
            apis: read(listen),
            admin: read(admin),
            has_tls: true,
            admin_has_tls: false,
            demands_certificates: true,
        };
        let words = |with_tls| if with_tls { "https" } else { "http" };
        let targets = addresses.targets(probe).into_iter();
        targets.map(|(endpoint, with_tls)| format!("{}://{endpoint}", words(with_tls))).collect()
    }

    #[test]
    fn a_server_without_tls_is_probed_without() {
        let targets = |listen, admin| targets(listen, admin, Probe::Answers);
        assert_eq!(targets("127.0.0.1:1,unix:/s", ""), ["https://127.0.0.1:1", "http://unix:/s"]);
        assert_eq!(targets("127.0.0.1:2", "127.0.0.1:2"), ["http://127.0.0.1:2"]);
        assert_eq!(targets("127.0.0.1:2", "0.0.0.0:2"), ["http://127.0.0.1:2"]);
        assert_eq!(targets("127.0.0.2:2", "127.0.0.1:2"), ["https://127.0.0.2:2"]);
    }

    #[test]
    fn a_server_that_requires_certificates_is_probed_on_its_admin_address() {
        let targets = |listen, admin| targets(listen, admin, Probe::IsReady);
        assert_eq!(targets("127.0.0.1:1,[::]:1", ""), ["https://127.0.0.1:1", "https://[::]:1"]);
        let elsewhere = targets("127.0.0.1:1,unix:/s,127.0.0.1:2", "127.0.0.1:3");
        assert_eq!(elsewhere, ["http://127.0.0.1:3", "http://unix:/s"]);
        assert_eq!(targets("127.0.0.1:3", "127.0.0.1:3"), ["http://127.0.0.1:3"]);
    }
}
