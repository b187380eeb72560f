//! `berth group`: stored groups, and the projects that may use them.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use uuid::Uuid;

use super::columns::{ListFormat, columns};
use super::db_options::{DbOptions, ListOptions};
use crate::model::{GroupKind, Level};
use crate::planner::group::{self, StoredGroup};
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::server::opening::settle_schema;
use crate::store::planner::change;
use crate::store::planner::groups::{
    AddMembers, CreateGroup, DeleteGroup, DescribeGroup, RemoveMembers, list, show,
};

/// Maximum length of a group's name, and of its description, in characters.
const NAME_MAX: usize = 255;
const DESCRIPTION_MAX: usize = 65_535;

/// Commands for stored groups.
#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// Create a group without members.
    Create(Box<GroupCreateOptions>),
    /// Print all groups.
    List(ListOptions),
    /// Print one group.
    Show(GroupOptions),
    /// Change the description of a group.
    Describe(GroupDescribeOptions),
    /// Delete a group that has no members and no servers.
    Delete(GroupOptions),
    /// Let projects use a group.
    ///
    /// The ids must be UUIDs. The command does not ask Keystone whether the projects exist.
    AddMembers(GroupMembersOptions),
    /// Remove projects from a group, unless they have servers in it.
    RemoveMembers(GroupMembersOptions),
}

/// Options of `group create`.
#[derive(Args, Clone, Debug)]
pub struct GroupCreateOptions {
    /// Name of the group: letters, digits, hyphens, periods, underscores and tildes.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Rule of the group: affinity, diversity or exclusivity.
    #[arg(long = "type", value_name = "TYPE", value_parser = kind)]
    pub kind: GroupKind,

    /// Units to which the rule applies: host, rack or cluster.
    #[arg(long, value_name = "LEVEL", default_value = "host", value_parser = level)]
    pub level: Level,

    /// Description for people.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Options of commands for one group.
#[derive(Args, Clone, Debug)]
pub struct GroupOptions {
    /// Id or name of the group.
    #[arg(value_name = "GROUP")]
    pub group: String,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Options of `group describe`.
#[derive(Args, Clone, Debug)]
pub struct GroupDescribeOptions {
    /// Id or name of the group.
    #[arg(value_name = "GROUP")]
    pub group: String,

    /// New description.
    #[arg(value_name = "TEXT")]
    pub description: String,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Options of `group add-members` and `group remove-members`.
#[derive(Args, Clone, Debug)]
pub struct GroupMembersOptions {
    /// Id or name of the group.
    #[arg(value_name = "GROUP")]
    pub group: String,

    /// Ids of projects.
    #[arg(value_name = "PROJECT", required = true)]
    pub projects: Vec<String>,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Runs `berth group`, and returns its output.
///
/// # Errors
/// The arguments are invalid, the change is refused, or the database is unavailable.
pub async fn run(command: &GroupCommand) -> Result<String, Failure> {
    // Invalid arguments are reported before a private database is started.
    check(command).map_err(Failure)?;
    let db = match command {
        GroupCommand::Create(options) => &options.db,
        GroupCommand::List(ListOptions { db, .. })
        | GroupCommand::Show(GroupOptions { db, .. })
        | GroupCommand::Delete(GroupOptions { db, .. })
        | GroupCommand::Describe(GroupDescribeOptions { db, .. })
        | GroupCommand::AddMembers(GroupMembersOptions { db, .. })
        | GroupCommand::RemoveMembers(GroupMembersOptions { db, .. }) => db,
    };
    Database::with(&db.database, async |database| carry_out(command, database).await).await
}

fn check(command: &GroupCommand) -> Result<(), String> {
    match command {
        GroupCommand::Create(options) => {
            if !group::is_name(&options.name) || options.name.chars().nth(NAME_MAX).is_some() {
                return Err(format!("the name of a group {}", group::NAME_RULE));
            }
            options.description.as_deref().map_or(Ok(()), check_description)
        }
        GroupCommand::Describe(options) => check_description(&options.description),
        GroupCommand::AddMembers(options) => {
            let wrong = options.projects.iter().find(|id| !group::is_project_id(id));
            wrong.map_or(Ok(()), |id| Err(format!("{id:?} is not the id of a project: a UUID")))
        }
        GroupCommand::List(_)
        | GroupCommand::Show(_)
        | GroupCommand::Delete(_)
        | GroupCommand::RemoveMembers(_) => Ok(()),
    }
}

fn check_description(text: &str) -> Result<(), String> {
    match text.chars().nth(DESCRIPTION_MAX) {
        Some(_) => Err(format!("a description has at most {DESCRIPTION_MAX} characters")),
        None => Ok(()),
    }
}

async fn carry_out(command: &GroupCommand, database: &Database) -> Result<String, Failure> {
    settle_schema(database).await?;
    let mut conn = database.connect().await?;
    let group = match command {
        GroupCommand::Create(options) => {
            change(&mut conn, &CreateGroup { group: options.group(), owner: None }).await?
        }
        GroupCommand::List(options) => {
            let groups = list(&mut conn).await?;
            return Ok(match options.format.chosen() {
                ListFormat::Table => table(&groups),
                ListFormat::Json => format!("{:#}", groups.iter().map(view).collect::<Value>()),
            });
        }
        GroupCommand::Show(options) => show(&mut conn, &options.group).await?,
        GroupCommand::Describe(options) => {
            let (group, description) = (options.group.clone(), Some(options.description.clone()));
            change(&mut conn, &DescribeGroup { group, description }).await?
        }
        GroupCommand::Delete(options) => {
            let request = DeleteGroup { group: options.group.clone() };
            change(&mut conn, &request).await?;
            return Ok(String::new());
        }
        GroupCommand::AddMembers(options) => {
            let (group, members) = (options.group.clone(), options.projects.clone());
            change(&mut conn, &AddMembers { group, members }).await?
        }
        GroupCommand::RemoveMembers(options) => {
            let (group, members) = (options.group.clone(), Some(options.projects.clone()));
            change(&mut conn, &RemoveMembers { group, members }).await?;
            show(&mut conn, &options.group).await?
        }
    };
    Ok(format!("{:#}", view(&group)))
}

impl GroupCreateOptions {
    fn group(&self) -> StoredGroup {
        StoredGroup {
            id: Uuid::new_v4(),
            name: self.name.clone(),
            kind: self.kind,
            level: Some(self.level),
            description: self.description.clone(),
            generation: 0,
            members: Vec::new(),
        }
    }
}

fn kind(word: &str) -> Result<GroupKind, String> {
    GroupKind::named(word).ok_or_else(|| "must be affinity, diversity or exclusivity".to_owned())
}

fn level(word: &str) -> Result<Level, String> {
    Level::named(word).ok_or_else(|| "must be host, rack or cluster".to_owned())
}

/// A group as JSON, as in the API.
fn view(group: &StoredGroup) -> Value {
    json!({
        "id": group.id,
        "name": group.name,
        "type": group.kind.name(),
        "level": group.effective_level().name(),
        "description": group.description,
        "members": group.members,
    })
}

fn table(groups: &[StoredGroup]) -> String {
    let heads = ["name", "type", "level", "members", "id", "description"];
    let rows = groups.iter().map(|group| {
        [
            group.name.clone(),
            group.kind.name().to_owned(),
            group.effective_level().name().to_owned(),
            group.members.len().to_string(),
            group.id.to_string(),
            group.description.iter().flat_map(|text| text.lines()).take(1).collect(),
        ]
    });
    columns(heads, rows)
}
