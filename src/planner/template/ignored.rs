//! Resources that a plan ignores.

use serde_json::Value;

use super::pipes::PIPES;
use crate::planner::json::Object;

/// A resource that a plan ignores entirely or in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ignored {
    /// Its orchestration id, in its original spelling.
    pub(crate) id: String,
    /// Its type.
    pub(crate) kind: String,
    /// The reason.
    pub(crate) why: String,
}

/// Maximum number of property names listed in a response, and maximum length of each in characters.
const NAMED_MAX: usize = 5;
const CHARS_MAX: usize = 40;

/// Properties of servers that the planner reads.
const FOLLOWED: [&str; 15] = [
    "availability_zone",
    "block_device_mapping",
    "block_device_mapping_v2",
    "flavor",
    "forbidden",
    "group_policy",
    "image",
    "in_tree",
    "member_of",
    "metadata",
    "numbered_groups",
    "required",
    "resources",
    "root_required",
    "same_subtree",
];
/// Further properties of `OS::Nova::Server` in Heat, which do not affect the place of a server. `scheduler_hints`
/// are examined one by one.
const WITHOUT_PLACE: [&str; 19] = [
    "admin_pass",
    "admin_user",
    "config_drive",
    "deployment_swift_data",
    "diskConfig",
    "flavor_update_policy",
    "image_update_policy",
    "key_name",
    "name",
    "networks",
    "personality",
    "reservation_id",
    "scheduler_hints",
    "security_groups",
    "software_config_transport",
    "tags",
    "user_data",
    "user_data_format",
    "user_data_update_policy",
];

/// A note about the unknown properties of a server, if there are any. They may be misspelt.
pub(super) fn unknown_properties(properties: Option<&Value>) -> Option<String> {
    let is_known = |key: &str| FOLLOWED.contains(&key) || WITHOUT_PLACE.contains(&key);
    let keys = properties?.as_object()?.keys().map(String::as_str);
    named(keys.filter(|key| !is_known(key))).map(|names| format!("unknown properties: {names}"))
}

/// A note about the properties of a pipe that are ignored, if there are any.
pub(super) fn unfollowed(properties: &Object) -> Option<String> {
    let keys = properties.keys().map(String::as_str);
    let keys = keys.filter(|key| !["bandwidth", "name", "resources"].contains(key));
    let bandwidth = properties.get("bandwidth").and_then(Value::as_object);
    let of_bandwidth = bandwidth.into_iter().flat_map(|it| it.keys().map(String::as_str));
    let of_bandwidth = of_bandwidth.filter(|key| !["min", "units"].contains(key));
    named(of_bandwidth.chain(keys)).map(|names| format!("ignored properties: {names}"))
}

/// The first of these names, each cut to a maximum length, and the number of further ones.
fn named<'k>(names: impl Iterator<Item = &'k str>) -> Option<String> {
    let mut names = names.map(|name| name.chars().take(CHARS_MAX).collect::<String>());
    let first: Vec<String> = names.by_ref().take(NAMED_MAX).collect();
    let list = first.join(", ");
    match (first.len(), names.count()) {
        (0, _) => None,
        (_, 0) => Some(list),
        (_, more) => Some(format!("{list} and {more} more")),
    }
}

/// The reason why resources of a type are ignored.
pub(super) fn why_ignored(kind: &str) -> &'static str {
    match kind {
        "OS::Cinder::Volume" => "volumes are not planned: there is no storage backend",
        "OS::Cinder::VolumeAttachment" => {
            "attachments are not planned: there is no storage backend"
        }
        kind if PIPES.contains(&kind) => {
            "pipes are not planned: no provider has an inventory of bandwidth"
        }
        _ => "resources of this type are not planned",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{unfollowed, unknown_properties};

    #[test]
    fn unknown_names_are_listed() {
        let unknown = |properties| unknown_properties(Some(&properties));
        let known =
            json!({"flavor": "m1.small", "image": "i", "networks": [], "root_required": []});
        assert_eq!(unknown(known), None);
        let some = json!({"requird": ["X"], "flavor": "f", "affinity": "b"});
        assert_eq!(unknown(some), Some("unknown properties: requird, affinity".to_owned()));
        let many: serde_json::Map<_, _> = (1..8).map(|nth| (format!("p{nth}"), json!(1))).collect();
        let many = unknown(many.into()).unwrap();
        assert_eq!(many, "unknown properties: p1, p2, p3, p4, p5 and 2 more");
        assert!(unknown(json!({"x".repeat(1000): 1})).unwrap().len() < 100);
    }

    #[test]
    fn ignored_properties_of_a_pipe_are_named() {
        let pipe = |properties| unfollowed(&serde_json::from_value(properties).unwrap());
        assert_eq!(pipe(json!({"resources": [], "bandwidth": {"min": 1, "units": "kbps"}})), None);
        let some = json!({"resources": [], "bandwidth": {"min": 1, "max": 2}, "latency": 3});
        let expected = "ignored properties: max, latency";
        assert_eq!(pipe(some), Some(expected.to_owned()));
    }
}
