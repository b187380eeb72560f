//! A lower bound and its components.

use super::fit::FitBound;
use super::load::LoadBound;
use super::soft::SoftBound;
use crate::solver::solution::Cost;

/// A lower bound on the cost of placing the remaining bundles as well.
#[derive(Debug)]
pub(in crate::solver) struct Bound {
    pub(in crate::solver) least: Cost,
    /// The bound on the cost of the soft rules, if it was computed.
    pub(in crate::solver) soft_rules: Option<SoftBound>,
    /// The bound on the additions of the remaining bundles to the last components, if it was computed.
    pub(in crate::solver) rest: SumBounds,
}

/// A lower bound on the additions of the remaining bundles to the components that are sums over bundles.
#[derive(Debug)]
pub(in crate::solver) enum SumBounds {
    /// Not computed.
    Unknown,
    /// To the fit.
    Fit(FitBound),
    /// To the load, at each level that the policy counts.
    Load(Vec<LoadBound>),
}
