//! What there is to say of an option of the reference.

pub(super) use crate::import::values::Kind;

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
pub struct KnownOption {
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

pub(super) const fn known(
    group: &'static str,
    name: &'static str,
    kind: Kind,
    fate: Fate,
) -> KnownOption {
    let preset = Preset::None;
    KnownOption { group, name, also: &[], kind, preset, movable: false, fate }
}

impl KnownOption {
    pub(super) const fn preset(mut self, text: &'static str) -> Self {
        self.preset = Preset::Text(text);
        self
    }

    pub(super) const fn installed(mut self) -> Self {
        self.preset = Preset::Installed;
        self
    }

    pub(super) const fn also(mut self, names: &'static [(&'static str, &'static str)]) -> Self {
        self.also = names;
        self
    }

    pub(super) const fn movable(mut self) -> Self {
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
    pub fn is_read(&self) -> bool {
        !matches!(self.fate, Fate::Former(_))
    }
}
