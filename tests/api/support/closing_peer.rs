//! A server in front of another one that closes its connections as some do: without saying so, by a reset, in the
//! middle of an answer, or before it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The way in which a connection ends. No response announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is closed after each answer.
    Close,
    /// It is reset after each answer.
    Reset,
    /// It is reset when the next request comes over it, as if the reset had crossed the request.
    ResetAtNext,
    /// The next request over it is answered by 408, as if the end of the server's waiting had crossed the request.
    TimeoutAtNext,
    /// It is closed in the middle of the answer, when a request comes for the first time, the third, and so on.
    HalfAnswer,
    /// It is closed after the request, when a request comes for the first time, the third, and so on.
    NoAnswer,
}

/// The endings after a response.
pub const AFTER_AN_ANSWER: [Ending; 4] =
    [Ending::ResetAtNext, Ending::TimeoutAtNext, Ending::Reset, Ending::Close];

/// A server that passes requests on to another one.
pub struct ClosingPeer {
    pub address: SocketAddr,
    counts: Counts,
}

/// Number of requests by their first line.
type Counts = Arc<Mutex<HashMap<String, usize>>>;

impl ClosingPeer {
    /// One in front of the server at this address.
    pub async fn before(backend: SocketAddr, ending: Ending) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Counts::default();
        let of_connections = Arc::clone(&counts);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, backend, ending, Arc::clone(&of_connections)));
            }
        });
        Self { address, counts }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the number of each request whose first line begins with this text.
    pub fn counts(&self, beginning: &str) -> Vec<usize> {
        let counts = self.counts.lock().unwrap();
        counts.iter().filter(|(line, _)| line.starts_with(beginning)).map(|(_, it)| *it).collect()
    }
}

async fn serve(mut stream: TcpStream, backend: SocketAddr, ending: Ending, counts: Counts) {
    let Some((head, body)) = request(&mut stream).await else { return };
    let line = head.lines().next().unwrap().to_owned();
    let is_odd = {
        let mut counts = counts.lock().unwrap();
        let count = counts.entry(line).or_default();
        *count += 1;
        *count % 2 == 1
    };
    if is_odd && ending == Ending::NoAnswer {
        return;
    }
    let mut other = TcpStream::connect(backend).await.unwrap();
    let head = format!("{}connection: close\r\n\r\n", without_connection(&head));
    other.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
    let mut answer = Vec::new();
    other.read_to_end(&mut answer).await.unwrap();
    let end = end_of_head(&answer).unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let head = format!("{}\r\n", without_connection(&head));
    let body = &answer[end..];
    let mut sent = [head.as_bytes(), body].concat();
    if is_odd && ending == Ending::HalfAnswer {
        sent.truncate(if body.len() > 1 { head.len() + body.len() / 2 } else { head.len() / 2 });
    }
    // The client may have gone.
    if stream.write_all(&sent).await.is_err() {
        return;
    }
    match ending {
        Ending::Close | Ending::HalfAnswer | Ending::NoAnswer => {}
        Ending::Reset => stream.set_zero_linger().unwrap(),
        Ending::TimeoutAtNext => {
            if request(&mut stream).await.is_some() {
                let answer = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                // The client may have gone.
                drop(stream.write_all(answer).await);
            }
        }
        Ending::ResetAtNext => {
            if let Ok(1..) = stream.peek(&mut [0]).await {
                stream.set_zero_linger().unwrap();
            }
        }
    }
}

/// The head and the body of a request; none if the client closes.
async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = end_of_head(&read) {
            let head = String::from_utf8(read[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
            });
            if read.len() - end >= length.unwrap_or(0) {
                return Some((head, read.split_off(end)));
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|it| it == b"\r\n\r\n").map(|at| at + 4)
}

/// The lines of a head but those that say what becomes of the connection, without the empty one.
fn without_connection(head: &str) -> String {
    let lines = head
        .lines()
        .filter(|line| !line.is_empty() && !line.to_ascii_lowercase().starts_with("connection:"));
    lines.flat_map(|line| [line, "\r\n"]).collect()
}
