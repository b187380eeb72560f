//! An entry of the table, and the table's notation.

pub(super) use crate::moving::config_import::values::Kind;

/// The section of general options.
pub const DEFAULT: &str = "DEFAULT";
/// The section of Keystone's options.
pub const KEYSTONE: &str = "keystone_authtoken";

/// The conversion of an option. The second text of a variant is for the manual and for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Copies the value to Berth's option of this name.
    Copied(&'static str),
    /// Copies a number to Berth's option of this name, which has a minimum and a maximum.
    Limited(&'static str, i64, i64),
    /// Derives the value of Berth's option of this name, in this way.
    Derived(&'static str, &'static str),
    /// Leaves the option out with a note: Berth does not need it, for this reason.
    Unneeded(&'static str),
    /// Leaves the option out with a warning: Berth has no equivalent, for this reason.
    Lost(&'static str),
    /// Refuses to import the option, for this reason, unless it has its default or, if it is a
    /// choice, one of the values that the table lists.
    Refused(&'static str),
    /// Leaves the option out with a note: the reference ignores it, too. Says what to use.
    Obsolete(&'static str),
}

/// An option of the reference.
#[derive(Clone, Copy, Debug)]
pub struct KnownOption {
    /// Its section.
    pub section: &'static str,
    /// Its name; `*` means all options of the section.
    pub name: &'static str,
    /// Deprecated names that are read as well, in order of precedence; one from another section is
    /// written `SECTION.name`.
    pub deprecated: &'static [&'static str],
    /// The type of its value.
    pub kind: Kind,
    /// Its default, in the notation of a file.
    pub default: Option<&'static str>,
    /// Whether `auth_section` moves the option to another section.
    pub movable: bool,
    /// Its conversion.
    pub mapping: Mapping,
}

impl KnownOption {
    /// Section and name of each deprecated name.
    pub fn deprecated(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.deprecated.iter().map(|name| name.split_once('.').unwrap_or((self.section, name)))
    }

    /// The option of Berth that gets the value.
    pub fn key(&self) -> Option<&'static str> {
        match self.mapping {
            Mapping::Copied(key) | Mapping::Limited(key, ..) | Mapping::Derived(key, _) => {
                Some(key)
            }
            Mapping::Unneeded(_)
            | Mapping::Lost(_)
            | Mapping::Refused(_)
            | Mapping::Obsolete(_) => None,
        }
    }

    /// Whether the reference reads the option.
    pub fn is_read(&self) -> bool {
        !matches!(self.mapping, Mapping::Obsolete(_))
    }
}

/// A slice of [`KnownOption`]s. The name of a section is followed by its options:
///
/// ```text
/// [section]
/// "name" | "deprecated name": Kind, default "text" => Mapping;
/// movable "name": Kind => Mapping;
/// ```
macro_rules! options {
    ($(
        [$section:expr]
        $(
            $($movable:ident)? $name:literal $(| $deprecated:literal)*:
            $kind:expr $(, default $default:expr)? => $mapping:expr;
        )*
    )*) => {
        &[$($(KnownOption {
            section: $section,
            name: $name,
            deprecated: &[$($deprecated),*],
            kind: $kind,
            default: options!(@default $($default)?),
            movable: options!(@movable $($movable)?),
            mapping: $mapping,
        }),*),*]
    };
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
    (@movable) => { false };
    (@movable movable) => { true };
}

pub(super) use options;
