//! What is compared.

use super::answers::Rules;

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What is compared beside everything else.
    pub rules: Rules,
    /// How many consumers are compared; all if there is no number. A sample is chosen by the seed.
    pub consumers: Option<usize>,
    /// How many questions for candidates are asked.
    pub candidates: usize,
    /// By which samples are chosen.
    pub seed: u64,
    /// How many differences are kept for the report. All are counted.
    pub kept: usize,
}
