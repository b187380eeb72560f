//! The rows of one of nova's databases.

use std::collections::{HashMap, HashSet};

use futures_util::{StreamExt, TryStreamExt};
use serde::Deserialize;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::super::cloud::{Migration, Node, Place, Server, State};
use super::super::flavor::{Flavor, Needs};
use super::super::list::time;
use super::super::placement::Placement;
use crate::moving::transfer::{Access, Dialect, ReferenceUrl, connect};

/// The states of a server in which nova has nothing to do with it, if it has no task.
const SETTLED: [&str; 9] = [
    "active",
    "stopped",
    "paused",
    "suspended",
    "rescued",
    "error",
    "shelved",
    "shelved_offloaded",
    "soft-delete",
];

/// The states in which a server may be on no host.
const WITHOUT_HOST: [&str; 2] = ["error", "shelved_offloaded"];

/// The servers, with what decides their amounts. `{}` stands for the type that a text is cast to.
const SERVERS: &str = "select cast(i.uuid as {}), cast(i.vm_state as {}), cast(i.task_state as {}), \
    cast(i.host as {}), cast(i.node as {}), cast(i.project_id as {}), cast(i.user_id as {}), \
    cast(i.created_at as {}), cast(i.updated_at as {}), cast(i.image_ref as {}), \
    cast((select max(b.destination_type) from block_device_mapping b where b.instance_uuid = i.uuid \
    and b.deleted = 0 and b.boot_index = 0) as {}), \
    cast((select max(m.value) from instance_system_metadata m where m.instance_uuid = i.uuid \
    and m.deleted = 0 and m.key = 'image_hw_cpu_policy') as {}), \
    cast(e.pci_requests as {}), cast(e.flavor as {}) from instances i \
    left join instance_extra e on e.instance_uuid = i.uuid and e.deleted = 0 where i.deleted = 0";

const MIGRATIONS: &str = "select cast(uuid as {}), cast(instance_uuid as {}), \
    cast(migration_type as {}), cast(status as {}), cast(source_compute as {}), \
    cast(source_node as {}), cast(dest_compute as {}), cast(dest_node as {}), \
    cast(coalesce(updated_at, created_at) as {}) from migrations where deleted = 0";

const NODES: &str = "select cast(n.uuid as {}), cast(n.host as {}), cast(n.hypervisor_hostname as {}), \
    cast(n.deleted as {}), cast(n.created_at as {}), cast((select count(*) from services s \
    where s.host = n.host and s.binary = 'nova-compute' and s.deleted = 0) as {}) from compute_nodes n";

/// When a service of the cell last said that it is alive.
const REPORTED: &str = "select cast(max(coalesce(last_seen_up, updated_at, created_at)) as {}) \
    from services where deleted = 0";

const DELETED: &str =
    "select cast(uuid as {}), cast(deleted_at as {}) from instances where deleted <> 0";

const ARCHIVED: &str = "select cast(uuid as {}), cast(deleted_at as {}) from shadow_instances";

const ARCHIVED_NODES: &str = "select cast(uuid as {}), cast(host as {}), \
    cast(hypervisor_hostname as {}), cast(created_at as {}) from shadow_compute_nodes";

/// Why nova's databases cannot be used: a sentence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A database is not what it must be.
    #[error("{0}")]
    Refused(String),
    /// A database cannot be read.
    #[error("nova's database {0}: {1}")]
    Database(String, sqlx::Error),
}

/// Which rows of a database are of interest.
#[derive(Clone, Copy)]
struct Interest<'a> {
    placement: &'a Placement,
    spread: &'a HashSet<Uuid>,
}

impl Interest<'_> {
    fn holds(&self, consumer: &Uuid) -> bool {
        self.placement.consumers.contains_key(consumer)
    }
}

/// One of nova's databases, within a transaction.
pub(super) struct Database {
    conn: AnyConnection,
    dialect: Dialect,
    shown: String,
    tables: HashSet<String>,
}

