//! Compares two services' responses to the same request.
//!
//! Lists are sets in the Placement API: their order is ignored, and lists of objects are compared object by object,
//! by UUID or name. Numbers are compared as clients see them: 1 equals 1.0. Links are compared without the part
//! before the API's own path, because each service has its own URL.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Number, Value};

/// Headers that are compared. Others concern the connection, or differ between responses.
const HEADERS: [&str; 6] = [
    "allow",
    "cache-control",
    "content-type",
    "last-modified",
    "location",
    "openstack-api-version",
];
/// Members that identify an object in a list; the first one that all objects have is used.
const KEYS: [&str; 4] = ["uuid", "name", "rel", "id"];
/// Integers up to this one have an exact 64-bit floating point representation.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A response.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedResponse {
    /// The status, such as 200.
    pub status: u16,
    /// The compared headers, by name in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Body,
}

/// The body of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// No body.
    Empty,
    /// JSON.
    Json(Value),
    /// Anything else, as text.
    Text(String),
}

impl ComparedResponse {
    /// Builds a response. Headers that are not compared are left out.
    pub fn new<'a>(
        status: u16,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        body: &[u8],
    ) -> Self {
        let mut kept = BTreeMap::new();
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            if HEADERS.contains(&name.as_str()) {
                kept.insert(name, String::from_utf8_lossy(value).into_owned());
            }
        }
        Self { status, headers: kept, body: Body::new(body) }
    }
}

impl Body {
    /// Parses a body.
    pub fn new(body: &[u8]) -> Self {
        if body.is_empty() {
            return Self::Empty;
        }
        match serde_json::from_slice(body) {
            Ok(json) => Self::Json(json),
            Err(_) => Self::Text(String::from_utf8_lossy(body).into_owned()),
        }
    }

    fn value(&self) -> Option<Value> {
        match self {
            Self::Empty => None,
            Self::Json(json) => Some(json.clone()),
            Self::Text(text) => Some(Value::String(text.clone())),
        }
    }
}

/// Optional parts of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that is compared")]
pub struct Rules {
    /// The generations of providers.
    pub provider_generations: bool,
    /// The generations of consumers.
    pub consumer_generations: bool,
    /// Modification times: the header `last-modified`.
    pub times: bool,
    /// The texts of errors. Their status and code are always compared.
    pub error_texts: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            provider_generations: true,
            consumer_generations: true,
            times: true,
            error_texts: true,
        }
    }
}

impl Rules {
    /// Returns whether a member of an object, or a header, is ignored. Request IDs always are.
    fn ignores(self, name: &str) -> bool {
        match name {
            "request_id" => true,
            "generation" | "resource_provider_generation" => !self.provider_generations,
            "consumer_generation" => !self.consumer_generations,
            "last-modified" => !self.times,
            "title" | "detail" => !self.error_texts,
            _ => false,
        }
    }
}

/// A difference at one place in two responses.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Difference {
    /// The place: `status`, or `headers` and a name, or `body` and the names that lead to a value. An object in a
    /// list is identified by its UUID or name.
    pub path: Vec<String>,
    /// The left value, if there is one.
    pub left: Option<Value>,
    /// The right value, if there is one.
    pub right: Option<Value>,
}

impl Difference {
    /// The place as text, such as `body/usages/VCPU`.
    pub fn place(&self) -> String {
        self.path.join("/")
    }
}

/// The differences between two responses to the same request, in the order of the left one.
pub fn differences(
    left: &ComparedResponse,
    right: &ComparedResponse,
    rules: Rules,
) -> Vec<Difference> {
    let mut found = Comparison { rules, path: Vec::new(), found: Vec::new() };
    found.within("status", |it| it.leaf(&left.status.into(), &right.status.into()));
    found.within("headers", |it| it.headers(&left.headers, &right.headers));
    match (&left.body, &right.body) {
        (Body::Json(left), Body::Json(right)) => found.within("body", |it| it.values(left, right)),
        (left, right) if left == right => {}
        (left, right) => found.within("body", |it| it.add(left.value(), right.value())),
    }
    found.found
}

/// The differences between two JSON values, without status and headers; paths are relative to the values.
pub fn value_differences(left: &Value, right: &Value, rules: Rules) -> Vec<Difference> {
    let mut found = Comparison { rules, path: Vec::new(), found: Vec::new() };
    found.values(left, right);
    found.found
}

