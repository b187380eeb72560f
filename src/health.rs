//! Asking a running server whether it answers, as health checks of containers do.

use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::http::listener::Endpoint;

/// How long to wait for each step.
const STEP_MAX: Duration = Duration::from_secs(5);
/// The question. It carries no secret.
const QUESTION: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Asks the server that listens at an endpoint for its versions.
///
/// # Errors
/// It does not answer, or not with 200.
pub fn health(endpoint: &Endpoint) -> io::Result<()> {
    let answer = match endpoint {
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(STEP_MAX))?;
            stream.set_write_timeout(Some(STEP_MAX))?;
            ask(stream)?
        }
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect_timeout(&reachable(*address), STEP_MAX)?;
            stream.set_read_timeout(Some(STEP_MAX))?;
            stream.set_write_timeout(Some(STEP_MAX))?;
            ask(stream)?
        }
    };
    if answer.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    let status = answer.lines().next().unwrap_or("nothing").to_owned();
    Err(io::Error::other(format!("it answered {status}")))
}

/// Where a server that listens everywhere answers.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => ([127, 0, 0, 1], v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, v6.port()).into(),
        SocketAddr::V4(_) | SocketAddr::V6(_) => address,
    }
}

fn ask(mut stream: impl Read + Write) -> io::Result<String> {
    stream.write_all(QUESTION)?;
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer)?;
    Ok(answer)
}
