use std::path::PathBuf;

use super::{Caller, Denied, Location, Override, Rules, defaults};
use crate::auth::policy::{OPERATIONS, PLANNING, language, rule};

fn caller(roles: &[&str]) -> Caller {
    Caller {
        user: Some("u".to_owned()),
        project: Some("p".to_owned()),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..Caller::default()
    }
}

fn with(overrides: &[(&str, &str)], legacy: bool) -> Result<Rules, String> {
    let overrides: Vec<Override> = overrides
        .iter()
        .zip(1..)
        .map(|((name, check), line)| Override {
            name: (*name).to_owned(),
            check: language::parse(check).unwrap(),
            place: Location { file: PathBuf::from("policy.yaml"), line },
        })
        .collect();
    Rules::new(&overrides, legacy).map_err(|fault| fault.to_string())
}

#[test]
fn the_defaults_can_be_read() {
    for default in defaults() {
        language::parse(default.check).unwrap();
        default.legacy.map(|legacy| language::parse(legacy).unwrap());
    }
    assert_eq!(OPERATIONS.len(), 33);
}

#[test]
fn each_rule_of_the_planner_asks_for_its_roles() {
    let rules = with(&[], false).unwrap();
    let reads = ["list", "show"];
    for operation in PLANNING {
        let name = operation.name;
        let own = [("project_id", Some("p"))];
        let may = |roles: &[&str]| rules.passes(&caller(roles), &own, name);
        let of_operators =
            ["groups", "all_projects", "migrate", "resources"].iter().any(|it| name.contains(it));
        let is_read = reads.iter().any(|it| name.ends_with(it));
        assert!(may(&["service"]) && may(&["Admin"]) && !may(&[]) && !may(&["other"]), "{name}");
        assert_eq!(may(&["member"]), !of_operators, "{name}");
        assert_eq!(may(&["reader"]), !of_operators && is_read, "{name}");
        let other = [("project_id", Some("q"))];
        assert!(!rules.passes(&caller(&["member", "reader"]), &other, name), "{name}");
    }
}

#[test]
fn each_rule_asks_for_its_roles() {
    for legacy in [false, true] {
        let rules = with(&[], legacy).unwrap();
        for operation in OPERATIONS {
            let name = operation.name;
            let may = |roles: &[&str]| rules.passes(&caller(roles), &[], name);
            assert!(may(&["service"]) && may(&["x", "Service"]), "{name}");
            assert_eq!(may(&["admin"]), name != rule::RESHAPE.name() || legacy, "{name}");
            assert!(!may(&[]) && !may(&["member", "reader"]), "{name}");
        }
    }
}

#[test]
fn a_reader_sees_the_usages_of_its_own_project() {
    let rules = with(&[], false).unwrap();
    let may = |roles: &[&str], project| rules.check(&caller(roles), rule::USAGES, project).is_ok();
    assert!(may(&["reader"], Some("p")));
    assert!(!may(&["reader"], Some("q")));
    assert!(!may(&["member"], Some("p")));
    assert!(may(&["admin"], Some("q")));
}

#[test]
fn only_tokens_for_a_project_may_anything() {
    let rules = with(&[("placement:traits:list", "@")], false).unwrap();
    let somewhere = || Some("somewhere".to_owned());
    let trusted = || caller(&["admin", "service"]);
    for scoped in
        [Caller { system: somewhere(), ..trusted() }, Caller { domain: somewhere(), ..trusted() }]
    {
        let denied = rules.check(&scoped, rule::TRAITS_LIST, None);
        assert_eq!(denied, Err(Denied::Scope("placement:traits:list")));
    }
    assert_eq!(rules.check(&caller(&[]), rule::TRAITS_LIST, None), Ok(()));
}

#[test]
fn an_override_replaces_the_present_default_and_the_one_before() {
    let rules = with(&[("service_api", "role:robot")], true).unwrap();
    let may = |role: &str| rules.passes(&caller(&[role]), &[], rule::RESHAPE.name());
    assert!(may("robot") && !may("service") && !may("admin"));
    let twice = [("placement:usages", "!"), ("placement:usages", "role:x")];
    assert!(with(&twice, false).unwrap().passes(&caller(&["x"]), &[], "placement:usages"));
}

#[test]
fn attributes_are_compared_with_what_the_request_is_about() {
    let target = [("project_id", Some("p")), ("nobody", None)];
    for (check, expected) in [
        ("project_id:%(project_id)s", true),
        ("project_id:p", true),
        ("project_id:q", false),
        ("project_id:%(missing)s", false),
        ("not project_id:%(missing)s", true),
        ("unknown:p", false),
        ("user_id:%(project_id)s", false),
        ("'p':%(project_id)s", true),
        ("None:%(nobody)s", true),
        ("domain_id:None", true),
        ("system:None", false),
        ("roles:a", true),
        ("roles:A", false),
        ("role:A", true),
        ("role:%(project_id)s", false),
        ("is_admin_project:True", true),
    ] {
        let rules = with(&[("x", check)], false).unwrap();
        assert_eq!(rules.passes(&caller(&["a"]), &target, "x"), expected, "{check}");
    }
}

