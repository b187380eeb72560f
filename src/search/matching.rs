//! Bipartite matching of parts to providers, by augmenting paths.

#![expect(clippy::indexing_slicing, reason = "takers and sites are positions in the lists given")]

use std::collections::BTreeSet;

/// Maximum work for one matching, in sites and takers examined: a few milliseconds.
const WORK_MAX: usize = 1_000_000;

/// Takers (parts), and the sites (providers) that each can use. It is cleared and filled again for each matching,
/// to reuse its memory.
#[derive(Debug, Default)]
pub(super) struct Matching {
    /// The sites of all takers, taker by taker.
    sites: Vec<usize>,
    /// The range of each taker in `sites`.
    takers: Vec<(usize, usize)>,
    /// Number of further takers that each site can serve.
    seats: Vec<usize>,
    /// The site that serves each taker.
    given: Vec<Option<usize>>,
    tried: Vec<bool>,
    /// The work since the last read, in sites and takers examined.
    work: usize,
    /// The work at which this matching is abandoned.
    work_max: usize,
}

impl Matching {
    /// Removes all takers.
    pub(super) fn clear(&mut self) {
        self.sites.clear();
        self.takers.clear();
    }

    /// Adds a taker with the sites that it can use.
    pub(super) fn add(&mut self, sites: impl Iterator<Item = usize>) {
        let from = self.sites.len();
        self.sites.extend(sites);
        self.takers.push((from, self.sites.len()));
    }

    /// Adds a taker with the representatives of the sites that it can use, or the sites themselves if
    /// `representatives` is empty.
    pub(super) fn add_in(&mut self, representatives: &[usize], sites: impl Iterator<Item = usize>) {
        if representatives.is_empty() {
            return self.add(sites);
        }
        let distinct: BTreeSet<usize> = sites.map(|site| representatives[site]).collect();
        self.add(distinct.into_iter());
    }

    /// Returns the work since the last call, in sites and takers examined.
    pub(super) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    /// Returns whether every taker can get one of its sites, if each site serves as many takers as it has seats.
    /// Also true if the limit on the work is reached.
    pub(super) fn all_served(&mut self, seats: impl Iterator<Item = usize>) -> bool {
        self.takers.sort_unstable_by_key(|(from, to)| to - from);
        self.work += self.takers.len();
        let mut takers = self.takers.iter().enumerate();
        if takers.all(|(nth, (from, to))| to - from > nth) {
            // The nth taker has more than n sites, so one of them is free whatever the others took.
            return true;
        }
        self.seats.clear();
        self.seats.extend(seats);
        self.given.clear();
        self.given.resize(self.takers.len(), None);
        self.work_max = self.work + WORK_MAX;
        let all = (0..self.takers.len()).all(|taker| {
            self.work += self.seats.len();
            self.tried.clear();
            self.tried.resize(self.seats.len(), false);
            self.serve(taker)
        });
        all || self.work >= self.work_max
    }

    /// Finds a site for a taker. Other takers may have to move to other sites.
    fn serve(&mut self, taker: usize) -> bool {
        let (from, to) = self.takers[taker];
        for at in from..to {
            self.work += 1;
            if self.work >= self.work_max {
                return false;
            }
            let site = self.sites[at];
            if std::mem::replace(&mut self.tried[site], true) {
                continue;
            }
            let free = self.seats[site] > 0;
            if free {
                self.seats[site] -= 1;
            }
            if free || self.move_one_away(site) {
                self.given[taker] = Some(site);
                return true;
            }
        }
        false
    }

    fn move_one_away(&mut self, site: usize) -> bool {
        self.work += self.given.len();
        (0..self.given.len()).any(|other| self.given[other] == Some(site) && self.serve(other))
    }
}

#[cfg(test)]
mod tests {
    use super::Matching;

    fn all_served(takers: &[Vec<usize>], seats: &[usize]) -> bool {
        let mut matching = Matching::default();
        for sites in takers {
            matching.add(sites.iter().copied());
        }
        matching.all_served(seats.iter().copied())
    }

    #[test]
    fn others_move_to_make_room() {
        let takers = [vec![0, 1], vec![0, 2], vec![0]];
        assert!(all_served(&takers, &[1, 1, 1]));
        assert!(!all_served(&takers, &[1, 1, 0]));
        assert!(all_served(&takers, &[2, 0, 1]));
    }

    /// A matching that takes too long counts as possible.
    #[test]
    fn an_unknown_fact_may_be_true() {
        let takers = vec![(0..2000).collect::<Vec<usize>>(); 2001];
        assert!(all_served(&takers, &[1; 2000]));
        let takers = vec![(0..20).collect::<Vec<usize>>(); 21];
        assert!(!all_served(&takers, &[1; 20]));
    }

    #[test]
    fn too_many_takers_are_not_all_served() {
        assert!(!all_served(&vec![(0..9).collect(); 10], &[1; 9]));
        assert!(all_served(&vec![(0..9).collect(); 10], &[1, 1, 1, 1, 2, 1, 1, 1, 1]));
        let two_kinds = [vec![vec![0, 1, 2]; 4], vec![vec![3, 4, 5, 6]; 2]].concat();
        assert!(!all_served(&two_kinds, &[1; 7]));
    }
}
