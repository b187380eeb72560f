//! nova's databases: those of its cells, and the API database, which knows all cells.
//!
//! They are read after the service, each in one snapshot, so that a server whose allocations were seen
//! is in them unless it was deleted meanwhile. Of ended migrations and deleted servers only those are
//! kept that have to do with what was seen.

mod rows;

use std::collections::HashMap;

use time::OffsetDateTime;
use uuid::Uuid;

pub use self::rows::Error;
use self::rows::{Cell, Database};
use super::cloud::{Cloud, FromDatabase, Server, State};
use super::placement::Placement;
use crate::moving::transfer::ReferenceUrl;

/// Reads what nova knows of the consumers of a service.
///
/// `urls` are databases of cells, the API database, or both. With the API database alone, the cells are
/// those that it names.
///
/// # Errors
/// A database cannot be read, is none of nova's, or not all cells are known.
pub async fn read(urls: &[ReferenceUrl], placement: &Placement) -> Result<Cloud, Error> {
    let mut source: Vec<String> = urls.iter().map(ToString::to_string).collect();
    let mut taken = OffsetDateTime::now_utc();
    let mut api = None;
    let mut cells = Vec::new();
    for url in urls {
        let database = Database::open(url).await?;
        match (database.is_api(), api.is_some()) {
            (false, _) => cells.push(database),
            (true, false) => api = Some(database),
            (true, true) => {
                let why = format!("{url} is a second API database, and a cloud has one");
                return Err(Error::Refused(why));
            }
        }
    }
    if let (Some(api), true) = (&mut api, cells.is_empty()) {
        // What the API database knows is read before the cells, and is not newer.
        taken = OffsetDateTime::now_utc();
        for url in api.cells().await? {
            let cell = Database::open(&url).await?;
            if cell.is_api() {
                return Err(Error::Refused(format!("the database of a cell, {url}, is none")));
            }
            source.push(url.to_string());
            cells.push(cell);
        }
    }
    let spread = placement.on_several_roots();
    let mut found = Found::default();
    for database in cells {
        let cell = database.cell(placement, &spread).await?;
        // A copy, or a replica that lags, is as old as the last report in it.
        taken = cell.reported.map_or(taken, |reported| taken.min(reported));
        found.add(cell);
    }
    if found.nodes.is_empty() && found.servers.is_empty() {
        let why =
            "nova's databases have neither compute nodes nor servers: these are not the cells";
        return Err(Error::Refused(why.to_owned()));
    }
    let elsewhere = match api {
        None => None,
        Some(api) => {
            let mut known = api.servers(placement).await?;
            known.retain(|it| !found.servers.contains_key(it) && !found.deleted.contains_key(it));
            Some(known)
        }
    };
    let Found { servers, deleted, migrations, nodes } = found;
    let database = Some(FromDatabase { migrations, nodes, elsewhere });
    Ok(Cloud { source: source.join(", "), taken, servers, deleted, database, doubt: None })
}

/// What all cells have.
#[derive(Default)]
struct Found {
    servers: HashMap<Uuid, Server>,
    deleted: HashMap<Uuid, Option<OffsetDateTime>>,
    migrations: HashMap<Uuid, super::cloud::Migration>,
    nodes: HashMap<Uuid, super::cloud::Node>,
}

impl Found {
    fn add(&mut self, cell: Cell) {
        for (uuid, server) in cell.servers {
            self.deleted.remove(&uuid);
            self.servers
                .entry(uuid)
                // A server is in two cells while it moves from one to the other.
                .and_modify(|server| server.state = State::Busy("moving between cells".to_owned()))
                .or_insert(server);
        }
        let gone = cell.deleted.into_iter().filter(|(uuid, _)| !self.servers.contains_key(uuid));
        self.deleted.extend(gone);
        self.migrations.extend(cell.migrations);
        self.nodes.extend(cell.nodes);
    }
}
