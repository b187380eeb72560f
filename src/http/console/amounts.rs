//! Amounts of a resource class, and how pages show them.

use std::fmt;

use crate::model::provider::InventoryRow;

/// A fraction of the capacity, in thousandths.
pub(super) type Permille = u32;

/// All of it.
pub(super) const WHOLE: Permille = 1000;
/// The greatest fraction that is told apart: 1,000 times the capacity.
const MOST: Permille = 1_000_000;

/// Amounts of one resource class, of one provider or summed over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    pub(super) total: i64,
    pub(super) reserved: i64,
    /// The amount that can be allocated: the total without the reserved amount, times the allocation ratio.
    pub(super) capacity: i64,
    pub(super) used: i64,
    /// The free amount of hosts on which another class is full.
    pub(super) stranded: i64,
    /// Number of inventories of which more is used than can be allocated.
    pub(super) overcommitted: usize,
}

impl Amounts {
    /// Returns the amounts of an inventory.
    pub(super) fn of(row: &InventoryRow) -> Self {
        // A reserved amount above the total makes the capacity of one inventory negative, not that of others less.
        let capacity = row.terms.capacity().max(0);
        Self {
            total: row.terms.total.into(),
            reserved: row.terms.reserved.into(),
            capacity,
            used: row.used,
            stranded: 0,
            overcommitted: usize::from(row.used > capacity),
        }
    }

    /// Adds other amounts of the same class.
    pub(super) fn merge(&mut self, other: &Self) {
        self.total = self.total.saturating_add(other.total);
        self.reserved = self.reserved.saturating_add(other.reserved);
        self.capacity = self.capacity.saturating_add(other.capacity);
        self.used = self.used.saturating_add(other.used);
        self.stranded = self.stranded.saturating_add(other.stranded);
        self.overcommitted += other.overcommitted;
    }

    /// Returns the used fraction of the capacity; `None` if there is neither.
    pub(super) fn fullness(&self) -> Option<Permille> {
        match (self.used, self.capacity) {
            (0, 0) => None,
            (_, 0) => Some(MOST),
            (used, capacity) => Some(fraction(used, capacity).min(MOST)),
        }
    }

    pub(super) fn shown_fullness(&self) -> Fullness {
        Fullness(self.fullness())
    }

    pub(super) fn free(&self) -> Grouped {
        Grouped(self.capacity.saturating_sub(self.used))
    }

    /// Returns the ratio of the capacity to the total without the reserved amount.
    pub(super) fn ratio(&self) -> String {
        let available = self.total.saturating_sub(self.reserved);
        if available <= 0 {
            return String::new();
        }
        let hundredths = fraction(self.capacity, available) / 10;
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    }

    /// Returns the width of the reserved part in a bar of 1,000 units.
    pub(super) fn reserved_width(&self) -> Permille {
        if self.total > 0 { fraction(self.reserved, self.total).min(WHOLE) } else { 0 }
    }

    /// Returns the width of the used part in a bar of 1,000 units, which ends with the reserved part.
    pub(super) fn used_width(&self) -> Permille {
        let rest = WHOLE - self.reserved_width();
        self.fullness().map_or(0, |fullness| fullness.min(WHOLE) * rest / WHOLE)
    }

    /// Returns the width of an amount that would be used as well.
    pub(super) fn width_of(&self, amount: i64) -> Permille {
        if self.capacity <= 0 {
            return 0;
        }
        let rest = WHOLE - self.reserved_width();
        let width = fraction(amount, self.capacity).min(WHOLE) * rest / WHOLE;
        width.min(rest - self.used_width())
    }

    /// Returns where the reserved part begins.
    pub(super) fn reserved_start(&self) -> Permille {
        WHOLE - self.reserved_width()
    }
}

