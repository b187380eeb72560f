//! Reads the resources of a request: servers and groups of servers. All other resources are accepted, and listed as
//! [`Ignored`].

mod boot;
mod demands;
mod entries;
mod entry;
mod ignored;
mod names;
mod pipes;
mod properties;
mod server_groups;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use uuid::Uuid;

use self::entries::invalid;
pub(crate) use self::entries::{GroupEntry, GroupRef, RootDisk, ServerEntry, Sizing};
use self::entry::Entry;
pub(crate) use self::ignored::Ignored;
use self::ignored::{unfollowed, unknown_properties, why_ignored};
use self::names::{Names, Target};
use self::pipes::PIPES;
use self::properties::Properties;
pub(super) use self::properties::reference;
use self::server_groups::{GroupHint, ServerGroups};
use super::json::Object;
use super::rejection::Rejection;
use crate::model::{GroupKind, Level};
use crate::solver::groups::Terms;

/// Maximum number of resources in a request.
const RESOURCES_MAX: usize = 10_000;

const SERVER: &str = "OS::Nova::Server";
const SERVER_GROUP: &str = "OS::Nova::ServerGroup";
const VOLUME: &str = "OS::Cinder::Volume";
const ATTACHMENT: &str = "OS::Cinder::VolumeAttachment";
/// The resource types of groups, in all versions of the API.
const ASSIGNMENTS: [&str; 4] = [
    "ATT::Valet::GroupAssignment",
    "OS::Valet::GroupAssignment",
    "ATT::CloudQoS::ResourceGroup",
    "ATT::QoS::ResourceGroup",
];

/// The attachment of a volume to a server, by their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attachment {
    /// The id of its resource; `None`: it is a block device of the server.
    id: Option<String>,
    server: usize,
    volume: usize,
}

/// The servers and groups of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Template {
    /// Servers in the order of the request, and then volumes in the same order.
    pub(crate) servers: Vec<ServerEntry>,
    /// In the order of the request.
    pub(crate) groups: Vec<GroupEntry>,
    /// Resources that the plan ignores.
    pub(crate) ignored: Vec<Ignored>,
    /// The pipes with bandwidth that servers have: ids and types.
    pipes: Vec<(String, String)>,
    /// The attachments of volumes, in the order of the request, and then those in block devices of servers.
    attachments: Vec<Attachment>,
    /// The first fault of a server group, of a reference to one, or of the terms of a group. It makes a request
    /// invalid. A stored plan may have it, because these were not read when it was made; they are ignored then.
    fault: Option<String>,
}

impl Template {
    /// Checks the template of a request.
    ///
    /// # Errors
    /// `Invalid`, with the faulty resource.
    pub(crate) fn of_request(self) -> Result<Self, Rejection> {
        match &self.fault {
            None => Ok(self),
            Some(why) => Err(invalid(why)),
        }
    }

    /// Adapts the template to a stack, given by its canonical id. Schedulers that do not know the stack of an
    /// instance plan it alone, and name the stack and the server by the id of the instance.
    pub(crate) fn of_stack(mut self, stack: &str) -> Self {
        if self.is_instance(stack)
            && let [server] = self.servers.as_mut_slice()
        {
            server.resource_id.get_or_insert_with(|| server.id.clone());
        }
        self
    }

    /// Returns whether it has a single instance, by whose id its stack is named.
    pub(crate) fn is_instance(&self, stack: &str) -> bool {
        let is_it = |server: &ServerEntry| server.key == stack && Uuid::try_parse(stack).is_ok();
        matches!(self.servers.as_slice(), [server] if is_it(server))
    }

    /// Removes volumes, for plans without storage.
    pub(crate) fn without_volumes(mut self) -> Self {
        let volumes: Vec<String> =
            self.servers.extract_if(.., |entry| entry.is_volume).map(|entry| entry.id).collect();
        for group in &mut self.groups {
            group.servers.retain(|server| *server < self.servers.len());
        }
        for id in volumes {
            self.ignore(&id, VOLUME, why_ignored(VOLUME));
        }
        for id in std::mem::take(&mut self.attachments).into_iter().filter_map(|it| it.id) {
            self.ignore(&id, ATTACHMENT, why_ignored(ATTACHMENT));
        }
        self
    }

    /// Binds each server and the volumes attached to it to one unit of a level; `None`: storage backends serve all
    /// servers, and attachments bind nothing.
    pub(crate) fn with_attachments(mut self, level: Option<Level>) -> Self {
        let attachments = std::mem::take(&mut self.attachments);
        let Some(level) = level else { return self };
        let mut attached: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for Attachment { server, volume, .. } in attachments {
            attached.entry(server).or_insert_with(|| vec![server]).push(volume);
        }
        for (server, members) in attached {
            let Some(server) = self.servers.get(server) else { continue };
            self.groups.push(GroupEntry {
                name: format!("attachments of {}", server.name),
                which: GroupRef::Here(GroupKind::Affinity, level, Terms::default()),
                is_server_group: false,
                servers: members,
                groups: Vec::new(),
            });
        }
        self
    }

