//! Generations: the counters by which clients say which state they saw.

/// How often the visible state of a provider or consumer has changed.
pub type Generation = i64;

/// What a writer believes about a consumer's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Says nothing (before microversion 1.28): any state is fine.
    Any,
    /// The consumer exists at this generation.
    Is(Generation),
    /// The consumer does not exist (`"consumer_generation": null`).
    NoConsumer,
}

impl Expected {
    /// Whether a consumer at `actual` (`None`: it does not exist) is what was expected.
    pub fn met_by(self, actual: Option<Generation>) -> bool {
        match self {
            Self::Any => true,
            Self::Is(generation) => actual == Some(generation),
            Self::NoConsumer => actual.is_none(),
        }
    }
}
