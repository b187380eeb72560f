//! Sends both services the requests for one subject after the other.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use futures_util::{StreamExt, stream};
use reqwest::StatusCode;
use serde_json::Value;

use super::candidates::{self, Profile, Spellings};
use super::explained::Explained;
use super::failure::Failure;
use super::known::is_greatest_capacity;
use super::options::Options;
use super::pair::{Compared, Pair};
use super::paths::path_of;
use super::report::Report;
use super::response::Difference;
use super::state::StateFile;
use super::subject::Subject;
use crate::moving::placement_client::Microversion;
use crate::moving::progress::Progress;

/// First microversion at which usages of a project are grouped by consumer type.
const CONSUMER_TYPES: Microversion = Microversion(38);
const CUSTOM: &str = "CUSTOM_";
/// Maximum number of consecutive requests without a response; the rest of a stage is then not sent. An internal error
/// (500) counts as a response: it concerns one request.
const UNANSWERED_MAX: u32 = 50;

/// Requests that are sent in sequence, or several at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// Label of the progress bar.
    pub(super) what: &'static str,
    pub(super) count: usize,
    /// Number of concurrent requests.
    pub(super) at_once: usize,
}

/// A request about an object.
#[derive(Clone, Debug)]
pub(super) struct ObjectRequest {
    /// The subject.
    subject: Subject,
    /// Identifier of the object.
    of: String,
    path: String,
}

impl ObjectRequest {
    /// A request with the path of an object: its identifier, and the text before and after it.
    pub(super) fn new(subject: Subject, before: &str, of: &str, after: &str) -> Self {
        Self { subject, of: of.to_owned(), path: path_of(before, of, after) }
    }

    fn candidates(path: &str) -> Self {
        Self { subject: Subject::Candidates, of: String::new(), path: path.to_owned() }
    }
}

/// The pair of services, and the report on them.
#[derive(Debug)]
pub(super) struct Stages<'p> {
    pub(super) pair: &'p Pair,
    pub(super) report: &'p mut Report,
    pub(super) options: &'p Options,
    state: Option<&'p StateFile>,
    /// Differences that an import explains.
    explained: Explained,
    /// Number of differences that are capacities beyond 64 bits.
    greatest_capacities: usize,
    progress: Progress,
}

impl<'p> Stages<'p> {
    pub(super) fn new(
        pair: &'p Pair,
        report: &'p mut Report,
        options: &'p Options,
        state: Option<&'p StateFile>,
        explained: Explained,
    ) -> Self {
        let progress = Progress::new();
        Self { pair, report, options, state, explained, greatest_capacities: 0, progress }
    }

    /// A stage with the default number of concurrent requests.
    pub(super) fn stage(&self, what: &'static str, count: usize) -> Stage {
        Stage { what, count, at_once: self.pair.concurrency() * 2 }
    }

    /// Sends all requests, several at once, and passes each result to `look` with the request's tag. Failed
    /// comparisons are counted.
    pub(super) async fn ask<T>(
        &mut self,
        Stage { what, count, at_once }: Stage,
        requests: impl Iterator<Item = (ObjectRequest, T)>,
        mut look: impl FnMut(T, &ObjectRequest, &Compared),
    ) -> Result<(), Failure> {
        let bar = self.progress.of(what, count as u64);
        let (pair, state, options) = (self.pair, self.state, self.options);
        let unanswered = &AtomicU32::new(0);
        let requests = requests.filter(|(request, _)| !options.skips(request.subject));
        let requests = requests.map(|(request, tag)| async move {
            let compared = match state.map(|state| state.recall(&request.path)) {
                Some(Ok(Some(recalled))) => Some(Ok(recalled)),
                Some(Err(why)) => return Err(Failure::State(why)),
                None | Some(Ok(None)) if unanswered.load(Relaxed) >= UNANSWERED_MAX => None,
                None | Some(Ok(None)) => {
                    Some(pair.ask(request.subject, request.path.clone()).await)
                }
            };
            Ok((request, compared, tag))
        });
        let mut responses = stream::iter(requests).buffer_unordered(at_once);
        while let Some(response) = responses.next().await {
            let (request, compared, tag) = response?;
            bar.inc(1);
            let compared = match compared {
                Some(Ok(compared)) => compared,
                Some(Err(why)) => {
                    let is_answer = why.status() == Some(StatusCode::INTERNAL_SERVER_ERROR);
                    let failures = if is_answer { 0 } else { unanswered.load(Relaxed) + 1 };
                    unanswered.store(failures, Relaxed);
                    self.report.not_compared(request.subject, &why.to_string());
                    continue;
                }
                None => {
                    self.report.not_sent(request.subject);
                    continue;
                }
            };
            unanswered.store(0, Relaxed);
            if let Some(state) = state {
                state.record(&compared).map_err(Failure::State)?;
            }
            look(tag, &request, &compared);
            let (known, differences): (Vec<_>, Vec<_>) =
                compared.differences.into_iter().partition(|Difference { path, left, right }| {
                    let (left, right) = (left.as_ref(), right.as_ref());
                    is_greatest_capacity(path, left, right)
                        || is_greatest_capacity(path, right, left)
                });
            self.greatest_capacities += known.len();
            let right = compared.right.as_ref();
            let (explained, others) =
                self.explained.divide(request.subject, &request.of, differences, right);
            self.report.add(request.subject, &compared.path, &others);
            self.report.add_explained(request.subject, &compared.path, &explained);
        }
        bar.finish();
        Ok(())
    }

