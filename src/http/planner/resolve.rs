//! From a template to a stack for the planner: stored groups are looked up, and groups of one request
//! that are the same stored one become one.

use std::collections::HashMap;

use uuid::Uuid;

use super::document::Document;
use super::problem::Problem;
use super::template::{ServerEntry, Template, Which};
use crate::plan::groups::{Kind, Member};
use crate::planner::group::{StoredGroup, kind_word};
use crate::planner::ids::canonical;
use crate::planner::stack::{Group, Server, Stack};

/// The stack that a document and its template describe. With a project, it has to be one that may use
/// the stored groups.
///
/// # Errors
/// 409: a group that does not exist, or is not for the project.
pub(super) fn stack(
    document: &Document,
    template: &Template,
    stored: &[StoredGroup],
    project: Option<&str>,
) -> Result<Stack, Problem> {
    let server = |entry: &ServerEntry| Server {
        id: entry.id.clone(),
        name: entry.name.clone(),
        size: document.sizes.get(&entry.key).cloned().unwrap_or_default(),
        zone: entry.zone.clone(),
        locations: document.locations.iter().chain(&entry.locations).cloned().collect(),
        excluded: Vec::new(),
        present: None,
        fixed: false,
        resized: false,
        absent: false,
    };
    let mut resolver = Resolver { stored, project, groups: Vec::new(), known: HashMap::new() };
    let mut places = Vec::with_capacity(template.groups.len());
    for entry in &template.groups {
        places.push(resolver.place(&entry.name, &entry.which)?);
    }
    for (entry, place) in template.groups.iter().zip(&places) {
        let servers = entry.servers.iter().map(|server| Member::Server(*server));
        let inner = entry.groups.iter().filter_map(|group| places.get(*group));
        resolver.join(*place, servers.chain(inner.map(|group| Member::Group(*group))));
    }
    for (nth, entry) in template.servers.iter().enumerate() {
        for group in &entry.groups {
            let place = resolver.place(group, &Which::Stored(group.clone()))?;
            resolver.join(place, [Member::Server(nth)].into_iter());
        }
    }
    let servers = template.servers.iter().map(server).collect();
    let (groups, spread) = (resolver.groups, document.spread);
    Ok(Stack { servers, groups, spread, ..Stack::default() })
}

struct Resolver<'r> {
    stored: &'r [StoredGroup],
    project: Option<&'r str>,
    groups: Vec<Group>,
    /// The positions of stored groups.
    known: HashMap<Uuid, usize>,
}

impl Resolver<'_> {
    /// The position of a group among those of the stack.
    fn place(&mut self, name: &str, which: &Which) -> Result<usize, Problem> {
        let (kind, level, stored) = match which {
            Which::Here(kind, level) => (*kind, *level, None),
            Which::Named(kind, level, name) => {
                let named = |it: &&StoredGroup| it.name == *name && it.kind == *kind;
                let found = self.stored.iter().find(named).ok_or_else(|| unknown(*kind, name))?;
                let level = found.level.or(*level).unwrap_or(found.effective_level());
                (*kind, level, Some(found))
            }
            Which::Stored(reference) => {
                let id = canonical(reference);
                let by_id = self.stored.iter().find(|it| it.id.to_string() == id);
                let found = by_id.or_else(|| self.stored.iter().find(|it| it.name == *reference));
                let found = found.ok_or_else(|| {
                    Problem::conflict(format!("Valet error: Group '{reference}' not found"))
                })?;
                (found.kind, found.effective_level(), Some(found))
            }
        };
        if let Some(stored) = stored {
            self.admit(stored)?;
            if let Some(place) = self.known.get(&stored.id) {
                return Ok(*place);
            }
            self.known.insert(stored.id, self.groups.len());
        }
        let name = stored.map_or_else(|| name.to_owned(), |it| it.name.clone());
        let stored = stored.map(|it| it.id);
        self.groups.push(Group { name, kind, level, stored, members: Vec::new() });
        Ok(self.groups.len() - 1)
    }

    /// Exclusivity is for members only; other groups are for everybody as long as they have none.
    fn admit(&self, group: &StoredGroup) -> Result<(), Problem> {
        let Some(project) = self.project else { return Ok(()) };
        let open = group.kind != Kind::Exclusivity && group.members.is_empty();
        if open || group.has_member(project) {
            return Ok(());
        }
        Err(Problem::conflict(format!(
            "Valet error: Tenant ID {project} not a member of {} group '{}' ({})",
            kind_word(group.kind),
            group.name,
            group.id
        )))
    }

    fn join(&mut self, place: usize, members: impl Iterator<Item = Member>) {
        if let Some(group) = self.groups.get_mut(place) {
            for member in members {
                if !group.members.contains(&member) {
                    group.members.push(member);
                }
            }
        }
    }
}

fn unknown(kind: Kind, name: &str) -> Problem {
    let word = match kind {
        Kind::Affinity => "Affinity",
        Kind::Diversity => "Diversity",
        Kind::Exclusivity => "Exclusivity",
    };
    Problem::conflict(format!("Valet error: {word} group '{name}' not found"))
}
