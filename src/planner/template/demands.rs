//! Reads the demands of a server on the providers of its resources: `member_of`, `in_tree`, numbered groups and the
//! conditions across them, in the words of a query for allocation candidates.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::entries::wrong;
use super::properties::{Properties, amounts, text, texts};
use crate::planner::demands::{Demands, NumberedGroup, ProviderDemands, check_suffix, is_isolated};
use crate::planner::rejection::Rejection;

/// Traits of a list: single ones, and clauses `in:A,B` of which one is required.
pub(super) struct RequiredTraits {
    pub(super) all: Vec<String>,
    pub(super) any_of: Vec<Vec<String>>,
}

impl Properties<'_> {
    pub(super) fn required_traits(&self) -> Result<RequiredTraits, Rejection> {
        let (any_of, all): (Vec<String>, Vec<String>) =
            self.texts("required")?.into_iter().partition(|text| text.starts_with("in:"));
        let clause = |text: &String| {
            let names = text.trim_start_matches("in:").split(',').map(str::trim);
            let names: Vec<String> = names.map(str::to_owned).collect();
            if names.iter().any(String::is_empty) {
                return Err(wrong(self.id, format!("required: '{text}' names an empty trait")));
            }
            Ok(names)
        };
        Ok(RequiredTraits { all, any_of: any_of.iter().map(clause).collect::<Result<_, _>>()? })
    }

    /// The demands of a server.
    pub(super) fn demands(&self) -> Result<Demands, Rejection> {
        let mut demands = Demands { providers: self.providers()?, ..Demands::default() };
        if let Some(groups) = self.there("numbered_groups") {
            let fault = "numbered_groups: not a dictionary of groups by suffix";
            let groups = groups.as_object().ok_or_else(|| wrong(self.id, fault))?;
            for (suffix, group) in groups {
                check_suffix(suffix)
                    .map_err(|why| wrong(self.id, format!("numbered_groups: {why}")))?;
                demands.groups.insert(suffix.clone(), self.group(suffix, group)?);
            }
        }
        for word in self.texts("root_required")? {
            demands.add_root_trait(&word).map_err(|why| wrong(self.id, why))?;
        }
        if let Some(policy) = self.text("group_policy")? {
            demands.isolate = Some(is_isolated(&policy).map_err(|why| wrong(self.id, why))?);
        }
        if let Some(sets) = self.there("same_subtree") {
            let fault = "same_subtree: not a list of lists of groups";
            let sets = sets.as_array().ok_or_else(|| wrong(self.id, fault))?;
            for set in sets {
                let set = texts(self.id, "same_subtree", set)?;
                demands.same_subtree.insert(set.into_iter().collect());
            }
        }
        Ok(demands)
    }

    fn group(&self, suffix: &str, group: &Value) -> Result<NumberedGroup, Rejection> {
        const KEYS: [&str; 5] = ["resources", "required", "forbidden", "member_of", "in_tree"];
        let fault = |why: String| wrong(self.id, format!("numbered_groups: {suffix}: {why}"));
        let Value::Object(members) = group else { return Err(fault("not a dictionary".into())) };
        if let Some(unknown) = members.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(fault(format!("'{unknown}' is not one of {}", KEYS.join(", "))));
        }
        let own = Properties { id: self.id, properties: Map::clone(members) };
        let needs = match own.there("resources") {
            Some(Value::Object(needs)) => amounts(self.id, needs)?,
            Some(_) => return Err(fault("resources: not a dictionary of amounts".into())),
            None => std::collections::BTreeMap::new(),
        };
        Ok(NumberedGroup {
            needs,
            required: own.required_traits()?.all.into_iter().collect(),
            forbidden: own.texts("forbidden")?.into_iter().collect(),
            providers: own.providers()?,
        })
    }

    fn providers(&self) -> Result<ProviderDemands, Rejection> {
        let mut providers = ProviderDemands {
            any_of: self.required_traits()?.any_of,
            ..ProviderDemands::default()
        };
        let clauses = match self.there("member_of") {
            Some(Value::String(one)) => vec![one.clone()],
            Some(list) => texts(self.id, "member_of", list)?,
            None => Vec::new(),
        };
        let mut outside = BTreeSet::new();
        for clause in clauses {
            let (is_outside, list) =
                clause.strip_prefix('!').map_or((false, clause.as_str()), |list| (true, list));
            let list = list.trim_start_matches("in:").split(',');
            let uuids = list.map(|uuid| self.uuid("member_of", uuid.trim()));
            let uuids = uuids.collect::<Result<Vec<Uuid>, _>>()?;
            if is_outside {
                outside.extend(uuids);
            } else {
                providers.member_of.push(uuids);
            }
        }
        providers.not_member_of.extend(outside);
        if let Some(tree) = self.there("in_tree") {
            let tree = text(self.id, "in_tree", tree)?;
            providers.in_tree = Some(self.uuid("in_tree", &tree)?);
        }
        Ok(providers)
    }

    fn uuid(&self, key: &str, text: &str) -> Result<Uuid, Rejection> {
        let fault = |_| wrong(self.id, format!("{key}: '{text}' is not a UUID"));
        Uuid::try_parse(text).map_err(fault)
    }

    /// A property that is present and not null.
    fn there(&self, key: &str) -> Option<&Value> {
        self.properties.get(key).filter(|value| !value.is_null())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::properties::Properties;

    const UUID: &str = "3a17c0de-0000-4000-8000-000000000001";

    fn read(properties: Value) -> Result<Vec<String>, String> {
        let Value::Object(properties) = properties else { panic!("an object is wanted") };
        let properties = Properties { id: "r", properties };
        properties.demands().map(|it| it.words()).map_err(|why| why.to_string())
    }

    #[test]
    fn they_say_what_a_query_can_say() {
        let words = read(json!({
            "required": ["HW_A", "in:HW_B,HW_C"],
            "member_of": [format!("in:{UUID}, {UUID}"), format!("!{UUID}")],
            "in_tree": UUID,
            "numbered_groups": {
                "_NET": {"resources": {"SRIOV_NET_VF": 1}, "required": ["CUSTOM_X", "in:A,B"]},
                "1": {"required": ["HW_D"], "forbidden": ["HW_E"], "member_of": UUID},
            },
            "root_required": ["HW_F", "!HW_G"],
            "group_policy": "isolate",
            "same_subtree": [["1", "_NET"]],
        }));
        let expected = [
            "required=in:HW_B,HW_C".to_owned(),
            format!("member_of=in:{UUID},{UUID}"),
            format!("member_of=!{UUID}"),
            format!("in_tree={UUID}"),
            "required1=HW_D".to_owned(),
            "required1=!HW_E".to_owned(),
            format!("member_of1=in:{UUID}"),
            "resources_NET=SRIOV_NET_VF:1".to_owned(),
            "required_NET=CUSTOM_X".to_owned(),
            "required_NET=in:A,B".to_owned(),
            "root_required=HW_F".to_owned(),
            "root_required=!HW_G".to_owned(),
            "group_policy=isolate".to_owned(),
            "same_subtree=1,_NET".to_owned(),
        ];
        assert_eq!(words, Ok(expected.into()));
        assert_eq!(read(json!({})), Ok(Vec::new()));
    }

    #[test]
    fn meaningless_demands_are_named() {
        for (properties, words) in [
            (json!({"member_of": ["x"]}), "member_of: 'x' is not a UUID"),
            (json!({"member_of": 1}), "member_of: not of type array"),
            (json!({"in_tree": "h"}), "in_tree: 'h' is not a UUID"),
            (json!({"required": ["in:A,"]}), "names an empty trait"),
            (json!({"numbered_groups": []}), "numbered_groups: not a dictionary"),
            (json!({"numbered_groups": {"a b": {}}}), "'a b' is not a valid suffix of a group"),
            (json!({"root_required": ["!"]}), "root_required: '!' must be NAME or !NAME"),
            (json!({"numbered_groups": {"1": 1}}), "numbered_groups: 1: not a dictionary"),
            (json!({"numbered_groups": {"1": {"x": 1}}}), "'x' is not one of resources"),
            (json!({"numbered_groups": {"1": {"resources": {"VCPU": 0}}}}), "not an amount"),
            (json!({"group_policy": "both"}), "group_policy must be 'none' or 'isolate'"),
            (json!({"same_subtree": ["1"]}), "same_subtree: not of type array"),
        ] {
            let why = read(properties).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
