//! Access rules of application credentials: the only requests for which a token may be used
//! (Identity API v3, "Application Credentials", access rules).

use regex::Regex;

/// The type of this service in the catalog.
pub(super) const PLACEMENT: &str = "placement";

/// A request for which a token may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The type of the service, as in the catalog.
    pub service: String,
    /// The method.
    pub method: String,
    /// The path; `*` and `{name}` match one segment, `**` any text.
    pub path: String,
}

impl Rule {
    /// Returns whether the rule allows a request to this service. In `path`, slashes within a segment are escaped, so that
    /// each segment of the rule matches one segment of the path.
    pub fn allows(&self, method: &str, path: &str) -> bool {
        self.service == PLACEMENT && self.method == method && matches(&self.path, path)
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    let mut regex = String::from(r"\A");
    let mut rest = pattern;
    while let Some(character) = rest.chars().next() {
        let (text, length) = match (character, rest.find('}')) {
            ('{', Some(end)) => ("[^/]+".to_owned(), end + 1),
            ('*', _) if rest.starts_with("**") => (".*".to_owned(), 2),
            ('*', _) => ("[^/]+".to_owned(), 1),
            _ => (regex::escape(character.encode_utf8(&mut [0; 4])), character.len_utf8()),
        };
        regex.push_str(&text);
        rest = rest.get(length..).unwrap_or_default();
    }
    regex.push_str(r"\z");
    Regex::new(&regex).is_ok_and(|regex| regex.is_match(path))
}

#[cfg(test)]
mod tests {
    use super::{Rule, matches};

    #[test]
    fn a_path_has_wild_parts() {
        for (pattern, path, expected) in [
            ("/usages", "/usages", true),
            ("/usages", "/usages/", false),
            ("/usages", "/placement/usages", false),
            ("/**/usages", "/a/b/usages", true),
            ("/resource_providers/*", "/resource_providers/u", true),
            ("/resource_providers/*", "/resource_providers/u/traits", false),
            ("/resource_providers/{uuid}/traits", "/resource_providers/u/traits", true),
            ("/resource_providers/{uuid}/traits", "/resource_providers//traits", false),
            ("/resource_providers/*", "/resource_providers/u%2Ftraits", true),
            ("/resource_providers/*/traits", "/resource_providers/u%2Ftraits", false),
            ("/**", "/anything/at/all", true),
            ("/a.c", "/abc", false),
            ("/{", "/{", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_rule_is_of_one_service_and_method() {
        let rule = |service: &str| {
            let service = service.to_owned();
            Rule { service, method: "GET".into(), path: "/usages".into() }
        };
        assert!(rule("placement").allows("GET", "/usages"));
        assert!(!rule("compute").allows("GET", "/usages"));
        assert!(!rule("placement").allows("PUT", "/usages"));
    }
}
