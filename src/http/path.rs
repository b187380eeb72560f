//! Paths: their decoding, and the parts of them that vary.

use percent_encoding::percent_decode_str;

/// The values of a path's variable parts, by name.
pub(super) type Captured = Vec<(&'static str, String)>;

/// A path, or a part of it, without its escapes; or what is wrong with it, in words.
pub(super) fn decode(path: &str) -> Result<String, String> {
    let decoded = percent_decode_str(path).decode_utf8();
    let decoded = decoded.map_err(|error| format!("Invalid path: {error}"))?;
    if decoded.contains('\0') {
        return Err("Invalid path: a NUL character is not allowed".to_owned());
    }
    Ok(decoded.into_owned())
}

/// The values of the variable parts, if the path with these parts is of this form. A form is
/// written with `{name}` for a part that varies; such a part is never empty.
pub(super) fn capture<'p>(
    form: &'p str,
    parts: &[impl AsRef<str>],
) -> Option<Vec<(&'p str, String)>> {
    let form = form.trim_start_matches('/').split('/');
    if form.clone().count() != parts.len() {
        return None;
    }
    let mut captured = Vec::new();
    for (form, part) in form.zip(parts) {
        let part = part.as_ref();
        match form.strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
            Some(name) if !part.is_empty() => captured.push((name, part.to_owned())),
            None if form == part => {}
            Some(_) | None => return None,
        }
    }
    Some(captured)
}
