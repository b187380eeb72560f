//! From a template to a [`Stack`]: looks up the stored groups that the template names, and merges groups of the
//! template that refer to the same stored group.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::document::Document;
use super::flavor::Size;
use super::group::StoredGroup;
use super::rejection::Rejection;
use super::stack::{Group, HostNames, Server, ServerKind, Stack};
use super::template::{GroupRef, ServerEntry, Template};
use crate::model::{Bug, GroupKind};
use crate::solver::groups::{GROUPS_MAX, GroupError, Member, Terms};

/// Builds the stack of a document and its template. If a project is given, it must have access to the stored
/// groups.
///
/// # Errors
/// `GroupNotFound`, `NoSuchGroup`, `NotAMember`; `Invalid` if there are too many groups.
pub(crate) fn stack(
    document: &Document,
    template: &Template,
    stored: &[StoredGroup],
    project: Option<&str>,
) -> Result<Stack, Rejection> {
    let mut resolver = Resolver::new(stored, project);
    let mut positions = Vec::with_capacity(template.groups.len());
    for entry in &template.groups {
        positions.push(resolver.position(&entry.name, &entry.which)?);
    }
    for (entry, position) in template.groups.iter().zip(&positions) {
        let servers = entry.servers.iter().map(|server| Member::Server(*server));
        let member = |group: &usize| {
            let inner = positions.get(*group).copied().map(Member::Group);
            inner.ok_or_else(|| Bug::new(format!("group {} contains an unknown group", entry.name)))
        };
        let inner = entry.groups.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        if let Some(group) = resolver.groups.get_mut(*position) {
            group.is_server_group = entry.is_server_group;
        }
        resolver.join(*position, servers.chain(inner))?;
    }
    for (nth, entry) in template.servers.iter().enumerate() {
        let of_flavor = document.flavor_rules.get(&entry.key);
        for group in entry.groups.iter().chain(of_flavor.into_iter().flat_map(|it| &it.groups)) {
            let position = resolver.position(group, &GroupRef::Stored(group.clone()))?;
            resolver.join(position, [Member::Server(nth)].into_iter())?;
        }
    }
    let servers = servers(document, template)?;
    let (groups, policy) = (resolver.groups, document.policy());
    let stack = Stack { servers, groups, policy, ..Stack::default() };
    if project.is_some() && stack.groups.len() > GROUPS_MAX {
        let why = stack.describe(GroupError::TooMany(GROUPS_MAX));
        return Err(Rejection::Invalid(why));
    }
    Ok(stack)
}

/// The servers of a template, with the sizes in the document.
fn servers(document: &Document, template: &Template) -> Result<Vec<Server>, Rejection> {
    let mut known: HashMap<BTreeSet<String>, HostNames> = HashMap::new();
    // Servers with equal lists are equal, and share one.
    let mut names = |list: &Vec<String>| -> HostNames {
        let key: BTreeSet<String> = list.iter().cloned().collect();
        let names = || Arc::new(list.iter().cloned().collect());
        Arc::clone(known.entry(key).or_insert_with(names))
    };
    let of_all: Option<HostNames> = document.locations.as_ref().map(&mut names);
    let mut server = |entry: &ServerEntry| {
        Ok(Server {
            id: entry.id.clone(),
            name: entry.name.clone(),
            kind: if entry.is_volume { ServerKind::Volume } else { ServerKind::Server },
            size: size(document, entry)?,
            zone: entry.zone.clone(),
            aggregates: of_flavor(document, entry),
            // The locations of the plan are hosts of servers.
            locations: of_all
                .iter()
                .filter(|_| !entry.is_volume)
                .cloned()
                .chain(entry.locations.as_ref().map(&mut names))
                .collect(),
            ..Server::default()
        })
    };
    template.servers.iter().map(&mut server).collect()
}

/// The demands of a server's flavor on the aggregates of its host.
fn of_flavor(document: &Document, entry: &ServerEntry) -> BTreeMap<String, String> {
    let rules = document.flavor_rules.get(&entry.key).into_iter();
    rules.flat_map(|rules| rules.aggregates.clone()).collect()
}

fn size(document: &Document, entry: &ServerEntry) -> Result<Size, Rejection> {
    let size = document.sizes.get(&entry.key).cloned();
    let missing = || format!("no size for the server {}", entry.id);
    size.ok_or_else(|| Rejection::Unreadable(missing()))
}

/// Returns whether every project may use a group: one without members other than an exclusivity group.
pub(super) fn is_open(group: &StoredGroup) -> bool {
    group.kind != GroupKind::Exclusivity && group.members.is_empty()
}

/// Collects the groups of a stack.
struct Resolver<'r> {
    by_id: HashMap<Uuid, &'r StoredGroup>,
    by_name: HashMap<&'r str, &'r StoredGroup>,
    project: Option<&'r str>,
    groups: Vec<Group>,
    /// The position of each stored group among `groups`.
    positions: HashMap<Uuid, usize>,
    /// The current members of each group.
    joined: HashSet<(usize, Member)>,
}

impl<'r> Resolver<'r> {
    fn new(stored: &'r [StoredGroup], project: Option<&'r str>) -> Self {
        Self {
            by_id: stored.iter().map(|group| (group.id, group)).collect(),
            by_name: stored.iter().map(|group| (group.name.as_str(), group)).collect(),
            project,
            groups: Vec::new(),
            positions: HashMap::new(),
            joined: HashSet::new(),
        }
    }

