//! The variants of a bundle of servers with a choice on one host: its possible draws on pools that other hosts draw
//! on as well.
//!
//! *Example.* A server takes 4 VCPU from one of two NUMA nodes, and 10 of disk from the host or from a shared pool.
//! The second part has two *sources* of shared draws: none, and 10 of the shared pool. So a bundle of three such
//! servers has four variants: 0 to 3 of them use the shared pool. The search decides the variant; packing decides
//! the rest. Variants are numbered, and never listed.

use super::server_choice::ServerChoice;

/// The number of variants of a bundle. Servers of equal sizes are adjacent, and interchangeable.
pub(super) fn variants(servers: &[(usize, ServerChoice<'_>)]) -> usize {
    let mut count = 1_usize;
    for equal in servers.chunk_by(|one, other| one.0 == other.0) {
        let profiles = equal.first().map_or(1, |(_, server)| server.profiles());
        count = count.saturating_mul(multisets(profiles, equal.len()));
    }
    count
}

/// A variant by its number: for each server, for each of its parts, the position of the source.
pub(super) fn variant(servers: &[(usize, ServerChoice<'_>)], number: usize) -> Vec<Vec<usize>> {
    let mut rest = number;
    let mut profiles = Vec::with_capacity(servers.len());
    for equal in servers.chunk_by(|one, other| one.0 == other.0) {
        let Some((_, server)) = equal.first() else { continue };
        let all = server.profiles();
        let count = multisets(all, equal.len());
        let chosen = multiset(all, equal.len(), rest % count);
        rest /= count;
        profiles.extend(chosen.into_iter().map(|profile| server.profile(profile)));
    }
    profiles
}

/// The number of multisets of some size whose elements are below `kinds`: C(kinds + size - 1, size).
fn multisets(kinds: usize, size: usize) -> usize {
    let mut count = 1_u128;
    for nth in 1..=size as u128 {
        let Some(product) = count.checked_mul(kinds as u128 + nth - 1) else { return usize::MAX };
        count = product / nth;
    }
    usize::try_from(count).unwrap_or(usize::MAX).max(1)
}

/// The multiset with a number, in lexicographic order, ascending.
fn multiset(kinds: usize, size: usize, number: usize) -> Vec<usize> {
    let mut rest = number;
    let mut element = 0;
    let mut elements = Vec::with_capacity(size);
    for nth in 0..size {
        // The multisets that begin with the element come first, then those with a larger one.
        loop {
            let with = multisets(kinds - element, size - nth - 1);
            if rest < with || element + 1 == kinds {
                break;
            }
            rest -= with;
            element += 1;
        }
        elements.push(element);
    }
    elements
}

#[cfg(test)]
mod tests {
    use super::{multiset, multisets};

    #[test]
    fn multisets_are_numbered() {
        let all: Vec<Vec<usize>> =
            (0..multisets(3, 2)).map(|number| multiset(3, 2, number)).collect();
        assert_eq!(all, [[0, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 2]]);
        assert_eq!((multisets(1, 5), multisets(5, 0), multisets(2, 20)), (1, 1, 21));
        assert_eq!(multisets(usize::MAX, 200), usize::MAX);
        assert_eq!(multiset(1, 3, 0), [0, 0, 0]);
    }
}