struct Comparison {
    rules: Rules,
    path: Vec<String>,
    found: Vec<Difference>,
}

impl Comparison {
    fn within(&mut self, name: &str, compare: impl FnOnce(&mut Self)) {
        self.path.push(name.to_owned());
        compare(self);
        self.path.pop();
    }

    fn add(&mut self, left: Option<Value>, right: Option<Value>) {
        self.found.push(Difference { path: self.path.clone(), left, right });
    }

    fn add_at(&mut self, name: &str, left: Option<&Value>, right: Option<&Value>) {
        self.within(name, |it| it.add(left.cloned(), right.cloned()));
    }

    fn headers(&mut self, left: &BTreeMap<String, String>, right: &BTreeMap<String, String>) {
        let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
        let rules = self.rules;
        for name in names.into_iter().filter(|name| !rules.ignores(name)) {
            let (one, other) = (left.get(name), right.get(name));
            let is_same = match (one, other) {
                (Some(one), Some(other)) => is_same_header(name, one, other),
                _ => false,
            };
            if !is_same {
                let text = |it: &String| Value::String(it.clone());
                self.within(name, |it| it.add(one.map(text), other.map(text)));
            }
        }
    }

    fn values(&mut self, left: &Value, right: &Value) {
        match (left, right) {
            (Value::Object(left), Value::Object(right)) => self.objects(left, right),
            (Value::Array(left), Value::Array(right)) => self.lists(left, right),
            (left, right) => self.leaf(left, right),
        }
    }

    fn objects(&mut self, left: &Map<String, Value>, right: &Map<String, Value>) {
        for (name, one) in left {
            if self.rules.ignores(name) {
                continue;
            }
            match right.get(name) {
                Some(other) if name == "href" && is_same_link(one, other) => {}
                Some(other) => self.within(name, |it| it.values(one, other)),
                None => self.add_at(name, Some(one), None),
            }
        }
        for (name, other) in right {
            if !self.rules.ignores(name) && !left.contains_key(name) {
                self.add_at(name, None, Some(other));
            }
        }
    }

    fn lists(&mut self, left: &[Value], right: &[Value]) {
        // Errors have no name, and a response has one of them.
        if self.path.last().is_some_and(|name| name == "errors") && left.len() == right.len() {
            for (nth, (one, other)) in left.iter().zip(right).enumerate() {
                self.within(&nth.to_string(), |it| it.values(one, other));
            }
            return;
        }
        let keyed = KEYS.iter().find_map(|key| Some((by_key(left, key)?, by_key(right, key)?)));
        let Some((left_by_key, right_by_key)) = keyed else {
            self.sets(left, right);
            return;
        };
        for (key, one) in &left_by_key {
            match right_by_key.get(key) {
                Some(other) => self.within(key, |it| it.values(one, other)),
                None => self.add_at(key, Some(one), None),
            }
        }
        for (key, other) in &right_by_key {
            if !left_by_key.contains_key(key) {
                self.add_at(key, None, Some(other));
            }
        }
    }

    /// Compares values without identifiers; each may occur several times.
    fn sets(&mut self, left: &[Value], right: &[Value]) {
        let mut counts: BTreeMap<String, (i64, &Value)> = BTreeMap::new();
        for (values, step) in [(left, 1), (right, -1)] {
            for value in values {
                counts.entry(canonical(value, self.rules)).or_insert((0, value)).0 += step;
            }
        }
        for (count, value) in counts.values() {
            for _ in 0..count.unsigned_abs() {
                let side = |is_there: bool| is_there.then(|| (*value).clone());
                self.within("[]", |it| it.add(side(*count > 0), side(*count < 0)));
            }
        }
    }

    fn leaf(&mut self, left: &Value, right: &Value) {
        let is_same = match (left, right) {
            (Value::Number(left), Value::Number(right)) => text_of(left) == text_of(right),
            (left, right) => left == right,
        };
        if !is_same {
            self.add(Some(left.clone()), Some(right.clone()));
        }
    }
}

/// The objects of a list by identifier; `None` if an object lacks it, or if two have the same.
fn by_key<'v>(list: &'v [Value], key: &str) -> Option<BTreeMap<&'v str, &'v Value>> {
    let mut objects = BTreeMap::new();
    for value in list {
        // Before 1.12, an allocation in a list names its provider.
        let named = value.get(key).or_else(|| value.pointer("/resource_provider/uuid"));
        if objects.insert(named?.as_str()?, value).is_some() {
            return None;
        }
    }
    Some(objects)
}

