//! The connection to a placement service: its URL, and how requests are sent.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use axum::http::{HeaderValue, Response, Uri, Version, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ClientConfig, WebPkiServerVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;
use tokio::time::timeout;

use super::copied_body::{BodyCopy, Omitted};
use super::exchange::{Incomparable, RequestHead, TimedResponse};
use crate::http_client::{Connections, Failure};

/// Timeout for connecting.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Maximum idle time of a connection. Servers close idle connections after two seconds or more.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// The URL of a placement service: `http://HOST[:PORT][/PREFIX]`, or with https.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl {
    scheme: Scheme,
    authority: Authority,
    /// The path without a trailing slash.
    prefix: String,
}

impl FromStr for ServiceUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("is not a URL: {error}"))?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.filter(|it| *it == Scheme::HTTP || *it == Scheme::HTTPS);
        let (Some(scheme), Some(authority)) = (scheme, parts.authority) else {
            return Err("must begin with http:// or https:// and have a host".to_owned());
        };
        if authority.as_str().contains('@') {
            return Err("must not contain a user: callers send their tokens".to_owned());
        }
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return Err("must not have a query".to_owned());
        }
        let prefix = path.path().trim_end_matches('/').to_owned();
        Ok(Self { scheme, authority, prefix })
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.prefix)
    }
}

impl ServiceUrl {
    /// The URI for a path and query, which are kept unchanged.
    ///
    /// # Errors
    /// The target is not a path: `OPTIONS *`, `CONNECT host:port`.
    pub(super) fn target(&self, uri: &Uri) -> Result<Uri, String> {
        let target = uri.path_and_query().filter(|it| it.as_str().starts_with('/'));
        let Some(target) = target else {
            return Err("the target of the request is not a path".to_owned());
        };
        let path = if self.prefix.is_empty() {
            Ok(target.clone())
        } else {
            PathAndQuery::try_from(format!("{}{target}", self.prefix))
        };
        let path = path.map_err(|error| error.to_string())?;
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()
            .map_err(|error| error.to_string())
    }
}

type HyperClient = Client<HttpsConnector<HttpConnector>, Body>;

/// A placement service. Clones share connections.
#[derive(Clone, Debug)]
pub(super) struct PlacementService {
    url: Arc<ServiceUrl>,
    connections: Connections<HyperClient>,
    tls: ClientConfig,
    /// Timeout until a response begins.
    patience: Duration,
}

impl PlacementService {
    pub(super) fn new(url: ServiceUrl, tls: ClientConfig, patience: Duration) -> Self {
        let connections = connections(&tls);
        Self { url: Arc::new(url), connections, tls, patience }
    }

    /// The same service, over separate connections.
    pub(super) fn apart(&self) -> Self {
        Self { connections: connections(&self.tls), ..self.clone() }
    }

    pub(super) fn url(&self) -> &ServiceUrl {
        &self.url
    }

    /// Sends a request to this service, and waits for the head of the response.
    ///
    /// # Errors
    /// No response.
    pub(super) async fn send(
        &self,
        target: Uri,
        mut request: Request,
    ) -> Result<Response<Incoming>, Failure> {
        self.address(target, &mut request);
        let sent = self.connections.exchange(request, begin);
        match timeout(self.patience, sent).await {
            Ok(sent) => sent,
            Err(_) => Err(Failure::TimedOut),
        }
    }

    fn address(&self, target: Uri, request: &mut Request) {
        *request.uri_mut() = target;
        *request.version_mut() = Version::HTTP_11;
        if !request.headers().contains_key(header::HOST)
            && let Ok(host) = HeaderValue::from_str(self.url.authority.as_str())
        {
            request.headers_mut().insert(header::HOST, host);
        }
    }

    /// Sends a request and copies the complete response. Each attempt gets an empty copy.
    ///
    /// # Errors
    /// No response, or no copy of it.
    pub(super) async fn ask(
        &self,
        head: &RequestHead,
        body: Vec<u8>,
        copy: impl Fn() -> BodyCopy,
    ) -> Result<TimedResponse, Incomparable> {
        let began = Instant::now();
        let broken = |words: String| Incomparable::Failed(Failure::Broken(words));
        let target = self.url.target(&head.uri).map_err(broken)?;
        let mut request = head.request(body);
        self.address(target, &mut request);
        let exchange = self
            .connections
            .exchange(request, |client, request| send_and_copy(client, request, copy()));
        match timeout(self.patience, exchange).await {
            Ok(Ok(Ok(answered))) => Ok(TimedResponse { took: began.elapsed(), ..answered }),
            Ok(Ok(Err(omitted))) => Err(Incomparable::Omitted(omitted)),
            Ok(Err(failure)) => Err(Incomparable::Failed(failure)),
            Err(_) => Err(Incomparable::Failed(Failure::TimedOut)),
        }
    }
}

