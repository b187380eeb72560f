//! Reads the resources of a request: servers and groups of servers. All other resources are accepted,
//! and listed as [`Ignored`].

mod entries;
mod ignored;
mod properties;
mod server_groups;

use std::collections::HashMap;

use serde_json::{Map, Value};
use uuid::Uuid;

pub(crate) use self::entries::{GroupEntry, GroupRef, ServerEntry, Sizing};
use self::entries::{invalid, wrong};
pub(crate) use self::ignored::Ignored;
use self::ignored::why_ignored;
use self::properties::{Properties, text, texts};
use self::server_groups::{GroupHint, Policy, ServerGroups};
use super::ids::canonical;
use super::json::{NAME_MAX, Object, read_text};
use super::rejection::Rejection;
use crate::model::{GroupKind, Level};

/// Resources in a request at the most.
const RESOURCES_MAX: usize = 10_000;

const SERVER: &str = "OS::Nova::Server";
const SERVER_GROUP: &str = "OS::Nova::ServerGroup";
/// The resource types of groups, in all versions of the API.
const ASSIGNMENTS: [&str; 4] = [
    "ATT::Valet::GroupAssignment",
    "OS::Valet::GroupAssignment",
    "ATT::CloudQoS::ResourceGroup",
    "ATT::QoS::ResourceGroup",
];

/// The servers and groups of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Template {
    /// In the order of the request.
    pub(crate) servers: Vec<ServerEntry>,
    /// In the order of the request.
    pub(crate) groups: Vec<GroupEntry>,
    /// What the plan is made without.
    pub(crate) ignored: Vec<Ignored>,
    /// The first fault of a server group or of a reference to one. A request with it is invalid. A stored
    /// plan may have it, because server groups were not read when it was made; they are ignored then.
    fault: Option<String>,
}

impl Template {
    /// The template of a request.
    ///
    /// # Errors
    /// `Invalid`, with the resource that is wrong.
    pub(crate) fn of_request(self) -> Result<Self, Rejection> {
        match &self.fault {
            None => Ok(self),
            Some(why) => Err(invalid(why)),
        }
    }

    /// The same as the template of a stack, by its id as it is compared. Schedulers that know no stack of an
    /// instance plan it alone, and name the stack and the server by the id of the instance.
    pub(crate) fn of_stack(mut self, stack: &str) -> Self {
        if let [server] = self.servers.as_mut_slice()
            && server.key == stack
            && Uuid::try_parse(stack).is_ok()
        {
            server.resource_id.get_or_insert_with(|| server.id.clone());
        }
        self
    }

    /// Ignores a resource.
    fn ignore(&mut self, id: &str, kind: &str, why: impl Into<String>) {
        let (id, kind, why) = (id.to_owned(), kind.to_owned(), why.into());
        self.ignored.push(Ignored { id, kind, why });
    }

    /// Ignores a resource that a request must not have.
    fn ignore_fault(&mut self, id: &str, kind: &str, why: String) {
        self.fault.get_or_insert_with(|| format!("resource '{id}': {why}"));
        self.ignore(id, kind, why);
    }

    /// The ids of all servers as they are compared, in ascending order.
    pub(crate) fn sorted_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.servers.iter().map(|it| it.key.clone()).collect();
        keys.sort_unstable();
        keys
    }

    /// The servers by their ids as they are compared.
    pub(crate) fn by_key(&self) -> HashMap<&str, &ServerEntry> {
        self.servers.iter().map(|server| (server.key.as_str(), server)).collect()
    }
}

