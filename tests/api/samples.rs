//! The samples are valid: the story of samples/replay.json is replayed on an empty server, and every
//! sample is sent or received in it. samples/README.md explains the story.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::Request;
use serde::Deserialize;
use serde_json::Value;

use crate::support::app::Berth;

type Headers = BTreeMap<String, Option<String>>;

#[derive(Deserialize)]
struct Story {
    request_headers: Headers,
    headers: Headers,
    checked_headers: Vec<String>,
    volatile: BTreeSet<String>,
    ordered: BTreeSet<String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    what: String,
    method: String,
    path: String,
    microversion: Option<String>,
    #[serde(default)]
    request_headers: Headers,
    request: Option<String>,
    body: Option<Value>,
    status: u16,
    #[serde(default)]
    headers: Headers,
    #[serde(default, deserialize_with = "body")]
    response: Expected,
    answer: Option<Value>,
    #[serde(default)]
    volatile: BTreeSet<String>,
}

/// The expectation of a step about the body of the response.
#[derive(Default)]
enum Expected {
    #[default]
    NotSaid,
    Nothing,
    Sample(String),
}

fn body<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Expected, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(name.map_or(Expected::Nothing, Expected::Sample))
}

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples")
}

fn sample(name: &str) -> Value {
    let text = std::fs::read_to_string(samples().join(name))
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).unwrap()
}

