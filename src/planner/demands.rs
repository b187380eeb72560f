//! The demands of a server on the providers of its resources besides amounts and traits: everything that a query
//! for allocation candidates can express.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::search::GROUP_SUFFIX;

/// Maximum number of numbered groups of one server.
const GROUPS_MAX: usize = 32;

/// The classes of bandwidth that a server of a pipe holds: egress and ingress.
pub(crate) const BANDWIDTH: [&str; 2] =
    ["NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"];

/// Conditions on the providers of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct ProviderDemands {
    /// Clauses of traits: each is met by one of its traits. Single traits are elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any_of: Vec<Vec<String>>,
    /// Clauses of aggregates: the provider is in one of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub member_of: Vec<Vec<Uuid>>,
    /// Aggregates that the provider is not in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_member_of: Vec<Uuid>,
    /// A provider whose tree it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_tree: Option<Uuid>,
}

/// A numbered group, supplied by one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct NumberedGroup {
    /// Amounts by the name of the resource class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub needs: BTreeMap<String, i64>,
    /// Traits that the provider must have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub required: BTreeSet<String>,
    /// Traits that it must not have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub forbidden: BTreeSet<String>,
    /// Conditions on its provider.
    #[serde(flatten)]
    pub providers: ProviderDemands,
}

/// The demands of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct Demands {
    /// Conditions on the providers of resources outside of numbered groups.
    #[serde(flatten)]
    pub providers: ProviderDemands,
    /// The numbered groups by their suffix, such as `1` or `_NET`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, NumberedGroup>,
    /// Traits that the root of the host's tree must have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub root_required: BTreeSet<String>,
    /// Traits that it must not have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub root_forbidden: BTreeSet<String>,
    /// Whether numbered groups have different providers (`group_policy`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolate: Option<bool>,
    /// Sets of groups: one of their providers is an ancestor of all others.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub same_subtree: BTreeSet<BTreeSet<String>>,
}

impl NumberedGroup {
    /// Returns whether it requires anything of a provider: resources, a trait or an aggregate.
    pub(crate) fn asks_for_something(&self) -> bool {
        !self.needs.is_empty()
            || !self.required.is_empty()
            || !self.providers.any_of.is_empty()
            || !self.providers.member_of.is_empty()
    }
}

impl ProviderDemands {
    /// Adds the demands of another group.
    ///
    /// # Errors
    /// They name different trees.
    fn add(&mut self, other: &Self) -> Result<(), String> {
        self.any_of.extend(other.any_of.iter().cloned());
        self.member_of.extend(other.member_of.iter().cloned());
        self.not_member_of.extend(&other.not_member_of);
        match (self.in_tree, other.in_tree) {
            (Some(one), Some(other)) if one != other => {
                return Err(format!("in_tree is both {one} and {other}"));
            }
            (one, other) => self.in_tree = one.or(other),
        }
        Ok(())
    }

    fn words(&self, suffix: &str) -> Vec<String> {
        let list = |all: &[Uuid]| all.iter().map(Uuid::to_string).collect::<Vec<_>>().join(",");
        let traits = self.any_of.iter().map(|any| format!("required{suffix}=in:{}", any.join(",")));
        let within = self.member_of.iter().map(|any| format!("member_of{suffix}=in:{}", list(any)));
        let outside = self.not_member_of.iter().map(|it| format!("member_of{suffix}=!{it}"));
        let tree = self.in_tree.map(|tree| format!("in_tree{suffix}={tree}"));
        traits.chain(within).chain(outside).chain(tree).collect()
    }
}

impl Demands {
    /// Adds a trait of `root_required`: `NAME`, or `!NAME` for one that the root must not have.
    ///
    /// # Errors
    /// It has no name.
    pub(crate) fn add_root_trait(&mut self, word: &str) -> Result<(), String> {
        let (set, name) = match word.strip_prefix('!') {
            Some(name) => (&mut self.root_forbidden, name),
            None => (&mut self.root_required, word),
        };
        if name.is_empty() || name.starts_with("in:") {
            return Err(format!("root_required: '{word}' must be NAME or !NAME"));
        }
        set.insert(name.to_owned());
        Ok(())
    }