#[test]
fn unknown_rules_are_named_with_their_place() {
    for (overrides, why) in [
        (vec![("a", "rule:b")], "policy.yaml:1: rule \"a\": there is no rule \"b\""),
        (vec![("b", "@"), ("a", "rule:b or not rule:c")], "policy.yaml:2: rule \"a\": there is no"),
        (vec![("a", "rule:a")], "policy.yaml:1: rule \"a\" refers to itself"),
        (vec![("a", "rule:b"), ("b", "@ or rule:a")], "policy.yaml:1: rule \"a\" refers to itself"),
        (
            vec![("admin_or_service_api", "rule:placement:traits:list")],
            "policy.yaml:1: rule \"admin_or_service_api\" refers to itself",
        ),
        (vec![("default", "rule:nothing")], "policy.yaml:1: rule \"default\" refers to itself"),
    ] {
        let fault = with(&overrides, false).unwrap_err();
        assert!(fault.starts_with(why), "{fault}");
    }
}

#[test]
fn the_default_rule_stands_for_those_that_there_are_not() {
    let rules = with(&[("default", "role:x"), ("a", "rule:nothing")], false).unwrap();
    assert!(rules.passes(&caller(&["x"]), &[], "a"));
    assert!(!rules.passes(&caller(&["y"]), &[], "a"));
    assert!(rules.passes(&caller(&["x"]), &[], "anything"));
}

#[test]
fn a_verdict_is_explained() {
    let rules = with(&[], false).unwrap();
    let (reader, target) = (caller(&["reader"]), [("project_id", Some("q"))]);
    let lines = rules.evaluation(&reader, &target).explain("placement:usages");
    assert_eq!(
        lines.unwrap().join("\n"),
        "no  rule:admin_or_project_reader_or_service_api\n\
         no    any of\n\
         no      role:admin\n\
         no      rule:project_reader_api\n\
         no        all of\n\
         yes         role:reader\n\
         no          project_id:%(project_id)s\n\
         no      role:service"
    );
    assert_eq!(rules.evaluation(&reader, &target).explain("nothing"), None);
}

/// Returns rules `0` to `count - 1`, each with an expression that refers to the next rule, and a last one.
fn ladder(count: usize, expression: fn(&str) -> String) -> Vec<(String, String)> {
    let rule = |nth: usize| (nth.to_string(), expression(&format!("rule:{}", nth + 1)));
    (0..count).map(rule).chain([(count.to_string(), "role:x".to_owned())]).collect()
}

fn with_ladder(ladder: &[(String, String)]) -> Result<Rules, String> {
    let ladder: Vec<_> = ladder.iter().map(|(name, check)| (&**name, &**check)).collect();
    with(&ladder, false)
}

#[test]
fn each_rule_is_evaluated_once_for_a_caller() {
    let twice = |next: &str| format!("{next} and not not {next}");
    for (count, expression) in [(60, twice as fn(&str) -> String), (20_000, str::to_owned)] {
        let rules = with_ladder(&ladder(count, expression)).unwrap();
        for (role, passes) in [("x", true), ("y", false)] {
            let caller = caller(&[role]);
            let mut evaluation = rules.evaluation(&caller, &[]);
            assert_eq!(evaluation.passes("0"), passes);
            let names: Vec<String> = (0..=count).map(|nth| nth.to_string()).collect();
            assert!(names.iter().all(|name| evaluation.passes(name) == passes));
            let lines = evaluation.explain("0").unwrap();
            assert_eq!(evaluation.evaluated, count + 1);
            assert!(lines.len() <= 5 * count + 1, "{}", lines.len());
            let letters: usize = lines.iter().map(String::len).sum();
            assert!(letters <= 120 * lines.len(), "{letters}");
        }
    }
    let rules = with(&[("a", "rule:b or rule:b"), ("b", "role:x")], false).unwrap();
    assert_eq!(
        rules.evaluation(&caller(&["x"]), &[]).explain("a").unwrap().join("\n"),
        "yes any of\nyes   rule:b\nyes     role:x\nyes   rule:b, as above"
    );
}

#[test]
fn a_long_cycle_is_named_by_its_first_rule() {
    let mut ladder = ladder(20_000, str::to_owned);
    ladder[20_000].1 = "rule:7000".to_owned();
    let fault = with_ladder(&ladder).unwrap_err();
    assert!(fault.starts_with("policy.yaml:7001: rule \"7000\" refers to itself,"), "{fault}");
    ladder[20_000].1 = "rule:nowhere".to_owned();
    let fault = with_ladder(&ladder).unwrap_err();
    let why = "policy.yaml:20001: rule \"20000\": there is no rule \"nowhere\"";
    assert_eq!(fault, why);
    ladder.reverse();
    ladder[0].1 = "rule:19999 or rule:default".to_owned();
    ladder.push(("default".to_owned(), "rule:nowhere or role:x".to_owned()));
    let fault = with_ladder(&ladder).unwrap_err();
    assert!(fault.contains("refers to itself"), "{fault}");
}
