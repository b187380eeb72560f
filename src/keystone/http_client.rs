//! Clients of HTTP that carry tokens, and reading their answers.

use reqwest::{Certificate, Client, Identity, Response, redirect};

use super::options::Connection;

/// The maximum size of an answer of Keystone's, in bytes: enough for a large catalog.
const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// A client for a peer, which messages name.
pub(crate) fn client(connection: &Connection, peer: &str) -> Result<Client, String> {
    // This fails if it is already installed, by an earlier client.
    drop(rustls::crypto::ring::default_provider().install_default());
    if let Some(pem) = &connection.ca {
        let authorities = Certificate::from_pem_bundle(pem)
            .map_err(|error| format!("the authorities of {peer}: {}", words(error)))?;
        if authorities.is_empty() {
            return Err(format!("the authorities of {peer}: there is no certificate"));
        }
        return client_trusting(Some(authorities), connection, peer);
    }
    client_trusting(None, connection, peer).or_else(|why| {
        // A minimal container has no authorities, and plain http needs none.
        let client = client_trusting(Some(Vec::new()), connection, peer)?;
        tracing::warn!(
            why,
            "no {peer} is believed by https: install ca-certificates, or name a file with \
             authorities (--keystone-ca-file of servers, OS_CACERT of clients)"
        );
        Ok(client)
    })
}

/// A client that trusts these authorities, or the system's.
fn client_trusting(
    authorities: Option<Vec<Certificate>>,
    connection: &Connection,
    peer: &str,
) -> Result<Client, String> {
    let mut client = Client::builder()
        .user_agent(concat!("berth/", env!("CARGO_PKG_VERSION")))
        // A token must not be sent to an address that someone else chose.
        .redirect(redirect::Policy::none())
        .tls_danger_accept_invalid_certs(connection.insecure);
    if let Some(authorities) = authorities {
        client = client.tls_certs_only(authorities);
    }
    if let Some(pem) = &connection.identity {
        let identity = Identity::from_pem(pem)
            .map_err(|error| format!("the certificate for {peer}: {}", words(error)))?;
        client = client.identity(identity);
    }
    client.build().map_err(|error| format!("TLS to {peer}: {}", words(error)))
}

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    /// The connection broke.
    #[error("{0}")]
    Broken(String),
    /// It has more bytes than this.
    #[error("its answer has more than {0} bytes")]
    TooLarge(usize),
}

/// The body of an answer of Keystone's.
///
/// # Errors
/// A sentence: the connection broke, or the body is larger than any of Keystone's.
pub(crate) async fn body(answer: Response) -> Result<Vec<u8>, String> {
    body_of(answer, ANSWER_MAX).await.map_err(|unread| unread.to_string())
}

/// The body of an answer that may have so many bytes.
///
/// # Errors
/// The connection broke, or the body is larger.
pub(crate) async fn body_of(mut answer: Response, most: usize) -> Result<Vec<u8>, Unread> {
    let mut body = Vec::new();
    let broken = |error| Unread::Broken(words(error));
    while let Some(part) = answer.chunk().await.map_err(broken)? {
        if body.len() + part.len() > most {
            return Err(Unread::TooLarge(most));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// An error with its causes.
pub(crate) fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
