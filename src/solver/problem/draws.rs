//! Amounts drawn from pools.

use std::ops::Deref;

use smallvec::SmallVec;

/// Amounts by pool: the position of the pool in [`PlacementProblem::pools`](super::PlacementProblem::pools), and
/// the amount. They are ascending by pool, each pool occurs once, and no amount is zero. A pool that does not exist
/// has nothing free.
///
/// Most ways draw on one pool, which takes no separate memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Draws(SmallVec<[(usize, u64); 1]>);

impl Draws {
    /// No draws.
    pub const NONE: Self = Self(SmallVec::new_const());

    /// Renumbers the pools.
    ///
    /// # Errors
    /// Those of `number`. Then only some of the pools are renumbered.
    pub fn renumber<E>(
        &mut self,
        mut number: impl FnMut(usize) -> Result<usize, E>,
    ) -> Result<(), E> {
        for (pool, _) in &mut self.0 {
            *pool = number(*pool)?;
        }
        self.merge();
        Ok(())
    }

    /// Sorts by pool, adds up amounts of one pool, and drops those of zero.
    fn merge(&mut self) {
        let is_merged = self.0.is_sorted_by(|one, other| one.0 < other.0)
            && self.0.iter().all(|(_, amount)| *amount > 0);
        if is_merged {
            return;
        }
        self.0.retain(|(_, amount)| *amount > 0);
        self.0.sort_unstable();
        self.0.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = earlier.1.saturating_add(later.1);
            }
            same
        });
    }
}

impl Deref for Draws {
    type Target = [(usize, u64)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Collects amounts in any order, and adds up those of one pool.
impl FromIterator<(usize, u64)> for Draws {
    fn from_iter<T: IntoIterator<Item = (usize, u64)>>(draws: T) -> Self {
        let mut draws = Self(draws.into_iter().collect());
        draws.merge();
        draws
    }
}

impl<const N: usize> From<[(usize, u64); N]> for Draws {
    fn from(draws: [(usize, u64); N]) -> Self {
        draws.into_iter().collect()
    }
}

impl<'d> IntoIterator for &'d Draws {
    type Item = &'d (usize, u64);
    type IntoIter = std::slice::Iter<'d, (usize, u64)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::Draws;

    #[test]
    fn amounts_of_one_pool_are_added_up() {
        let draws = Draws::from([(3, 1), (1, 2), (3, 4), (2, 0)]);
        assert_eq!(*draws, [(1, 2), (3, 5)]);
        assert_eq!(Draws::from([(2, 0)]), Draws::NONE);
    }

    #[test]
    fn new_numbers_may_change_the_order() {
        let mut draws = Draws::from([(1, 2), (3, 5)]);
        assert_eq!(draws.renumber(|pool| if pool == 1 { Ok(9) } else { Err(pool) }), Err(3));
        let mut draws = Draws::from([(1, 2), (3, 5)]);
        draws.renumber(|pool| Ok::<_, ()>(9 - pool)).unwrap();
        assert_eq!(*draws, [(6, 5), (8, 2)]);
    }
}
