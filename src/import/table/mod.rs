//! Every option of the reference, once, and what becomes of it. The manual's table
//! (docs/import.md) is written from here.

mod keystone;
mod others;
mod service;

use std::fmt::Write as _;

pub use super::values::Kind;

/// The section of an option that stands in none.
pub const DEFAULT: &str = "DEFAULT";
/// The section of Keystone's options.
pub const KEYSTONE: &str = "keystone_authtoken";

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Berth's option of this name has its value.
    Key(&'static str),
    /// The same for a number, which Berth bounds: the smallest and the largest.
    Bounded(&'static str, i64, i64),
    /// Berth's option of this name is made of it, in this way.
    Made(&'static str, &'static str),
    /// Nothing is lost without it, because.
    Needless(&'static str),
    /// Something is lost, because.
    Lost(&'static str),
    /// Refused, because; unless it has its default or, if it is a choice, one of those values.
    Refused(&'static str),
    /// The reference does not read it any more; what to know.
    Former(&'static str),
}

/// What the reference takes when the option is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Nothing.
    None,
    /// This, read like a value from a file.
    Text(&'static str),
    /// Something that depends on where the reference is installed.
    Installed,
}

/// An option of the reference.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its section.
    pub group: &'static str,
    /// Its name; `*` stands for all of the section.
    pub name: &'static str,
    /// Former sections and names under which it is read too, in the order of precedence.
    pub also: &'static [(&'static str, &'static str)],
    /// What its value must be.
    pub kind: Kind,
    /// Its default.
    pub preset: Preset,
    /// Whether it stands where `auth_section` says.
    pub movable: bool,
    /// What becomes of it.
    pub fate: Fate,
}

const fn known(group: &'static str, name: &'static str, kind: Kind, fate: Fate) -> Known {
    let preset = Preset::None;
    Known { group, name, also: &[], kind, preset, movable: false, fate }
}

impl Known {
    const fn preset(mut self, text: &'static str) -> Self {
        self.preset = Preset::Text(text);
        self
    }

    const fn installed(mut self) -> Self {
        self.preset = Preset::Installed;
        self
    }

    const fn also(mut self, names: &'static [(&'static str, &'static str)]) -> Self {
        self.also = names;
        self
    }

    const fn movable(mut self) -> Self {
        self.movable = true;
        self
    }

    /// Berth's option that it becomes.
    pub fn key(&self) -> Option<&'static str> {
        match self.fate {
            Fate::Key(key) | Fate::Bounded(key, ..) | Fate::Made(key, _) => Some(key),
            Fate::Needless(_) | Fate::Lost(_) | Fate::Refused(_) | Fate::Former(_) => None,
        }
    }

    /// Whether the reference reads it.
    pub(super) fn is_read(&self) -> bool {
        !matches!(self.fate, Fate::Former(_))
    }
}

/// All options, in the order in which Berth's are written.
pub fn all() -> impl Iterator<Item = &'static Known> {
    service::OPTIONS.iter().chain(keystone::OPTIONS).chain(others::OPTIONS)
}

/// The option of this section and name, if there is one. A former name does not count.
pub fn find(group: &str, name: &str) -> Option<&'static Known> {
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
