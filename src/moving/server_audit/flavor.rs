//! The requirements of a flavor, in the amounts of resource classes that nova claims for it.

use std::collections::BTreeMap;

use super::placement::{Allocations, Resources};

/// A flavor, as it is embedded in a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flavor {
    /// Processors.
    pub vcpus: u64,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// The root disk in GiB.
    pub root_gb: u64,
    /// Further disks in GiB.
    pub ephemeral_gb: u64,
    /// Swap in MiB.
    pub swap_mb: u64,
    /// Extra specifications.
    pub extra_specs: BTreeMap<String, String>,
}

/// The requirements of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The flavor's amounts, without zeros.
    pub resources: Resources,
    /// Whether the amount of `DISK_GB` is known.
    pub disk_is_known: bool,
    /// Why these amounts cannot be allocated on the host's own provider alone; `None` if they can.
    pub obstacle: Option<String>,
}

/// Prefixes of extra specifications that require more than amounts on the host's own provider.
const BEYOND_AMOUNTS: [&str; 10] = [
    "accel:device_profile",
    "group_policy",
    "hw:cpu_dedicated_mask",
    "hw:cpu_policy",
    "hw:cpu_realtime",
    "hw:emulator_threads_policy",
    "hw:mem_encryption",
    "hw:pmem",
    "pci_passthrough:alias",
    "resources:VGPU",
];

/// The classes whose amounts follow from the flavor itself, unless its extra specifications set them.
const MEMORY: &str = "MEMORY_MB";
const DISK: &str = "DISK_GB";
const SHARED_CPU: &str = "VCPU";
const DEDICATED_CPU: &str = "PCPU";

impl Flavor {
    /// The requirements of a server with this flavor. `is_volume_backed` may be unknown.
    pub fn needs(&self, is_volume_backed: Option<bool>) -> Needs {
        let mut resources = Resources::new();
        let mut obstacle = None;
        for (key, value) in &self.extra_specs {
            if BEYOND_AMOUNTS.iter().any(|begin| key.starts_with(begin)) {
                obstacle = Some(format!("the flavor has {key}"));
            }
            let Some((prefix, class)) = key.split_once(':') else { continue };
            let Some(group) = prefix.strip_prefix("resources") else { continue };
            if !group.is_empty() {
                obstacle = Some(format!("the flavor has {key}"));
            }
            match value.trim().parse::<u64>() {
                Ok(amount) => *resources.entry(class.to_owned()).or_insert(0) += amount,
                Err(_) => obstacle = Some(format!("the flavor has {key}={value:?}")),
            }
        }
        if !resources.contains_key(SHARED_CPU) && !resources.contains_key(DEDICATED_CPU) {
            resources.insert(SHARED_CPU.to_owned(), self.vcpus);
        }
        resources.entry(MEMORY.to_owned()).or_insert(self.memory_mb);
        let is_given = resources.contains_key(DISK);
        let root_gb = if is_volume_backed == Some(true) { 0 } else { self.root_gb };
        let disk_gb = self.ephemeral_gb + self.swap_mb.div_ceil(1024) + root_gb;
        resources.entry(DISK.to_owned()).or_insert(disk_gb);
        resources.retain(|_, amount| *amount > 0);
        let disk_is_known = is_given || is_volume_backed.is_some() || self.root_gb == 0;
        if !disk_is_known && obstacle.is_none() {
            obstacle = Some("it is not known whether its root disk is a volume".to_owned());
        }
        Needs { resources, disk_is_known, obstacle }
    }
}