/// Sends a request, and waits for the head of the response.
async fn begin(client: HyperClient, request: Request) -> Result<Response<Incoming>, Failure> {
    Ok(client.request(request).await?)
}

/// Sends a request, and copies the complete response.
async fn send_and_copy(
    client: HyperClient,
    request: Request,
    mut copy: BodyCopy,
) -> Result<Result<TimedResponse, Omitted>, Failure> {
    let (parts, mut body) = begin(client, request).await?.into_parts();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::Broken(error.to_string()))?;
        if let Some(Err(omitted)) = frame.data_ref().map(|part| copy.add(part)) {
            return Ok(Err(omitted));
        }
    }
    let (status, headers, took) = (parts.status, parts.headers, Duration::ZERO);
    Ok(Ok(TimedResponse { status, headers, body: copy, took }))
}

/// The connections to a service.
fn connections(tls: &ClientConfig) -> Connections<HyperClient> {
    let made = Connections::new(|idle_max| Ok::<_, Infallible>(client(tls.clone(), idle_max)));
    made.unwrap_or_else(|never| match never {})
}

fn client(tls: ClientConfig, idle_max: usize) -> HyperClient {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_WITHIN));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_MAX)
        .pool_max_idle_per_host(idle_max)
        .http1_preserve_header_case(true)
        // The client's `Host` is forwarded.
        .set_host(false)
        .build(connector)
}

/// TLS to a service whose certificate must be from these authorities (a PEM file), or by default from one of the
/// system's.
///
/// # Errors
/// The authorities cannot be read. Without a file, this is not an error for plain http.
pub(super) fn client_tls(file: Option<&Path>, url: &ServiceUrl) -> Result<ClientConfig, String> {
    let provider = Arc::new(default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match file {
        Some(file) => {
            let failed = |why: String| format!("--ca-file {}: {why}", file.display());
            let found = CertificateDer::pem_file_iter(file).map_err(|it| failed(it.to_string()))?;
            let mut roots = rustls::RootCertStore::empty();
            for certificate in found {
                let certificate = certificate.map_err(|error| failed(error.to_string()))?;
                roots.add(certificate).map_err(|error| failed(error.to_string()))?;
            }
            let verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            verifier.build().map_err(|error| failed(error.to_string()))?
        }
        None => match Verifier::new(Arc::clone(&provider)) {
            Ok(verifier) => Arc::new(verifier),
            Err(_) if url.scheme == Scheme::HTTP => return without_authorities(provider),
            Err(error) => {
                return Err(format!("{url}: no certificate authorities: {error}; set --ca-file"));
            }
        },
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// TLS that trusts no certificate, for services with plain http.
fn without_authorities(
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<ClientConfig, String> {
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let roots = rustls::RootCertStore::empty();
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::ServiceUrl;

    #[test]
    fn a_url_has_a_host_and_may_have_a_prefix() {
        for (text, shown) in [
            ("http://old:8778", "http://old:8778"),
            ("http://old:8778/", "http://old:8778"),
            ("https://[::1]/placement/", "https://[::1]/placement"),
        ] {
            assert_eq!(text.parse::<ServiceUrl>().unwrap().to_string(), shown);
        }
        for text in ["", "old:8778", "/placement", "ftp://old", "http://u:p@old", "http://old?a=b"]
        {
            let why = text.parse::<ServiceUrl>().unwrap_err();
            assert!(!why.contains("u:p"), "{why}");
        }
    }

    #[test]
    fn paths_and_queries_are_passed_on_as_they_are() {
        let target = |url: &str, uri: &str| {
            let url: ServiceUrl = url.parse().unwrap();
            url.target(&uri.parse().unwrap()).map(|it| it.to_string())
        };
        let odd = "/a/../b//c%2Fd%zz?name=in:A,B&x=%2B+%20|'";
        assert_eq!(target("http://old", odd).unwrap(), format!("http://old{odd}"));
        assert_eq!(target("http://old/p", "/x?y").unwrap(), "http://old/p/x?y");
        assert_eq!(target("http://old", "http://new/x?y").unwrap(), "http://old/x?y");
        target("http://old", "*").unwrap_err();
        target("http://old", "new:80").unwrap_err();
    }
}
