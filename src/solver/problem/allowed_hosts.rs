//! The hosts that a server may be on.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The hosts that a server may be on, for reasons other than capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHosts {
    /// This host only.
    Only(usize),
    /// The hosts whose entry is true, by position.
    These(Arc<[bool]>),
}

impl AllowedHosts {
    /// Whether a host is allowed.
    pub fn has(&self, host: usize) -> bool {
        match self {
            Self::Only(only) => *only == host,
            Self::These(these) => these.get(host).is_some_and(|may| *may),
        }
    }

    /// An identity that is cheap to compare: the only host, or the address of the list. Lists with the same address
    /// are equal while both are in memory.
    pub fn identity(&self) -> Result<usize, *const bool> {
        match self {
            Self::Only(host) => Ok(*host),
            Self::These(hosts) => Err(Arc::as_ptr(hosts).cast::<bool>()),
        }
    }

    /// The allowed hosts, ascending.
    pub fn hosts(&self) -> impl DoubleEndedIterator<Item = usize> {
        let (from, to) = match self {
            Self::Only(only) => (*only, *only + 1),
            Self::These(these) => (0, these.len()),
        };
        (from..to).filter(|host| self.has(*host))
    }
}

/// Hashes 64 hosts at once. The derived implementation would hash them one by one, and lists are long.
impl Hash for AllowedHosts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Only(host) => host.hash(state),
            Self::These(hosts) => {
                for some in hosts.chunks(64) {
                    let bits = some.iter().fold(0, |bits, may| bits << 1 | u64::from(*may));
                    state.write_u64(bits);
                }
            }
        }
    }
}

impl Default for AllowedHosts {
    fn default() -> Self {
        Self::These(Arc::default())
    }
}

impl FromIterator<bool> for AllowedHosts {
    fn from_iter<T: IntoIterator<Item = bool>>(hosts: T) -> Self {
        Self::These(hosts.into_iter().collect())
    }
}

impl From<Vec<bool>> for AllowedHosts {
    fn from(hosts: Vec<bool>) -> Self {
        Self::These(hosts.into())
    }
}
