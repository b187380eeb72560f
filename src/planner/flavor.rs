//! Flavors: named sizes of servers, and the needs of a server of a size.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::aggregates;
use super::demands::{Demands, check_suffix, is_isolated};
use super::group::listed;
use crate::model::traits;

/// Maximum length of a name, id, key or value, in characters.
const TEXT_MAX: usize = 255;
/// Maximum number of extra specs of one flavor.
const EXTRA_SPECS_MAX: usize = 128;
/// Maximum amount of a resource class for one server.
const AMOUNT_MAX: i64 = i32::MAX as i64;

/// A size of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flavor {
    /// Its unique name.
    pub name: String,
    /// Its unique id.
    pub id: String,
    /// Virtual processors, at least one.
    pub vcpus: i32,
    /// Memory in MiB, at least one.
    pub ram_mb: i32,
    /// The root disk in GiB.
    pub root_gb: i32,
    /// Further local disk in GiB.
    pub ephemeral_gb: i32,
    /// Swap in MiB.
    pub swap_mb: i32,
    /// Further demands, like Nova's extra specs.
    pub extra_specs: BTreeMap<String, String>,
}

/// The needs of a server on its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct Size {
    /// Amounts by the name of the resource class, in the units of inventories. None is zero.
    pub needs: BTreeMap<String, i64>,
    /// Names of traits that the host must have, in ascending order.
    pub required: Vec<String>,
    /// Names of traits that it must not have, in ascending order.
    pub forbidden: Vec<String>,
    /// Names of traits that the root of the host's tree must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub root_required: Vec<String>,
    /// Further demands on the providers of its resources.
    #[serde(default, skip_serializing_if = "Demands::is_none")]
    pub demands: Box<Demands>,
}

impl Size {
    /// Returns whether it is that of a volume, which is in a pool of a storage backend and on no host.
    pub(super) fn is_volume(&self) -> bool {
        self.root_required.iter().any(|name| name == traits::STORAGE)
    }

    /// Total amounts by the name of the resource class, including numbered groups.
    pub fn amounts(&self) -> BTreeMap<&str, i64> {
        let groups = self.demands.groups.values().flat_map(|group| &group.needs);
        let mut amounts: BTreeMap<&str, i64> = BTreeMap::new();
        for (class, amount) in self.needs.iter().chain(groups) {
            let sum = amounts.entry(class).or_insert(0);
            *sum = sum.saturating_add(*amount);
        }
        amounts
    }
}

/// Rules of a flavor besides the size of its servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct FlavorRules {
    /// Stored groups of the server, by id or name.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Demands on the metadata of the host's aggregates, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aggregates: BTreeMap<String, String>,
}