    /// Compares resource classes and traits. Standard names that only one service has belong to another release of
    /// os-traits or os-resource-classes: they are noted, not reported as differences.
    pub(super) async fn names(&mut self) {
        let lists = [
            (Subject::ResourceClasses, "/resource_classes", "standard resource classes"),
            (Subject::Traits, "/traits", "standard traits"),
        ];
        for (subject, path, words) in lists {
            if self.options.skips(subject) {
                continue;
            }
            let mut compared = match self.pair.ask(subject, path.to_owned()).await {
                Ok(compared) => compared,
                Err(why) => {
                    self.report.not_compared(subject, &why.to_string());
                    continue;
                }
            };
            let (mut left_only, mut right_only) = (0_u64, 0_u64);
            compared.differences.retain(|difference| {
                let Some(name) = standard_name(difference) else { return true };
                tracing::debug!(name, "a standard name that only one service has");
                let count =
                    if difference.left.is_some() { &mut left_only } else { &mut right_only };
                *count += 1;
                false
            });
            if left_only + right_only > 0 {
                self.report.notes.push(format!(
                    "{words} that only one service has, as with different releases: {left_only} \
                     left, {right_only} right"
                ));
            }
            self.report.add(subject, &compared.path, &compared.differences);
        }
    }

    /// Compares the consumers that were found, and the usages of their projects.
    pub(super) async fn consumers(&mut self, consumers: BTreeSet<String>) -> Result<(), Failure> {
        let options = self.options;
        let all = consumers.len();
        let chosen: Vec<String> = match options.consumers {
            Some(most) if most < all => {
                let mut chosen: Vec<String> = consumers.into_iter().collect();
                fastrand::Rng::with_seed(options.seed).shuffle(&mut chosen);
                chosen.truncate(most);
                self.report.notes.push(format!("of {all} consumers, {most} were compared"));
                chosen
            }
            _ => consumers.into_iter().collect(),
        };
        // Projects in the report of an import are always included.
        let mut projects: BTreeSet<String> = self.explained.projects().map(str::to_owned).collect();
        let mut explained = self.explained.clone();
        let requests = chosen
            .iter()
            .map(|uuid| (ObjectRequest::new(Subject::Consumers, "/allocations/", uuid, ""), ()));
        self.ask(self.stage("consumers", chosen.len()), requests, |(), request, compared| {
            for body in [&compared.left, &compared.right].into_iter().flatten() {
                explained.learn_of(&request.of, body);
                if let Some(project) = body.get("project_id").and_then(Value::as_str) {
                    projects.insert(project.to_owned());
                }
            }
        })
        .await?;
        self.explained = explained;
        let types = if self.pair.version < CONSUMER_TYPES { "" } else { "&consumer_type=all" };
        let mut requests: Vec<_> = Vec::new();
        for project in &projects {
            let usages = |more| {
                ObjectRequest::new(Subject::ProjectUsages, "/usages?project_id=", project, more)
            };
            requests.push((usages(""), ()));
            if !types.is_empty() {
                requests.push((usages(types), ()));
            }
        }
        let stage = self.stage("usages of projects", requests.len());
        self.ask(stage, requests.into_iter(), |(), _, _| {}).await
    }

    /// Compares responses to requests for candidates of these providers.
    pub(super) async fn candidates(
        &mut self,
        profiles: Vec<Profile>,
        mut spellings: Spellings,
    ) -> Result<(), Failure> {
        let options = self.options;
        if options.candidates == 0 || options.skips(Subject::Candidates) {
            return Ok(());
        }
        // Without these, a request may have two correct responses.
        if let Err(why) = spellings.read_sharing(self.pair).await {
            self.report.not_compared(Subject::Candidates, &why.to_string());
            return Ok(());
        }
        let (count, seed) = (options.candidates, options.seed);
        let queries = candidates::queries(&profiles, &spellings, count, seed, self.pair.version);
        let requests = queries.iter().map(|path| (ObjectRequest::candidates(path), ()));
        // Responses may be large and expensive.
        let stage = Stage { what: "candidates", count: queries.len(), at_once: 2 };
        self.ask(stage, requests, |(), _, _| {}).await?;
        if self.greatest_capacities > 0 {
            self.report.notes.push(format!(
                "{} capacities among candidates are beyond 64 bits, and Berth shows the greatest number of 64 bits for \
                 them (D10 of docs/differences.md)",
                self.greatest_capacities
            ));
        }
        Ok(())
    }
}

/// The name that a difference is about, if it is a standard name that only one service has.
fn standard_name(difference: &Difference) -> Option<&str> {
    let ((Some(only), None) | (None, Some(only))) = (&difference.left, &difference.right) else {
        return None;
    };
    // Traits are a list of names, and classes a list of objects.
    let name = match (difference.path.as_slice(), only) {
        ([_, list, _], Value::String(name)) if list == "traits" => name,
        ([_, list, name], Value::Object(_)) if list == "resource_classes" => name,
        _ => return None,
    };
    (!name.starts_with(CUSTOM)).then_some(name)
}
