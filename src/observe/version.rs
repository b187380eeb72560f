//! The version of this program, and the commit that it was built from.

use time::OffsetDateTime;
use time::macros::format_description;

/// The version, as in `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that this program was built from, as `build.rs` found it; empty if unknown.
pub const COMMIT: &str = env!("BUILD_COMMIT");

/// Number of digits shown of a commit.
const DIGITS: usize = 12;

/// Returns the version with commit and date in one line, as `berth --version` prints it after the name:
/// `0.1.0 (0123456789ab, 2026-11-22)`.
pub fn line() -> String {
    format!("{VERSION} ({})", origin(COMMIT, env!("BUILD_TIME"), env!("BUILD_PROFILE")))
}

/// Formats the origin of a program: a commit, the seconds since 1970 of its date, and the build profile. Commit
/// and seconds may be empty.
fn origin(commit: &str, seconds: &str, profile: &str) -> String {
    let (hash, changes) = match commit.strip_suffix("+changes") {
        Some(hash) => (hash, " with changes"),
        None => (commit, ""),
    };
    let mut words = match (hash, profile) {
        ("", "debug") => "development build".to_owned(),
        ("", _) => "built outside git".to_owned(),
        (hash, _) => hash.chars().take(DIGITS).chain(changes.chars()).collect(),
    };
    let date = seconds.parse().ok().and_then(|it| OffsetDateTime::from_unix_timestamp(it).ok());
    let written = date.and_then(|it| it.format(format_description!("[year]-[month]-[day]")).ok());
    if let Some(written) = written {
        words.push_str(", ");
        words.push_str(&written);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_what_is_known_of_it() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let changed = &format!("{commit}+changes");
        let cases = [
            (commit, "1795305600", "release", "0123456789ab, 2026-11-22"),
            (changed, "1795305600", "release", "0123456789ab with changes, 2026-11-22"),
            ("", "", "debug", "development build"),
            ("", "", "release", "built outside git"),
            ("", "0", "release", "built outside git, 1970-01-01"),
            ("v1", "no number", "release", "v1"),
        ];
        for (commit, seconds, profile, expected) in cases {
            assert_eq!(origin(commit, seconds, profile), expected);
        }
    }
}
