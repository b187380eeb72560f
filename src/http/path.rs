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
    let form = form.strip_prefix('/').unwrap_or(form);
    // Most paths differ from a form at the beginning, so that is looked at first.
    let first = parts.first()?.as_ref();
    if !form.starts_with(first) && !form.starts_with('{') {
        return None;
    }
    let mut of_form = form.split('/');
    let is_of_form = parts.iter().all(|part| {
        let (form, part) = (of_form.next(), part.as_ref());
        form.is_some_and(|form| if is_name(form) { !part.is_empty() } else { form == part })
    });
    if !is_of_form || of_form.next().is_some() {
        return None;
    }
    let named = form.split('/').zip(parts).filter_map(|(form, part)| {
        let name = form.strip_prefix('{')?.strip_suffix('}')?;
        Some((name, part.as_ref().to_owned()))
    });
    Some(named.collect())
}

fn is_name(part_of_form: &str) -> bool {
    part_of_form.starts_with('{') && part_of_form.ends_with('}')
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