    /// Returns whether there are no demands.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Adds other demands, for example those of a server to those of its flavor.
    ///
    /// # Errors
    /// The contradiction.
    pub(crate) fn add(&mut self, other: &Self) -> Result<(), String> {
        self.providers.add(&other.providers)?;
        for (suffix, group) in &other.groups {
            if self.groups.insert(suffix.clone(), group.clone()).is_some() {
                return Err(format!("the group '{suffix}' is in both the flavor and the server"));
            }
        }
        self.root_required.extend(other.root_required.iter().cloned());
        self.root_forbidden.extend(other.root_forbidden.iter().cloned());
        self.isolate = other.isolate.or(self.isolate);
        self.same_subtree.extend(other.same_subtree.iter().cloned());
        Ok(())
    }

    /// Checks conditions across all groups, like the check of a query for allocation candidates.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.groups.len() > GROUPS_MAX {
            return Err(format!("a server has at most {GROUPS_MAX} numbered groups"));
        }
        if let Some(both) = self.root_required.intersection(&self.root_forbidden).next() {
            return Err(format!("root_required names both {both} and !{both}"));
        }
        if self.groups.len() > 1 && self.isolate.is_none() {
            return Err("several numbered groups require group_policy 'none' or 'isolate'".into());
        }
        for suffix in self.same_subtree.iter().flatten() {
            if !self.groups.contains_key(suffix) {
                return Err(format!("same_subtree names the unknown group '{suffix}'"));
            }
        }
        for (suffix, group) in &self.groups {
            let in_subtree = self.same_subtree.iter().any(|set| set.contains(suffix));
            if group.needs.is_empty() && !in_subtree {
                return Err(format!("the group '{suffix}' needs resources or a same_subtree"));
            }
            if !group.asks_for_something() {
                return Err(format!("the group '{suffix}' requires nothing of a provider"));
            }
            if let Some(both) = group.required.intersection(&group.forbidden).next() {
                return Err(format!("the group '{suffix}' requires and forbids {both}"));
            }
        }
        Ok(())
    }

    /// Adds a numbered group for each pipe, by its bandwidth in kilobits per second: one provider, such as a network
    /// card, supplies both directions of it.
    ///
    /// # Errors
    /// There are too many groups.
    pub(crate) fn add_pipes(&mut self, pipes: &[i64]) -> Result<(), String> {
        if self.groups.len() + pipes.len() > GROUPS_MAX {
            return Err(format!(
                "a server has at most {GROUPS_MAX} numbered groups, and each of its pipes is one"
            ));
        }
        for (nth, kilobits) in (1..).zip(pipes) {
            let needs = BANDWIDTH.map(|class| (class.to_owned(), *kilobits)).into();
            let group = NumberedGroup { needs, ..NumberedGroup::default() };
            let suffix = format!("_PIPE{nth}");
            if self.groups.insert(suffix.clone(), group).is_some() {
                return Err(format!("the group '{suffix}' is in both the server and its pipes"));
            }
            self.isolate.get_or_insert(false);
        }
        Ok(())
    }

    /// Formats each demand as in a query for allocation candidates.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = self.providers.words("");
        for (suffix, group) in &self.groups {
            let needs = group.needs.iter();
            words
                .extend(needs.map(|(class, amount)| format!("resources{suffix}={class}:{amount}")));
            words.extend(group.required.iter().map(|name| format!("required{suffix}={name}")));
            words.extend(group.forbidden.iter().map(|name| format!("required{suffix}=!{name}")));
            words.extend(group.providers.words(suffix));
        }
        words.extend(self.root_required.iter().map(|name| format!("root_required={name}")));
        words.extend(self.root_forbidden.iter().map(|name| format!("root_required=!{name}")));
        let policy = |isolate: bool| if isolate { "isolate" } else { "none" };
        words.extend(self.isolate.map(|isolate| format!("group_policy={}", policy(isolate))));
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
        words.extend(self.same_subtree.iter().map(|set| format!("same_subtree={}", list(set))));
        words
    }
}

/// Checks the suffix of a numbered group, which is one of a query for allocation candidates.
///
/// # Errors
/// The rule for suffixes.
pub(crate) fn check_suffix(suffix: &str) -> Result<(), String> {
    static SUFFIX: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(&format!("^({GROUP_SUFFIX})$")).ok());
    if SUFFIX.as_ref().is_some_and(|it| it.is_match(suffix)) {
        return Ok(());
    }
    Err(format!(
        "'{suffix}' is not a valid suffix of a group: must be 1 to 64 letters, digits, _ and -"
    ))
}

