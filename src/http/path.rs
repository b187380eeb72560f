//! Paths: their one decoding, and the parts of them that vary. Routes and the access rules of
//! tokens see the same parts; an escaped slash (`%2F`) is a character of a part and ends none.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The values of a path's variable parts, by name.
pub(super) type Captured = Vec<(&'static str, String)>;

/// What is escaped in a part when a path is written: all but what webob leaves as it is.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The parts of a path between its slashes, without escapes; or what is wrong with it, in words.
pub(super) fn parts(path: &str) -> Result<Vec<String>, String> {
    path.strip_prefix('/').unwrap_or(path).split('/').map(decode).collect()
}

/// A path written in the one way that access rules are compared with; or what is wrong with it.
pub(super) fn canonical(path: &str) -> Result<String, String> {
    let mut written = String::with_capacity(path.len());
    for part in parts(path)? {
        written.push('/');
        written.extend(utf8_percent_encode(&part, ESCAPED));
    }
    Ok(written)
}

fn decode(part: &str) -> Result<String, String> {
    let decoded = percent_decode_str(part).decode_utf8();
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

#[cfg(test)]
mod tests {
    use super::{canonical, parts};

    #[test]
    fn an_escaped_slash_ends_no_part() {
        assert_eq!(parts("/a%2Fb/c").unwrap(), ["a/b", "c"]);
        assert_eq!(parts("/a/").unwrap(), ["a", ""]);
        assert_eq!(parts("/").unwrap(), [""]);
        assert_eq!(parts("/%252F").unwrap(), ["%2F"]);
        assert!(parts("/%00").is_err() && parts("/%ff").is_err());
    }

    #[test]
    fn a_path_is_written_in_one_way() {
        for (path, written) in [
            ("/%72esource_providers/u/traits", "/resource_providers/u/traits"),
            ("/resource_providers/u%2Ftraits", "/resource_providers/u%2Ftraits"),
            ("/resource_providers/u%2ftraits", "/resource_providers/u%2Ftraits"),
            ("/traits/a%252Fb", "/traits/a%252Fb"),
            ("/traits/a:b@c~d%20%C3%A9", "/traits/a:b@c~d%20%C3%A9"),
            ("/", "/"),
            ("", "/"),
        ] {
            assert_eq!(canonical(path).unwrap(), written, "{path}");
        }
    }
}
