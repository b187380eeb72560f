//! Paths with identifiers in them, which may contain any character.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that need no encoding in a URL.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Builds a path from an identifier and the text before and after it.
pub(super) fn path_of(before: &str, identifier: &str, after: &str) -> String {
    format!("{before}{}{after}", utf8_percent_encode(identifier, UNRESERVED))
}
