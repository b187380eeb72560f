//! The smallest set of conditions of which each host fails one: a minimum hitting set.

/// A set of conditions, by position.
pub(super) type Mask = u128;

/// Maximum number of sets examined while partial sets are tried: some ten milliseconds.
const LOOKS_MAX: usize = 10_000_000;

/// Maximum number of different sets that are searched exactly.
const SETS_MAX: usize = 2_000;

/// Returns a set that has an element of each of these sets, and whether it is proven to be the smallest. `None` if
/// one of the sets, or their list, is empty.
///
/// The search goes by size, and tries the elements of the smallest set that is not hit yet. If that takes too long,
/// elements are chosen greedily, and the superfluous ones are dropped.
pub(super) fn smallest_hitting_set(sets: impl Iterator<Item = Mask>) -> Option<(Mask, bool)> {
    let sets = minimal(sets.collect());
    if sets.is_empty() || sets.contains(&0) {
        return None;
    }
    let greedy = greedy(&sets);
    if sets.len() > SETS_MAX {
        return Some((greedy, false));
    }
    let mut looks = LOOKS_MAX;
    for size in 1..greedy.count_ones() {
        match hitting(&sets, 0, size, &mut looks) {
            Ok(Some(found)) => return Some((found, true)),
            Ok(None) => {}
            Err(OutOfLooks) => return Some((greedy, false)),
        }
    }
    Some((greedy, true))
}

/// The search was not completed.
struct OutOfLooks;

/// Returns a hitting set with at most `more` elements beyond `chosen`.
fn hitting(
    sets: &[Mask],
    chosen: Mask,
    more: u32,
    looks: &mut usize,
) -> Result<Option<Mask>, OutOfLooks> {
    // The sets are in ascending order of their sizes.
    let open = sets.iter().position(|set| set & chosen == 0);
    *looks = looks.checked_sub(open.map_or(sets.len(), |nth| nth + 1)).ok_or(OutOfLooks)?;
    let Some(open) = open.and_then(|nth| sets.get(nth)) else { return Ok(Some(chosen)) };
    if more == 0 {
        return Ok(None);
    }
    for element in elements(*open) {
        let found = hitting(sets, chosen | element, more - 1, looks)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Returns a hitting set none of whose elements is superfluous.
fn greedy(sets: &[Mask]) -> Mask {
    let mut chosen: Mask = 0;
    let mut open = sets.to_vec();
    while !open.is_empty() {
        let mut hits = [0_usize; Mask::BITS as usize];
        for element in open.iter().flat_map(|set| elements(*set)) {
            if let Some(hits) = hits.get_mut(element.trailing_zeros() as usize) {
                *hits += 1;
            }
        }
        let Some((best, _)) = (0..).zip(hits).max_by_key(|(_, hits)| *hits) else { break };
        let best: Mask = 1 << best;
        chosen |= best;
        open.retain(|set| set & best == 0);
    }
    for element in elements(chosen) {
        let rest = chosen & !element;
        if sets.iter().all(|set| set & rest != 0) {
            chosen = rest;
        }
    }
    chosen
}

/// The single elements of a set.
fn elements(mut set: Mask) -> impl Iterator<Item = Mask> {
    std::iter::from_fn(move || {
        let element = set & set.wrapping_neg();
        set &= !element;
        (element != 0).then_some(element)
    })
}

/// The sets that contain no other one, the small ones first.
fn minimal(mut sets: Vec<Mask>) -> Vec<Mask> {
    sets.sort_unstable_by_key(|set| (set.count_ones(), *set));
    sets.dedup();
    let mut kept: Vec<Mask> = Vec::new();
    for set in sets {
        if kept.len() > SETS_MAX || !kept.iter().any(|smaller| smaller & set == *smaller) {
            kept.push(set);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Mask, greedy, minimal, smallest_hitting_set};

    fn hits(sets: &[Mask], chosen: Mask) -> bool {
        sets.iter().all(|set| set & chosen != 0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn no_smaller_set_hits_all(sets in prop::collection::vec(1_u128..256, 1..20)) {
            let (found, is_smallest) = smallest_hitting_set(sets.iter().copied()).unwrap();
            prop_assert!(is_smallest && hits(&sets, found));
            let least = (1_u128..256).filter(|it| hits(&sets, *it)).map(Mask::count_ones).min();
            prop_assert_eq!(Some(found.count_ones()), least);
            let greedy = greedy(&minimal(sets.clone()));
            prop_assert!(hits(&sets, greedy));
            for bit in 0..8 {
                let rest = greedy & !(1 << bit);
                prop_assert!(rest == greedy || !hits(&sets, rest));
            }
        }
    }

    #[test]
    fn a_set_without_elements_cannot_be_hit() {
        assert_eq!(smallest_hitting_set([1, 0].into_iter()), None);
        assert_eq!(smallest_hitting_set(std::iter::empty()), None);
    }

    #[test]
    fn where_there_are_many_sets_one_that_cannot_be_reduced_is_enough() {
        // All pairs of 100 elements: 99 of them are needed.
        let pairs = (0..100).flat_map(|one| (0..one).map(move |two| 1 << one | 1 << two));
        let (found, is_smallest) = smallest_hitting_set(pairs).unwrap();
        assert_eq!((found.count_ones(), is_smallest), (99, false));
    }
}
