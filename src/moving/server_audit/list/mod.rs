//! Lists of servers as JSON: the output of `openstack server list --all-projects --long -f json`, and pages of `GET
//! /servers/detail`.
//!
//! The client's columns have had the same names since 2.0: `ID`, `Status`, `Task State`, `Host`; from 8.1 on, also
//! `Project ID`. `Host` is the host of nova-compute until 5.8, and the name of the hypervisor from 6.1 on.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, PrimitiveDateTime};
use uuid::Uuid;

use super::cloud::{Cloud, Place, Server, ServerState};
use super::flavor::Flavor;

/// Default page size of nova. Until 5.8, the client requests a single page.
const PAGE: usize = 1000;

/// The statuses without an operation in progress.
const SETTLED: [&str; 9] = [
    "ACTIVE",
    "SHUTOFF",
    "PAUSED",
    "SUSPENDED",
    "ERROR",
    "RESCUE",
    "SHELVED",
    "SHELVED_OFFLOADED",
    "SOFT_DELETED",
];

/// The statuses in which a server may be on no host.
const WITHOUT_HOST: [&str; 2] = ["ERROR", "SHELVED_OFFLOADED"];

/// Advice for a list without hosts.
const AS_ADMINISTRATOR: &str =
    "list the servers as an administrator, with --all-projects and --long";

/// Servers of several files.
#[derive(Debug, Default)]
pub struct Lists {
    names: Vec<String>,
    servers: HashMap<Uuid, Server>,
    deleted: HashSet<Uuid>,
    /// Number of pages that are followed by another one.
    open_pages: usize,
    pages: usize,
    doubt: Option<String>,
}

/// A row of the client, or a server of the API.
#[derive(Debug, Deserialize)]
struct Row {
    #[serde(alias = "ID")]
    id: Option<String>,
    #[serde(alias = "Status")]
    status: Option<String>,
    #[serde(alias = "Task State", alias = "OS-EXT-STS:task_state")]
    task_state: Option<String>,
    #[serde(default, alias = "Host", alias = "OS-EXT-SRV-ATTR:host")]
    host: HostName,
    #[serde(default, alias = "OS-EXT-SRV-ATTR:hypervisor_hostname")]
    hypervisor_hostname: HostName,
    #[serde(alias = "Project ID", alias = "tenant_id")]
    project_id: Option<String>,
    #[serde(alias = "User ID")]
    user_id: Option<String>,
    #[serde(alias = "Created At", alias = "created")]
    created_at: Option<String>,
    #[serde(alias = "updated")]
    updated_at: Option<String>,
    flavor: Option<EmbeddedFlavor>,
    /// An empty text means that the root disk is a volume.
    image: Option<Image>,
}

/// The name of a host. An empty name differs from a missing one.
#[derive(Debug, Default, PartialEq, Eq)]
enum HostName {
    #[default]
    Hidden,
    None,
    Some(String),
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name: Option<String> = Option::deserialize(deserializer)?;
        let name = name.filter(|name| !["", "None", "-"].contains(&name.as_str()));
        Ok(name.map_or(Self::None, Self::Some))
    }
}

/// The flavor within a server, which has amounts from 2.47 on.
#[derive(Debug, Deserialize)]
struct EmbeddedFlavor {
    vcpus: Option<u64>,
    ram: Option<u64>,
    disk: Option<u64>,
    ephemeral: Option<u64>,
    swap: Option<u64>,
    extra_specs: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Image {
    None(String),
    Some(IgnoredAny),
}

#[derive(Debug, Deserialize)]
struct Link {
    rel: String,
}

/// One document of a file.
enum Document {
    Rows(Vec<Row>),
    Page { servers: Option<Vec<Row>>, has_next: bool },
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of servers, or a page with `servers`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Document, A::Error> {
        let mut rows = Vec::new();
        while let Some(row) = list.next_element()? {
            rows.push(row);
        }
        Ok(Document::Rows(rows))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut servers = None;
        let mut has_next = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "servers" => servers = Some(map.next_value()?),
                "servers_links" => {
                    let links: Vec<Link> = map.next_value()?;
                    has_next = links.iter().any(|link| link.rel == "next");
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Document::Page { servers, has_next })
    }
}

impl Lists {
    /// Adds the servers of a file.
    ///
    /// # Errors
    /// A message that names the file: it is not a list of servers, or lacks columns.
    pub fn add(&mut self, name: &str, text: &[u8]) -> Result<(), String> {
        self.names.push(name.to_owned());
        let mut found = 0;
        for document in serde_json::Deserializer::from_slice(text).into_iter() {
            let document = document.map_err(|error| {
                let end = if error.is_eof() { "; it is cut off" } else { "" };
                format!("{name} is not a list of servers as JSON: {error}{end}")
            })?;
            found += 1;
            let rows = match document {
                Document::Rows(rows) => {
                    if !rows.is_empty() && rows.len().is_multiple_of(PAGE) {
                        self.doubt = Some(format!(
                            "{name} has exactly {} servers: before 6.1, the client stops after the first \
                             {PAGE} unless it gets --limit -1",
                            rows.len()
                        ));
                    }
                    rows
                }
                Document::Page { servers: Some(rows), has_next } => {
                    self.pages += 1;
                    self.open_pages += usize::from(has_next);
                    rows
                }
                Document::Page { servers: None, .. } => {
                    return Err(format!("{name} is not a list of servers: it has no \"servers\""));
                }
            };
            for (nth, row) in rows.into_iter().enumerate() {
                self.add_row(row).map_err(|why| format!("{name}, server {}: {why}", nth + 1))?;
            }
        }
        if found == 0 {
            Err(format!("{name} is empty: it is not a list of servers"))
        } else {
            Ok(())
        }
    }