fn story() -> Story {
    serde_json::from_value(sample("replay.json")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_samples_match_requests_and_responses() {
    let berth = Berth::new().await;
    let story = story();
    for (nth, step) in story.steps.iter().enumerate() {
        let name = format!("step {nth}: {}", step.what);
        let answer = berth.answer(request(&story, step)).await;
        let (head, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8_lossy(&body);
        assert_eq!(head.status.as_u16(), step.status, "{name}: {text}");
        check_headers(&story, step, &head.headers, &name);
        let wanted = match (&step.response, &step.answer) {
            (Expected::Sample(file), _) => sample(file),
            (Expected::Nothing, _) => {
                assert!(body.is_empty(), "{name}: {text}");
                continue;
            }
            (Expected::NotSaid, Some(answer)) => answer.clone(),
            (Expected::NotSaid, None) => continue,
        };
        let given: Value =
            serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{name}: no JSON: {text}"));
        let rules = Rules { story: &story, step };
        if let Err(why) = rules.compare("$", None, &wanted, &given) {
            panic!("{name}: {why}\nwanted {wanted:#}\ngiven {given:#}");
        }
    }
}

fn request(story: &Story, step: &Step) -> Request<Body> {
    let body = match (&step.request, &step.body) {
        (Some(file), _) => Some(sample(file).to_string()),
        (None, Some(Value::String(raw))) if step.request_headers.contains_key("content-type") => {
            Some(raw.clone())
        }
        (None, body) => body.as_ref().map(ToString::to_string),
    };
    let mut headers = story.request_headers.clone();
    headers.insert("host".to_owned(), Some("localhost".to_owned()));
    if let Some(version) = &step.microversion {
        headers.insert("openstack-api-version".to_owned(), Some(format!("placement {version}")));
    }
    if body.is_some() {
        headers.insert("content-type".to_owned(), Some("application/json".to_owned()));
    }
    headers.extend(step.request_headers.clone());
    let mut request = Request::builder().method(step.method.as_str()).uri(&step.path);
    for (name, value) in headers {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    request.body(body.map_or_else(Body::empty, Body::from)).unwrap()
}

fn check_headers(story: &Story, step: &Step, given: &axum::http::HeaderMap, name: &str) {
    let mut wanted = story.headers.clone();
    wanted.extend(step.headers.clone());
    for header in &story.checked_headers {
        wanted.entry(header.clone()).or_insert(None);
    }
    let request = match step.microversion.as_deref() {
        None => "1.0",
        Some("latest") => "1.39",
        Some(version) => version,
    };
    for (header, wanted) in wanted {
        let given = given.get(&header).map(|value| value.to_str().unwrap());
        let wanted = wanted.map(|wanted| {
            wanted.replace("{base}", "http://localhost").replace("{microversion}", request)
        });
        let fine = match wanted.as_deref() {
            Some("*") => given.is_some(),
            Some("?") => true,
            wanted => wanted == given,
        };
        assert!(fine, "{name}: header {header} is {given:?}, wanted {wanted:?}");
    }
}

struct Rules<'s> {
    story: &'s Story,
    step: &'s Step,
}

impl Rules<'_> {
    fn is_volatile(&self, key: &str) -> bool {
        self.story.volatile.contains(key) || self.step.volatile.contains(key)
    }

    /// Compares as samples/README.md says. `key`: under which both stand.
    fn compare(
        &self,
        at: &str,
        key: Option<&str>,
        wanted: &Value,
        given: &Value,
    ) -> Result<(), String> {
        if key.is_some_and(|key| self.is_volatile(key)) {
            let same = std::mem::discriminant(wanted) == std::mem::discriminant(given);
            return same.then_some(()).ok_or_else(|| format!("{at}: {given} is of another type"));
        }
        match (wanted, given) {
            (Value::Object(wanted), Value::Object(given)) => {
                let keys = |object: &serde_json::Map<String, Value>| -> BTreeSet<String> {
                    object.keys().cloned().collect()
                };
                if keys(wanted) != keys(given) {
                    let (wanted, given) = (keys(wanted), keys(given));
                    return Err(format!("{at}: keys are {given:?}, wanted {wanted:?}"));
                }
                wanted.iter().try_for_each(|(key, value)| {
                    self.compare(&format!("{at}.{key}"), Some(key), value, &given[key])
                })
            }
            (Value::Array(wanted), Value::Array(given)) => {
                self.compare_arrays(at, key, wanted, given)
            }
            (Value::String(wanted), Value::String(given)) if key == Some("detail") => {
                let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                if words(wanted) == words(given) {
                    Ok(())
                } else {
                    Err(format!("{at}: {given:?}, wanted {wanted:?}"))
                }
            }
            (wanted, given) if wanted == given => Ok(()),
            (wanted, given) => Err(format!("{at}: {given}, wanted {wanted}")),
        }
    }

    fn compare_arrays(
        &self,
        at: &str,
        key: Option<&str>,
        wanted: &[Value],
        given: &[Value],
    ) -> Result<(), String> {
        if wanted.len() != given.len() {
            return Err(format!("{at}: {} elements, wanted {}", given.len(), wanted.len()));
        }
        if key.is_some_and(|key| self.story.ordered.contains(key)) {
            return wanted.iter().zip(given).enumerate().try_for_each(|(nth, (wanted, given))| {
                self.compare(&format!("{at}[{nth}]"), None, wanted, given)
            });
        }
        let mut rest: Vec<&Value> = given.iter().collect();
        for wanted in wanted {
            let found = rest.iter().position(|given| self.compare(at, None, wanted, given).is_ok());
            let found = found.ok_or_else(|| format!("{at}: {wanted} is missing"))?;
            rest.remove(found);
        }
        Ok(())
    }
}

#[test]
fn every_sample_is_part_of_the_story() {
    let output: BTreeSet<String> = story()
        .steps
        .into_iter()
        .flat_map(|step| {
            let response = match step.response {
                Expected::Sample(name) => Some(name),
                Expected::Nothing | Expected::NotSaid => None,
            };
            [step.request, response]
        })
        .flatten()
        .collect();
    let mut there = BTreeSet::new();
    for folder in std::fs::read_dir(samples()).unwrap() {
        let folder = folder.unwrap().path();
        // Policy files are no requests, and the planner has a walk of its own.
        let is_other = ["policy.d", "planner"].iter().any(|name| folder.ends_with(name));
        if !folder.is_dir() || is_other {
            continue;
        }
        for file in std::fs::read_dir(&folder).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(samples()).unwrap().to_string_lossy().into_owned();
            there.insert(name);
        }
    }
    assert_eq!(there, output);
}
