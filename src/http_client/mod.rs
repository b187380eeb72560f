//! Outgoing HTTP connections, and the rule for connections that the server has closed.
//!
//! A server may close an idle connection at any time. A request that is sent at that moment gets no response,
//! and it is unknown whether the server has read it. Every client here therefore follows these rules:
//!
//! - A read-only request without a body uses an idle connection, if there is one. If that breaks before the
//!   response has come, or the response is 408, with which some servers end idle connections, the request is
//!   sent again over a new connection: other idle connections may be closed as well.
//! - Any other request uses a new connection, which is closed after the response, and is never repeated.
//!
//! [`Connections`] implements these rules for any kind of client. [`HttpClient`] is the client of Berth's
//! commands, of Keystone and of traces. The shadow has its own client, which passes everything on unchanged.

mod connections;
mod failure;

use hyper::HeaderMap;
use reqwest::{
    Certificate, ClientBuilder, Identity, Method, RequestBuilder, Response, StatusCode, Url,
    redirect,
};

pub(crate) use self::connections::{Connections, HasStatus};
use self::failure::with_causes;
pub(crate) use self::failure::{ExchangeError, Failure};

/// Parses the URL of an HTTP service, without credentials.
///
/// # Errors
/// A message that begins with the URL, unless it has credentials.
pub(crate) fn http_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url =
        url.ok_or_else(|| format!("{}: must be a URL such as http://HOST:PORT", shown(text)))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL of a service must not have credentials in it".to_owned());
    }
    Ok(url)
}

/// A text without what may be credentials.
fn shown(text: &str) -> &str {
    text.rsplit_once('@').map_or(text, |(_, rest)| rest)
}

/// TLS settings of a client. All files are PEM.
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    /// Trusted authorities, instead of the system's.
    pub ca: Option<Vec<u8>>,
    /// A client certificate with its key.
    pub identity: Option<Vec<u8>>,
    /// Accepts any certificate.
    pub insecure: bool,
}

/// A complete response.
pub(crate) struct CompleteResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl HasStatus for CompleteResponse {
    fn status(&self) -> Option<StatusCode> {
        Some(self.status)
    }
}

/// An HTTP client. Clones share connections.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient(Connections<reqwest::Client>);

impl HttpClient {
    /// Makes a client for a peer, whose name appears in messages.
    pub(crate) fn new(tls: &ClientTls, peer: &str) -> Result<Self, String> {
        if let Some(pem) = &tls.ca {
            let authorities = Certificate::from_pem_bundle(pem)
                .map_err(|error| format!("the authorities of {peer}: {}", with_causes(error)))?;
            if authorities.is_empty() {
                return Err(format!("the authorities of {peer}: there is no certificate"));
            }
            return Self::trusting(Some(&authorities), tls, peer);
        }
        Self::trusting(None, tls, peer).or_else(|why| {
            // A minimal container has no authorities, and plain HTTP needs none.
            let client = Self::trusting(Some(&[]), tls, peer)?;
            tracing::warn!(
                why,
                "no certificate of {peer} can be verified: install ca-certificates, or name a file with \
                 authorities (--keystone-ca-file of servers, OS_CACERT of clients)"
            );
            Ok(client)
        })
    }

    /// Makes a client that trusts these authorities, or the system's.
    fn trusting(
        authorities: Option<&[Certificate]>,
        tls: &ClientTls,
        peer: &str,
    ) -> Result<Self, String> {
        let identity = tls.identity.as_deref().map(Identity::from_pem).transpose();
        let identity = identity
            .map_err(|error| format!("the certificate for {peer}: {}", with_causes(error)))?;
        let client = Self::build(|builder| {
            let builder = builder.tls_danger_accept_invalid_certs(tls.insecure);
            let builder = match authorities {
                Some(authorities) => builder.tls_certs_only(authorities.to_vec()),
                None => builder,
            };
            match &identity {
                Some(identity) => builder.identity(identity.clone()),
                None => builder,
            }
        });
        client.map_err(|error| format!("TLS to {peer}: {}", with_causes(error)))
    }

    /// Makes a client with these settings.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn build(
        settings: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> reqwest::Result<Self> {
        // This fails if an earlier client has installed it already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let connections = Connections::new(|idle_max| {
            let client = reqwest::Client::builder()
                .user_agent(concat!("berth/", env!("CARGO_PKG_VERSION")))
                // A token must not be sent to an address that someone else chose.
                .redirect(redirect::Policy::none())
                .pool_max_idle_per_host(idle_max);
            settings(client).build()
        });
        Ok(Self(connections?))
    }

    /// Makes a request for [`send`](Self::send) or [`exchange`](Self::exchange).
    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.0.kept().request(method, url)
    }

    /// Sends a request, and waits for the head of the response.
    ///
    /// # Errors
    /// No response came.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = self.0.exchange(request.build()?, |client, request| async move {
            Ok(client.execute(request).await?)
        });
        // Boxed, because it holds two requests, and callers hold it.
        Box::pin(response).await
    }

    /// Sends a request, and reads the complete response, with a body of at most `body_max` bytes.
    ///
    /// # Errors
    /// No response came, or it is too large.
    pub(crate) async fn exchange(
        &self,
        request: RequestBuilder,
        body_max: usize,
    ) -> Result<CompleteResponse, ExchangeError> {
        self.exchange_built(request.build().map_err(Failure::from)?, body_max).await
    }

    /// Sends a request that was built elsewhere, as [`exchange`](Self::exchange) does.
    ///
    /// # Errors
    /// No response came, or it is too large.
    pub(crate) async fn exchange_built(
        &self,
        request: reqwest::Request,
        body_max: usize,
    ) -> Result<CompleteResponse, ExchangeError> {
        let answer = self.0.exchange(request, |client, request| async move {
            let response = client.execute(request).await?;
            match read(response, body_max).await {
                Ok(answer) => Ok(Ok(answer)),
                Err(ExchangeError::Failed(failure)) => Err(failure),
                Err(too_large @ ExchangeError::TooLarge(_)) => Ok(Err(too_large)),
            }
        });
        Box::pin(answer).await?
    }
}

/// Reads the rest of a response, with a body of at most `body_max` bytes.
///
/// # Errors
/// The connection broke, or the body is too large.
pub(crate) async fn read(
    mut response: Response,
    body_max: usize,
) -> Result<CompleteResponse, ExchangeError> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(Failure::from)? {
        if body.len() + part.len() > body_max {
            return Err(ExchangeError::TooLarge(body_max));
        }
        body.extend_from_slice(&part);
    }
    Ok(CompleteResponse { status: response.status(), headers: response.headers().clone(), body })
}