/// A text form that is the same for equal values.
fn canonical(value: &Value, rules: Rules) -> String {
    let mut text = String::new();
    write_canonical(value, rules, &mut text);
    text
}

fn write_canonical(value: &Value, rules: Rules, into: &mut String) {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<&String, &Value> =
                members.iter().filter(|(name, _)| !rules.ignores(name)).collect();
            into.push('{');
            for (name, value) in members {
                into.push_str(&Value::String(name.clone()).to_string());
                into.push(':');
                write_canonical(value, rules, into);
                into.push(',');
            }
            into.push('}');
        }
        Value::Array(values) => {
            let mut texts: Vec<String> = values.iter().map(|it| canonical(it, rules)).collect();
            texts.sort_unstable();
            into.push('[');
            into.push_str(&texts.join(","));
            into.push(']');
        }
        Value::Number(number) => into.push_str(&text_of(number)),
        Value::Null | Value::Bool(_) | Value::String(_) => into.push_str(&value.to_string()),
    }
}

/// A number as clients see it: the same text for 1 and 1.0.
fn text_of(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() && value.fract() == 0.0 && value.abs() < EXACT_MAX => {
            // Adding 0.0 turns a negative zero into zero.
            format!("{:.0}", value + 0.0)
        }
        _ => number.to_string(),
    }
}

fn is_same_header(name: &str, one: &str, other: &str) -> bool {
    let words = |text: &str, separator: char| -> BTreeSet<String> {
        text.split(separator).map(|word| word.trim().to_ascii_lowercase()).collect()
    };
    match name {
        "location" => is_same_path(one, other),
        "content-type" => words(one, ';') == words(other, ';'),
        "allow" | "cache-control" => words(one, ',') == words(other, ','),
        _ => one == other,
    }
}

fn is_same_link(one: &Value, other: &Value) -> bool {
    one.as_str().zip(other.as_str()).is_some_and(|(one, other)| is_same_path(one, other))
}

