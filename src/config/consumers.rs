//! The option of consumers in memory.

use std::fs;
use std::path::Path;

use clap::{Args, ValueEnum};

/// Part of the memory of this process that consumers may take with `auto`.
const SHARE: u64 = 4;

/// Whether consumers are kept in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InMemory {
    /// While they take less than a quarter of the memory that this process may use.
    Auto,
    /// Always.
    On,
    /// Never: they are read from the database.
    Off,
}

/// The option of consumers in memory.
#[derive(Args, Clone, Copy, Debug)]
pub struct ConsumerOptions {
    /// Keep consumers with their allocations in memory.
    ///
    /// A consumer with allocations of three resource classes takes about 300 bytes.
    #[arg(long, default_value = "auto", value_name = "WHEN")]
    pub consumers_in_memory: InMemory,
}

impl ConsumerOptions {
    /// Maximum memory for consumers, in bytes; `None`: they are not kept.
    pub(crate) fn memory_max(self) -> Option<u64> {
        match self.consumers_in_memory {
            InMemory::Auto => Some(memory() / SHARE),
            InMemory::On => Some(u64::MAX),
            InMemory::Off => None,
        }
    }
}

/// The memory that this process may use, in bytes: that of the machine, or the lowest limit of its control groups.
fn memory() -> u64 {
    let system = rustix::system::sysinfo();
    let machine = system.totalram.saturating_mul(u64::from(system.mem_unit));
    lowest_limit().map_or(machine, |limit| limit.min(machine))
}

/// The lowest memory limit of the control groups of this process, if there is any.
fn lowest_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limits = Path::new(group).ancestors().filter_map(|group| {
        let limit = Path::new("/sys/fs/cgroup").join(group).join("memory.max");
        fs::read_to_string(limit).ok()?.trim().parse().ok()
    });
    limits.min()
}
