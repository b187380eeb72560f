//! Accepts connections from several listeners.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use ::metrics::counter;
use rustix::io::Errno;

use crate::http::edge::connections::Connections;
use crate::http::edge::listener::{Accepted, Listener};
use crate::observe::log_throttle::LogThrottle;

/// Pause of the listeners when the system is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Several listeners, each with its purpose.
pub(in crate::http) struct Listeners<T> {
    all: Vec<(T, Listener)>,
    /// Index of the listener to poll first.
    first: usize,
    trouble: LogThrottle,
}

impl<T: Copy> Listeners<T> {
    pub(in crate::http) fn new(all: Vec<(T, Listener)>) -> Self {
        Self { all, first: 0, trouble: LogThrottle::default() }
    }

    /// Returns the next connection and the purpose of its listener.
    pub(in crate::http) async fn next(&mut self, connections: &Connections) -> (T, Accepted) {
        loop {
            let error = match poll_fn(|cx| self.poll(cx)).await {
                Ok((of, accepted)) => {
                    if let Accepted::Tcp(stream, _) = &accepted
                        // Responses are written in full; Nagle's algorithm would only delay them.
                        && let Err(error) = stream.set_nodelay(true)
                    {
                        tracing::debug!(%error, "no TCP_NODELAY");
                    }
                    return (of, accepted);
                }
                Err(error) => error,
            };
            let fault = Fault::of(&error);
            count_accept_error(fault.name());
            if fault == Fault::Gone {
                tracing::debug!(%error, "a connection ended before it was accepted");
                continue;
            }
            if let Some(count) = self.trouble.count() {
                tracing::warn!(%error, count, "accepting a connection failed");
            }
            connections.close_longest_idle();
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }

    /// Polls all listeners, starting after the one that returned the last connection, so that none
    /// starves.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(T, Accepted)>> {
        let (before, from) = self.all.split_at_checked(self.first).unwrap_or((&[], &self.all));
        for (nth, (of, listener)) in from.iter().chain(before).enumerate() {
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                self.first = (self.first + nth + 1) % self.all.len().max(1);
                return Poll::Ready(accepted.map(|accepted| (*of, accepted)));
            }
        }
        Poll::Pending
    }
}

/// Kind of accept error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The connection failed; the next one may succeed.
    Gone,
    /// The system is out of descriptors or memory.
    Scarce,
    /// Any other error, probably of the listener.
    Other,
}

impl Fault {
    fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            // accept(2) also returns pending network errors of the new connection.
            Some(
                Errno::CONNABORTED
                | Errno::CONNRESET
                | Errno::INTR
                | Errno::PERM
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET
                | Errno::OPNOTSUPP
                | Errno::TIMEDOUT,
            ) => Self::Gone,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Self::Scarce,
            Some(_) | None => Self::Other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Scarce => "scarce",
            Self::Other => "other",
        }
    }
}

/// Counts a connection that could not be accepted.
pub(in crate::http) fn count_accept_error(reason: &'static str) {
    counter!("berth_accept_errors_total", "reason" => reason).increment(1);
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::Fault;

    #[test]
    fn a_client_that_gave_up_is_no_lack_of_descriptors() {
        let fault = |errno: Errno| Fault::of(&io::Error::from(errno));
        assert_eq!(fault(Errno::CONNABORTED), Fault::Gone);
        assert_eq!(fault(Errno::PERM), Fault::Gone);
        assert_eq!(fault(Errno::MFILE), Fault::Scarce);
        assert_eq!(fault(Errno::NFILE), Fault::Scarce);
        assert_eq!(fault(Errno::BADF), Fault::Other);
        assert_eq!(Fault::of(&io::Error::other("?")), Fault::Other);
    }
}