/// The meaning of an extra spec.
enum ExtraSpec<'s> {
    /// An amount of a resource class, for a group of resources by its suffix, which may be empty.
    Amount(&'s str, &'s str, i64),
    /// A trait, for a group.
    Required(&'s str, &'s str),
    /// Its absence.
    Forbidden(&'s str, &'s str),
    /// Traits that the root must have, or must not have.
    Root(Vec<&'s str>),
    /// Whether numbered groups have different providers.
    Isolate(bool),
    /// Stored groups.
    Groups(Vec<String>),
    /// A demand on the metadata of aggregates with this key.
    Aggregates(&'s str),
    /// An extra spec that the planner ignores.
    Other,
}

impl Flavor {
    /// The needs of a server of this size.
    ///
    /// # Errors
    /// The first invalid extra spec.
    pub fn size(&self) -> Result<Size, String> {
        let [root, ephemeral, swap] =
            [self.root_gb, self.ephemeral_gb, self.swap_mb].map(i64::from);
        let disk = root + ephemeral + (swap + 1023) / 1024;
        let (vcpus, ram) = (i64::from(self.vcpus), i64::from(self.ram_mb));
        let amounts = [("VCPU", vcpus), ("MEMORY_MB", ram), ("DISK_GB", disk)];
        let mut size = Size {
            needs: amounts.map(|(class, amount)| (class.to_owned(), amount)).into(),
            ..Size::default()
        };
        for (key, value) in &self.extra_specs {
            let groups = &mut size.demands.groups;
            match extra_spec(key, value).map_err(|why| format!("{key}={value}: {why}"))? {
                ExtraSpec::Amount("", class, amount) => {
                    size.needs.insert(class.to_owned(), amount);
                }
                ExtraSpec::Amount(suffix, class, amount) => {
                    let group = groups.entry(suffix.to_owned()).or_default();
                    group.needs.insert(class.to_owned(), amount);
                }
                ExtraSpec::Required("", name) => size.required.push(name.to_owned()),
                ExtraSpec::Required(suffix, name) => {
                    groups.entry(suffix.to_owned()).or_default().required.insert(name.to_owned());
                }
                ExtraSpec::Forbidden("", name) => size.forbidden.push(name.to_owned()),
                ExtraSpec::Forbidden(suffix, name) => {
                    groups.entry(suffix.to_owned()).or_default().forbidden.insert(name.to_owned());
                }
                ExtraSpec::Root(words) => {
                    for word in words {
                        let added = size.demands.add_root_trait(word);
                        added.map_err(|why| format!("{key}={value}: {why}"))?;
                    }
                }
                ExtraSpec::Isolate(isolate) => size.demands.isolate = Some(isolate),
                ExtraSpec::Groups(_) | ExtraSpec::Aggregates(_) | ExtraSpec::Other => {}
            }
        }
        size.needs.retain(|_, amount| *amount > 0);
        for group in size.demands.groups.values_mut() {
            group.needs.retain(|_, amount| *amount > 0);
        }
        Ok(size)
    }

    /// The flavor for servers that boot from a volume.
    #[must_use]
    pub fn without_root_disk(&self) -> Self {
        Self { root_gb: 0, ..self.clone() }
    }

    /// The rules besides the size.
    ///
    /// # Errors
    /// The first invalid extra spec.
    pub fn rules(&self) -> Result<FlavorRules, String> {
        let mut rules = FlavorRules::default();
        for (key, value) in &self.extra_specs {
            let spec = extra_spec(key, value).map_err(|why| format!("{key}={value}: {why}"))?;
            match spec {
                ExtraSpec::Groups(groups) => rules.groups.extend(groups),
                ExtraSpec::Aggregates(key) => {
                    rules.aggregates.insert(key.to_owned(), value.clone());
                }
                ExtraSpec::Amount(..)
                | ExtraSpec::Required(..)
                | ExtraSpec::Forbidden(..)
                | ExtraSpec::Root(_)
                | ExtraSpec::Isolate(_)
                | ExtraSpec::Other => {}
            }
        }
        Ok(rules)
    }

    /// Checks that the flavor is valid.
    ///
    /// # Errors
    /// A sentence with the flavor and the fault.
    pub fn check(&self) -> Result<(), String> {
        self.fault().map_or(Ok(()), |why| Err(format!("flavor {:?}: {why}", self.name)))
    }

    fn fault(&self) -> Option<String> {
        let texts = [("the name", &self.name), ("the id", &self.id)];
        let amounts = [
            ("vcpus", self.vcpus, 1),
            ("ram", self.ram_mb, 1),
            ("disk", self.root_gb, 0),
            ("ephemeral", self.ephemeral_gb, 0),
            ("swap", self.swap_mb, 0),
        ];
        let low = |(what, amount, least): &(&str, i32, i32)| {
            (amount < least).then(|| format!("{what} must be at least {least}"))
        };
        let specs = || self.extra_specs.iter().flat_map(|(key, value)| [key, value]);
        let many = self.extra_specs.len() > EXTRA_SPECS_MAX;
        texts
            .iter()
            .find_map(|(what, text)| text_fault(text).map(|why| format!("{what} {why}")))
            .or_else(|| amounts.iter().find_map(low))
            .or_else(|| many.then(|| format!("more than {EXTRA_SPECS_MAX} properties")))
            .or_else(|| {
                let fault = specs().filter(|text| !text.is_empty()).find_map(|it| text_fault(it));
                fault.map(|why| format!("a property {why}"))
            })
            .or_else(|| match self.size() {
                Ok(size) => size.demands.check().err(),
                Err(why) => Some(why),
            })
    }
}

/// The fault of a text.
fn text_fault(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some("is empty".to_owned());
    }
    if text.chars().nth(TEXT_MAX).is_some() {
        return Some(format!("is longer than {TEXT_MAX} characters"));
    }
    text.chars().any(char::is_control).then(|| "has control characters".to_owned())
}

