//! From a template to a stack for the planner: stored groups are looked up, and groups of one request
//! that are the same stored one become one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::document::Document;
use super::problem::Problem;
use super::template::{ServerEntry, Template, Which};
use crate::model::Bug;
use crate::planner::flavor::Size;
use crate::planner::group::{StoredGroup, kind_word};
use crate::planner::stack::{Group, HostNames, Server, Stack};
use crate::solver::groups::{GROUPS_MAX, Kind, Member, Senseless};
use crate::store;

/// The stack that a document and its template describe. With a project, it has to be one that may use
/// the stored groups.
///
/// # Errors
/// 409: a group that does not exist, or is not for the project. 400: too many groups.
pub(super) fn stack(
    document: &Document,
    template: &Template,
    stored: &[StoredGroup],
    project: Option<&str>,
) -> Result<Stack, Problem> {
    let mut resolver = Resolver::new(stored, project);
    let mut places = Vec::with_capacity(template.groups.len());
    for entry in &template.groups {
        places.push(resolver.place(&entry.name, &entry.which)?);
    }
    for (entry, place) in template.groups.iter().zip(&places) {
        let servers = entry.servers.iter().map(|server| Member::Server(*server));
        let place_of = |group: &usize| {
            let place = places.get(*group).copied().map(Member::Group);
            place.ok_or_else(|| {
                Bug::new(format!("group {} names one that is not there", entry.name))
            })
        };
        let inner = entry.groups.iter().map(place_of).collect::<Result<Vec<_>, _>>()?;
        resolver.join(*place, servers.chain(inner))?;
    }
    for (nth, entry) in template.servers.iter().enumerate() {
        for group in &entry.groups {
            let place = resolver.place(group, &Which::Stored(group.clone()))?;
            resolver.join(place, [Member::Server(nth)].into_iter())?;
        }
    }
    let servers = servers(document, template)?;
    let (groups, spread) = (resolver.groups, document.spread);
    let stack = Stack { servers, groups, spread, ..Stack::default() };
    if project.is_some() && stack.groups.len() > GROUPS_MAX {
        let why = stack.words(Senseless::TooMany(GROUPS_MAX));
        return Err(Problem::bad_request(format!("Valet error: {why}")));
    }
    Ok(stack)
}

/// The servers of a template, each as large as the document notes.
fn servers(document: &Document, template: &Template) -> Result<Vec<Server>, Problem> {
    let names = |list: &Vec<String>| -> HostNames { Arc::new(list.iter().cloned().collect()) };
    let of_all: Option<HostNames> = document.locations.as_ref().map(names);
    let server = |entry: &ServerEntry| {
        Ok(Server {
            id: entry.id.clone(),
            name: entry.name.clone(),
            size: size(document, entry)?,
            zone: entry.zone.clone(),
            locations: of_all.iter().cloned().chain(entry.locations.as_ref().map(names)).collect(),
            excluded: Vec::new(),
            present: None,
            fixed: false,
            resized: false,
            absent: false,
        })
    };
    template.servers.iter().map(server).collect()
}

fn size(document: &Document, entry: &ServerEntry) -> Result<Size, Problem> {
    let size = document.sizes.get(&entry.key).cloned();
    let missing = || format!("no size for the server {}", entry.id);
    Ok(size.ok_or_else(|| store::Error::inconsistent("plans", "document", missing()))?)
}

/// Groups of a stack in the making.
struct Resolver<'r> {
    by_id: HashMap<Uuid, &'r StoredGroup>,
    by_name: HashMap<&'r str, &'r StoredGroup>,
    project: Option<&'r str>,
    groups: Vec<Group>,
    /// The positions of stored groups.
    known: HashMap<Uuid, usize>,
    /// The members that each group has by now.
    joined: HashSet<(usize, Member)>,
}

impl<'r> Resolver<'r> {
    fn new(stored: &'r [StoredGroup], project: Option<&'r str>) -> Self {
        Self {
            by_id: stored.iter().map(|group| (group.id, group)).collect(),
            by_name: stored.iter().map(|group| (group.name.as_str(), group)).collect(),
            project,
            groups: Vec::new(),
            known: HashMap::new(),
            joined: HashSet::new(),
        }
    }

    /// A stored group by its id, or else by its name.
    fn stored(&self, reference: &str) -> Option<&'r StoredGroup> {
        let by_id = Uuid::try_parse(reference).ok().and_then(|id| self.by_id.get(&id));
        by_id.or_else(|| self.by_name.get(reference)).copied()
    }

    /// The position of a group among those of the stack.
    fn place(&mut self, name: &str, which: &Which) -> Result<usize, Problem> {
        let (kind, level, stored) = match which {
            Which::Here(kind, level) => (*kind, *level, None),
            Which::Named(kind, level, name) => {
                let found = self.by_name.get(name.as_str()).filter(|it| it.kind == *kind);
                let found = *found.ok_or_else(|| unknown(*kind, name))?;
                let level = found.level.or(*level).unwrap_or(found.effective_level());
                (*kind, level, Some(found))
            }
            Which::Stored(reference) => {
                let found = self.stored(reference).ok_or_else(|| {
                    Problem::conflict(format!("Valet error: Group '{reference}' not found"))
                })?;
                (found.kind, found.effective_level(), Some(found))
            }
        };
        if let Some(stored) = stored {
            if let Some(place) = self.known.get(&stored.id) {
                return Ok(*place);
            }
            self.admit(stored)?;
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

    /// Adds members that a group does not have yet.
    fn join(&mut self, place: usize, members: impl Iterator<Item = Member>) -> Result<(), Problem> {
        let missing = || Bug::new(format!("group {place} gets members, and is not there"));
        let group = self.groups.get_mut(place).ok_or_else(missing)?;
        let joined = &mut self.joined;
        group.members.extend(members.filter(|member| joined.insert((place, *member))));
        Ok(())
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
