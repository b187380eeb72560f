//! Reads the resources of a request: servers and groups of servers. All other resources are accepted,
//! and listed as [`Ignored`].

mod ignored;
mod server_groups;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

pub(crate) use self::ignored::Ignored;
use self::ignored::why_ignored;
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

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerEntry {
    /// Its orchestration id, as it was written.
    pub(crate) id: String,
    /// The same as it is compared.
    pub(crate) key: String,
    /// Its name; its id if it has none.
    pub(crate) name: String,
    /// How large it is.
    pub(crate) sizing: Sizing,
    /// Traits it requires.
    pub(crate) required: Vec<String>,
    /// Traits it forbids.
    pub(crate) forbidden: Vec<String>,
    /// The availability zone.
    pub(crate) zone: Option<String>,
    /// Hosts it may be on.
    pub(crate) locations: Option<Vec<String>>,
    /// Stored groups, by id or name.
    pub(crate) groups: Vec<String>,
    /// Metadata by which placements can be searched.
    pub(crate) metadata: Object,
    /// The instance, if the request names one.
    pub(crate) resource_id: Option<String>,
}

/// How large a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sizing {
    /// As a flavor, by name or id.
    Flavor(String),
    /// These amounts by resource class.
    Resources(BTreeMap<String, i64>),
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupEntry {
    /// What it is called in answers.
    pub(crate) name: String,
    /// What it is.
    pub(crate) which: GroupRef,
    /// Servers by position, and groups by position.
    pub(crate) servers: Vec<usize>,
    /// Groups inside of it.
    pub(crate) groups: Vec<usize>,
}

/// Which group it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupRef {
    /// Of this request only.
    Here(GroupKind, Level),
    /// A stored one by its name, which is to be of this kind, and at this level if it has none itself.
    Named(GroupKind, Option<Level>, String),
    /// A stored one, by id or name.
    Stored(String),
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

fn invalid(why: impl std::fmt::Display) -> Rejection {
    Rejection::Invalid(why.to_string())
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

fn wrong(id: &str, why: impl std::fmt::Display) -> Rejection {
    invalid(format!("resource '{id}': {why}"))
}

/// The properties of a resource.
struct Properties<'r> {
    id: &'r str,
    properties: Map<String, Value>,
}

impl Properties<'_> {
    fn text(&self, key: &str) -> Result<Option<String>, Rejection> {
        let value = self.properties.get(key).filter(|value| !value.is_null());
        value.map(|value| text(self.id, key, value)).transpose()
    }

    /// The text of the first key that there is.
    fn first_text(&self, [first, second]: [&str; 2]) -> Result<Option<String>, Rejection> {
        self.text(first)?.map_or_else(|| self.text(second), |text| Ok(Some(text)))
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, Rejection> {
        let list = self.properties.get(key).filter(|value| !value.is_null());
        list.map_or(Ok(Vec::new()), |list| texts(self.id, key, list))
    }

    fn sizing(&self) -> Result<Sizing, Rejection> {
        match self.properties.get("resources") {
            Some(Value::Object(amounts)) if !amounts.is_empty() => {
                let amount = |(class, amount): (&String, &Value)| {
                    if class.chars().nth(NAME_MAX).is_some() {
                        return Err(wrong(self.id, "resources: the name of a class is too long"));
                    }
                    let whole = amount.as_i64().filter(|it| (1..=i64::from(i32::MAX)).contains(it));
                    let whole = whole.ok_or_else(|| {
                        wrong(
                            self.id,
                            format!("resources: {class}: not an amount from 1 to 2147483647"),
                        )
                    })?;
                    Ok((class.clone(), whole))
                };
                let amounts = amounts.iter().map(amount).collect::<Result<_, Rejection>>()?;
                return Ok(Sizing::Resources(amounts));
            }
            None | Some(Value::Null) => {}
            Some(_) => {
                return Err(wrong(self.id, "resources: not a dictionary of amounts by class"));
            }
        }
        // Numbers are ids as people write them.
        if let Some(Value::Number(id)) = self.properties.get("flavor") {
            return Ok(Sizing::Flavor(id.to_string()));
        }
        let flavor = self.text("flavor")?;
        flavor.map(Sizing::Flavor).ok_or_else(|| wrong(self.id, "has neither flavor nor resources"))
    }

    /// `metadata: {"valet": {"groups": [...]}}`
    fn stored_groups(&self) -> Result<Vec<String>, Rejection> {
        let valet = self.properties.get("metadata").and_then(|metadata| metadata.get("valet"));
        let Some(list) = valet.and_then(|valet| valet.get("groups")) else { return Ok(Vec::new()) };
        // Metadata of servers are texts, so lists come as one, too.
        let said = list.as_str().map(|text| match serde_json::from_str(text) {
            Ok(list @ Value::Array(_)) => list,
            _ => text.split(',').map(str::trim).collect(),
        });
        texts(self.id, "metadata: valet: groups", said.as_ref().unwrap_or(list))
    }

    fn which(&self) -> Result<GroupRef, Rejection> {
        if let Some(group) = self.text("group")? {
            return Ok(GroupRef::Stored(group));
        }
        let kind = self.first_text(["group_type", "relationship"])?;
        let kind =
            kind.ok_or_else(|| wrong(self.id, "Property 'group_type' must be specified."))?;
        let unknown = || invalid(format!("group_type '{kind}' is invalid."));
        let kind = GroupKind::named(&kind).ok_or_else(unknown)?;
        let level = self.text("level")?.map(|level| {
            let unknown = || {
                wrong(self.id, format!("level '{level}' is invalid: must be host, rack or cluster"))
            };
            Level::named(&level).ok_or_else(unknown)
        });
        let level = level.transpose()?;
        let name = self.first_text(["group_name", "name"])?;
        match (kind, name.filter(|name| !name.is_empty())) {
            (kind, Some(name)) => Ok(GroupRef::Named(kind, level, name)),
            (GroupKind::Exclusivity, None) => {
                Err(wrong(self.id, "group_name must be used when group_type is 'exclusivity'."))
            }
            (kind, None) => Ok(GroupRef::Here(kind, level.unwrap_or(Level::Host))),
        }
    }
}

fn texts(id: &str, key: &str, list: &Value) -> Result<Vec<String>, Rejection> {
    let list = list.as_array().ok_or_else(|| wrong(id, format!("{key}: not of type array")))?;
    list.iter().map(|value| text(id, key, value)).collect()
}

fn text(id: &str, key: &str, value: &Value) -> Result<String, Rejection> {
    let text = read_text(value, NAME_MAX).map(str::to_owned);
    text.map_err(|fault| wrong(id, format!("{key}: {fault}")))
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