    fn add_row(&mut self, row: Row) -> Result<(), String> {
        let id = row.id.as_deref().ok_or("it has no ID")?;
        let uuid: Uuid = id.parse().map_err(|_| format!("the ID {id:?} is not a UUID"))?;
        let status = row.status.as_deref().ok_or("it has no Status")?;
        if status == "DELETED" {
            self.deleted.insert(uuid);
            return Ok(());
        }
        let is_known = status != "UNKNOWN";
        let hosts = [row.hypervisor_hostname, row.host];
        if is_known && hosts.iter().all(|host| *host == HostName::Hidden) {
            return Err(format!("it has no Host: {AS_ADMINISTRATOR}"));
        }
        let state = match row.task_state.as_deref() {
            _ if !is_known => ServerState::Unknown,
            Some(task) if !["", "None", "-"].contains(&task) => ServerState::Busy(task.to_owned()),
            Some(_) | None if SETTLED.contains(&status) => ServerState::Settled,
            Some(_) | None => ServerState::Busy(status.to_owned()),
        };
        let given = hosts.into_iter().filter_map(|host| match host {
            HostName::Some(name) => Some(name),
            HostName::None | HostName::Hidden => None,
        });
        let names: Vec<String> = given.collect();
        if names.is_empty() && state == ServerState::Settled && !WITHOUT_HOST.contains(&status) {
            return Err(format!("it is {status} and has no Host: {AS_ADMINISTRATOR}"));
        }
        let is_volume_backed =
            row.image.map(|image| matches!(image, Image::None(text) if text.is_empty()));
        let times = [row.created_at, row.updated_at].into_iter().flatten();
        let mut server = Server {
            state,
            failed: status == "ERROR",
            place: if names.is_empty() { Place::Nowhere } else { Place::Named(names) },
            project: row.project_id.filter(|it| !it.is_empty()),
            user: row.user_id.filter(|it| !it.is_empty()),
            changed: times.filter_map(|text| time(&text)).max(),
            needs: row.flavor.and_then(|it| Some(it.flavor()?.needs(is_volume_backed))),
        };
        if let Some(before) = self.servers.get(&uuid)
            && (before.place != server.place || before.state != server.state)
        {
            // It has changed between two pages.
            server.state = ServerState::Busy("changing".to_owned());
        }
        self.servers.insert(uuid, server);
        Ok(())
    }

    /// All servers, as of a time.
    ///
    /// # Errors
    /// A message: pages are missing, or there is no server.
    pub fn into_cloud(self, taken: OffsetDateTime) -> Result<Cloud, String> {
        let source = self.names.join(", ");
        if self.pages > 0 && self.pages == self.open_pages {
            return Err(format!(
                "{source}: the last page is missing: each page says that another one follows"
            ));
        }
        if self.servers.is_empty() {
            let what = if self.deleted.is_empty() { "no servers" } else { "only deleted servers" };
            return Err(format!(
                "{source}: there are {what}, and compared with such a list every consumer would be an orphan"
            ));
        }
        let Self { servers, deleted, doubt, .. } = self;
        if servers.values().all(|server| server.place == Place::Nowhere) {
            return Err(format!("{source}: no server has a Host: {AS_ADMINISTRATOR}"));
        }
        let deleted = deleted.into_iter().filter(|uuid| !servers.contains_key(uuid)).collect();
        Ok(Cloud { source, taken, servers, deleted, doubt })
    }
}

impl EmbeddedFlavor {
    /// The flavor, if it has amounts.
    fn flavor(self) -> Option<Flavor> {
        Some(Flavor {
            vcpus: self.vcpus?,
            memory_mb: self.ram?,
            root_gb: self.disk?,
            ephemeral_gb: self.ephemeral?,
            swap_mb: self.swap?,
            // If the user may not see them, the flavor's further requirements are unknown.
            extra_specs: self.extra_specs?,
        })
    }
}

/// Parses a time of nova; without a zone, it is UTC.
fn time(text: &str) -> Option<OffsetDateTime> {
    let text = text.trim().replacen(' ', "T", 1);
    if let Ok(time) = OffsetDateTime::parse(&text, &Rfc3339) {
        return Some(time);
    }
    let utc = format!("{text}Z");
    OffsetDateTime::parse(&utc, &Rfc3339).ok().or_else(|| {
        let format =
            time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
        PrimitiveDateTime::parse(&text, format).ok().map(PrimitiveDateTime::assume_utc)
    })
}

#[cfg(test)]
mod tests;
