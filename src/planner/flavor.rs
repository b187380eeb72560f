//! Flavors: the sizes that servers have, by name.

use std::collections::BTreeMap;

/// What a server needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Size {
    /// Amounts by resource class, each at least 1.
    pub needs: BTreeMap<String, i64>,
    /// Traits it requires.
    pub required: Vec<String>,
    /// Traits it forbids.
    pub forbidden: Vec<String>,
}

/// A flavor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flavor {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// vcpus, MB, GB
    pub amounts: (i64, i64, i64),
}

impl Flavor {
    /// What a server of this flavor needs.
    pub fn size(&self) -> Result<Size, String> {
        let (vcpus, ram, disk) = self.amounts;
        let needs = [("VCPU", vcpus), ("MEMORY_MB", ram), ("DISK_GB", disk)];
        let needs = needs.into_iter().filter(|(_, n)| *n > 0).map(|(c, n)| (c.to_owned(), n));
        Ok(Size { needs: needs.collect(), ..Size::default() })
    }
}
