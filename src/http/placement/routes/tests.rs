use std::fmt::Write;

use super::{ROOT, Route, TABLE};
use crate::http::placement::versioned::{Elsewhere, Media};
use crate::policy::OPERATIONS;

fn routes() -> impl Iterator<Item = &'static Route> {
    ROOT.iter().chain(TABLE.iter())
}

/// The table as text: path, method, versions, media, rule.
fn printed() -> String {
    let mut text = String::new();
    for route in routes() {
        writeln!(text, "{}", route.path).unwrap();
        for row in route.answer.rows() {
            let media = match row.media {
                Media::JsonIn => "json in",
                Media::JsonOut => "json out",
                Media::Any => "any",
            };
            let first = if row.media_before_version { ", media first" } else { "" };
            let elsewhere = if row.elsewhere == Elsewhere::NotAllowed { ", else 405" } else { "" };
            let rule = row.rule.map_or("-", |rule| rule.name());
            let (method, versions) = (&row.method, row.versions);
            writeln!(text, "  {method} {versions} {rule} ({media}{first}{elsewhere})").unwrap();
        }
    }
    text
}

#[test]
fn the_table_is_the_api() {
    insta::assert_snapshot!(printed());
}

#[test]
fn no_version_has_two_rows_of_one_method() {
    for route in routes() {
        for (nth, row) in route.answer.rows().iter().enumerate() {
            let others =
                route.answer.rows()[..nth].iter().filter(|other| other.method == row.method);
            for other in others {
                assert!(!row.versions.overlap(other.versions), "{} {}", row.method, route.path);
            }
        }
    }
}

#[test]
fn the_operations_of_a_rule_are_the_rows_under_it() {
    let mut rows: Vec<(String, &str)> = Vec::new();
    for route in routes() {
        for row in route.answer.rows() {
            // The consumer of an allocation is called by its full name there.
            let path = route.path.replace("{consumer}", "{consumer_uuid}");
            let rule = row.rule.map_or("", |rule| rule.name());
            rows.push((format!("{} {path}", row.method), rule));
        }
    }
    for rule in OPERATIONS.iter().filter(|rule| rule.name != "placement:usages") {
        for operation in rule.operations {
            assert!(rows.contains(&((*operation).to_owned(), rule.name)), "{operation}");
        }
    }
    for (operation, name) in rows.iter().filter(|(_, name)| !name.is_empty()) {
        let rule = OPERATIONS.iter().find(|rule| rule.name == *name).unwrap();
        assert!(rule.operations.contains(&operation.as_str()), "{operation}");
    }
}

#[test]
fn every_rule_but_that_of_usages_stands_in_the_table() {
    let used: Vec<_> =
        routes().flat_map(|route| route.answer.rows()).filter_map(|row| row.rule).collect();
    let used = |name: &str| used.iter().any(|rule| rule.name() == name);
    let unused: Vec<_> =
        OPERATIONS.iter().map(|rule| rule.name).filter(|name| !used(name)).collect();
    // Whose usages they are, only its handler knows.
    assert_eq!(unused, ["placement:usages"]);
}