/// What a cell has.
pub(super) struct Cell {
    pub(super) servers: HashMap<Uuid, Server>,
    pub(super) deleted: HashMap<Uuid, Option<OffsetDateTime>>,
    pub(super) migrations: HashMap<Uuid, Migration>,
    pub(super) nodes: HashMap<Uuid, Node>,
    /// When a service last reported, which it does every ten seconds; none without services.
    pub(super) reported: Option<OffsetDateTime>,
}

/// The compute nodes that are not deleted, by host and by the name of the hypervisor.
type NodesByName = HashMap<(String, String), Uuid>;

impl Database {
    /// Connects, and checks that it is a database of nova's.
    pub(super) async fn open(url: &ReferenceUrl) -> Result<Self, Error> {
        let shown = url.to_string();
        let failed = |error| Error::Database(shown.clone(), error);
        let mut conn = connect(url, Access::Read).await.map_err(failed)?;
        let tables = match url.dialect {
            Dialect::MySql => {
                "select cast(table_name as char) from information_schema.tables \
                 where table_schema = database()"
            }
            Dialect::Postgres => {
                "select table_name::text from information_schema.tables \
                 where table_schema = any (current_schemas(false)::text[])"
            }
            Dialect::Sqlite => "select name from sqlite_master where type = 'table'",
        };
        let tables: Vec<String> =
            sqlx::query_scalar(tables).fetch_all(&mut conn).await.map_err(failed)?;
        let tables: HashSet<String> = tables.into_iter().collect();
        let has = |names: &[&str]| names.iter().all(|name| tables.contains(*name));
        let is_cell = has(&["instances", "instance_extra", "compute_nodes", "migrations"]);
        if !is_cell && !has(&["cell_mappings", "instance_mappings"]) {
            return Err(Error::Refused(format!(
                "{shown} is neither the database of a cell of nova's nor its API database: it has neither \
                 instances and compute_nodes nor cell_mappings"
            )));
        }
        Ok(Self { conn, dialect: url.dialect, shown, tables })
    }

    /// Whether it is the API database.
    pub(super) fn is_api(&self) -> bool {
        self.tables.contains("cell_mappings")
    }

    /// The databases of all cells.
    pub(super) async fn cells(&mut self) -> Result<Vec<ReferenceUrl>, Error> {
        let query = "select cast(coalesce(name, uuid) as {}), cast(database_connection as {}) \
                     from cell_mappings order by id";
        let shown = self.shown.clone();
        let rows: Vec<Vec<Option<String>>> = self.rows(query).try_collect().await?;
        let mut urls = Vec::new();
        for row in rows {
            let [Some(name), connection] = row.as_slice() else { continue };
            let connection = connection.as_deref().map_or("", |text| text);
            let why = if connection.contains('{') {
                "it has placeholders, which only nova's configuration can fill".to_owned()
            } else {
                match connection.parse() {
                    Ok(url) => {
                        urls.push(url);
                        continue;
                    }
                    Err(why) => why,
                }
            };
            return Err(Error::Refused(format!(
                "the connection of cell {name} in {shown} cannot be used: {why}. Name the databases of all \
                 cells by --nova-database, beside the API database"
            )));
        }
        Ok(urls)
    }

    /// The consumers that the API database knows as servers, or as servers that are about to be made.
    pub(super) async fn servers(mut self, placement: &Placement) -> Result<HashSet<Uuid>, Error> {
        let mut found = HashSet::new();
        let mut queries = vec!["select cast(instance_uuid as {}) from instance_mappings"];
        if self.tables.contains("build_requests") {
            queries.push("select cast(instance_uuid as {}) from build_requests");
        }
        for query in queries {
            let mut rows = self.rows(query);
            while let Some(row) = rows.try_next().await? {
                let known = row.first().and_then(|id| uuid(id.as_deref()));
                found.extend(known.filter(|uuid| placement.consumers.contains_key(uuid)));
            }
        }
        Ok(found)
    }