/// Returns the quotient of two amounts in thousandths, rounded up so that only nothing is 0.
pub(super) fn fraction(part: i64, whole: i64) -> Permille {
    let (part, whole) = (i128::from(part.max(0)), i128::from(whole.max(1)));
    let quotient = (part * i128::from(WHOLE) + whole - 1) / whole;
    Permille::try_from(quotient).map_or(Permille::MAX, |quotient| quotient)
}

/// A used fraction as pages show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fullness(pub(super) Option<Permille>);

impl Fullness {
    /// Returns the class of its colour in the style sheet.
    pub(super) fn colour(self) -> &'static str {
        const COLOURS: [&str; 10] = ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9"];
        match self.0 {
            None => "none",
            Some(WHOLE) => "full",
            Some(fullness) => COLOURS.get(fullness as usize / 100).unwrap_or(&"over"),
        }
    }
}

impl fmt::Display for Fullness {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => to.write_str("–"),
            Some(MOST) => to.write_str("over"),
            // Rounded, but what is not full is not shown as full.
            Some(fullness @ ..WHOLE) => write!(to, "{} %", ((fullness + 5) / 10).min(99)),
            Some(fullness) => write!(to, "{} %", fullness / 10),
        }
    }
}

/// Returns amounts as a text such as `2 VCPU, 4,096 MEMORY_MB`.
pub(super) fn amounts_text(amounts: &[(String, i64)]) -> String {
    let texts: Vec<String> =
        amounts.iter().map(|(class, amount)| format!("{} {class}", Grouped(*amount))).collect();
    texts.join(", ")
}

/// A number with separators between groups of three digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grouped(pub(super) i64);

impl Grouped {
    /// A count of things in memory.
    pub(super) fn count(count: usize) -> Self {
        Self(i64::try_from(count).map_or(i64::MAX, |count| count))
    }
}

impl fmt::Display for Grouped {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.unsigned_abs().to_string();
        if self.0 < 0 {
            to.write_str("-")?;
        }
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                to.write_str(",")?;
            }
            write!(to, "{digit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Amounts, Fullness, Grouped};

    fn amounts(total: i64, reserved: i64, capacity: i64, used: i64) -> Amounts {
        Amounts { total, reserved, capacity, used, ..Amounts::default() }
    }

    #[test]
    fn a_bar_has_the_used_the_free_and_the_reserved_part() {
        let bar = |it: Amounts| (it.used_width(), it.reserved_start(), it.reserved_width());
        assert_eq!(bar(amounts(100, 20, 80, 40)), (400, 800, 200));
        assert_eq!(bar(amounts(16, 0, 256, 64)), (250, 1000, 0));
        assert_eq!(bar(amounts(10, 0, 10, 15)), (1000, 1000, 0));
        assert_eq!(bar(amounts(10, 20, 0, 0)), (0, 0, 1000));
    }

    #[test]
    fn fullness_has_a_colour_and_a_text() {
        let shown = |it: Amounts| {
            let fullness = it.shown_fullness();
            (fullness.colour(), fullness.to_string())
        };
        assert_eq!(shown(amounts(0, 0, 0, 0)), ("none", "–".to_owned()));
        assert_eq!(shown(amounts(9, 0, 9, 0)), ("f0", "0 %".to_owned()));
        assert_eq!(shown(amounts(1000, 0, 1000, 999)), ("f9", "99 %".to_owned()));
        assert_eq!(shown(amounts(9, 0, 9, 9)), ("full", "100 %".to_owned()));
        assert_eq!(shown(amounts(9, 0, 9, 10)), ("over", "111 %".to_owned()));
        assert_eq!(shown(amounts(9, 9, 0, 1)), ("over", "over".to_owned()));
        assert_eq!(Fullness(Some(u32::MAX)).colour(), "over");
    }

    #[test]
    fn digits_are_grouped() {
        let text = |number| Grouped(number).to_string();
        assert_eq!([0, 999, 1000, -1_234_567].map(text), ["0", "999", "1,000", "-1,234,567"]);
        assert_eq!(text(i64::MIN), "-9,223,372,036,854,775,808");
    }
}