/// Reads the resources of a stored plan, or of a request, which must be one
/// [without faults](Template::of_request).
///
/// # Errors
/// `Invalid`, with the resource that is wrong.
pub(crate) fn read(resources: &Object) -> Result<Template, Rejection> {
    if resources.len() > RESOURCES_MAX {
        return Err(invalid(format!("more than {RESOURCES_MAX} resources")));
    }
    let mut template = Template::default();
    let mut groups = Vec::new();
    let mut names = Names::default();
    let mut server_groups = ServerGroups::default();
    let mut hints = Vec::new();
    for (id, entry) in resources {
        let entry = Entry::of(id, entry)?;
        match entry.kind.as_str() {
            SERVER => {
                names.add(&entry, Target::Server(template.servers.len()))?;
                let of_server = server_groups::hints(entry.raw_properties());
                hints.extend(of_server.map(|it| (template.servers.len(), id, it)));
                template.servers.push(entry.server()?);
            }
            kind if ASSIGNMENTS.contains(&kind) => {
                names.add(&entry, Target::Group(groups.len()))?;
                groups.push(Grouping::Assignment(entry));
            }
            SERVER_GROUP => {
                let policy = server_groups::policy(entry.raw_properties());
                let position = matches!(policy, Ok(Policy::Rule(_))).then_some(groups.len());
                names.add(&entry, position.map_or(Target::Nothing, Target::Group))?;
                server_groups.add(id, entry.other_words(), position);
                match policy {
                    Ok(Policy::Rule(kind)) => {
                        groups.push(Grouping::ServerGroup(entry.server_group(kind)));
                    }
                    Ok(Policy::Ignored(why)) => template.ignore(id, SERVER_GROUP, why),
                    Err(why) => template.ignore_fault(id, SERVER_GROUP, why),
                }
            }
            kind => {
                names.add(&entry, Target::Nothing)?;
                template.ignore(id, kind, why_ignored(kind));
            }
        }
    }
    for group in groups {
        template.groups.push(match group {
            Grouping::Assignment(entry) => entry.group(&names)?,
            Grouping::ServerGroup(group) => group,
        });
    }
    for (server, id, hints) in hints {
        for hint in server_groups::ignored_hints(hints) {
            template.ignore(id, SERVER, format!("the scheduler hint {hint} is not followed"));
        }
        match server_groups.find(hints) {
            Ok(GroupHint::None) => {}
            Ok(GroupHint::Group(group)) => {
                if let Some(group) = template.groups.get_mut(group) {
                    group.servers.push(server);
                }
            }
            Ok(GroupHint::Outside(group)) => template.ignore(
                id,
                SERVER,
                format!("the server group {group} is not in the request: its policy is not known"),
            ),
            Err(why) => template.ignore_fault(id, SERVER, why),
        }
    }
    Ok(template)
}

/// A group of the request while it is read.
enum Grouping<'r> {
    /// An assignment. Its members are looked up when all resources are known.
    Assignment(Entry<'r>),
    /// A server group. The servers name it, and join it at the end.
    ServerGroup(GroupEntry),
}

/// The resource that a reference names.
#[derive(Clone, Copy, Debug)]
enum Target {
    Server(usize),
    Group(usize),
    /// Something that is not placed, such as a volume.
    Nothing,
}

/// Ids and names of the request.
#[derive(Debug, Default)]
struct Names {
    ids: HashMap<String, Target>,
    names: HashMap<String, Target>,
}

impl Names {
    fn add(&mut self, entry: &Entry<'_>, target: Target) -> Result<(), Rejection> {
        if self.ids.insert(canonical(entry.id), target).is_some() {
            return Err(invalid(format!("resource '{}' is there twice", entry.id)));
        }
        if let Some(name) = entry.name() {
            self.names.entry(name.to_owned()).or_insert(target);
        }
        Ok(())
    }

    fn find(&self, reference: &str) -> Option<Target> {
        self.ids.get(&canonical(reference)).or_else(|| self.names.get(reference)).copied()
    }
}

/// One resource. Its keys are in lower case here, and may be written in capitals.
struct Entry<'r> {
    id: &'r str,
    kind: String,
    members: HashMap<String, &'r Value>,
}

impl<'r> Entry<'r> {
    fn of(id: &'r str, value: &'r Value) -> Result<Self, Rejection> {
        if id.is_empty() || id.chars().nth(NAME_MAX).is_some() {
            return Err(invalid(format!(
                "the id of a resource must have 1 to {NAME_MAX} characters"
            )));
        }
        let value = value.as_object().ok_or_else(|| wrong(id, "is not a dictionary"))?;
        let members: HashMap<String, &Value> =
            value.iter().map(|(key, value)| (key.to_lowercase(), value)).collect();
        let kind = members.get("type").and_then(|kind| kind.as_str());
        let kind = kind.ok_or_else(|| wrong(id, "has no type"))?.to_owned();
        let entry = Self { id, kind, members };
        for key in ["name", "resource_id"] {
            if let Some(value) = entry.members.get(key).filter(|value| !value.is_null()) {
                text(id, key, value)?;
            }
        }
        Ok(entry)
    }

