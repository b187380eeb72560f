//! The hosts that a server may be on.

use std::sync::Arc;

/// The hosts that a server may be on, for reasons other than capacity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

    /// The allowed hosts, ascending.
    pub fn hosts(&self) -> impl Iterator<Item = usize> {
        let (from, to) = match self {
            Self::Only(only) => (*only, *only + 1),
            Self::These(these) => (0, these.len()),
        };
        (from..to).filter(|host| self.has(*host))
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
