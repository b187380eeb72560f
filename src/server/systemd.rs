//! Notifications to systemd, and the sockets that it passes. Without systemd, nothing is sent.

use std::io;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;

use crate::http::admin::health::{Ready, Verdict};
use crate::http::edge::listener::Listener;
use crate::observe::printable::escaped;

/// Interval between two checks for the status line.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// A socket that systemd passed.
#[derive(Debug)]
pub struct Passed {
    /// `FileDescriptorName=` of the socket unit.
    pub name: String,
    /// The socket.
    pub listener: Listener,
}

/// Takes the sockets that systemd passed to this process. A second call returns none.
///
/// # Errors
/// One of them is not a socket that accepts connections.
pub fn sockets() -> io::Result<Vec<Passed>> {
    let mut found = ListenFd::from_env();
    let names = std::env::var("LISTEN_FDNAMES").ok();
    let names: Vec<&str> = names.iter().flat_map(|names| names.split(':')).collect();
    let mut passed = Vec::new();
    for nth in 0..found.len() {
        let name = names.get(nth).map_or_else(String::new, |name| (*name).to_owned());
        passed.push(Passed { name, listener: socket(&mut found, nth)? });
    }
    Ok(passed)
}

fn socket(found: &mut ListenFd, nth: usize) -> io::Result<Listener> {
    // Checked first, because asking for the wrong kind is an error.
    if let Ok(Some(tcp)) = found.take_tcp_listener(nth) {
        tcp.set_nonblocking(true)?;
        return Ok(Listener::Tcp(tokio::net::TcpListener::from_std(tcp)?));
    }
    let unix: Option<UnixListener> = found.take_unix_listener(nth)?;
    let unix = unix.ok_or_else(|| io::Error::other("it was taken twice"))?;
    unix.set_nonblocking(true)?;
    Ok(Listener::Unix(None, tokio::net::UnixListener::from_std(unix)?))
}

/// Notifies systemd that requests are served.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Sets the status line of `systemctl status`.
pub fn status(words: &str) {
    // A line break would begin another assignment.
    notify(&[NotifyState::Status(&escaped(words))]);
}

/// Keeps the status line as `check` says: `Ok` while requests are served, or the reason. Never returns.
pub async fn keep_status(check: impl AsyncFn() -> Verdict) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return std::future::pending().await;
    }
    let mut shown = None;
    loop {
        let words = match check().await {
            Ok(Ready::All) => "serving".to_owned(),
            Ok(Ready::ReadsOnly) => format!("serving, {}", Ready::ReadsOnly.text()),
            Err(why) => format!("not ready: {why}"),
        };
        if shown.as_ref() != Some(&words) {
            status(&words);
            shown = Some(words);
        }
        tokio::time::sleep(STATUS_EVERY).await;
    }
}

/// Notifies systemd that Berth is stopping.
pub fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("finishing the requests in progress")]);
}

/// Pings the watchdog at half of `WatchdogSec=`, which shows that the runtime is running tasks; does nothing without
/// a watchdog. Never returns.
pub async fn watchdog() {
    let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| *limit > Duration::ZERO) else {
        return std::future::pending().await;
    };
    let mut due = tokio::time::interval(limit / 2);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be notified");
    }
}