    /// Removes pipes, for plans without bandwidth.
    pub(crate) fn without_pipes(mut self) -> Self {
        for entry in &mut self.servers {
            entry.pipes.clear();
        }
        // A pipe is ignored entirely, whatever it contains.
        let pipes: HashSet<&str> = self.pipes.iter().map(|(id, _)| id.as_str()).collect();
        self.ignored.retain(|it| !pipes.contains(it.id.as_str()));
        for (id, kind) in std::mem::take(&mut self.pipes) {
            self.ignore(&id, &kind, why_ignored(&kind));
        }
        self
    }

    /// Returns whether there is a pipe.
    pub(crate) fn has_pipes(&self) -> bool {
        !self.pipes.is_empty()
    }

    /// Adds the bandwidth of pipes to their servers. Pipes that cannot be read are ignored.
    fn connect(&mut self, pipes: &[Entry<'_>], names: &Names) {
        for entry in pipes {
            let pipe = entry.properties().map_err(|why| why.to_string()).and_then(|it| {
                let unfollowed = unfollowed(&it);
                Ok((pipes::read(&Properties { id: entry.id, properties: it })?, unfollowed))
            });
            let pipe = match pipe {
                Ok((pipe, unfollowed)) => {
                    if let Some(why) = unfollowed {
                        self.ignore(entry.id, &entry.kind, why);
                    }
                    pipe
                }
                Err(why) => {
                    self.ignore(entry.id, &entry.kind, why);
                    continue;
                }
            };
            for end in &pipe.ends {
                if let Some(Target::Server(server)) = names.find(end)
                    && let Some(server) = self.servers.get_mut(server)
                {
                    server.pipes.push(pipe.kilobits);
                }
            }
            self.pipes.push((entry.id.to_owned(), entry.kind.clone()));
        }
        for server in &mut self.servers {
            server.pipes.sort_unstable();
        }
    }

    /// Ignores a resource.
    fn ignore(&mut self, id: &str, kind: &str, why: impl Into<String>) {
        let (id, kind, why) = (id.to_owned(), kind.to_owned(), why.into());
        self.ignored.push(Ignored { id, kind, why });
    }

    /// Ignores a resource that makes a request invalid.
    fn ignore_fault(&mut self, id: &str, kind: &str, why: String) {
        self.fault.get_or_insert_with(|| format!("resource '{id}': {why}"));
        self.ignore(id, kind, why);
    }

    /// The canonical ids of all servers, in ascending order.
    pub(crate) fn sorted_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.servers.iter().map(|it| it.key.clone()).collect();
        keys.sort_unstable();
        keys
    }

    /// The servers by their canonical ids.
    pub(crate) fn by_key(&self) -> HashMap<&str, &ServerEntry> {
        self.servers.iter().map(|server| (server.key.as_str(), server)).collect()
    }
}

/// Reads the resources of a stored plan, or of a request, which must be one [without faults](Template::of_request).
///
/// # Errors
/// `Invalid`, with the faulty resource.
pub(crate) fn read(resources: &Object) -> Result<Template, Rejection> {
    if resources.len() > RESOURCES_MAX {
        return Err(invalid(format!("more than {RESOURCES_MAX} resources")));
    }
    let mut reader = Reader::default();
    for (id, value) in resources {
        reader.add(id, Entry::of(id, value)?)?;
    }
    reader.finish()
}

/// The parts of a request that have been read.
#[derive(Default)]
struct Reader<'r> {
    template: Template,
    groups: Vec<Grouping<'r>>,
    names: Names,
    server_groups: ServerGroups,
    /// The scheduler hints of servers, by the position and the id of the server.
    hints: Vec<(usize, &'r str, &'r Value)>,
    volumes: Vec<ServerEntry>,
    pipes: Vec<Entry<'r>>,
    attachments: Vec<Entry<'r>>,
    /// The volumes in block devices of servers, by the position of the server.
    devices: Vec<(usize, &'r str)>,
}