    fn name(&self) -> Option<&'r str> {
        self.members.get("name").and_then(|name| name.as_str()).filter(|name| !name.is_empty())
    }

    fn raw_properties(&self) -> Option<&'r Value> {
        self.members.get("properties").copied()
    }

    fn properties(&self) -> Result<Map<String, Value>, Rejection> {
        match self.members.get("properties") {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(properties)) => Ok(properties.clone()),
            Some(_) => Err(wrong(self.id, "properties: not a dictionary")),
        }
    }

    fn server(&self) -> Result<ServerEntry, Rejection> {
        let properties = Properties { id: self.id, properties: self.properties()? };
        let metadata = match self.members.get("metadata") {
            None | Some(Value::Null) => Object::new(),
            Some(Value::Object(metadata)) => metadata.clone(),
            Some(_) => return Err(wrong(self.id, "metadata: not a dictionary")),
        };
        let locations = self.members.get("locations").filter(|value| !value.is_null());
        let locations = locations.map(|list| texts(self.id, "locations", list)).transpose()?;
        let zone = properties.text("availability_zone")?;
        // A host after a colon would pin the server; the planner ignores it.
        let zone = zone.and_then(|zone| zone.split(':').next().map(str::to_owned));
        let resource_id = self.members.get("resource_id").and_then(|id| id.as_str());
        let resource_id = resource_id.filter(|id| !id.is_empty());
        Ok(ServerEntry {
            id: self.id.to_owned(),
            key: canonical(self.id),
            name: self.name().unwrap_or(self.id).to_owned(),
            sizing: properties.sizing()?,
            required: properties.texts("required")?,
            forbidden: properties.texts("forbidden")?,
            zone: zone.filter(|zone| !zone.is_empty()),
            locations,
            groups: properties.stored_groups()?,
            metadata,
            resource_id: resource_id.map(str::to_owned),
        })
    }

    /// The words beside its id by which servers refer to a server group.
    fn other_words(&self) -> impl Iterator<Item = &'r str> {
        let nova_id = self.members.get("resource_id").and_then(|id| id.as_str());
        let nova_name = server_groups::nova_name(self.raw_properties());
        [self.name(), nova_name, nova_id].into_iter().flatten()
    }

    /// The group of the request that a server group is.
    fn server_group(&self, kind: GroupKind) -> GroupEntry {
        let name = self.name().or_else(|| server_groups::nova_name(self.raw_properties()));
        GroupEntry {
            name: name.map_or_else(|| self.id.to_owned(), str::to_owned),
            which: GroupRef::Here(kind, Level::Host),
            servers: Vec::new(),
            groups: Vec::new(),
        }
    }

    fn group(&self, names: &Names) -> Result<GroupEntry, Rejection> {
        let properties = Properties { id: self.id, properties: self.properties()? };
        let which = properties.which()?;
        let name = match &which {
            GroupRef::Named(_, _, name) | GroupRef::Stored(name) => name.clone(),
            GroupRef::Here(..) => self.name().unwrap_or(self.id).to_owned(),
        };
        let (mut servers, mut groups) = (Vec::new(), Vec::new());
        let list = properties.properties.get("resources");
        let list = list.ok_or_else(|| wrong(self.id, "has no resources"))?;
        for reference in references(self.id, list)? {
            match names.find(&reference) {
                Some(Target::Server(server)) => servers.push(server),
                Some(Target::Group(group)) => groups.push(group),
                Some(Target::Nothing) => {}
                None => return Err(invalid(format!("invalid resource = {reference}"))),
            }
        }
        Ok(GroupEntry { name, which, servers, groups })
    }
}

/// The members of a group: ids or names, or `{"get_resource": id}`.
fn references(id: &str, list: &Value) -> Result<Vec<String>, Rejection> {
    let list = list.as_array().ok_or_else(|| wrong(id, "resources: not of type array"))?;
    let reference = |value: &Value| {
        let inner = value.get("get_resource").unwrap_or(value);
        let wrong = |_| wrong(id, "resources: must be ids or names of resources");
        read_text(inner, NAME_MAX).map(str::to_owned).map_err(wrong)
    };
    list.iter().map(reference).collect()
}

#[cfg(test)]
mod tests;
