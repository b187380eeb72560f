use serde_json::{Value, json};

use crate::model::{GroupKind, Level};
use crate::planner::rejection::Rejection;
use crate::planner::template::{GroupEntry, GroupRef, Template, read};
use crate::solver::groups::Terms;

fn group(properties: &Value) -> Value {
    json!({"type": "OS::Nova::ServerGroup", "properties": properties})
}

/// The template of a server group `sg`, and of a server `a` with a hint.
fn template(group: &Value, hint: &Value) -> Template {
    let properties = json!({"flavor": "m1", "scheduler_hints": {"group": hint}});
    let server = json!({"type": "OS::Nova::Server", "properties": properties});
    read(json!({"a": server, "sg": group}).as_object().unwrap()).unwrap()
}

fn fault(template: Template) -> String {
    match template.of_request() {
        Err(Rejection::Invalid(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_policy_is_a_group_of_hosts() {
    use GroupKind::{Affinity, Diversity};
    let hard = Terms::default();
    let soft = Terms { soft: Some(1), ..hard };
    let most = |most| Terms { max_per_unit: Some(most), ..hard };
    let anti = |most: Value| json!({"policies": ["anti-affinity"], "rules": {"max_server_per_host": most}});
    for (properties, kind, terms) in [
        (json!({"policies": ["affinity"]}), Affinity, hard),
        (json!({"policies": ["anti-affinity"]}), Diversity, hard),
        (json!({"policy": "affinity", "policies": null, "rules": {}}), Affinity, hard),
        (anti(json!(1)), Diversity, hard),
        (anti(json!("1")), Diversity, hard),
        (anti(json!(2)), Diversity, most(2)),
        (anti(json!("30")), Diversity, most(30)),
        (json!({"policy": "soft-affinity"}), Affinity, soft),
        (json!({"policies": ["soft-anti-affinity"]}), Diversity, soft),
    ] {
        let found = template(&group(&properties), &json!("sg")).of_request().unwrap();
        let which = GroupRef::Here(kind, Level::Host, terms);
        let expected = GroupEntry {
            name: "sg".into(),
            which,
            is_server_group: true,
            servers: vec![0],
            groups: vec![],
        };
        assert_eq!((found.groups, found.ignored), (vec![expected], vec![]));
    }
}

#[test]
fn a_group_is_named_by_its_ids_and_names() {
    let id = "5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901";
    let mut it = group(&json!({"policies": ["affinity"], "name": "inner"}));
    it["name"] = json!("outer");
    it["resource_id"] = json!(id);
    let dashless = id.replace('-', "").to_uppercase();
    for hint in [json!("sg"), json!({"get_resource": "sg"}), json!("outer"), json!("inner")]
        .into_iter()
        .chain([json!(id), json!(dashless)])
    {
        let found = template(&it, &hint).of_request().unwrap();
        assert_eq!((&*found.groups[0].name, &found.groups[0].servers), ("outer", &vec![0]));
    }
    let alone = template(&it, &Value::Null).of_request().unwrap();
    assert!(alone.groups[0].servers.is_empty());
}

#[test]
fn ignored_rules_are_listed() {
    let outside = "5c0ff8a4-3a3d-4c4e-9f5e-2b6a0e6f1d33";
    let hints = json!({"same_host": "x", "heat_stack_name": "s", "group": outside});
    let properties = json!({"flavor": "m1", "scheduler_hints": hints});
    let server = json!({"a": {"type": "OS::Nova::Server", "properties": properties}});
    let found = read(server.as_object().unwrap()).unwrap().of_request().unwrap();
    let why: Vec<&str> = found.ignored.iter().map(|it| it.why.as_str()).collect();
    let group =
        format!("the server group {outside} is not in the request, so its policy is unknown");
    assert_eq!(why, ["the scheduler hint same_host is not supported", &group]);
}

#[test]
fn a_fault_is_that_of_a_request_and_ignored_in_a_stored_plan() {
    let max =
        |most: Value| json!({"policy": "anti-affinity", "rules": {"max_server_per_host": most}});
    for (properties, why) in [
        (json!({}), "has no policy"),
        (json!({"policies": []}), "has no policy"),
        (json!({"policies": "affinity"}), "policies: not of type array"),
        (json!({"policies": ["affinity", "anti-affinity"]}), "has more than one policy"),
        (json!({"policies": ["affinity"], "policy": "affinity"}), "has more than one policy"),
        (json!({"policy": 1}), "policy: not of type string"),
        (json!({"policy": "legacy"}), "policy 'legacy' is invalid: must be"),
        (json!({"policy": "affinity", "rules": {"max_server_per_host": 1}}), "anti-affinity only"),
        (json!({"policy": "anti-affinity", "rules": {"x": 1}}), "no keys but max_server_per_host"),
        (json!({"policy": "anti-affinity", "rules": 1}), "rules: not a dictionary"),
        (max(json!(0)), "not an integer from 1"),
        (max(json!("two")), "not an integer from 1"),
    ] {
        let found = template(&group(&properties), &json!("sg"));
        assert_eq!((found.groups.len(), found.ignored.len()), (0, 1));
        let fault = fault(found);
        assert!(fault.starts_with("resource 'sg': ") && fault.contains(why), "{fault}");
    }
    for (hint, why) in [
        (json!("other"), "group 'other' is not a server group of the request"),
        (json!({"get_resource": "a"}), "group 'a' is not a server group of the request"),
        (json!(["sg"]), "group: not of type string"),
    ] {
        let found = template(&group(&json!({"policy": "affinity"})), &hint);
        assert_eq!((found.groups[0].servers.len(), &*found.ignored[0].id), (0, "a"));
        let fault = fault(found);
        assert!(fault.starts_with("resource 'a': scheduler_hints: ") && fault.contains(why));
    }
}