impl Needs {
    /// Describes the amounts that differ from the requirements; `None` if none do.
    ///
    /// Only classes that the flavor alone determines count: ports, devices and images add others. Dedicated
    /// processors count as processors, because an image may request them.
    pub fn difference(&self, held: &Allocations) -> Option<String> {
        let total = |class: &str| -> u64 { held.values().filter_map(|it| it.get(class)).sum() };
        let needed = |class: &str| self.resources.get(class).copied().map_or(0, |amount| amount);
        let mut differences = Vec::new();
        let mut compare = |name: &str, held: u64, needed: u64| {
            if held != needed {
                differences.push(format!("{name} {held} instead of {needed}"));
            }
        };
        let (held_cpus, cpus) =
            (total(SHARED_CPU) + total(DEDICATED_CPU), needed(SHARED_CPU) + needed(DEDICATED_CPU));
        // Emulator threads may have a processor of their own.
        if held_cpus != cpus + 1 || total(DEDICATED_CPU) == 0 {
            compare("VCPU", held_cpus, cpus);
        }
        compare(MEMORY, total(MEMORY), needed(MEMORY));
        if self.disk_is_known {
            compare(DISK, total(DISK), needed(DISK));
        }
        for (class, amount) in &self.resources {
            if ![SHARED_CPU, DEDICATED_CPU, MEMORY, DISK].contains(&class.as_str()) {
                compare(class, total(class), *amount);
            }
        }
        (!differences.is_empty()).then(|| differences.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use uuid::Uuid;

    use super::{Flavor, Needs};
    use crate::moving::server_audit::placement::{Allocations, Resources};

    fn flavor(extra_specs: &[(&str, &str)]) -> Flavor {
        let extra_specs =
            extra_specs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Flavor {
            vcpus: 4,
            memory_mb: 2048,
            root_gb: 20,
            ephemeral_gb: 5,
            swap_mb: 1025,
            extra_specs: extra_specs.collect(),
        }
    }

    fn amounts(needs: &Needs) -> String {
        let each = needs.resources.iter().map(|(class, amount)| format!("{class}={amount}"));
        each.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn amounts_are_those_that_nova_claims() {
        let plain = flavor(&[("hw:numa_nodes", "1"), ("trait:HW_CPU_X86_VMX", "required")]);
        let needs = plain.needs(Some(false));
        assert_eq!(amounts(&needs), "DISK_GB=27 MEMORY_MB=2048 VCPU=4");
        assert_eq!(needs.obstacle, None);
        assert_eq!(amounts(&plain.needs(Some(true))), "DISK_GB=7 MEMORY_MB=2048 VCPU=4");
        assert!(!plain.needs(None).disk_is_known);
        let baremetal = flavor(&[
            ("resources:VCPU", "0"),
            ("resources:MEMORY_MB", "0"),
            ("resources:DISK_GB", "0"),
            ("resources:CUSTOM_GOLD", "1"),
        ]);
        assert_eq!(amounts(&baremetal.needs(None)), "CUSTOM_GOLD=1");
        assert_eq!(baremetal.needs(None).obstacle, None);
    }

    #[test]
    fn amounts_beyond_the_host_are_named() {
        for spec in ["hw:cpu_policy", "resources1:VGPU", "accel:device_profile", "resources:VGPU"] {
            let needs = flavor(&[(spec, "1")]).needs(Some(false));
            assert_eq!(needs.obstacle, Some(format!("the flavor has {spec}")));
        }
    }

    #[test]
    fn amounts_are_compared_by_the_classes_that_the_flavor_decides() {
        let needs = flavor(&[]).needs(Some(false));
        let held = |amounts: &[(&str, u64)]| -> Allocations {
            let resources: Resources =
                amounts.iter().map(|(class, amount)| ((*class).to_owned(), *amount)).collect();
            BTreeMap::from([(Uuid::from_u128(1), resources)])
        };
        let with_port = held(&[
            ("VCPU", 4),
            ("MEMORY_MB", 2048),
            ("DISK_GB", 27),
            ("NET_BW_EGR_KILOBIT_PER_SEC", 100),
        ]);
        assert_eq!(needs.difference(&with_port), None);
        let pinned = held(&[("PCPU", 5), ("MEMORY_MB", 2048), ("DISK_GB", 27)]);
        assert_eq!(needs.difference(&pinned), None);
        let larger = held(&[("VCPU", 8), ("MEMORY_MB", 2048), ("DISK_GB", 30)]);
        assert_eq!(
            needs.difference(&larger).as_deref(),
            Some("VCPU 8 instead of 4, DISK_GB 30 instead of 27")
        );
    }
}
