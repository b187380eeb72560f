//! Whether takers and sites can be brought together at all.

#![expect(clippy::indexing_slicing, reason = "takers and sites are positions in the lists given")]

/// Whether every taker can have one of its sites, where a site serves only so many takers.
pub(super) fn all_served(takers: &[Vec<usize>], capacity: &[usize]) -> bool {
    let mut matching = Matching {
        takers,
        capacity,
        served: vec![Vec::new(); capacity.len()],
        tried: vec![false; capacity.len()],
    };
    (0..takers.len()).all(|taker| {
        matching.tried.fill(false);
        matching.serve(taker)
    })
}

struct Matching<'a> {
    takers: &'a [Vec<usize>],
    capacity: &'a [usize],
    /// By site.
    served: Vec<Vec<usize>>,
    tried: Vec<bool>,
}

impl Matching<'_> {
    /// Finds a site for a taker, moving others to other sites of theirs if need be.
    fn serve(&mut self, taker: usize) -> bool {
        for &site in &self.takers[taker] {
            if std::mem::replace(&mut self.tried[site], true) {
                continue;
            }
            if self.served[site].len() < self.capacity[site] {
                self.served[site].push(taker);
                return true;
            }
            for seat in 0..self.served[site].len() {
                if self.serve(self.served[site][seat]) {
                    self.served[site][seat] = taker;
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::all_served;

    #[test]
    fn others_move_to_make_room() {
        let takers = [vec![0, 1], vec![0, 2], vec![0]];
        assert!(all_served(&takers, &[1, 1, 1]));
        assert!(!all_served(&takers, &[1, 1, 0]));
        assert!(all_served(&takers, &[2, 0, 1]));
    }

    #[test]
    fn too_many_takers_are_not_all_served() {
        assert!(!all_served(&vec![(0..9).collect(); 10], &[1; 9]));
        assert!(all_served(&vec![(0..9).collect(); 10], &[1, 1, 1, 1, 2, 1, 1, 1, 1]));
        let two_kinds = [vec![vec![0, 1, 2]; 4], vec![vec![3, 4, 5, 6]; 2]].concat();
        assert!(!all_served(&two_kinds, &[1; 7]));
    }
}
