//! The prices of the Lagrangian relaxation, and the bundles that hosts take at these prices.

#![expect(clippy::indexing_slicing, reason = "kinds, rules and racks are numbered densely")]

/// Number of price units per unit of the fit.
pub(super) const SCALE: i64 = 1024;

/// Converts a number to a signed one, saturating at the maximum.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A lower bound on the fit, in price units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::solver) struct FitBoundScaled(pub(super) i64);

impl FitBoundScaled {
    /// Returns whether every fit lower than `best` violates the bound.
    pub(in crate::solver) fn excludes_less_than(self, best: u64) -> bool {
        self.to_exclude(best) <= 0
    }

    /// The increase at which the bound excludes every fit lower than `best`.
    pub(in crate::solver) fn to_exclude(self, best: u64) -> i64 {
        (signed(best) - 1) * SCALE + 1 - self.0
    }

    /// Adds an increase to the bound.
    pub(in crate::solver) fn plus(self, rise: i64) -> Self {
        Self(self.0.saturating_add(rise))
    }

    /// The least fit that satisfies the bound.
    pub(in crate::solver) fn least(self) -> u64 {
        let rounded_up = (self.0 + SCALE - 1).div_euclid(SCALE);
        u64::try_from(rounded_up).unwrap_or(0)
    }
}

/// Prices (multipliers): of a bundle of each kind, of a place in each rack for each rule that limits them (below zero,
/// where an even distribution needs more), of a
/// host that comes into use, and of each unit without servers, if the policy packs units: its profit minus that of
/// the last one that may be used.
#[derive(Clone, Debug)]
pub(in crate::solver) struct Prices {
    pub(super) kinds: Vec<i64>,
    pub(super) racks: Vec<Vec<i64>>,
    pub(super) new_host: i64,
    pub(super) units: Vec<i64>,
}

impl Prices {
    /// All prices are zero. `rules` is the number of rules that limit places in racks.
    pub(super) fn new(kinds: usize, rules: usize, racks: usize, units: usize) -> Self {
        let racks = vec![vec![0; racks]; rules];
        Self { kinds: vec![0; kinds], racks, new_host: 0, units: vec![0; units] }
    }

    /// Memory in use, in numbers.
    pub(in crate::solver) fn size(&self) -> usize {
        1 + self.kinds.len() + self.units.len() + self.racks.iter().map(Vec::len).sum::<usize>()
    }
}

/// The bundles of each kind that all hosts take together, and the places that they take in each rack for each rule that
/// limits them.
#[derive(Clone, Debug)]
pub(super) struct TakenBundles {
    pub(super) kinds: Vec<u64>,
    pub(super) racks: Vec<Vec<u64>>,
}

impl TakenBundles {
    pub(super) fn new(kinds: usize, rules: usize, racks: usize) -> Self {
        Self { kinds: vec![0; kinds], racks: vec![vec![0; racks]; rules] }
    }

    pub(super) fn clear(&mut self) {
        self.kinds.fill(0);
        self.racks.iter_mut().for_each(|racks| racks.fill(0));
    }

    /// Counts the bundles that a host in a rack takes. `rules` has the rules of each kind, with the places of a bundle.
    pub(super) fn add(
        &mut self,
        chosen: &[(usize, u64)],
        rules: &[Vec<(usize, u64)>],
        rack: Option<usize>,
    ) {
        for (kind, count) in chosen {
            self.kinds[*kind] += count;
            for (rule, places) in rack.iter().flat_map(|_| &rules[*kind]) {
                if let Some(rack) = rack {
                    self.racks[*rule][rack] += count * places;
                }
            }
        }
    }
}
