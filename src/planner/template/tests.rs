use serde_json::{Value, json};

use super::{GroupRef, Sizing, Template, read};
use crate::model::{GroupKind, Level};
use crate::planner::rejection::Rejection;

fn template(resources: &Value) -> Result<Template, Rejection> {
    read(resources.as_object().unwrap())?.of_request()
}

#[test]
fn servers_and_groups_are_read_and_all_else_is_listed_as_ignored() {
    let found = template(&json!({
        "a": {"type": "OS::Nova::Server", "name": "web", "properties": {"flavor": "m1"}},
        "b": {"type": "OS::Nova::Server", "properties": {"resources": {"VCPU": 2}}},
        "v": {"type": "OS::Cinder::Volume"},
        "g": {"type": "OS::Valet::GroupAssignment", "properties": {
            "group_type": "diversity", "level": "rack", "resources": ["web", {"get_resource": "b"}, "v"],
        }},
    }))
    .unwrap();
    let names: Vec<&str> = found.servers.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["web", "b"]);
    assert_eq!(found.servers[0].sizing, Sizing::Flavor("m1".to_owned()));
    assert_eq!(found.servers[1].sizing, Sizing::Resources([("VCPU".to_owned(), 2)].into()));
    assert_eq!(found.groups[0].which, GroupRef::Here(GroupKind::Diversity, Level::Rack));
    assert_eq!(found.groups[0].servers, [0, 1]);
    let ignored: Vec<_> = found.ignored.iter().map(|it| (&*it.id, &*it.kind)).collect();
    assert_eq!(ignored, [("v", "OS::Cinder::Volume")]);
}

#[test]
fn what_is_wrong_is_named() {
    let server =
        |properties: Value| json!({"a": {"type": "OS::Nova::Server", "properties": properties}});
    let group = |properties: Value| json!({"g": {"type": "OS::Valet::GroupAssignment", "properties": properties}});
    for (resources, why) in [
        (server(json!({})), "resource 'a': has neither flavor nor resources"),
        (
            server(json!({"resources": {"VCPU": 0}})),
            "resource 'a': resources: VCPU: not an amount from 1 to 2147483647",
        ),
        (group(json!({"group_type": "affinity", "resources": ["x"]})), "invalid resource = x"),
        (group(json!({"group_type": "near"})), "group_type 'near' is invalid."),
        (
            group(json!({"group_type": "exclusivity", "resources": []})),
            "resource 'g': group_name must be used when group_type is 'exclusivity'.",
        ),
    ] {
        assert_eq!(template(&resources), Err(Rejection::Invalid(why.to_owned())));
    }
}
