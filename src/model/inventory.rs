//! Inventories: the amount of a class that a provider has, and the terms of its allocation.

/// The terms of one class on one provider, as clients write them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inventory {
    /// Units the provider physically has.
    pub total: i32,
    /// Units that cannot be allocated.
    pub reserved: i32,
    /// Minimum amount of one allocation.
    pub min_unit: i32,
    /// Maximum amount of one allocation.
    pub max_unit: i32,
    /// Every amount is a multiple of this.
    pub step_size: i32,
    /// Overcommit factor applied to `total - reserved`.
    pub allocation_ratio: f64,
}

impl Inventory {
    /// Units that may be allocated: `(total - reserved) * allocation_ratio`, truncated toward zero.
    ///
    /// The product is an IEEE double, as in the reference on PostgreSQL. Amounts are whole and at
    /// least one, so comparing them with the truncated product is comparing with the product.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`as` saturates, and a saturated capacity is above any amount that can be summed"
    )]
    pub fn capacity(&self) -> i64 {
        ((f64::from(self.total) - f64::from(self.reserved)) * self.allocation_ratio) as i64
    }

    /// Returns whether one allocation may have this amount, whatever is free.
    pub fn allows_amount(&self, amount: i64) -> bool {
        i64::from(self.min_unit) <= amount
            && amount <= i64::from(self.max_unit)
            && amount % i64::from(self.step_size) == 0
    }

    /// Returns whether an allocation may have this amount, and it fits beside `used`.
    pub fn fits(&self, used: i64, amount: i64) -> bool {
        self.allows_amount(amount) && used.saturating_add(amount) <= self.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::Inventory;

    fn inventory(total: i32, reserved: i32, allocation_ratio: f64) -> Inventory {
        Inventory {
            total,
            reserved,
            min_unit: 1,
            max_unit: i32::MAX,
            step_size: 1,
            allocation_ratio,
        }
    }

    #[test]
    fn capacity_truncates_the_double_product() {
        assert_eq!(inventory(10, 0, 0.29).capacity(), 2);
        assert_eq!(inventory(100, 0, 0.29).capacity(), 28);
        assert_eq!(inventory(3, 0, 1.5).capacity(), 4);
        assert_eq!(inventory(10, 4, 16.0).capacity(), 96);
        assert_eq!(inventory(1, 2, 1.5).capacity(), -1);
        assert_eq!(inventory(i32::MAX, 0, f64::MAX).capacity(), i64::MAX);
    }

    #[test]
    fn an_amount_fits_by_capacity_and_by_unit() {
        let terms = Inventory { min_unit: 2, max_unit: 8, step_size: 2, ..inventory(10, 0, 1.0) };
        assert!(terms.fits(0, 2));
        assert!(terms.fits(2, 8));
        assert!(!terms.fits(3, 8), "over capacity");
        assert!(!terms.fits(0, 1), "below min_unit");
        assert!(!terms.fits(0, 10), "above max_unit");
        assert!(!terms.fits(0, 3), "not a multiple of step_size");
    }
}
