use serde_json::{Value, json};

use super::{GroupRef, RootDisk, Sizing, Template, read};
use crate::model::{GroupKind, Level};
use crate::planner::rejection::Rejection;
use crate::solver::groups::Terms;

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
    assert_eq!(found.servers[0].sizing, Sizing::Flavor("m1".to_owned(), RootDisk::OnHost));
    assert_eq!(found.servers[1].sizing, Sizing::Resources([("VCPU".to_owned(), 2)].into()));
    assert_eq!(
        found.groups[0].which,
        GroupRef::Here(GroupKind::Diversity, Level::Rack, Terms::default())
    );
    assert_eq!(found.groups[0].servers, [0, 1]);
    let ignored: Vec<_> = found.ignored.iter().map(|it| (&*it.id, &*it.kind)).collect();
    assert_eq!(ignored, [("v", "OS::Cinder::Volume")]);
}

#[test]
fn faults_are_named() {
    let server =
        |properties: Value| json!({"a": {"type": "OS::Nova::Server", "properties": properties}});
    let group = |properties: Value| json!({"g": {"type": "OS::Valet::GroupAssignment", "properties": properties}});
    for (resources, why) in [
        (server(json!({})), "resource 'a': has neither flavor nor resources"),
        (
            server(json!({"resources": {"VCPU": 0}})),
            "resource 'a': resources: VCPU: not an amount from 1 to 2147483647",
        ),
        (
            group(json!({"group_type": "affinity", "resources": ["x"]})),
            "resource 'g': invalid resource = x",
        ),
        (group(json!({"group_type": "near"})), "resource 'g': group_type 'near' is invalid."),
        (
            group(json!({"group_type": "exclusivity", "resources": []})),
            "resource 'g': group_name must be used when group_type is 'exclusivity'.",
        ),
    ] {
        assert_eq!(template(&resources), Err(Rejection::Invalid(why.to_owned())));
    }
}

#[test]
fn groups_have_terms() {
    let group = |properties: Value| {
        let mut all = json!({"group_type": "diversity", "resources": []});
        for (key, value) in properties.as_object().unwrap() {
            all[key] = value.clone();
        }
        template(&json!({"g": {"type": "OS::Valet::GroupAssignment", "properties": all}}))
    };
    for (properties, soft, max_per_unit, max_skew) in [
        (json!({"soft": false, "weight": null}), None, None, None),
        (json!({"soft": true}), Some(1), None, None),
        (json!({"soft": true, "weight": 1000, "group_type": "affinity"}), Some(1000), None, None),
        (json!({"max_per_unit": 2}), None, Some(2), None),
        (json!({"max_per_unit": 3, "max_skew": 1}), None, Some(3), Some(1)),
    ] {
        let found = group(properties).unwrap();
        let GroupRef::Here(_, _, terms) = found.groups[0].which else { panic!("{found:?}") };
        assert_eq!(terms, Terms { soft, max_per_unit, max_skew });
    }
    let only = |term: &str| format!("{term} is for groups of one plan, not for stored groups");
    for (properties, why) in [
        (json!({"soft": 1}), "soft: not of type boolean".to_owned()),
        (json!({"weight": 2}), "weight is for soft groups only".to_owned()),
        (json!({"soft": true, "weight": 1001}), "weight: not an integer from 1 to 1000".to_owned()),
        (json!({"max_skew": 0}), "max_skew: not an integer from 1 to 4294967295".to_owned()),
        (
            json!({"max_skew": 1, "group_type": "affinity"}),
            "max_per_unit and max_skew are for the group type diversity only".to_owned(),
        ),
        (
            json!({"max_per_unit": 1, "soft": true}),
            "a soft group has neither max_per_unit nor max_skew".to_owned(),
        ),
        (json!({"group": "x", "soft": true}), only("soft")),
        (json!({"group_name": "x", "max_skew": 1}), only("max_skew")),
    ] {
        let why = format!("resource 'g': {why}");
        assert_eq!(group(properties), Err(Rejection::Invalid(why)));
    }
}
