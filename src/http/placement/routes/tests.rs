use std::fmt::Write;

use super::{Elsewhere, Media, TABLE};
use crate::http::policy::DEFAULTS;

/// The table as text: path, method, versions, media, rule.
fn printed() -> String {
    let mut text = String::new();
    for route in TABLE.iter() {
        writeln!(text, "{}", route.path).unwrap();
        for row in &route.rows {
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
    for route in TABLE.iter() {
        for (nth, row) in route.rows.iter().enumerate() {
            let others = route.rows[..nth].iter().filter(|other| other.method == row.method);
            for other in others {
                assert!(!row.versions.overlap(other.versions), "{} {}", row.method, route.path);
            }
        }
    }
}

#[test]
fn every_rule_but_that_of_usages_stands_in_the_table() {
    let used: Vec<_> =
        TABLE.iter().flat_map(|route| &route.rows).filter_map(|row| row.rule).collect();
    let unused = DEFAULTS.iter().filter(|(rule, _)| !used.contains(rule));
    let unused: Vec<_> = unused.map(|(rule, _)| rule.name()).collect();
    // Whose usages they are, only its handler knows.
    assert_eq!(unused, ["placement:usages"]);
}