    /// A stored group by its id, or by its name.
    fn stored(&self, reference: &str) -> Option<&'r StoredGroup> {
        let by_id = Uuid::try_parse(reference).ok().and_then(|id| self.by_id.get(&id));
        by_id.or_else(|| self.by_name.get(reference)).copied()
    }

    /// The position of a group among those of the stack.
    fn position(&mut self, name: &str, which: &GroupRef) -> Result<usize, Rejection> {
        let mut terms = Terms::default();
        let (kind, level, stored) = match which {
            GroupRef::Here(kind, level, of_group) => {
                terms = *of_group;
                (*kind, *level, None)
            }
            GroupRef::Named(kind, level, name) => {
                let found = self.by_name.get(name.as_str()).filter(|it| it.kind == *kind);
                let missing = || Rejection::NoSuchGroup { kind: *kind, name: name.clone() };
                let found = *found.ok_or_else(missing)?;
                let level = found.level.or(*level).unwrap_or(found.effective_level());
                (*kind, level, Some(found))
            }
            GroupRef::Stored(reference) => {
                let missing = || Rejection::GroupNotFound(reference.clone());
                let found = self.stored(reference).ok_or_else(missing)?;
                (found.kind, found.effective_level(), Some(found))
            }
        };
        if let Some(stored) = stored {
            if let Some(position) = self.positions.get(&stored.id) {
                return Ok(*position);
            }
            self.admit(stored)?;
            self.positions.insert(stored.id, self.groups.len());
        }
        let name = stored.map_or_else(|| name.to_owned(), |it| it.name.clone());
        let stored = stored.map(|it| it.id);
        let (is_server_group, members) = (false, Vec::new());
        self.groups.push(Group { name, kind, level, terms, is_server_group, stored, members });
        Ok(self.groups.len() - 1)
    }

    /// Checks that the project may use a group. An exclusivity group is for members only; any project may use a
    /// group of another kind without members.
    fn admit(&self, group: &StoredGroup) -> Result<(), Rejection> {
        let Some(project) = self.project else { return Ok(()) };
        if is_open(group) || group.has_member(project) {
            return Ok(());
        }
        Err(Rejection::NotAMember {
            project: project.to_owned(),
            kind: group.kind,
            name: group.name.clone(),
            group: group.id,
        })
    }

    /// Adds new members to a group.
    fn join(
        &mut self,
        position: usize,
        members: impl Iterator<Item = Member>,
    ) -> Result<(), Rejection> {
        let missing = || Bug::new(format!("group {position} does not exist, but gets members"));
        let group = self.groups.get_mut(position).ok_or_else(missing)?;
        let joined = &mut self.joined;
        group.members.extend(members.filter(|member| joined.insert((position, *member))));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::stack;
    use crate::model::GroupKind;
    use crate::planner::document::Document;
    use crate::planner::group::StoredGroup;
    use crate::planner::rejection::Rejection;
    use crate::planner::stack::Stack;
    use crate::planner::template::Template;
    use crate::solver::groups::Member;

    fn stored(kind: GroupKind, members: &[&str]) -> StoredGroup {
        StoredGroup {
            id: Uuid::from_u128(7),
            name: "gold".to_owned(),
            kind,
            level: None,
            description: None,
            generation: 0,
            members: members.iter().map(ToString::to_string).collect(),
        }
    }

    /// The stack of two servers: the first names the group in its metadata, the second is assigned to it.
    fn resolved(stored: &StoredGroup, project: Option<&str>) -> Result<Stack, Rejection> {
        let server = |groups: &[&str]| {
            let metadata = json!({"valet": {"groups": groups}});
            let properties = json!({"resources": {"VCPU": 1}, "metadata": metadata});
            json!({"type": "OS::Nova::Server", "properties": properties})
        };
        let properties = json!({"group": stored.id, "resources": ["b", "b"]});
        let resources = json!({
            "a": server(&["gold"]),
            "b": server(&[]),
            "g": {"type": "OS::Valet::GroupAssignment", "properties": properties},
        });
        let resources = serde_json::from_value(resources).unwrap();
        let mut document = Document { resources, ..Document::default() };
        let template = document.template().unwrap();
        document.measure(&template, &Template::default(), &[]).unwrap();
        stack(&document, &template, std::slice::from_ref(stored), project)
    }

    #[test]
    fn a_stored_group_is_one_group_however_it_is_named() {
        let found = resolved(&stored(GroupKind::Diversity, &[]), Some("p")).unwrap();
        assert_eq!(found.groups.len(), 1);
        assert_eq!(found.groups[0].members, [Member::Server(1), Member::Server(0)]);
    }

    #[test]
    fn only_members_may_use_a_group_with_members_or_exclusivity() {
        for (kind, members, project, may) in [
            (GroupKind::Diversity, &[][..], Some("p"), true),
            (GroupKind::Diversity, &["q"][..], Some("p"), false),
            (GroupKind::Exclusivity, &[][..], Some("p"), false),
            (GroupKind::Exclusivity, &["p"][..], Some("p"), true),
            // A plan that is already stored.
            (GroupKind::Exclusivity, &["q"][..], None, true),
        ] {
            let found = resolved(&stored(kind, members), project);
            let refused = matches!(found, Err(Rejection::NotAMember { .. }));
            assert_eq!(refused, !may, "{kind:?} {members:?} {project:?}");
        }
    }

    #[test]
    fn a_group_that_does_not_exist_is_named() {
        let other = StoredGroup { name: "silver".to_owned(), ..stored(GroupKind::Affinity, &[]) };
        assert_eq!(resolved(&other, Some("p")), Err(Rejection::GroupNotFound("gold".to_owned())));
    }
}
