//! Lists of names in refusals.

/// How many names there are in one.
const NAMED: usize = 5;

/// The first of some names, with commas between them.
pub(super) fn first(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = if names.len() > NAMED { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}
