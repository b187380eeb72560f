//! Bipartite matching with seats, by augmenting paths: takers, and sites that each serve a number of
//! them.

#![expect(clippy::indexing_slicing, reason = "takers and sites are numbered densely")]

use crate::solver::budget::Budget;

/// Assigns a site to each taker, such that no site serves more takers than it has seats. `takers` has the sort of
/// each taker, and `sites` returns the sites that can serve a sort. `None` if there is no such assignment, or the
/// budget is spent.
pub(super) fn serve<I: Iterator<Item = usize>>(
    sites: impl Fn(usize) -> I,
    takers: &[usize],
    seats: &[u64],
    budget: &mut Budget<'_>,
) -> Option<Vec<usize>> {
    let sorts = takers.iter().max().map_or(0, |most| most + 1);
    let mut served = vec![usize::MAX; takers.len()];
    let guests = vec![Vec::new(); seats.len()];
    let mut matching = Matching { sites, sorts, takers, seats, guests };
    for taker in 0..takers.len() {
        let path = matching.augmenting_path(taker, budget)?;
        let guests = &mut matching.guests;
        // The last site of the path has a free seat; each taker on the path moves one site on.
        for (taker, site) in path {
            let before = std::mem::replace(&mut served[taker], site);
            if let Some(guests) = guests.get_mut(before) {
                guests.retain(|guest| *guest != taker);
            }
            guests[site].push(taker);
        }
    }
    Some(served)
}

/// A matching of the takers so far.
struct Matching<'m, S> {
    /// Returns the sites that can serve a sort.
    sites: S,
    /// Number of sorts.
    sorts: usize,
    /// The sort of each taker.
    takers: &'m [usize],
    /// The number of takers that each site can serve.
    seats: &'m [u64],
    /// The takers that each site serves.
    guests: Vec<Vec<usize>>,
}

impl<I: Iterator<Item = usize>, S: Fn(usize) -> I> Matching<'_, S> {
    /// The moves that free a site for a taker: takers with the sites that they move to. Found by breadth-first search.
    /// Takers of one sort reach the same sites, so one of each is followed.
    fn augmenting_path(
        &self,
        taker: usize,
        budget: &mut Budget<'_>,
    ) -> Option<Vec<(usize, usize)>> {
        let Self { sites, sorts, takers, seats, guests } = self;
        // For each site that was reached: the taker that would move there, and the move before.
        let mut reached: Vec<Option<(usize, Option<usize>)>> = vec![None; seats.len()];
        let mut followed = vec![false; *sorts];
        budget.is_spent_after(*sorts / 16);
        let mut queue: Vec<(usize, Option<usize>)> = vec![(taker, None)];
        let mut next = 0;
        while let Some((taker, from)) = queue.get(next).copied() {
            next += 1;
            let sort = takers[taker];
            if std::mem::replace(&mut followed[sort], true) {
                continue;
            }
            if budget.is_spent_after(2 + seats.len()) {
                return None;
            }
            for site in sites(sort) {
                if reached[site].is_some() {
                    continue;
                }
                reached[site] = Some((taker, from));
                if (guests[site].len() as u64) < seats[site] {
                    let mut path = Vec::new();
                    let mut at = Some(site);
                    while let Some(site) = at {
                        let (taker, before) = reached[site]?;
                        path.push((taker, site));
                        at = before;
                    }
                    return Some(path);
                }
                queue.extend(guests[site].iter().map(|guest| (*guest, Some(site))));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::serve;
    use crate::solver::budget::Budget;

    fn served(sites: &[Vec<usize>], seats: &[u64]) -> Option<Vec<usize>> {
        let mut never = || false;
        let takers: Vec<usize> = (0..sites.len()).collect();
        let of = |sort: usize| sites[sort].iter().copied();
        let found = serve(of, &takers, seats, &mut Budget::new(&mut never));
        // Takers that can use the same sites are of one sort.
        let sort = |taker: &Vec<usize>| sites.iter().position(|it| it == taker).unwrap();
        let takers: Vec<usize> = sites.iter().map(sort).collect();
        let sorted = serve(of, &takers, seats, &mut Budget::new(&mut never));
        assert_eq!(found.is_some(), sorted.is_some());
        if let Some(found) = &found {
            for (site, seats) in seats.iter().enumerate() {
                assert!(found.iter().filter(|it| **it == site).count() as u64 <= *seats);
            }
            assert!(found.iter().zip(sites).all(|(site, sites)| sites.contains(site)));
        }
        found
    }

    #[test]
    fn takers_move_to_make_room() {
        let takers = [vec![0, 1], vec![0, 2], vec![0]];
        assert!(served(&takers, &[1, 1, 1]).is_some());
        assert!(served(&takers, &[1, 1, 0]).is_none());
        assert!(served(&takers, &[2, 0, 1]).is_some());
        // A chain: each of them has to move.
        let chain = [vec![0, 1], vec![1, 2], vec![2, 3], vec![0]];
        assert_eq!(served(&chain, &[1, 1, 1, 1]), Some(vec![1, 2, 3, 0]));
    }

    #[test]
    fn many_equal_takers_are_served_until_the_seats_are_taken() {
        let all: Vec<usize> = (0..24).collect();
        assert!(served(&vec![all.clone(); 24], &[1; 24]).is_some());
        assert!(served(&vec![all; 25], &[1; 24]).is_none());
        assert!(served(&vec![vec![0, 1]; 7], &[3, 4]).is_some());
    }
}
