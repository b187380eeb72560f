//! One resource of a request with its keys.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::boot;
use super::entries::{GroupEntry, GroupRef, ServerEntry, Sizing, invalid, wrong};
use super::names::{Names, Target};
use super::properties::{Properties, references, text, texts};
use super::server_groups;
use crate::model::{GroupKind, Level};
use crate::planner::ids::canonical;
use crate::planner::json::{NAME_MAX, Object};
use crate::planner::rejection::Rejection;
use crate::solver::groups::Terms;

/// One resource. Its keys are in lower case here, and may be in upper case in the request.
pub(super) struct Entry<'r> {
    /// Its id, in its original spelling.
    pub(super) id: &'r str,
    /// Its type.
    pub(super) kind: String,
    members: HashMap<String, &'r Value>,
}

impl<'r> Entry<'r> {
    pub(super) fn of(id: &'r str, value: &'r Value) -> Result<Self, Rejection> {
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

    pub(super) fn name(&self) -> Option<&'r str> {
        self.members.get("name").and_then(|name| name.as_str()).filter(|name| !name.is_empty())
    }

    pub(super) fn raw_properties(&self) -> Option<&'r Value> {
        self.members.get("properties").copied()
    }

    pub(super) fn properties(&self) -> Result<Map<String, Value>, Rejection> {
        match self.members.get("properties") {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(properties)) => Ok(properties.clone()),
            Some(_) => Err(wrong(self.id, "properties: not a dictionary")),
        }
    }

    /// A server, and the fault of its block devices, which are then ignored.
    pub(super) fn server(&self) -> Result<(ServerEntry, Option<String>), Rejection> {
        let properties = Properties { id: self.id, properties: self.properties()? };
        let mut sizing = properties.sizing()?;
        let root_disk = boot::root_disk(&properties.properties);
        if let (Sizing::Flavor(_, place), Ok(known)) = (&mut sizing, &root_disk) {
            *place = *known;
        }
        Ok((self.placed(&properties, sizing)?, root_disk.err()))
    }

    /// Reads a volume.
    ///
    /// # Errors
    /// The reason why it is left out.
    pub(super) fn volume(&self) -> Result<ServerEntry, String> {
        let properties = self.properties().map_err(|why| why.to_string())?;
        let properties = Properties { id: self.id, properties };
        let sizing = properties.volume_sizing()?;
        let kind = properties.volume_type().map_err(|why| why.to_string())?;
        let entry = self.placed(&properties, sizing).map_err(|why| why.to_string())?;
        let required = entry.required.iter().cloned().chain(kind).collect();
        Ok(ServerEntry { required, is_volume: true, ..entry })
    }

    /// Reads a resource that gets a host, with the properties common to servers and volumes.
    fn placed(
        &self,
        properties: &Properties<'_>,
        sizing: Sizing,
    ) -> Result<ServerEntry, Rejection> {
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
            sizing,
            required: properties.required_traits()?.all,
            forbidden: properties.texts("forbidden")?,
            demands: properties.demands()?,
            zone: zone.filter(|zone| !zone.is_empty()),
            locations,
            groups: properties.stored_groups()?,
            metadata,
            resource_id: resource_id.map(str::to_owned),
            is_volume: false,
            pipes: Vec::new(),
        })
    }

    /// The words besides its id by which servers refer to a server group.
    pub(super) fn other_words(&self) -> impl Iterator<Item = &'r str> {
        let nova_id = self.members.get("resource_id").and_then(|id| id.as_str());
        let nova_name = server_groups::nova_name(self.raw_properties());
        [self.name(), nova_name, nova_id].into_iter().flatten()
    }

    /// The group of the request for a server group.
    pub(super) fn server_group(&self, kind: GroupKind, terms: Terms) -> GroupEntry {
        let name = self.name().or_else(|| server_groups::nova_name(self.raw_properties()));
        GroupEntry {
            name: name.map_or_else(|| self.id.to_owned(), str::to_owned),
            which: GroupRef::Here(kind, Level::Host, terms),
            is_server_group: true,
            servers: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// The group of an assignment, and the fault of its terms, which are then ignored.
    pub(super) fn group(&self, names: &Names) -> Result<(GroupEntry, Option<String>), Rejection> {
        let properties = Properties { id: self.id, properties: self.properties()? };
        let mut which = properties.which()?;
        let terms = properties.terms(&which);
        if let (GroupRef::Here(_, _, terms), Ok(known)) = (&mut which, &terms) {
            *terms = *known;
        }
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
                Some(Target::Volume(volume)) => servers.push(names.servers + volume),
                Some(Target::Group(group)) => groups.push(group),
                Some(Target::Nothing) => {}
                None => {
                    return Err(wrong(self.id, format!("invalid resource = {reference}")));
                }
            }
        }
        Ok((GroupEntry { name, which, is_server_group: false, servers, groups }, terms.err()))
    }
}
