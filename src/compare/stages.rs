//! Asks both services for everything of one subject after the other.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::answers::Difference;
use super::explained::Explained;
use super::options::Options;
use super::pair::{Compared, Pair};
use super::paths::path_of;
use super::report::{Report, Subject};
use crate::progress::Progress;

use crate::placement_client::{Error, Microversion};

/// Since this microversion, usages of a project are shown by type of consumer.
const CONSUMER_TYPES: Microversion = Microversion(38);
const CUSTOM: &str = "CUSTOM_";

/// A question about an object.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// What is compared of it.
    subject: Subject,
    /// What identifies it.
    of: String,
    path: String,
}

impl Asked {
    /// A question with the path of an object: what stands in it before and after what identifies the object.
    pub(super) fn new(subject: Subject, before: &str, of: &str, after: &str) -> Self {
        Self { subject, of: of.to_owned(), path: path_of(before, of, after) }
    }
}

/// The pair of services, and the report on them.
#[derive(Debug)]
pub(super) struct Stages<'p> {
    pub(super) pair: &'p Pair,
    pub(super) report: &'p mut Report,
    /// What an import explains.
    explained: Explained,
    progress: Progress,
}

impl<'p> Stages<'p> {
    pub(super) fn new(
        pair: &'p Pair,
        report: &'p mut Report,
        explained: Explained,
        progress: Progress,
    ) -> Self {
        Self { pair, report, explained, progress }
    }

    /// Asks for all, several at once, and looks at what both said. Each question has a tag, with which it is
    /// looked at.
    pub(super) async fn ask<T>(
        &mut self,
        what: &'static str,
        count: usize,
        questions: impl Iterator<Item = (Asked, T)>,
        mut look: impl FnMut(T, &Asked, &Compared),
    ) -> Result<(), Error> {
        let bar = self.progress.of(what, count as u64);
        let pair = self.pair;
        let asked = questions.map(|(asked, tag)| async move {
            let compared = pair.ask(asked.subject, asked.path.clone()).await;
            (asked, compared, tag)
        });
        let mut answers = stream::iter(asked).buffer_unordered(pair.concurrency() * 2);
        while let Some((asked, compared, tag)) = answers.next().await {
            let compared = compared?;
            look(tag, &asked, &compared);
            let (explained, others): (Vec<_>, Vec<_>) = compared
                .differences
                .into_iter()
                .partition(|it| self.explained.explains(asked.subject, &asked.of, it));
            self.report.add(asked.subject, &compared.path, &others);
            self.report.add_explained(asked.subject, &compared.path, &explained);
            bar.inc(1);
        }
        bar.finish();
        Ok(())
    }

    /// Resource classes and traits. Standard names that only one service knows are those of another
    /// version of os-traits or os-resource-classes: that is told, and is no difference.
    pub(super) async fn names(&mut self) -> Result<(), Error> {
        let lists = [
            (Subject::ResourceClasses, "/resource_classes", "standard resource classes"),
            (Subject::Traits, "/traits", "standard traits"),
        ];
        for (subject, path, words) in lists {
            let mut compared = self.pair.ask(subject, path.to_owned()).await?;
            let (mut left_only, mut right_only) = (0_u64, 0_u64);
            compared.differences.retain(|difference| {
                let Some(name) = standard_name(difference) else { return true };
                tracing::debug!(name, "a standard name that only one service knows");
                let count =
                    if difference.left.is_some() { &mut left_only } else { &mut right_only };
                *count += 1;
                false
            });
            if left_only + right_only > 0 {
                self.report.notes.push(format!(
                    "{words} that only one service knows, as with different releases: {left_only} \
                     left, {right_only} right"
                ));
            }
            self.report.add(subject, &compared.path, &compared.differences);
        }
        Ok(())
    }

    /// Consumers that were met, and the usages of their projects.
    pub(super) async fn consumers(
        &mut self,
        consumers: BTreeSet<String>,
        options: Options,
    ) -> Result<(), Error> {
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
        // Those that the report of an import names are asked for in any case.
        let mut projects: BTreeSet<String> = self.explained.projects().map(str::to_owned).collect();
        let mut explained = self.explained.clone();
        let asked = chosen
            .iter()
            .map(|uuid| (Asked::new(Subject::Consumers, "/allocations/", uuid, ""), ()));
        self.ask("consumers", chosen.len(), asked, |(), asked, compared| {
            for body in [&compared.left, &compared.right].into_iter().flatten() {
                explained.learn_of(&asked.of, body);
                if let Some(project) = body.get("project_id").and_then(Value::as_str) {
                    projects.insert(project.to_owned());
                }
            }
        })
        .await?;
        self.explained = explained;
        let types = if self.pair.version < CONSUMER_TYPES { "" } else { "&consumer_type=all" };
        let mut asked: Vec<_> = Vec::new();
        for project in &projects {
            let usages =
                |more| Asked::new(Subject::ProjectUsages, "/usages?project_id=", project, more);
            asked.push((usages(""), ()));
            if !types.is_empty() {
                asked.push((usages(types), ()));
            }
        }
        self.ask("usages of projects", asked.len(), asked.into_iter(), |(), _, _| {}).await
    }

    /// Questions for candidates. One that a service fails at, such as by taking too long, is told.
    pub(super) async fn candidates(&mut self, queries: &[String]) -> Result<(), Error> {
        let bar = self.progress.of("candidates", queries.len() as u64);
        let pair = self.pair;
        let asked = queries
            .iter()
            .map(|path| async move { (path, pair.ask(Subject::Candidates, path.clone()).await) });
        // An answer may be large, and hard to find.
        let mut answers = stream::iter(asked).buffered(2);
        while let Some((path, compared)) = answers.next().await {
            match compared {
                Ok(compared) => {
                    self.report.add(Subject::Candidates, path, &compared.differences);
                }
                Err(why) => self.report.not_compared(path, &why.to_string()),
            }
            bar.inc(1);
        }
        bar.finish();
        Ok(())
    }
}

/// The name that a difference is about, if only one service knows it and it is not custom.
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
