//! Outward HTTP connections, and the rule for those that the other side has closed.
//!
//! A server may close a kept connection at any time, and need not say so. A request that crosses the closing
//! gets no answer, and nobody knows whether the server has read it. In every client here, therefore:
//!
//! - A request that only reads and has no body goes over a kept connection, if there is one. If the connection
//!   breaks before the answer has come, or the answer is 408, by which some servers end idle connections, the
//!   request is sent once more, over a new connection: other kept connections may be closed as well.
//! - Any other request goes over a new connection, which ends after the answer, and is never repeated.
//!
//! [`Connections`] is this rule, for any kind of client. [`HttpClient`] is the client of Berth's commands, of
//! Keystone and of traces. The shadow has a client of its own, which changes nothing in what it passes on.

mod connections;
mod failure;

use hyper::HeaderMap;
use reqwest::{Certificate, ClientBuilder, Identity, Method, RequestBuilder, Response, Url};
use reqwest::{StatusCode, redirect};

pub(crate) use self::connections::{Connections, HasStatus};
use self::failure::words;
pub(crate) use self::failure::{ExchangeError, Failure};

/// TLS to a server. All files are PEM.
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    /// The trusted authorities, instead of the system's.
    pub ca: Option<Vec<u8>>,
    /// A client certificate with its key.
    pub identity: Option<Vec<u8>>,
    /// Whether any certificate is accepted.
    pub insecure: bool,
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl HasStatus for Answer {
    fn status(&self) -> Option<StatusCode> {
        Some(self.status)
    }
}

/// A client of HTTP. Clones share connections.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient(Connections<reqwest::Client>);

impl HttpClient {
    /// A client for a peer, which messages name.
    pub(crate) fn new(tls: &ClientTls, peer: &str) -> Result<Self, String> {
        if let Some(pem) = &tls.ca {
            let authorities = Certificate::from_pem_bundle(pem)
                .map_err(|error| format!("the authorities of {peer}: {}", words(error)))?;
            if authorities.is_empty() {
                return Err(format!("the authorities of {peer}: there is no certificate"));
            }
            return Self::trusting(Some(&authorities), tls, peer);
        }
        Self::trusting(None, tls, peer).or_else(|why| {
            // A minimal container has no authorities, and plain http needs none.
            let client = Self::trusting(Some(&[]), tls, peer)?;
            tracing::warn!(
                why,
                "no {peer} is believed by https: install ca-certificates, or name a file with \
                 authorities (--keystone-ca-file of servers, OS_CACERT of clients)"
            );
            Ok(client)
        })
    }

    /// A client that trusts these authorities, or the system's.
    fn trusting(
        authorities: Option<&[Certificate]>,
        tls: &ClientTls,
        peer: &str,
    ) -> Result<Self, String> {
        let identity = tls.identity.as_deref().map(Identity::from_pem).transpose();
        let identity =
            identity.map_err(|error| format!("the certificate for {peer}: {}", words(error)))?;
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
        client.map_err(|error| format!("TLS to {peer}: {}", words(error)))
    }

    /// A client with these settings.
    ///
    /// # Errors
    /// There is no TLS.
    pub(crate) fn build(
        settings: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> reqwest::Result<Self> {
        // This fails if it is already installed, by an earlier client.
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

    /// A request, which [`send`](Self::send) and [`exchange`](Self::exchange) take.
    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.0.kept().request(method, url)
    }

    /// Sends a request, and waits for the head of the answer.
    ///
    /// # Errors
    /// There is none.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let answer = self.0.exchange(request.build()?, |client, request| async move {
            Ok(client.execute(request).await?)
        });
        // It holds two requests, and callers hold it.
        Box::pin(answer).await
    }

    /// Sends a request, and reads the whole answer, whose body may have so many bytes.
    ///
    /// # Errors
    /// There is none, or it is larger.
    pub(crate) async fn exchange(
        &self,
        request: RequestBuilder,
        body_max: usize,
    ) -> Result<Answer, ExchangeError> {
        self.exchange_built(request.build().map_err(Failure::from)?, body_max).await
    }

    /// The same for a request that was built elsewhere.
    ///
    /// # Errors
    /// There is no answer, or it is larger.
    pub(crate) async fn exchange_built(
        &self,
        request: reqwest::Request,
        body_max: usize,
    ) -> Result<Answer, ExchangeError> {
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

/// Reads the rest of an answer, whose body may have so many bytes.
///
/// # Errors
/// The connection broke, or the body is larger.
pub(crate) async fn read(mut response: Response, body_max: usize) -> Result<Answer, ExchangeError> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(Failure::from)? {
        if body.len() + part.len() > body_max {
            return Err(ExchangeError::TooLarge(body_max));
        }
        body.extend_from_slice(&part);
    }
    Ok(Answer { status: response.status(), headers: response.headers().clone(), body })
}
