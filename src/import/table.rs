//! Every option of the reference, once, and what becomes of it. The manual's table
//! (docs/import.md) is written from here.

mod keystone;
mod option;
mod others;
mod service;

use std::fmt::Write as _;

pub use self::option::{DEFAULT, Fate, KEYSTONE, KnownOption, Preset};
pub use super::values::Kind;

/// All options, in the order in which Berth's are written.
pub fn all() -> impl Iterator<Item = &'static KnownOption> {
    service::OPTIONS.iter().chain(keystone::OPTIONS).chain(others::OPTIONS)
}

/// The option of this section and name, if there is one. A former name does not count.
pub fn find(group: &str, name: &str) -> Option<&'static KnownOption> {
    all().find(|known| known.group == group && known.name == name)
}

/// The options as a table in Markdown.
pub fn markdown() -> String {
    let mut text = String::from("| option of placement | in Berth |\n|---|---|\n");
    for known in all() {
        let name = if known.name == "*" { "everything" } else { known.name };
        let mut option = format!("`[{}]` `{name}`", known.group);
        for (group, name) in known.also {
            option.push_str(", also ");
            if *group != known.group {
                let _ = write!(option, "`[{group}]` ");
            }
            let _ = write!(option, "`{name}`");
        }
        let fate = match known.fate {
            Fate::Key(key) | Fate::Bounded(key, ..) => format!("`{key}`"),
            Fate::Made(key, how) => format!("`{key}`: {how}"),
            Fate::Needless(why) => format!("not needed: {why}"),
            Fate::Lost(why) => format!("**lost**: {why}"),
            Fate::Refused(why) => match known.kind {
                Kind::Choice(allowed) => {
                    format!("**refused** unless it is {}: {why}", allowed.join(" or "))
                }
                Kind::Boolean => format!("**refused** when true: {why}"),
                Kind::Text | Kind::Integer | Kind::List | Kind::Many => {
                    format!("**refused**: {why}")
                }
            },
            Fate::Former(why) => format!("placement does not read it any more; {why}"),
        };
        let _ = writeln!(text, "| {option} | {} |", fate.replace('|', "\\|"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_option_stands_there_once() {
        let mut seen = BTreeSet::new();
        for known in all() {
            assert!(seen.insert((known.group, known.name)), "{} {}", known.group, known.name);
            for also in known.also {
                assert!(seen.insert(*also), "{also:?}");
            }
        }
    }

    #[test]
    fn defaults_are_of_their_kind() {
        for known in all() {
            let Preset::Text(text) = known.preset else { continue };
            let read = super::super::values::read(known.kind, text);
            assert!(matches!(read, Ok(Some(_))), "{} {}", known.group, known.name);
        }
    }
}
