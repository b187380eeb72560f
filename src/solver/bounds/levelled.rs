//! The most even distribution of servers over units, and the least even one.

/// Fills units evenly: each of `left` servers is added to the unit with the fewest servers among those with room. A
/// unit is given by its servers and its remaining room. Returns the servers in each unit, or `None` if there is too
/// little room.
///
/// No other distribution has a smaller largest count, or with an equal one a smaller next one, and so on; nor has
/// any a smaller sum of squares. Suppose that another distribution `y` does. Take a unit `a` where `y` has more
/// than this one `x`, and a unit `b` where it has less: as `b` has room in `y`, and the last server added to `b` in
/// `x` found no unit with fewer servers and room, `x` has at most `y_a` servers in `b`, and moving a server of `y`
/// from `a` to `b` does not make it worse. Finitely many such moves turn `y` into a placement that is as even as
/// `x`.
pub(super) fn levelled(units: &[(u64, u64)], left: u64) -> Option<Vec<u64>> {
    let room = |(_, room): &(u64, u64)| u128::from(*room);
    if units.iter().map(room).sum::<u128>() < u128::from(left) {
        return None;
    }
    // The highest level to which all units can be filled.
    let filled = |level: u64| -> u128 {
        let added = units.iter().map(|(count, room)| level.saturating_sub(*count).min(*room));
        added.map(u128::from).sum()
    };
    let most = units.iter().map(|(count, _)| *count).max().unwrap_or(0);
    let (mut level, mut above) = (0, most.saturating_add(left).saturating_add(1));
    while above - level > 1 {
        let middle = u64::midpoint(level, above);
        if filled(middle) <= u128::from(left) {
            level = middle;
        } else {
            above = middle;
        }
    }
    let mut more = u128::from(left) - filled(level);
    let of_unit = |(count, room): &(u64, u64)| {
        let added = level.saturating_sub(*count).min(*room);
        let can_rise = *count <= level && added < *room && more > 0;
        more -= u128::from(can_rise);
        count + added + u64::from(can_rise)
    };
    Some(units.iter().map(of_unit).collect())
}

/// Fills as few units as possible with all servers, the largest first, as if none were placed. Units are given as
/// in [`levelled`]. Returns the servers in each unit, or `None` if there is too little room.
///
/// No distribution has a larger sum of squares: moving a server to a unit with at least as many makes the sum
/// larger, and such moves turn every distribution into this one.
pub(super) fn piled(units: &[(u64, u64)], all: u64) -> Option<Vec<u64>> {
    let mut most: Vec<u64> = units.iter().map(|(count, room)| count + room).collect();
    most.sort_unstable_by(|one, other| other.cmp(one));
    let mut left = all;
    for most in &mut most {
        *most = left.min(*most);
        left -= *most;
    }
    (left == 0).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::{levelled, piled};
    use crate::solver::solution::Counts;

    #[test]
    fn units_are_filled_evenly() {
        for (units, left, expected) in [
            (&[(0, 18), (0, 18), (0, 18)][..], 20, Some(vec![7, 7, 6])),
            (&[(0, 2), (0, 18), (5, 18)], 10, Some(vec![2, 7, 6])),
            (&[(9, 0), (0, 3)], 3, Some(vec![9, 3])),
            (&[(9, 0), (0, 3)], 4, None),
            (&[], 0, Some(vec![])),
            (&[(4, 4), (4, 0), (3, 1)], 0, Some(vec![4, 4, 3])),
        ] {
            assert_eq!(levelled(units, left), expected, "{units:?} {left}");
        }
    }

    #[test]
    fn no_other_way_is_more_even() {
        for number in 0..2_000_u64 {
            let digit = |nth: u32| number * 7919 / 4_u64.pow(nth) % 4;
            let units: Vec<(u64, u64)> = (0..3).map(|nth| (digit(nth), digit(nth + 3))).collect();
            let left = digit(6) + digit(7);
            let room = |nth: usize| 0..=units[nth].1;
            let ways = room(0).flat_map(|one| room(1).map(move |two| [one, two]));
            let ways = ways.flat_map(|[one, two]| room(2).map(move |three| [one, two, three]));
            let ways = ways.filter(|way| way.iter().sum::<u64>() == left);
            let counts: Vec<Vec<u64>> = ways
                .map(|way| way.iter().zip(&units).map(|(add, (it, _))| it + add).collect())
                .collect();
            let found = levelled(&units, left);
            let best = counts.iter().map(|it| Counts::of(it.iter().copied())).min();
            assert_eq!(found.clone().map(Counts::of), best, "{units:?} {left}");
            let squares = |it: &Vec<u64>| it.iter().map(|it| it * it).sum::<u64>();
            assert_eq!(found.as_ref().map(squares), counts.iter().map(squares).min());
            let all = left + units.iter().map(|(count, _)| count).sum::<u64>();
            let most = counts.iter().map(squares).max();
            assert!(most <= piled(&units, all).as_ref().map(squares), "{units:?} {left}");
        }
    }
}
