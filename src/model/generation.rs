//! Generations: counters by which clients name the state they saw.

/// Number of changes of the visible state of a provider or consumer.
pub type Generation = i64;

/// A writer's expectation about a consumer's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// None (before microversion 1.28): any state is fine.
    Any,
    /// The consumer exists at this generation.
    Is(Generation),
    /// The consumer does not exist (`"consumer_generation": null`).
    NoConsumer,
}

impl Expected {
    /// Returns whether a consumer at `actual` (`None`: it does not exist) meets the expectation.
    pub fn met_by(self, actual: Option<Generation>) -> bool {
        match self {
            Self::Any => true,
            Self::Is(generation) => actual == Some(generation),
            Self::NoConsumer => actual.is_none(),
        }
    }
}