/// Returns whether two URLs are equal apart from scheme, host, and the path of the service itself.
fn is_same_path(one: &str, other: &str) -> bool {
    fn path(text: &str) -> &str {
        let after_scheme = text.split_once("://").map(|(_, rest)| rest);
        match after_scheme {
            Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).map_or("/", |path| path),
            None => text,
        }
    }
    let (one, other) = (path(one), path(other));
    one.starts_with('/') == other.starts_with('/') && (one.ends_with(other) || other.ends_with(one))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ComparedResponse, Difference, Rules, differences, value_differences};

    fn places(left: &Value, right: &Value) -> Vec<String> {
        value_differences(left, right, Rules::default()).iter().map(Difference::place).collect()
    }

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> ComparedResponse {
        let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        ComparedResponse::new(status, headers, body.as_bytes())
    }

    #[test]
    fn the_order_of_lists_does_not_matter() {
        let one = json!({"traits": ["A", "B"], "resource_providers": [
            {"uuid": "1", "name": "one"}, {"uuid": "2", "name": "two"}]});
        let other = json!({"resource_providers": [
            {"name": "two", "uuid": "2"}, {"name": "one", "uuid": "1"}], "traits": ["B", "A"]});
        assert_eq!(places(&one, &other), Vec::<String>::new());
        let request = |amount: u32, provider: &str| {
            json!({"allocations": {provider: {"resources": {"VCPU": amount}}},
                   "mappings": {"": [provider, "x"]}})
        };
        let one = json!({"allocation_requests": [request(1, "a"), request(1, "b")]});
        let other = json!({"allocation_requests": [request(1, "b"), request(1, "a")]});
        assert_eq!(places(&one, &other), Vec::<String>::new());
    }

    #[test]
    fn differences_are_named_by_uuid_or_name() {
        let one = json!({"resource_providers": [
            {"uuid": "1", "generation": 3}, {"uuid": "2", "generation": 5}]});
        let other = json!({"resource_providers": [
            {"uuid": "3", "generation": 5}, {"uuid": "1", "generation": 4}]});
        let found = value_differences(&one, &other, Rules::default());
        let places: Vec<String> = found.iter().map(Difference::place).collect();
        assert_eq!(
            places,
            ["resource_providers/1/generation", "resource_providers/2", "resource_providers/3"]
        );
        assert_eq!(
            (found[0].left.clone(), found[0].right.clone()),
            (Some(json!(3)), Some(json!(4)))
        );
        assert_eq!((found[1].right.clone(), found[2].left.clone()), (None, None));
        let rules = Rules { provider_generations: false, ..Rules::default() };
        assert_eq!(value_differences(&one, &other, rules).len(), 2);
    }

    #[test]
    fn a_set_says_what_only_one_side_has_and_how_often() {
        let found = value_differences(
            &json!({"aggregates": ["a", "b", "b"]}),
            &json!({"aggregates": ["b", "c"]}),
            Rules::default(),
        );
        let sides: Vec<_> = found.iter().map(|it| (it.left.clone(), it.right.clone())).collect();
        assert_eq!(
            sides,
            [(Some(json!("a")), None), (Some(json!("b")), None), (None, Some(json!("c")))]
        );
        assert_eq!(found[0].place(), "aggregates/[]");
        // Objects with the same name cannot be identified by it.
        let twice = json!([{"name": "a", "x": 1}, {"name": "a", "x": 2}]);
        let other = json!([{"name": "a", "x": 2}, {"name": "a", "x": 1}]);
        assert_eq!(places(&twice, &other), Vec::<String>::new());
        assert_eq!(places(&twice, &json!([])), ["[]", "[]"]);
    }

    #[test]
    fn numbers_are_what_clients_see() {
        for (one, other, same) in [
            ("1", "1.0", true),
            ("0", "-0.0", true),
            ("16.1235", "16.123456", false),
            ("1.5", "1.50", true),
            ("9007199254740993", "9007199254740992", false),
            ("1e3", "1000", true),
            ("1", "\"1\"", false),
            ("null", "0", false),
        ] {
            let parse = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
            let (one, other) = (parse(one), parse(other));
            assert_eq!(places(&one, &other).is_empty(), same, "{one} {other}");
            assert_eq!(
                places(&json!([one]), &json!([other])).is_empty(),
                same,
                "[{one}] [{other}]"
            );
        }
    }

    #[test]
    fn the_services_own_urls_do_not_matter() {
        let link = |href: &str| json!({"links": [{"rel": "self", "href": href}]});
        let one = link("/placement/resource_providers/1");
        assert_eq!(places(&one, &link("/resource_providers/1")), Vec::<String>::new());
        assert_eq!(places(&one, &link("/resource_providers/2")), ["links/self/href"]);
        let location = |url: &str| answer(201, &[("Location", url)], "");
        let rules = Rules::default();
        let one = location("http://old/placement/resource_providers/1");
        assert_eq!(differences(&one, &location("http://new:8778/resource_providers/1"), rules), []);
        assert_eq!(
            differences(&one, &location("http://new:8778/resource_providers/11"), rules).len(),
            1
        );
    }

    #[test]
    fn status_headers_and_bodies_are_compared() {
        let headers = [
            ("Content-Type", "application/json; charset=utf-8"),
            ("Last-Modified", "Mon, 23 Nov 2026 03:00:00 GMT"),
            ("X-Openstack-Request-Id", "req-1"),
        ];
        let one = answer(
            404,
            &headers,
            r#"{"errors": [{"code": "a", "detail": "No.", "request_id": "1"}]}"#,
        );
        let headers = [
            ("content-type", "application/json;charset=UTF-8"),
            ("cache-control", "no-cache"),
            ("x-openstack-request-id", "req-2"),
        ];
        let other = answer(
            400,
            &headers,
            r#"{"errors": [{"code": "a", "detail": "None.", "request_id": "2"}]}"#,
        );
        let all = |rules: Rules| -> Vec<String> {
            differences(&one, &other, rules).iter().map(Difference::place).collect()
        };
        assert_eq!(
            all(Rules::default()),
            ["status", "headers/cache-control", "headers/last-modified", "body/errors/0/detail"]
        );
        let rules = Rules { times: false, error_texts: false, ..Rules::default() };
        assert_eq!(all(rules), ["status", "headers/cache-control"]);
        let (empty, text) = (answer(200, &[], ""), answer(200, &[], "<html>"));
        let found = differences(&empty, &text, Rules::default());
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].left, &found[0].right), (&None, &Some(json!("<html>"))));
        assert_eq!(differences(&text, &text.clone(), Rules::default()), []);
    }
}
