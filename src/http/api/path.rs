//! Decodes and normalizes paths. Routes and the access rules of tokens see the same segments; an
//! escaped slash (`%2F`) is part of a segment and does not end it.

use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{Extensions, Uri};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// Characters that are escaped in a segment: all but those that webob leaves.
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

/// Returns the decoded segments of a path, or what is wrong with it.
fn parts(path: &str) -> Result<Vec<String>, String> {
    path.strip_prefix('/').unwrap_or(path).split('/').map(decode).collect()
}

/// Returns the canonical form of a path for comparison with access rules, or what is wrong with it.
pub(in crate::http) fn canonical(path: &str) -> Result<String, String> {
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

/// Returns the path of a request and, if it starts with the prefix, the path without it.
pub(in crate::http) fn with_and_without<'r>(
    prefix: &str,
    request: &'r Request,
) -> impl Iterator<Item = &'r str> {
    let path = request.uri().path();
    let below = if prefix.is_empty() { None } else { path.strip_prefix(prefix) };
    [Some(path), below].into_iter().flatten()
}

/// The prefix of the client's path, if it had the configured one.
#[derive(Clone, Debug)]
struct Prefix(String);

/// Reason why a path cannot be decoded.
#[derive(Clone, Debug)]
pub(super) struct UndecodablePath(pub(super) String);

/// Returns the prefix of a request; empty if it had none.
pub(in crate::http) fn prefix(extensions: &Extensions) -> &str {
    extensions.get::<Prefix>().map_or("", |prefix| prefix.0.as_str())
}

/// Normalizes the path for the routes: removes the configured prefix, and escapes only what needs
/// to be.
pub(in crate::http) fn normalized(
    prefix: &str,
    ignores_last_slash: bool,
    mut request: Request,
) -> Request {
    let (taken, rest) = split_prefix(prefix, request.uri().path());
    let bare = if ignores_last_slash { rest.strip_suffix('/').unwrap_or(rest) } else { rest };
    let is_normal = !rest.contains('%') && (bare == rest || rest == "/");
    if taken.is_empty() && !rest.is_empty() && is_normal {
        return request;
    }
    let rewritten = canonical(bare).and_then(|path| {
        let uri = with_path(request.uri(), &path);
        uri.map_err(|error| format!("Invalid path: {error}"))
    });
    match rewritten {
        Ok(uri) => {
            let taken = taken.to_owned();
            *request.uri_mut() = uri;
            if !taken.is_empty() {
                request.extensions_mut().insert(Prefix(taken));
            }
        }
        Err(why) => drop(request.extensions_mut().insert(UndecodablePath(why))),
    }
    request
}

/// Replaces the path of a URI. The target of `CONNECT`, an authority without a path, becomes one.
fn with_path(uri: &Uri, path: &str) -> Result<Uri, axum::http::Error> {
    let mut parts = uri.clone().into_parts();
    if parts.scheme.is_none() {
        parts.authority = None;
    }
    let target = match uri.query() {
        Some(query) => PathAndQuery::try_from(format!("{path}?{query}"))?,
        None => PathAndQuery::try_from(path)?,
    };
    parts.path_and_query = Some(target);
    Ok(Uri::from_parts(parts)?)
}

/// Splits the configured prefix off a path, if it has it.
fn split_prefix<'p>(prefix: &'p str, path: &'p str) -> (&'p str, &'p str) {
    match path.strip_prefix(prefix) {
        Some(rest) if !prefix.is_empty() && (rest.is_empty() || rest.starts_with('/')) => {
            (prefix, rest)
        }
        _ => ("", path),
    }
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
