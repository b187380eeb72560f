//! Placement policies: the objectives of plans.

use super::group::Level;

/// The objective of a plan, and the units in which it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlacementPolicy {
    /// The objective.
    pub goal: Goal,
    /// The units.
    pub level: Level,
}

/// The objective of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// As few units as possible.
    Pack,
    /// As evenly as possible: the servers of the plan over the units.
    Spread,
    /// As evenly as possible: the use of the units' capacity.
    Balance,
}

impl PlacementPolicy {
    /// The default policy. docs/decisions.md argues for it.
    pub const DEFAULT: Self = Self { goal: Goal::Pack, level: Level::Host };

    /// Returns a goal at the level of hosts.
    pub fn of_hosts(goal: Goal) -> Self {
        Self { goal, level: Level::Host }
    }
}

impl Default for PlacementPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Goal {
    /// All goals.
    pub const ALL: [Self; 3] = [Self::Pack, Self::Spread, Self::Balance];

    /// Returns the name of the goal in requests and responses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pack => "pack",
            Self::Spread => "spread",
            Self::Balance => "balance",
        }
    }

    /// Returns the goal with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|goal| goal.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::Goal;

    #[test]
    fn names_and_what_they_stand_for() {
        for goal in Goal::ALL {
            assert_eq!(Goal::named(goal.name()), Some(goal));
        }
        assert_eq!(Goal::named("Pack"), None);
    }
}