    /// What a cell has, as far as it matters for a service.
    pub(super) async fn cell(
        mut self,
        placement: &Placement,
        spread: &HashSet<Uuid>,
    ) -> Result<Cell, Error> {
        let interest = Interest { placement, spread };
        let nodes = self.nodes().await?;
        let by_name: NodesByName = nodes
            .iter()
            .filter(|(_, node)| !node.deleted)
            .map(|(uuid, node)| ((node.host.clone(), node.name.clone()), *uuid))
            .collect();
        let mut servers = HashMap::new();
        {
            let mut rows = self.rows(SERVERS);
            while let Some(row) = rows.try_next().await? {
                servers.extend(server(&row, &by_name));
            }
        }
        // A host that was evacuated may be deleted by now.
        let deleted = nodes.iter().filter(|(_, node)| node.deleted);
        let mut ever: NodesByName =
            deleted.map(|(uuid, node)| ((node.host.clone(), node.name.clone()), *uuid)).collect();
        ever.extend(by_name);
        let migrations = self.migrations(&ever, interest).await?;
        let deleted = self.deleted(interest).await?;
        let reported = self.rows(REPORTED).try_next().await?;
        let reported = reported.as_deref().and_then(|row| row.first()?.as_deref().and_then(time));
        Ok(Cell { servers, deleted, migrations, nodes, reported })
    }

    async fn nodes(&mut self) -> Result<HashMap<Uuid, Node>, Error> {
        let mut nodes = HashMap::new();
        if self.tables.contains("shadow_compute_nodes") {
            let mut rows = self.rows(ARCHIVED_NODES);
            while let Some(row) = rows.try_next().await? {
                let [id, host, name, created] = row.as_slice() else { continue };
                let Some(id) = uuid(id.as_deref()) else { continue };
                let node = Node {
                    host: text(host.as_deref()),
                    name: text(name.as_deref()),
                    deleted: true,
                    has_service: false,
                    created: created.as_deref().and_then(time),
                };
                nodes.insert(id, node);
            }
        }
        let mut rows = self.rows(NODES);
        while let Some(row) = rows.try_next().await? {
            let [id, host, name, deleted, created, services] = row.as_slice() else { continue };
            let Some(id) = uuid(id.as_deref()) else { continue };
            let node = Node {
                host: text(host.as_deref()),
                name: text(name.as_deref()),
                deleted: deleted.as_deref() != Some("0"),
                has_service: services.as_deref() != Some("0"),
                created: created.as_deref().and_then(time),
            };
            nodes.insert(id, node);
        }
        Ok(nodes)
    }

    async fn migrations(
        &mut self,
        nodes: &NodesByName,
        interest: Interest<'_>,
    ) -> Result<HashMap<Uuid, Migration>, Error> {
        let mut migrations = HashMap::new();
        let mut rows = self.rows(MIGRATIONS);
        while let Some(row) = rows.try_next().await? {
            let [id, server, kind, status, source, source_node, target, target_node, changed] =
                row.as_slice()
            else {
                continue;
            };
            let node = |host: &Option<String>, name: &Option<String>| {
                nodes.get(&(text(host.as_deref()), text(name.as_deref()))).copied()
            };
            let migration = Migration {
                server: uuid(server.as_deref()),
                kind: kind.clone().unwrap_or_else(|| "migration".to_owned()),
                status: text(status.as_deref()),
                source: node(source, source_node),
                target: node(target, target_node),
                changed: changed.as_deref().and_then(time),
            };
            // Those from before Queens have no UUID, and are no consumers.
            let id = uuid(id.as_deref()).unwrap_or_else(Uuid::new_v4);
            let explains = migration.server.is_some_and(|server| interest.spread.contains(&server));
            if !migration.has_ended() || explains || interest.holds(&id) {
                migrations.insert(id, migration);
            }
        }
        Ok(migrations)
    }

    async fn deleted(
        &mut self,
        interest: Interest<'_>,
    ) -> Result<HashMap<Uuid, Option<OffsetDateTime>>, Error> {
        let mut deleted = HashMap::new();
        let mut queries = vec![DELETED];
        if self.tables.contains("shadow_instances") {
            queries.push(ARCHIVED);
        }
        for query in queries {
            let mut rows = self.rows(query);
            while let Some(row) = rows.try_next().await? {
                let [id, when] = row.as_slice() else { continue };
                let id = uuid(id.as_deref()).filter(|id| interest.holds(id));
                deleted.extend(id.map(|id| (id, when.as_deref().and_then(time))));
            }
        }
        Ok(deleted)
    }

