//! TCP and Unix socket listeners.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::task::{Context, Poll};
use std::{fmt, io};

use rustix::fs::{Mode, OFlags};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Prefix of a Unix socket's path.
const UNIX: &str = "unix:";
/// Mode of a Unix socket: its owner and its group may connect.
const SOCKET_MODE: u32 = 0o660;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `ADDRESS:PORT`.
    Tcp(SocketAddr),
    /// `unix:/path`.
    Unix(PathBuf),
}

impl Endpoint {
    /// Returns whether only this machine can reach the address.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// Returns whether two listeners cannot use both addresses: they are equal, or one is a
    /// wildcard with the port of the other. The IPv6 wildcard also covers IPv4, unless the system
    /// is configured otherwise.
    pub fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) => {
                let covers = |one: &SocketAddr, other: &SocketAddr| {
                    let ip = one.ip();
                    ip.is_unspecified() && (ip.is_ipv6() || other.ip().to_canonical().is_ipv4())
                };
                let is_same = one.ip().to_canonical() == other.ip().to_canonical();
                // With port 0, the system chooses a free one.
                (is_same || covers(one, other) || covers(other, one))
                    && one.port() == other.port()
                    && one.port() != 0
            }
            (one, other) => one == other,
        }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.strip_prefix(UNIX) {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(PathBuf::from(path))),
            Some(_) => Err("unix: must be followed by an absolute path".to_owned()),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                "neither an address with a port, such as 127.0.0.1:8778 or [::]:8778, nor \
                 unix:/path"
                    .to_owned()
            }),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// The remote end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP client.
    Tcp(SocketAddr),
    /// A local process, over a Unix socket.
    Unix,
}

impl Peer {
    /// Returns the IP address of a TCP client. IPv4-mapped IPv6 addresses are returned as IPv4.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip().to_canonical()),
            Self::Unix => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip() {
            Some(ip) => ip.fmt(f),
            None => f.write_str(UNIX),
        }
    }
}

#[derive(Debug)]
pub(in crate::http) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Accepted {
    /// Returns whether the client is on this machine.
    pub(in crate::http) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(_, address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

/// A listening socket. The file of a Unix socket is removed on drop.
#[derive(Debug)]
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket and its file, if this process has to remove it. The file is dropped first:
    /// once the socket is closed, a new server may have created its own file.
    Unix(Option<SocketFile>, UnixListener),
}

impl Listener {
    /// Starts to listen. A Unix socket is accessible to its owner and group; a stale file of an
    /// earlier server is replaced.
    ///
    /// # Errors
    /// The address is in use, or may not be used.
    pub async fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(address) => TcpListener::bind(address).await.map(Self::Tcp),
            Endpoint::Unix(path) => {
                remove_stale(path).await?;
                let listener = UnixListener::bind(path)?;
                let file = SocketFile(path.clone());
                share_with_group(path)?;
                Ok(Self::Unix(Some(file), listener))
            }
        }
    }

    /// Returns the local address, with the port chosen by the system.
    ///
    /// # Errors
    /// The system call failed.
    pub fn endpoint(&self) -> io::Result<Endpoint> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Endpoint::Tcp),
            Self::Unix(Some(file), _) => Ok(Endpoint::Unix(file.0.clone())),
            Self::Unix(None, listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname();
                path.map(|path| Endpoint::Unix(path.to_owned()))
                    .ok_or_else(|| io::Error::other("the Unix socket has no path"))
            }
        }
    }

    pub(in crate::http) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        match self {
            Self::Tcp(listener) => {
                let accepted = listener.poll_accept(cx);
                accepted.map_ok(|(stream, address)| Accepted::Tcp(stream, address))
            }
            Self::Unix(_, listener) => {
                listener.poll_accept(cx).map_ok(|(stream, _)| Accepted::Unix(stream))
            }
        }
    }
}

/// The file of a Unix socket, removed on drop.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "cannot remove the socket's file");
        }
    }
}

/// Lets the group connect to a socket. Uses a descriptor of the file, because anyone who can write
/// to the directory might have replaced the file by a link.
fn share_with_group(path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let found = file.metadata()?;
    if !found.file_type().is_socket() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("another file has replaced the socket"));
    }
    let by_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::set_permissions(by_descriptor, std::fs::Permissions::from_mode(SOCKET_MODE))
}

/// Removes a socket file that no process listens on. Any other file stays, and binding fails.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::{Endpoint, share_with_group};

    #[test]
    fn only_a_socket_is_opened_to_the_group() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "precious").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        share_with_group(&link).unwrap_err();
        share_with_group(&file).unwrap_err();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let socket = folder.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        share_with_group(&socket).unwrap();
        assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    }

    #[test]
    fn an_address_is_listened_on_once() {
        let excludes = |one: &str, other: &str| {
            one.parse::<Endpoint>().unwrap().excludes(&other.parse().unwrap())
        };
        for (one, other) in [
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::1]:1", "[::]:1"),
            ("0.0.0.0:1", "[::]:1"),
            ("127.0.0.1:1", "[::]:1"),
            ("127.0.0.1:1", "[::ffff:127.0.0.1]:1"),
            ("unix:/s", "unix:/s"),
        ] {
            assert!(excludes(one, other) && excludes(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("127.0.0.1:1", "127.0.0.1:2"),
            ("127.0.0.1:1", "127.0.0.2:1"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("0.0.0.0:1", "[::1]:1"),
            ("unix:/s", "127.0.0.1:1"),
        ] {
            assert!(!excludes(one, other), "{one} {other}");
        }
    }

    #[test]
    fn an_endpoint_is_an_address_or_a_path() {
        for text in ["127.0.0.1:8778", "[::1]:8778", "0.0.0.0:80", "unix:/run/berth/berth.sock"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["", "8778", "localhost:8778", "unix:", "unix:relative", "/run/berth.sock"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
        let local = |text: &str| text.parse::<Endpoint>().unwrap().is_local();
        assert!(local("127.0.0.1:1") && local("[::1]:1") && local("unix:/x"));
        assert!(!local("0.0.0.0:1") && !local("[::]:1") && !local("192.0.2.1:1"));
    }
}