/// Reads `group_policy`.
///
/// # Errors
/// The allowed values.
pub(crate) fn is_isolated(policy: &str) -> Result<bool, String> {
    match policy {
        "isolate" => Ok(true),
        "none" => Ok(false),
        _ => Err("group_policy must be 'none' or 'isolate'".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{Demands, NumberedGroup, ProviderDemands, check_suffix};

    fn one_of(class: &str) -> NumberedGroup {
        NumberedGroup { needs: [(class.to_owned(), 1)].into(), ..NumberedGroup::default() }
    }

    fn with_groups(suffixes: &[&str]) -> Demands {
        let group = |suffix: &&str| ((*suffix).to_owned(), one_of("VGPU"));
        Demands { groups: suffixes.iter().map(group).collect(), ..Demands::default() }
    }

    #[test]
    fn suffixes_are_those_of_candidates() {
        for good in ["1", "42", "0", "01", "1x", "COMPUTE", "_NET", "_a-b_c", "_", &"9".repeat(64)]
        {
            assert_eq!(check_suffix(good), Ok(()), "{good}");
        }
        for bad in ["", "a b", "_é", "A\n", ":", &"9".repeat(65)] {
            assert!(check_suffix(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_are_checked_together() {
        let subtree = |demands: &mut Demands, suffixes: &[&str]| {
            let set = suffixes.iter().map(ToString::to_string).collect();
            demands.same_subtree.insert(set);
        };
        let mut demands = with_groups(&["1", "_A"]);
        assert!(demands.check().unwrap_err().contains("group_policy"));
        demands.isolate = Some(false);
        assert_eq!(demands.check(), Ok(()));
        subtree(&mut demands, &["1", "_B"]);
        assert!(demands.check().unwrap_err().contains("'_B'"));
        demands.groups.insert("_B".to_owned(), NumberedGroup::default());
        assert!(demands.check().unwrap_err().contains("requires nothing of a provider"));
        let traits =
            NumberedGroup { required: ["HW_A".to_owned()].into(), ..NumberedGroup::default() };
        demands.groups.insert("_B".to_owned(), traits.clone());
        assert_eq!(demands.check(), Ok(()));
        demands.groups.insert("_C".to_owned(), traits);
        assert!(demands.check().unwrap_err().contains("needs resources or a same_subtree"));
        let many: Vec<String> = (1..34).map(|nth| nth.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(with_groups(&many).check().unwrap_err().contains("at most 32"));
    }

    #[test]
    fn demands_of_a_server_are_added_to_those_of_its_flavor() {
        let (mut flavor, server) = (with_groups(&["1"]), with_groups(&["_A"]));
        flavor.add(&server).unwrap();
        assert_eq!(flavor.words(), ["resources1=VGPU:1", "resources_A=VGPU:1"]);
        assert!(flavor.add(&server).unwrap_err().contains("'_A'"));
        let tree = |nth| Demands {
            providers: ProviderDemands {
                in_tree: Some(Uuid::from_u128(nth)),
                ..ProviderDemands::default()
            },
            ..Demands::default()
        };
        let mut one = tree(1);
        assert_eq!((one.add(&tree(1)), one.add(&tree(2)).is_err()), (Ok(()), true));
    }

    #[test]
    fn traits_of_the_root_are_required_or_forbidden() {
        let mut demands = Demands::default();
        for word in ["CUSTOM_A", "!CUSTOM_B"] {
            demands.add_root_trait(word).unwrap();
        }
        assert_eq!(demands.words(), ["root_required=CUSTOM_A", "root_required=!CUSTOM_B"]);
        for word in ["", "!", "in:A,B"] {
            assert!(demands.add_root_trait(word).is_err(), "{word}");
        }
        demands.add_root_trait("!CUSTOM_A").unwrap();
        assert!(demands.check().unwrap_err().contains("both CUSTOM_A"));
    }

    #[test]
    fn they_are_stored_as_text() {
        let mut demands = with_groups(&["_A"]);
        demands.add_root_trait("CUSTOM_A").unwrap();
        demands.providers.member_of = vec![vec![Uuid::from_u128(7)]];
        demands.isolate = Some(true);
        let text = serde_json::to_string(&demands).unwrap();
        assert_eq!(serde_json::from_str::<Demands>(&text).unwrap(), demands);
        assert_eq!(serde_json::from_str::<Demands>("{}").unwrap(), Demands::default());
    }
}
