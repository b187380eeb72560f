//! Lists of names in refusals.

/// Maximum number of names in a list.
const NAMED: usize = 5;

/// The first few names, separated by commas.
pub(super) fn first(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = if names.len() > NAMED { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}