impl<'r> Reader<'r> {
    fn add(&mut self, id: &'r str, entry: Entry<'r>) -> Result<(), Rejection> {
        let name = entry.name();
        match entry.kind.as_str() {
            SERVER => {
                let position = self.template.servers.len();
                self.names.add(id, name, Target::Server(position))?;
                let hints = server_groups::hints(entry.raw_properties());
                self.hints.extend(hints.map(|hints| (position, id, hints)));
                let devices = boot::volumes(entry.raw_properties());
                self.devices.extend(devices.map(|volume| (position, volume)));
                let (server, fault) = entry.server()?;
                self.template.servers.push(server);
                if let Some(why) = fault {
                    self.template.ignore_fault(id, SERVER, why);
                }
                if let Some(why) = unknown_properties(entry.raw_properties()) {
                    self.template.ignore(id, SERVER, why);
                }
            }
            kind if ASSIGNMENTS.contains(&kind) => {
                self.names.add(id, name, Target::Group(self.groups.len()))?;
                self.groups.push(Grouping::Assignment(entry));
            }
            SERVER_GROUP => self.add_server_group(id, &entry)?,
            VOLUME => match entry.volume() {
                Ok(volume) => {
                    self.names.add(id, name, Target::Volume(self.volumes.len()))?;
                    self.volumes.push(volume);
                }
                Err(why) => {
                    self.names.add(id, name, Target::Nothing)?;
                    self.template.ignore(id, VOLUME, why);
                }
            },
            kind if PIPES.contains(&kind) => {
                self.names.add(id, name, Target::Nothing)?;
                self.pipes.push(entry);
            }
            ATTACHMENT => {
                self.names.add(id, name, Target::Nothing)?;
                self.attachments.push(entry);
            }
            kind => {
                self.names.add(id, name, Target::Nothing)?;
                self.template.ignore(id, kind, why_ignored(kind));
            }
        }
        Ok(())
    }

    fn add_server_group(&mut self, id: &'r str, entry: &Entry<'r>) -> Result<(), Rejection> {
        let policy = server_groups::policy(entry.raw_properties());
        let position = policy.is_ok().then_some(self.groups.len());
        let target = position.map_or(Target::Nothing, Target::Group);
        self.names.add(id, entry.name(), target)?;
        self.server_groups.add(id, entry.other_words(), position);
        match policy {
            Ok((kind, terms)) => {
                self.groups.push(Grouping::ServerGroup(entry.server_group(kind, terms)));
            }
            Err(why) => self.template.ignore_fault(id, SERVER_GROUP, why),
        }
        Ok(())
    }

    /// Builds the template, when all resources are known.
    fn finish(mut self) -> Result<Template, Rejection> {
        self.names.servers = self.template.servers.len();
        self.template.servers.append(&mut self.volumes);
        for group in std::mem::take(&mut self.groups) {
            let group = match group {
                Grouping::Assignment(entry) => {
                    let (group, fault) = entry.group(&self.names)?;
                    if let Some(why) = fault {
                        self.template.ignore_fault(entry.id, &entry.kind, why);
                    }
                    group
                }
                Grouping::ServerGroup(group) => group,
            };
            self.template.groups.push(group);
        }
        self.template.connect(&self.pipes, &self.names);
        self.attach();
        self.follow_hints();
        Ok(self.template)
    }

    /// Adds the attachments of volumes to servers.
    fn attach(&mut self) {
        let template = &mut self.template;
        for entry in &self.attachments {
            let properties = entry.raw_properties();
            let find = |key: &str| self.names.find(reference(properties?.get(key)?)?);
            match (find("instance_uuid"), find("volume_id")) {
                (Some(Target::Server(server)), Some(Target::Volume(volume))) => {
                    let (id, volume) = (Some(entry.id.to_owned()), self.names.servers + volume);
                    template.attachments.push(Attachment { id, server, volume });
                }
                _ => template.ignore(
                    entry.id,
                    ATTACHMENT,
                    "instance_uuid and volume_id are not a server and a volume of the request",
                ),
            }
        }
        for (server, volume) in &self.devices {
            if let Some(Target::Volume(volume)) = self.names.find(volume) {
                let (server, volume) = (*server, self.names.servers + volume);
                template.attachments.push(Attachment { id: None, server, volume });
            }
        }
    }

    /// Adds servers to the server groups in their scheduler hints.
    fn follow_hints(&mut self) {
        let template = &mut self.template;
        for (server, id, hints) in &self.hints {
            for hint in server_groups::ignored_hints(hints) {
                template.ignore(id, SERVER, format!("the scheduler hint {hint} is not supported"));
            }
            match self.server_groups.find(hints) {
                Ok(GroupHint::None) => {}
                Ok(GroupHint::Group(group)) => {
                    if let Some(group) = template.groups.get_mut(group) {
                        group.servers.push(*server);
                    }
                }
                Ok(GroupHint::Outside(group)) => template.ignore(
                    id,
                    SERVER,
                    format!(
                        "the server group {group} is not in the request, so its policy is unknown"
                    ),
                ),
                Err(why) => template.ignore_fault(id, SERVER, why),
            }
        }
    }
}

/// A group of the request while it is read.
enum Grouping<'r> {
    /// An assignment. Its members are looked up when all resources are known.
    Assignment(Entry<'r>),
    /// A server group. The servers name it, and join it at the end.
    ServerGroup(GroupEntry),
}

#[cfg(test)]
mod tests;