/// Parses an extra spec.
fn extra_spec<'s>(key: &'s str, value: &'s str) -> Result<ExtraSpec<'s>, String> {
    if key == "valet" {
        return groups_in_json(value).map(ExtraSpec::Groups);
    }
    if key == "root_required" {
        return Ok(ExtraSpec::Root(value.split(',').map(str::trim).collect()));
    }
    if key == "group_policy" {
        return is_isolated(value).map(ExtraSpec::Isolate);
    }
    let Some((kind, name)) = key.split_once(':') else { return Ok(ExtraSpec::Other) };
    if kind == "aggregate_instance_extra_specs" {
        aggregates::check(value)?;
        return Ok(ExtraSpec::Aggregates(name));
    }
    if kind == "valet" && name == "groups" {
        return listed(value).map(ExtraSpec::Groups);
    }
    if let Some(suffix) = kind.strip_prefix("resources") {
        return Ok(ExtraSpec::Amount(group_suffix(suffix)?, symbol(name)?, amount(value)?));
    }
    let Some(suffix) = kind.strip_prefix("trait") else { return Ok(ExtraSpec::Other) };
    let suffix = group_suffix(suffix)?;
    match value {
        "required" => Ok(ExtraSpec::Required(suffix, symbol(name)?)),
        "forbidden" => Ok(ExtraSpec::Forbidden(suffix, symbol(name)?)),
        _ => Err("a trait must be required or forbidden".to_owned()),
    }
}

/// The suffix of a group of resources; that of the unnumbered group is empty.
fn group_suffix(suffix: &str) -> Result<&str, String> {
    if !suffix.is_empty() {
        check_suffix(suffix)?;
    }
    Ok(suffix)
}

/// `{"groups": [...]}`, as in the metadata of servers.
fn groups_in_json(value: &str) -> Result<Vec<String>, String> {
    let form = "must be {\"groups\": [...]}";
    let valet: Value = serde_json::from_str(value).map_err(|_| form.to_owned())?;
    match valet.get("groups") {
        Some(Value::String(text)) => listed(text),
        Some(list @ Value::Array(_)) => listed(&list.to_string()),
        _ => Err(form.to_owned()),
    }
}

/// The name of a resource class or a trait.
fn symbol(name: &str) -> Result<&str, String> {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    if !name.is_empty() && name.bytes().all(fits) {
        return Ok(name);
    }
    Err("a name must consist of upper-case letters, digits and underscores".to_owned())
}

