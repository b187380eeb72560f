//! For any world and any request the search finds what the oracle finds.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth::model::provider::ProviderRow;
use berth::search::{Next, Request, Search, Unknown, find};
use berth::world::World;
use proptest::prelude::*;
use uuid::Uuid;

use crate::search::generate::{bounds, catalogue, like_request, like_rows, request, rows};
use crate::search::oracle::{Candidate, Oracle};

/// All candidates in the order given, and the providers summarised.
pub(crate) fn search(
    world: &Arc<World>,
    request: &Request,
) -> Result<(Vec<Candidate>, Vec<Uuid>), Unknown> {
    Ok(all(find(Arc::clone(world), request)?))
}

/// The same with every check at each choice, not only where many tries lead to no candidate.
fn search_with_checks(
    world: &Arc<World>,
    request: &Request,
) -> Result<(Vec<Candidate>, Vec<Uuid>), Unknown> {
    let mut search = find(Arc::clone(world), request)?;
    search.check_each_choice();
    Ok(all(search))
}

fn all(mut search: Search) -> (Vec<Candidate>, Vec<Uuid>) {
    let mut candidates = Vec::new();
    loop {
        match search.next_candidate() {
            Next::Found(candidate) => candidates.push(Candidate {
                allocations: candidate
                    .allocations()
                    .flat_map(|(provider, amounts)| {
                        amounts.iter().map(move |&(class, it)| ((provider.uuid(), class), it))
                    })
                    .collect(),
                mappings: candidate
                    .mappings()
                    .map(|(suffix, providers)| {
                        (suffix.to_owned(), providers.map(|provider| provider.uuid()).collect())
                    })
                    .collect(),
            }),
            Next::Paused => {}
            Next::Exhausted => break,
        }
    }
    let summarised = search.summarised().map(|provider| provider.uuid()).collect();
    (candidates, summarised)
}

pub(crate) fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|it| it.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(default),
        max_global_rejects: u32::MAX,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The oracle forms all products; these worlds keep them countable.
pub(crate) fn countable(rows: &[ProviderRow], request: &Request) -> bool {
    let ways: usize = request
        .groups
        .iter()
        .map(|group| {
            if group.suffix.is_empty() {
                rows.len().pow(group.resources.len() as u32)
            } else {
                rows.len()
            }
        })
        .product();
    ways <= 30_000
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn the_search_finds_what_the_oracle_finds(rows in rows(8), request in request(), bounds in bounds()) {
        prop_assume!(countable(&rows, &request));
        let catalogue = catalogue();
        let world = Arc::new(World::build(catalogue.clone(), rows.clone()));
        prop_assert_eq!(world.check(), Ok(()));
        let oracle = Oracle { catalogue: &catalogue, rows: &rows };
        let expected = oracle.candidates(&request);
        let found = search(&world, &request);
        let (expected, (all, summarised)) = match (expected, found) {
            (Ok(expected), Ok(found)) => (expected, found),
            (expected, found) => {
                prop_assert_eq!(expected.err(), found.err());
                return Ok(());
            }
        };
        prop_assert_eq!(&search_with_checks(&world, &request).unwrap().0, &all);
        let distinct: BTreeSet<Candidate> = all.iter().cloned().collect();
        prop_assert_eq!(distinct.len(), all.len(), "a candidate is given twice");
        prop_assert_eq!(&distinct, &expected);
        let output: BTreeSet<Uuid> = summarised.iter().copied().collect();
        prop_assert_eq!(output.len(), summarised.len(), "a provider is summarised twice");
        prop_assert_eq!(output, oracle.summarised(expected.iter(), request.nested));

        let bounded = Request {
            limit: bounds.limit,
            max_candidates: bounds.max_candidates,
            strategy: bounds.strategy,
            order: bounds.order,
            ..request
        };
        let (some, summarised) = search(&world, &bounded).unwrap();
        prop_assert_eq!(&search_with_checks(&world, &bounded).unwrap(), &(some.clone(), summarised.clone()));
        let bound = bounded.limit.into_iter().chain(bounded.max_candidates).min();
        prop_assert_eq!(some.len(), bound.map_or(expected.len(), |bound| bound.min(expected.len())));
        let distinct: BTreeSet<Candidate> = some.iter().cloned().collect();
        prop_assert_eq!(distinct.len(), some.len());
        prop_assert!(distinct.is_subset(&expected));
        let output: BTreeSet<Uuid> = summarised.into_iter().collect();
        prop_assert_eq!(output, oracle.summarised(some.iter(), bounded.nested));
        prop_assert_eq!(search(&world, &bounded).unwrap().0, some, "the order is not the same again");
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Providers and groups that are interchangeable are what the memory of failed situations treats as one.
    #[test]
    fn the_search_finds_what_the_oracle_finds_among_like_providers(
        rows in like_rows(), request in like_request(), nested in prop::bool::weighted(0.8)
    ) {
        let request = Request { nested, ..request };
        prop_assume!(countable(&rows, &request));
        let catalogue = catalogue();
        let world = Arc::new(World::build(catalogue.clone(), rows.clone()));
        let expected = Oracle { catalogue: &catalogue, rows: &rows }.candidates(&request);
        let (all, _) = search(&world, &request).unwrap();
        prop_assert_eq!(all.iter().cloned().collect::<BTreeSet<_>>(), expected.unwrap());
        prop_assert_eq!(search_with_checks(&world, &request).unwrap().0, all);
    }
}
