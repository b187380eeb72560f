//! References between resources of a request.

use std::collections::HashMap;

use super::entries::invalid;
use crate::planner::ids::canonical;
use crate::planner::rejection::Rejection;

/// The resource that a reference names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// By its position among the servers.
    Server(usize),
    /// By its position among the volumes, which come after all servers.
    Volume(usize),
    /// By its position among the groups.
    Group(usize),
    /// A resource that is not placed, such as a network.
    Nothing,
}

/// Ids and names of the request.
#[derive(Debug, Default)]
pub(super) struct Names {
    ids: HashMap<String, Target>,
    by_name: HashMap<String, Target>,
    /// Number of servers.
    pub(super) servers: usize,
}

impl Names {
    /// Adds a resource.
    ///
    /// # Errors
    /// Another resource has the id.
    pub(super) fn add(
        &mut self,
        id: &str,
        name: Option<&str>,
        target: Target,
    ) -> Result<(), Rejection> {
        if self.ids.insert(canonical(id), target).is_some() {
            return Err(invalid(format!("resource '{id}' is duplicated")));
        }
        if let Some(name) = name {
            self.by_name.entry(name.to_owned()).or_insert(target);
        }
        Ok(())
    }

    /// The resource with an id, or with a name.
    pub(super) fn find(&self, reference: &str) -> Option<Target> {
        self.ids.get(&canonical(reference)).or_else(|| self.by_name.get(reference)).copied()
    }
}
