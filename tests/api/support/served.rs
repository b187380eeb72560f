//! A replica behind real sockets, with requests byte by byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use berth::http::edge::bounds::Bounds;
use berth::http::edge::listener::{Endpoint, Listener};
use berth::http::edge::server::{self, ServerListeners};
use berth::http::{Api, App};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::app::Berth;

/// Timeout for anything that must happen, on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// A server in this process. It stops on request, or when the test ends.
pub struct Served {
    pub endpoints: Vec<Endpoint>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Bounds that no test meets by chance.
pub fn wide() -> Bounds {
    Bounds {
        connections: 100,
        header_timeout: PATIENCE,
        idle_timeout: PATIENCE,
        write_timeout: PATIENCE,
        shutdown_delay: Duration::ZERO,
        shutdown_grace: PATIENCE,
    }
}

impl Served {
    /// On a port of its own.
    pub async fn new(berth: &Berth, bounds: Bounds) -> Self {
        Self::at(berth, &["127.0.0.1:0".parse().unwrap()], bounds).await
    }

    pub async fn at(berth: &Berth, endpoints: &[Endpoint], bounds: Bounds) -> Self {
        let mut listeners = Vec::new();
        for endpoint in endpoints {
            listeners.push((Api::Placement, Listener::bind(endpoint).await.unwrap()));
        }
        Self::on(
            berth,
            ServerListeners { listeners, tls: None, admin: Vec::new(), admin_tls: false },
            bounds,
        )
    }

    pub fn on(berth: &Berth, sockets: ServerListeners, bounds: Bounds) -> Self {
        Self::with(berth.app(), sockets, bounds)
    }

    /// With an address for administrators, which is its second endpoint.
    pub async fn with_admin(app: App, bounds: Bounds) -> Self {
        let bind = async || Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (api, admin) = (bind().await, bind().await);
        let endpoint = admin.endpoint().unwrap();
        let sockets = ServerListeners {
            listeners: vec![(Api::Placement, api)],
            tls: None,
            admin: vec![admin],
            admin_tls: false,
        };
        let mut served = Self::with(app, sockets, bounds);
        served.endpoints.push(endpoint);
        served
    }

    pub fn with(app: App, sockets: ServerListeners, bounds: Bounds) -> Self {
        let endpoints = sockets.listeners.iter().map(|(_, it)| it.endpoint().unwrap()).collect();
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        let task = tokio::spawn(server::serve(sockets, Arc::new(app.into()), bounds, stopped));
        Self { endpoints, stop, task }
    }

    /// The address of its first listener.
    pub fn address(&self) -> SocketAddr {
        self.address_of(0)
    }

    /// The address for administrators.
    pub fn admin_address(&self) -> SocketAddr {
        self.address_of(1)
    }

    fn address_of(&self, endpoint: usize) -> SocketAddr {
        match self.endpoints[endpoint] {
            Endpoint::Tcp(address) => address,
            Endpoint::Unix(_) => panic!("a Unix socket has no address"),
        }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).await.unwrap()
    }

    /// Sends bytes over a connection of their own, and gives all that comes back until it is closed.
    pub async fn say(&self, bytes: impl AsRef<[u8]>) -> String {
        converse(self.connect().await, bytes.as_ref()).await
    }

    /// Stops it, and waits until it has.
    pub async fn stop(self) {
        drop(self.stop);
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

/// Sends bytes, and gives all that comes back until the other end closes.
pub async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) -> String {
    // The server may have refused the request and closed before it has read all.
    drop(stream.write_all(bytes).await);
    rest(&mut stream).await
}

/// Sends bytes and that nothing more follows, and gives all that comes back until the other end closes.
pub async fn last_words(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) -> String {
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    rest(&mut stream).await
}

/// All that comes until the other end closes.
pub async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    // A reset is an end, too.
    assert!(read.is_ok(), "the connection stays open");
    String::from_utf8_lossy(&answer).into_owned()
}

/// A request without a body, after which the connection is closed.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-auth-token: admin\r\nconnection: close\r\n\r\n")
}
