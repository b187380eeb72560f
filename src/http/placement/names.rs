//! Patterns of names, for schemas. They match the whole name, without a line break after it.

/// A resource class or a consumer type.
pub(super) const NAME: &str = "^[A-Z0-9_]+$";

/// A custom resource class or trait.
pub(super) const CUSTOM: &str = "^CUSTOM_[A-Z0-9_]+$";

/// A UUID as a key, for the schema: its characters in any order. [`super::spelling`] parses it.
pub(super) const UUID: &str = "^[0-9a-fA-F-]{36}$";

/// The suffix of a group, until 1.32.
pub(super) const NUMBERED_GROUP: &str = "[1-9][0-9]*";

/// The suffix of a group, from 1.33.
pub(super) use crate::search::GROUP_SUFFIX as NAMED_GROUP;

/// Maximum length of the name of a class, trait or consumer type, in characters.
pub(super) const LONGEST: usize = 255;
