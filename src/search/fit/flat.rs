//! Counts on hosts of one provider outside of all sharing, a block of slots at a time.
//!
//! The one provider supplies all parts of the request, so a request takes the sum of its parts of each class, and
//! the scarcest class determines how many requests fit.

use super::super::query::Query;
use crate::world::column::Column;
use crate::world::set::{BLOCK, Words};

/// The total amount of each class that one request takes.
pub(super) struct Totals(Vec<(i64, Column)>);

impl Totals {
    /// The sums of a request's parts.
    pub(super) fn of(query: &Query) -> Self {
        let totals = query.totals().into_iter().filter_map(|(class, units)| {
            let mut amounts = query.parts.iter().flat_map(|part| &part.amounts);
            let amount = amounts.find(|amount| amount.class == class)?;
            Some((units, amount.column.clone()))
        });
        Self(totals.collect())
    }

    /// Counts on the hosts of a block, on each of which the request fits at least once. Returns the work, in
    /// numbers read.
    pub(super) fn count(&self, block: u32, fitting: Words, mut add: impl FnMut(u32, u64)) -> usize {
        if fitting == [0; 4] {
            return 0;
        }
        let mut least = [i64::MAX; BLOCK as usize];
        for (units, column) in &self.0 {
            column.lower_to_quotients(block, fitting, *units, &mut least);
        }
        let mut hosts = 0;
        for ((mut bits, least), first) in
            fitting.into_iter().zip(least.chunks(64)).zip((block * BLOCK..).step_by(64))
        {
            while bits != 0 {
                let at = bits.trailing_zeros();
                if let Some(number) = least.get(at as usize) {
                    add(first + at, number.unsigned_abs());
                }
                hosts += 1;
                bits &= bits - 1;
            }
        }
        hosts * (1 + self.0.len())
    }
}
