//! TLS for incoming connections, and reloading of its files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use metrics::gauge;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use super::certificates;

/// Interval at which the files are checked.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Seconds of a day.
const DAY: u64 = 86_400;

/// The PEM files of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The server's certificate and its intermediates.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// CA certificates for client certificates; without them, clients need none.
    pub client_ca: Option<PathBuf>,
}

impl Files {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }

    /// Modification times and sizes, by which a change is detected.
    fn stamps(&self) -> Vec<Option<(SystemTime, u64)>> {
        let stamp = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        self.paths().map(stamp).collect()
    }

    fn read(&self) -> Result<Contents, String> {
        let provider = Arc::new(default_provider());
        let chain = certificates(&self.cert, "--tls-cert")?;
        let expiry = chain.iter().filter_map(|it| certificates::expiry(it).ok()).min();
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| format!("--tls-key {}: {error}", self.key.display()))?;
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match &self.client_ca {
            Some(path) => config.with_client_cert_verifier(verifier(path, provider)?),
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_single_cert(chain, key).map_err(|error| {
            let (cert, key) = (self.cert.display(), self.key.display());
            format!("--tls-cert {cert} and --tls-key {key} do not match: {error}")
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Contents { config: Arc::new(config), expiry })
    }
}

/// The contents of the files.
#[derive(Debug)]
struct Contents {
    config: Arc<ServerConfig>,
    /// The time at which the first certificate of the chain expires, in seconds since 1970; `None` if it is not
    /// known.
    expiry: Option<u64>,
}

fn certificates(path: &Path, option: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    certificates::read(path).map_err(|why| format!("{option} {}: {why}", path.display()))
}

fn verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, String> {
    let failure = |why: String| format!("--tls-client-ca {}: {why}", path.display());
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(path, "--tls-client-ca")? {
        authorities.add(certificate).map_err(|error| failure(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
        .build()
        .map_err(|error| failure(error.to_string()))
}

/// The current TLS configuration. Open connections keep the one they started with.
#[derive(Debug)]
pub struct Tls {
    files: Files,
    contents: ArcSwap<Contents>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, or the files do not match.
    pub fn new(files: Files) -> Result<Self, String> {
        let contents = ArcSwap::from_pointee(files.read()?);
        Ok(Self { files, contents })
    }

    /// Returns a message if the server's certificate has expired, so that clients refuse it.
    pub fn expired(&self) -> Option<String> {
        let (expiry, now) = (self.contents.load().expiry?, UnixTime::now().as_secs());
        (expiry <= now).then(|| {
            let (file, days) = (self.files.cert.display(), (now - expiry) / DAY);
            format!("--tls-cert {file}: the certificate expired {days} days ago; clients refuse it")
        })
    }

    /// Starts the TLS handshake of a connection.
    pub(in crate::http) fn accept(&self, stream: TcpStream) -> Accept<TcpStream> {
        TlsAcceptor::from(Arc::clone(&self.contents.load().config)).accept(stream)
    }

    /// Reads the files again whenever they change, or on SIGHUP. Errors are logged, and the old
    /// configuration stays.
    pub async fn keep_current(&self) {
        self.report_expiry();
        let hangup = signal(SignalKind::hangup());
        let mut hangup =
            hangup.inspect_err(|error| tracing::error!(%error, "cannot receive SIGHUP")).ok();
        let mut known = self.files.stamps();
        loop {
            let hangup_received = async {
                match &mut hangup {
                    Some(hangup) => drop(hangup.recv().await),
                    None => std::future::pending().await,
                }
            };
            let is_hangup = tokio::time::timeout(LOOK_EVERY, hangup_received).await.is_ok();
            let stamps = self.files.stamps();
            if is_hangup || stamps != known {
                known = stamps;
                self.reload();
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "there are less than 2 to the 52nd seconds")]
    fn report_expiry(&self) {
        if let Some(expiry) = self.contents.load().expiry {
            gauge!("berth_tls_certificate_expiry_timestamp_seconds").set(expiry as f64);
        }
        if let Some(why) = self.expired() {
            tracing::error!("{why}");
        }
    }

    fn reload(&self) {
        match self.files.read() {
            Ok(contents) => {
                self.contents.store(Arc::new(contents));
                tracing::info!("serving with the new certificate");
                self.report_expiry();
            }
            Err(why) => tracing::error!("still serving with the old certificate: {why}"),
        }
    }
}

pub(in crate::http) type Secured = TlsStream<TcpStream>;

/// Completes the TLS handshake within a timeout.
pub(in crate::http) async fn agree(
    accept: Accept<TcpStream>,
    within: Duration,
) -> io::Result<Secured> {
    tokio::time::timeout(within, accept)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
