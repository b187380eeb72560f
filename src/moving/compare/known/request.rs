//! A request, in the form used by the rules.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::form_urlencoded;

/// A request whose responses differ.
#[derive(Clone, Debug)]
pub struct ComparedRequest {
    pub(super) method: String,
    /// As it was sent.
    pub(super) target: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Option<Value>,
}

impl ComparedRequest {
    /// A request with this method, target (path and query) and body.
    pub fn new(method: &str, target: &str, body: &[u8]) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            path: percent_decode_str(path).decode_utf8_lossy().into_owned(),
            query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            body: serde_json::from_slice(body).ok(),
        }
    }

    /// The values of a parameter, in the order of the query.
    pub(super) fn values<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.query.iter().filter(move |(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether the target contains this, percent-encoded, in either case.
    pub(super) fn encodes(&self, encoded: &str) -> bool {
        self.target.to_ascii_lowercase().contains(encoded)
    }

    /// The classes requested by each group of a request for candidates, by suffix.
    pub(super) fn groups(&self) -> Vec<(&str, BTreeSet<&str>)> {
        let groups = self.query.iter().filter_map(|(name, value)| {
            let classes = value.split(',').filter_map(|it| it.split(':').next());
            Some((name.strip_prefix("resources")?, classes.collect()))
        });
        groups.collect()
    }
}
