//! All options of the reference, and their conversion. The manual's table (docs/import.md) is generated from this
//! one.

mod option;
mod options;

use std::fmt::Write as _;

pub use self::option::{DEFAULT, KEYSTONE, KnownOption, Mapping};
pub use super::values::Kind;

/// All options, in the order in which Berth's are written.
pub fn all() -> std::slice::Iter<'static, KnownOption> {
    options::OPTIONS.iter()
}

/// The option with this section and name. Deprecated names do not count.
pub fn find(section: &str, name: &str) -> Option<&'static KnownOption> {
    all().find(|known| known.section == section && known.name == name)
}

/// The options as a table in Markdown.
pub fn markdown() -> String {
    let mut rows: Vec<Row> = Vec::new();
    for known in all() {
        let (options, mapping) = (spellings(known), mapping(known));
        let same = |row: &&mut Row| row.section == known.section && row.mapping == mapping;
        if let Some(row) = rows.iter_mut().find(same) {
            row.options.push_str(", ");
            row.options.push_str(&options);
        } else {
            rows.push(Row { section: known.section, options, mapping });
        }
    }
    let mut text = String::from("| option of placement | in Berth |\n|---|---|\n");
    for Row { section, options, mapping } in rows {
        let _ = writeln!(text, "| `[{section}]` {options} | {} |", mapping.replace('|', "\\|"));
    }
    text
}

/// Options of one section with the same result.
struct Row {
    section: &'static str,
    options: String,
    mapping: String,
}

/// The name of an option, with its former names.
fn spellings(known: &KnownOption) -> String {
    let name = if known.name == "*" { "everything" } else { known.name };
    let mut option = format!("`{name}`");
    let mut separator = " (also ";
    for (section, name) in known.deprecated() {
        option.push_str(separator);
        if section != known.section {
            let _ = write!(option, "`[{section}]` ");
        }
        let _ = write!(option, "`{name}`");
        separator = ", ";
    }
    if separator == ", " {
        option.push(')');
    }
    option
}

/// Describes the conversion of an option.
fn mapping(known: &KnownOption) -> String {
    match (known.mapping, known.kind) {
        (Mapping::Copied(key) | Mapping::Limited(key, ..), _) => {
            match key.strip_suffix(&known.name.replace('_', "-")) {
                Some("") => "the option of this name, with dashes".to_owned(),
                Some(prefix) => format!("the option of this name, with dashes, after `{prefix}`"),
                None => format!("`{key}`"),
            }
        }
        (Mapping::Derived(key, how), _) => format!("`{key}`: {how}"),
        (Mapping::Unneeded(why), _) => format!("not needed: {why}"),
        (Mapping::Lost(why), _) => format!("**lost**: {why}"),
        (Mapping::Refused(why), Kind::Choice(allowed)) => {
            format!("**refused** unless it is {}: {why}", allowed.join(" or "))
        }
        (Mapping::Refused(why), Kind::Boolean) => format!("**refused** when true: {why}"),
        (Mapping::Refused(why), _) => format!("**refused**: {why}"),
        (Mapping::Obsolete(why), _) => format!("placement ignores it; {why}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_option_stands_there_once() {
        let mut seen = BTreeSet::new();
        for known in all() {
            assert!(seen.insert((known.section, known.name)), "{} {}", known.section, known.name);
            for deprecated in known.deprecated() {
                assert!(seen.insert(deprecated), "{deprecated:?}");
            }
        }
    }

    #[test]
    fn defaults_are_of_their_kind() {
        for known in all() {
            let Some(text) = known.default else { continue };
            let read = super::super::values::read(known.kind, text);
            assert!(matches!(read, Ok(Some(_))), "{} {}", known.section, known.name);
        }
    }
}
