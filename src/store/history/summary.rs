//! An effect in words.

/// An effect in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The kind of the object.
    pub kind: &'static str,
    /// The state before, as JSON; `None`: there was nothing.
    pub before: Option<String>,
    /// The state after, as JSON; `None`: nothing is left.
    pub after: Option<String>,
}
