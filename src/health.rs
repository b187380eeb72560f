//! Asking a running server whether it answers or is ready, as health checks of containers do.

use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    SignatureScheme, StreamOwned,
};

use crate::http::listener::Endpoint;

/// How long to wait for each step.
const STEP_MAX: Duration = Duration::from_secs(5);

/// What a server is asked. Neither question carries a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether it answers.
    Answers,
    /// Whether its database answers, too, and it has not been told to stop.
    IsReady,
}

impl Question {
    fn request(self) -> String {
        let path = match self {
            Self::Answers => "/",
            Self::IsReady => "/readyz",
        };
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    }
}

/// Asks the server that listens at an endpoint; TCP is with TLS or without.
///
/// # Errors
/// It does not answer, or not with 200.
pub fn health(endpoint: &Endpoint, with_tls: bool, question: Question) -> io::Result<()> {
    let request = question.request();
    let answer = match endpoint {
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(STEP_MAX))?;
            stream.set_write_timeout(Some(STEP_MAX))?;
            ask(stream, &request)?
        }
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect_timeout(&reachable(*address), STEP_MAX)?;
            stream.set_read_timeout(Some(STEP_MAX))?;
            stream.set_write_timeout(Some(STEP_MAX))?;
            let answer =
                if with_tls { ask(encrypted(stream)?, &request) } else { ask(stream, &request) };
            match (answer, question) {
                // Whoever asks for a certificate is alive, and we have none.
                (Err(error), Question::Answers) if wants_a_certificate(&error) => return Ok(()),
                (Err(error), Question::IsReady) if wants_a_certificate(&error) => {
                    let why = "it demands a client certificate; ask its --admin-listen instead";
                    return Err(io::Error::other(why));
                }
                (outcome, _) => outcome?,
            }
        }
    };
    if answer.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    let status = answer.lines().next().unwrap_or("nothing").to_owned();
    let words = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
    Err(io::Error::other(match (question, words) {
        (Question::IsReady, words) if !words.is_empty() => format!("it answered {status}: {words}"),
        (Question::Answers | Question::IsReady, _) => format!("it answered {status}"),
    }))
}

/// Where a server that listens everywhere answers.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => ([127, 0, 0, 1], v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, v6.port()).into(),
        SocketAddr::V4(_) | SocketAddr::V6(_) => address,
    }
}

fn ask(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer)?;
    Ok(answer)
}

fn encrypted(stream: TcpStream) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let client = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(client, stream))
}

fn wants_a_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    inner == Some(&Error::AlertReceived(AlertDescription::CertificateRequired))
}

/// Believes every certificate. The question is whether somebody answers at an address of this
/// machine, not who; nothing is told that others must not hear.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
