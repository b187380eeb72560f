//! Compares providers and their parts.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::candidates::{Profile, Spellings};
use super::failure::Failure;
use super::options::Options;
use super::stages::{ObjectRequest, Stages};
use super::subject::Subject;

use crate::moving::placement_client::{Client, Error, ListedProvider as Provider, Microversion};

/// Parts of a provider, with the last segment of their paths.
const PARTS: [(Subject, &str); 5] = [
    (Subject::Inventories, "/inventories"),
    (Subject::Usages, "/usages"),
    (Subject::Aggregates, "/aggregates"),
    (Subject::ProviderTraits, "/traits"),
    (Subject::ProviderAllocations, "/allocations"),
];

/// Data collected while comparing providers.
#[derive(Debug, Default)]
pub(super) struct CollectedData {
    /// Consumers with allocations on a provider, in either service.
    pub(super) consumers: BTreeSet<String>,
    /// Providers for which requests for candidates are generated.
    pub(super) profiles: Vec<Profile>,
    /// The spellings of aggregates, in either service.
    pub(super) spellings: Spellings,
}

pub(super) async fn compare(stages: &mut Stages<'_>) -> Result<CollectedData, Failure> {
    let (pair, options) = (stages.pair, stages.options);
    let (left, right) =
        futures_util::try_join!(list(&pair.left, pair.version), list(&pair.right, pair.version))?;
    stages.report.providers = (left.len() as u64, right.len() as u64);
    let (both, suspects) = matched(&left, &right, options);
    let requests = suspects
        .iter()
        .map(|uuid| (ObjectRequest::new(Subject::Providers, "/resource_providers/", uuid, ""), ()));
    stages
        .ask(stages.stage("providers that differ", suspects.len()), requests, |(), _, _| {})
        .await?;
    if !options.skips(Subject::Providers) {
        let same = both.iter().filter(|it| !suspects.contains(it.uuid.as_str())).count();
        stages.report.compared(Subject::Providers, same as u64);
    }

    let chosen = sample(both.len(), options.candidates, options.seed);
    let mut found = CollectedData::default();
    let mut profiles: Vec<Option<Profile>> = vec![None; both.len()];
    let requests = both.iter().enumerate().flat_map(|(nth, provider)| {
        PARTS.into_iter().map(move |(subject, part)| {
            let request = ObjectRequest::new(subject, "/resource_providers/", &provider.uuid, part);
            (request, nth)
        })
    });
    stages
        .ask(
            stages.stage("what providers have", both.len() * PARTS.len()),
            requests,
            |nth, _, compared| {
                for body in [&compared.left, &compared.right].into_iter().flatten() {
                    found.consumers.extend(consumers(body));
                    found.spellings.learn(body);
                }
                let (true, Some(provider)) = (chosen.contains(&nth), both.get(nth)) else { return };
                if let (Some(profile), Some(body)) = (profiles.get_mut(nth), &compared.left) {
                    let profile = profile.get_or_insert_with(|| Profile::new(provider.root()));
                    profile.learn(body);
                }
            },
        )
        .await?;
    found.profiles = profiles.into_iter().flatten().collect();
    Ok(found)
}

async fn list(client: &Client, version: Microversion) -> Result<Vec<Provider>, Error> {
    let mut providers = client.providers("", version).await?;
    providers.sort_unstable();
    Ok(providers)
}

/// The providers that both have, and the UUIDs of those that differ in the lists, or that one side lacks.
fn matched<'l>(
    left: &'l [Provider],
    right: &'l [Provider],
    options: &Options,
) -> (Vec<&'l Provider>, BTreeSet<&'l str>) {
    let by_uuid =
        |list: &[Provider], uuid: &str| list.binary_search_by(|it| it.uuid.as_str().cmp(uuid)).ok();
    let mut both = Vec::new();
    let mut suspects = BTreeSet::new();
    for one in left {
        let Some(other) = by_uuid(right, &one.uuid).and_then(|nth| right.get(nth)) else {
            suspects.insert(one.uuid.as_str());
            continue;
        };
        both.push(one);
        let generation =
            |it: &Provider| options.rules.provider_generations.then_some(it.generation);
        let is_same = one.name == other.name
            && one.parent_provider_uuid == other.parent_provider_uuid
            && one.root_provider_uuid == other.root_provider_uuid
            && generation(one) == generation(other);
        // Modification times are only in the response about one provider.
        if !is_same || options.rules.times {
            suspects.insert(one.uuid.as_str());
        }
    }
    suspects.extend(
        right.iter().map(|it| it.uuid.as_str()).filter(|uuid| by_uuid(left, uuid).is_none()),
    );
    (both, suspects)
}

/// At most `most` random numbers below `of`.
fn sample(of: usize, most: usize, seed: u64) -> HashSet<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    random.choose_multiple(0..of, most).into_iter().collect()
}

/// The consumers in a response about the allocations of a provider; none in other responses.
fn consumers(body: &Value) -> impl Iterator<Item = String> {
    let members = body.get("allocations").and_then(Value::as_object);
    members.into_iter().flat_map(|members| members.keys().cloned())
}

#[cfg(test)]
mod tests {
    use super::super::response::Rules;
    use super::{Options, Provider, Subject, matched, sample};

    fn options(provider_generations: bool, times: bool) -> Options {
        let rules = Rules { provider_generations, times, ..Rules::default() };
        Options { rules, ..Options::default() }
    }

    fn provider(uuid: &str, generation: i64, parent: Option<&str>) -> Provider {
        let (uuid, parent) = (uuid.to_owned(), parent.map(str::to_owned));
        let root_provider_uuid = Some("r".to_owned());
        let name = "n".to_owned();
        Provider { uuid, name, generation, parent_provider_uuid: parent, root_provider_uuid }
    }

    #[test]
    fn lists_are_matched_by_uuid() {
        let left = [provider("a", 1, None), provider("b", 1, None), provider("d", 1, Some("a"))];
        let right = [provider("a", 1, None), provider("c", 1, None), provider("d", 2, Some("a"))];
        let uuids = |provider_generations, times| {
            let options = options(provider_generations, times);
            let (both, suspects) = matched(&left, &right, &options);
            let both: Vec<&str> = both.iter().map(|it| it.uuid.as_str()).collect();
            (both.join(" "), suspects.into_iter().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(uuids(true, false), ("a d".to_owned(), "b c d".to_owned()));
        assert_eq!(uuids(false, false).1, "b c");
        assert_eq!(uuids(false, true).1, "a b c d");
    }

    #[test]
    fn differences_of_a_skipped_subject_are_skipped() {
        let skips = |subject| {
            let skipped = vec![Subject::ProviderAllocations];
            Options { skipped, ..options(true, false) }.skips(subject)
        };
        assert!(skips(Subject::ProviderAllocations) && skips(Subject::ProjectUsages));
        assert!(!skips(Subject::Usages) && !skips(Subject::Candidates));
    }

    #[test]
    fn a_sample_is_the_same_for_the_same_seed() {
        assert_eq!(sample(100, 5, 7), sample(100, 5, 7));
        assert_eq!(
            (sample(100, 5, 7).len(), sample(3, 5, 7).len(), sample(0, 5, 7).len()),
            (5, 3, 0)
        );
    }
}