fn amount(value: &str) -> Result<i64, String> {
    let amount = value.trim().parse().ok().filter(|amount| (0..=AMOUNT_MAX).contains(amount));
    amount.ok_or_else(|| format!("must be an amount from 0 to {AMOUNT_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::{Flavor, Size};

    fn flavor(extra_specs: &[(&str, &str)]) -> Flavor {
        let spec = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Flavor {
            name: "m1.small".to_owned(),
            id: "2".to_owned(),
            vcpus: 1,
            ram_mb: 2048,
            root_gb: 20,
            extra_specs: extra_specs.iter().map(spec).collect(),
            ..Flavor::default()
        }
    }

    fn needs(size: &Size) -> Vec<(&str, i64)> {
        size.needs.iter().map(|(class, amount)| (class.as_str(), *amount)).collect()
    }

    #[test]
    fn a_size_is_processors_memory_and_all_disks_together() {
        let small = flavor(&[]);
        let size = small.size().unwrap();
        assert_eq!(needs(&size), [("DISK_GB", 20), ("MEMORY_MB", 2048), ("VCPU", 1)]);
        let disk = |root_gb, ephemeral_gb, swap_mb| {
            let flavor = Flavor { root_gb, ephemeral_gb, swap_mb, ..small.clone() };
            flavor.size().unwrap().needs.get("DISK_GB").copied()
        };
        assert_eq!(disk(0, 0, 0), None);
        assert_eq!(disk(1, 2, 1), Some(4));
        assert_eq!(disk(0, 0, 1024), Some(1));
        assert_eq!(disk(0, 0, 1025), Some(2));
        assert_eq!(disk(i32::MAX, i32::MAX, i32::MAX), Some(4_297_064_446));
    }

    #[test]
    fn extra_specs_replace_amounts_and_ask_for_traits() {
        let size = flavor(&[
            ("resources:VCPU", "0"),
            ("resources:PCPU", "4"),
            ("resources:CUSTOM_GOLD", "1"),
            ("trait:HW_CPU_X86_AVX2", "required"),
            ("trait:CUSTOM_SLOW", "forbidden"),
            ("hw:cpu_policy", "dedicated"),
            ("valet", r#"{"groups": ["gold", "b"]}"#),
            ("valet:groups", "c, d"),
        ]);
        assert_eq!(size.rules().unwrap().groups, ["gold", "b", "c", "d"]);
        let size = size.size().unwrap();
        let expected = [("CUSTOM_GOLD", 1), ("DISK_GB", 20), ("MEMORY_MB", 2048), ("PCPU", 4)];
        assert_eq!(needs(&size), expected);
        assert_eq!(
            (size.required, size.forbidden),
            (vec!["HW_CPU_X86_AVX2".to_owned()], vec!["CUSTOM_SLOW".to_owned()],)
        );
    }

    #[test]
    fn extra_specs_ask_for_numbered_groups() {
        let size = flavor(&[
            ("resources1:VGPU", "1"),
            ("trait1:CUSTOM_FAST", "required"),
            ("resources_NET:SRIOV_NET_VF", "2"),
            ("trait_NET:CUSTOM_OLD", "forbidden"),
            ("resourcesGPU:VGPU", "3"),
            ("resources01:VGPU", "4"),
            ("root_required", "CUSTOM_A, !CUSTOM_B"),
            ("group_policy", "isolate"),
        ]);
        let size = size.size().unwrap();
        let expected = [
            "resources01=VGPU:4",
            "resources1=VGPU:1",
            "required1=CUSTOM_FAST",
            "resourcesGPU=VGPU:3",
            "resources_NET=SRIOV_NET_VF:2",
            "required_NET=!CUSTOM_OLD",
            "root_required=CUSTOM_A",
            "root_required=!CUSTOM_B",
            "group_policy=isolate",
        ];
        assert_eq!(
            (size.demands.words(), size.demands.check()),
            (expected.map(str::to_owned).into(), Ok(()))
        );
        assert_eq!(size.amounts().get("VGPU"), Some(&8));
    }

    #[test]
    fn a_flavor_that_cannot_be_planned_is_refused_with_the_reason() {
        for (key, value, words) in [
            ("resourcesä:VCPU", "1", "not a valid suffix of a group"),
            ("trait a:CUSTOM_A", "required", "not a valid suffix of a group"),
            ("group_policy", "any", "group_policy"),
            ("resources:VCPU", "many", "an amount"),
            ("resources:VCPU", "-1", "an amount"),
            ("resources:VCPU", "99999999999", "an amount"),
            ("resources:vcpu", "1", "upper-case"),
            ("resources:", "1", "upper-case"),
            ("trait:CUSTOM_A", "maybe", "required or forbidden"),
            ("aggregate_instance_extra_specs:ssd", "= fast", "not a number"),
            ("valet", "gold", "must be"),
            ("valet", r#"{"groups": 1}"#, "must be"),
            ("valet:groups", "[1]", "not of type string"),
        ] {
            let why = flavor(&[(key, value)]).size().unwrap_err();
            assert!(why.contains(words) && why.contains(key), "{why}");
        }
    }

    #[test]
    fn a_flavor_has_a_name_and_sensible_amounts() {
        let small = flavor(&[("quota:cpu", "")]);
        assert_eq!(small.check(), Ok(()));
        for (bad, words) in [
            (Flavor { name: String::new(), ..small.clone() }, "the name is empty"),
            (Flavor { name: "a\0b".to_owned(), ..small.clone() }, "control characters"),
            (Flavor { id: "x".repeat(256), ..small.clone() }, "the id is longer"),
            (Flavor { vcpus: 0, ..small.clone() }, "vcpus must be at least 1"),
            (Flavor { ram_mb: -1, ..small.clone() }, "ram must be at least 1"),
            (Flavor { swap_mb: -1, ..small.clone() }, "swap must be at least 0"),
            (flavor(&[("resources1:A", "1"), ("resources2:A", "1")]), "group_policy"),
            (flavor(&[("a", "b\n")]), "a property has control"),
        ] {
            let why = bad.check().unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
