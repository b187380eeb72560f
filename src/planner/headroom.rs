//! Head-room: a share of the capacity that plans leave free, and that ordinary claims may use.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::model::inventory::Inventory;
use crate::model::provider::InventoryRow;
use crate::world::{Changes, World};

/// The share of a resource class that plans leave free on every provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadroomShare {
    /// The name of the class.
    pub class: String,
    /// Percentage of the capacity: 0 to 99.
    pub percent: u8,
}

impl FromStr for HeadroomShare {
    type Err = String;

    /// `CLASS=PERCENT`
    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "must be CLASS=PERCENT, such as VCPU=10".to_owned();
        let (class, percent) = text.trim().split_once('=').ok_or_else(form)?;
        let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        if class.is_empty() || !class.bytes().all(fits) {
            return Err(form());
        }
        let percent = percent.trim().parse().ok().filter(|percent| *percent < 100);
        let percent = percent.ok_or_else(|| format!("{text:?}: the percentage must be 0 to 99"))?;
        Ok(Self { class: class.to_owned(), percent })
    }
}

/// A world, and the same with less capacity.
type ReducedWorld = (Weak<World>, Arc<World>);

/// The capacity that plans leave free. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Headroom {
    shares: Arc<[HeadroomShare]>,
    /// The last world, and the same with less capacity: reads between two changes use one world.
    last: Arc<Mutex<Option<ReducedWorld>>>,
}

impl Headroom {
    /// Combines shares. Of several for one class, the largest counts.
    pub fn of(shares: &[HeadroomShare]) -> Self {
        let shares = shares.iter().filter(|share| share.percent > 0).cloned().collect();
        Self { shares, last: Arc::default() }
    }

    /// The world as plans see it: every provider has only the capacity that plans may use. This takes time in
    /// proportion to the number of providers, unless the world is the same as last time.
    pub fn left_free(&self, world: &Arc<World>) -> Arc<World> {
        if self.shares.is_empty() {
            return Arc::clone(world);
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_ref().filter(|(of, _)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(world)));
        if let Some((_, reduced)) = known {
            return Arc::clone(reduced);
        }
        let reduced = Arc::new(self.reduced(world));
        *last = Some((Arc::downgrade(world), Arc::clone(&reduced)));
        reduced
    }

    fn reduced(&self, world: &World) -> World {
        let of_class = |row: &InventoryRow| {
            let shares = self.shares.iter();
            let shares = shares.filter(|share| world.class_id(&share.class) == Some(row.class));
            shares.map(|share| share.percent).max()
        };
        let mut providers = Vec::new();
        for provider in world.providers() {
            if provider.inventories().all(|row| of_class(&row).is_none()) {
                continue;
            }
            let mut row = provider.row();
            for inventory in &mut row.inventories {
                if let Some(percent) = of_class(inventory) {
                    inventory.terms = reduced(inventory.terms, percent);
                }
            }
            providers.push((provider.id(), Some(row)));
        }
        world.apply(Changes { providers, ..Changes::default() })
    }
}

/// Reduces the capacity of an inventory by a percentage, rounded down.
fn reduced(terms: Inventory, percent: u8) -> Inventory {
    let usable = i128::from(terms.capacity().max(0)) * i128::from(100 - percent.min(100)) / 100;
    let total = i32::try_from(usable).unwrap_or(i32::MAX);
    Inventory { total, reserved: 0, allocation_ratio: 1.0, ..terms }
}

#[cfg(test)]
mod tests {
    use super::{HeadroomShare, reduced};
    use crate::model::inventory::Inventory;

    fn capacity(total: i32, reserved: i32, allocation_ratio: f64, percent: u8) -> i64 {
        let (min_unit, max_unit, step_size) = (1, i32::MAX, 1);
        let terms = Inventory { total, reserved, min_unit, max_unit, step_size, allocation_ratio };
        reduced(terms, percent).capacity()
    }

    #[test]
    fn a_share_of_the_capacity_is_left() {
        assert_eq!(capacity(100, 0, 1.0, 10), 90);
        assert_eq!(capacity(100, 0, 1.0, 71), 29);
        assert_eq!(capacity(10, 2, 16.0, 20), 102);
        assert_eq!(capacity(1, 0, 1.0, 10), 0);
        assert_eq!(capacity(1, 2, 1.0, 10), 0);
        assert_eq!(capacity(10, 0, 1.0, 0), 10);
        assert_eq!(capacity(i32::MAX, 0, f64::MAX, 1), i64::from(i32::MAX));
    }

    #[test]
    fn a_share_is_written_as_class_and_percent() {
        let share = |text: &str| text.parse::<HeadroomShare>();
        let expected = HeadroomShare { class: "VCPU".to_owned(), percent: 10 };
        assert_eq!(share("VCPU=10"), Ok(expected));
        for wrong in ["", "VCPU", "=10", "vcpu=10", "VCPU=", "VCPU=100", "VCPU=-1", "VCPU=1.5"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
