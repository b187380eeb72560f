//! Times and ages on the command line.

use time::format_description::well_known::Rfc3339;
use time::{Date, Duration, OffsetDateTime};

/// Parses a time, a date, or an age before now.
///
/// # Errors
/// A description of valid values.
pub(super) fn since(text: &str) -> Result<OffsetDateTime, String> {
    if let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) {
        return Ok(time);
    }
    if let Ok(date) = Date::parse(text, time::macros::format_description!("[year]-[month]-[day]")) {
        return Ok(date.midnight().assume_utc());
    }
    let time = seconds(text).and_then(|age| OffsetDateTime::now_utc().checked_sub(age));
    time.ok_or_else(|| {
        "must be a time such as 2026-11-22T20:00:00Z, a date, or an age such as 30m or 7d"
            .to_owned()
    })
}

/// Parses an age.
///
/// # Errors
/// A description of valid values.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    seconds(text).ok_or_else(|| "must be an age such as 90s, 30m, 12h or 7d".to_owned())
}

fn seconds(text: &str) -> Option<Duration> {
    let (at, unit) = text.char_indices().last()?;
    let number: i64 = text.get(..at)?.parse().ok().filter(|number| *number >= 0)?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return None,
    };
    number.checked_mul(factor).map(Duration::seconds)
}
