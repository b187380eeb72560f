//! The hosts where a request would fit if nothing were allocated.

use super::super::engine;
use super::super::fit::{Empty, Excluded, count_empty};
use super::super::query::Query;
use super::super::request::{Request, Unknown};
use crate::model::ProviderId;
use crate::world::World;

/// Hosts to make room on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// A host where the request already fits, by the root of its tree.
    pub fitting: Option<ProviderId>,
    /// Number of hosts where it would fit if they were empty.
    pub count: usize,
    /// The hosts among them that lack least, by the roots of their trees.
    pub roots: Vec<ProviderId>,
    /// Whether all hosts were examined, and decided as to whether the request already fits.
    pub is_complete: bool,
}

/// Finds at most `most` hosts. `is_enough` receives the work since the last call, in numbers read; if it returns
/// true, the remaining hosts are skipped.
///
/// # Errors
/// The request names something unknown.
pub fn targets(
    world: &World,
    request: &Request,
    excluded: &Excluded,
    most: usize,
    mut is_enough: impl FnMut(usize) -> bool,
) -> Result<Targets, Unknown> {
    let query = engine::resolve(world, request)?;
    let Empty { fitting, roots, is_complete } =
        count_empty(world, &query, excluded, &mut is_enough);
    if let Some(root) = fitting {
        let fitting = Some(world.occupied(root).id());
        return Ok(Targets { fitting, is_complete, ..Targets::default() });
    }
    let mut hosts: Vec<(f64, u32)> =
        roots.into_iter().map(|root| (lacking(world, &query, root), root)).collect();
    let count = hosts.len();
    hosts.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    hosts.truncate(most);
    let roots = hosts.into_iter().map(|(_, root)| world.occupied(root).id()).collect();
    Ok(Targets { fitting: None, count, roots, is_complete })
}

/// The missing amount on a host, as a fraction of its amount of each class, added up.
#[expect(clippy::cast_precision_loss, reason = "hosts are only put into an order by it")]
fn lacking(world: &World, query: &Query, root: u32) -> f64 {
    let mut sum = 0.0;
    for (class, units) in query.totals() {
        let Some(column) = world.column(class) else { continue };
        let slots = root..root + world.place(root).len;
        let entries = slots.filter_map(|slot| column.get(slot));
        let (mut free, mut all) = (0_i64, 0_i64);
        for entry in entries {
            free = free.saturating_add(entry.free());
            all = all.saturating_add(entry.capacity());
        }
        let missing = units.saturating_sub(free).max(0);
        // Sharing providers of the host are not counted.
        sum += missing as f64 / all.max(1) as f64;
    }
    sum
}