    /// The rows of a query, whose columns are texts.
    fn rows(
        &mut self,
        query: &str,
    ) -> impl futures_util::Stream<Item = Result<Vec<Option<String>>, Error>> + Unpin {
        let kind = if self.dialect == Dialect::MySql { "char" } else { "text" };
        let query = query.replace("{}", kind);
        let shown = self.shown.clone();
        let rows = sqlx::query(AssertSqlSafe(query)).fetch(&mut self.conn);
        let texts = |row: AnyRow| (0..row.len()).map(|nth| row.try_get(nth)).collect();
        rows.map(move |row| {
            row.and_then(texts).map_err(|error| Error::Database(shown.clone(), error))
        })
        .boxed()
    }
}

/// A server of a row of [`SERVERS`].
fn server(row: &[Option<String>], nodes: &NodesByName) -> Option<(Uuid, Server)> {
    let [id, vm_state, task, host, node, project, user, created, updated, rest @ ..] = row else {
        return None;
    };
    let vm_state = text(vm_state.as_deref());
    let place = match (host, node) {
        (None, _) => Place::Nowhere,
        (Some(host), node) => {
            let found = nodes.get(&(host.clone(), text(node.as_deref()))).copied();
            found.map_or_else(|| Place::Lost(host.clone()), Place::Node)
        }
    };
    let is_odd = place == Place::Nowhere && !WITHOUT_HOST.contains(&vm_state.as_str());
    let state = match task {
        Some(task) => State::Busy(task.clone()),
        None if is_odd || !SETTLED.contains(&vm_state.as_str()) => State::Busy(vm_state.clone()),
        None => State::Settled,
    };
    let changed = [created, updated].into_iter().flatten().filter_map(|text| time(text)).max();
    let server = Server {
        state,
        failed: vm_state == "error",
        place,
        project: project.clone(),
        user: user.clone(),
        changed,
        needs: needs(rest),
    };
    Some((uuid(id.as_deref())?, server))
}

/// What a server needs, by its flavor and what else it asks for.
fn needs(row: &[Option<String>]) -> Option<Needs> {
    let [image, root_disk, cpu_policy, pci_requests, flavor] = row else { return None };
    let is_volume_backed = match root_disk.as_deref() {
        Some(kind) => kind == "volume",
        None => text(image.as_deref()).is_empty(),
    };
    let mut needs = embedded(flavor.as_deref()?)?.needs(Some(is_volume_backed));
    if cpu_policy.as_deref().is_some_and(|policy| policy != "shared") {
        needs.obstacle = Some("its image has hw_cpu_policy".to_owned());
    }
    if pci_requests.as_deref().is_some_and(|requests| !["", "[]", "null"].contains(&requests)) {
        needs.obstacle = Some("it has PCI devices".to_owned());
    }
    Some(needs)
}

/// The flavor as nova stores it with a server.
fn embedded(text: &str) -> Option<Flavor> {
    #[derive(Deserialize)]
    struct Stored {
        cur: Object,
    }
    #[derive(Deserialize)]
    struct Object {
        #[serde(rename = "nova_object.data")]
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        vcpus: u64,
        memory_mb: u64,
        root_gb: u64,
        ephemeral_gb: u64,
        swap: u64,
        extra_specs: Option<std::collections::BTreeMap<String, String>>,
    }
    let Stored { cur: Object { data } } = serde_json::from_str(text).ok()?;
    Some(Flavor {
        vcpus: data.vcpus,
        memory_mb: data.memory_mb,
        root_gb: data.root_gb,
        ephemeral_gb: data.ephemeral_gb,
        swap_mb: data.swap,
        extra_specs: data.extra_specs?,
    })
}

fn uuid(column: Option<&str>) -> Option<Uuid> {
    column?.parse().ok()
}

/// A text that is empty if it is missing.
fn text(column: Option<&str>) -> String {
    column.map_or_else(String::new, str::to_owned)
}
