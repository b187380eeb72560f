//! Groups and their members.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use futures_util::future::try_join_all;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::extract::{GroupPath, JsonObject, MemberPath, Tenant};
use super::mount::Mount;
use super::problem::Problem;
use super::schema::{
    self, BodyKey, Check, DESCRIPTION_MAX, NAME_MAX, Object, TEXTS, optional, required,
};
use super::views::GroupView;
use crate::http::api::extract::Changing;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::layers::identity::Identity;
use crate::model::{GroupKind, Level, Refusal};
use crate::planner::group::{self, StoredGroup};
use crate::store::planner::groups::{
    AddMembers, CreateGroup, DeleteGroup, DescribeGroup, RemoveMembers,
};

/// Maximum number of members in a request.
const MEMBERS_MAX: usize = 1000;
/// Maximum number of concurrent Keystone lookups for a request.
const QUESTIONS_MAX: usize = 16;

pub(super) static CREATE: [BodyKey; 4] = [
    optional("description", Check::TextOrNull(DESCRIPTION_MAX)),
    optional(
        "level",
        Check::Custom("group_level", level, r#"{"enum": ["host", "rack", "cluster"]}"#),
    ),
    required("name", Check::Custom("group_name_type", name, r#"{"type": "string"}"#)),
    required(
        "type",
        Check::Custom("group_type", kind, r#"{"enum": ["affinity", "diversity", "exclusivity"]}"#),
    ),
];
pub(super) static UPDATE: [BodyKey; 1] =
    [required("description", Check::TextOrNull(DESCRIPTION_MAX))];
pub(super) static MEMBERS: [BodyKey; 1] =
    [required("members", Check::Custom("array", members, TEXTS))];

/// All groups.
#[derive(JsonSchema, Serialize)]
pub(super) struct Groups {
    groups: Vec<GroupView>,
}

/// A group.
#[derive(JsonSchema, Serialize)]
pub(super) struct WrappedGroup {
    group: GroupView,
}

/// `GET /v1/groups`
pub(super) async fn list(State(app): State<Arc<App>>, mount: Mount) -> Result<Reply, Problem> {
    let groups = app.store.groups().await?;
    let groups = groups.iter().map(|group| mount.group(group)).collect();
    Ok(Reply::json(&Groups { groups }))
}

/// `POST /v1/groups`: creates a group without members. Its name must be unique, and without a level
/// its type must be exclusivity.
pub(super) async fn create(
    Changing { app, changes }: Changing,
    tenant: Tenant,
    JsonObject(body): JsonObject,
) -> Result<Reply, Problem> {
    schema::check(&body, &CREATE)?;
    let text = |key| text(&body, key);
    let level = text("level").and_then(|word| Level::named(&word));
    let word = text("type").unwrap_or_default();
    let kind = GroupKind::named(&word).filter(|kind| {
        // Clients that send no level know no other type.
        level.is_some() || *kind == GroupKind::Exclusivity
    });
    let kind = kind.ok_or_else(|| {
        Problem::bad_request(format!(
            "-> type -> {word} did not pass validation against callable: group_type (must be \
             exclusivity unless a level is given)"
        ))
    })?;
    let group = StoredGroup {
        id: Uuid::new_v4(),
        name: text("name").unwrap_or_default(),
        kind,
        level,
        description: text("description"),
        generation: 0,
        members: Vec::new(),
    };
    let owner = Some((tenant.project().to_owned(), app.options.planner.caps));
    let created = changes.commit(CreateGroup { group, owner }).await?;
    Ok(changed(&created, tenant.mount))
}

/// `GET /v1/groups/{group}`
pub(super) async fn show(
    State(app): State<Arc<App>>,
    mount: Mount,
    path: GroupPath,
) -> Result<Reply, Problem> {
    Ok(Reply::json(&WrappedGroup { group: mount.group(&found(&app, &path).await?) }))
}

/// `PUT /v1/groups/{group}`: changes the description, the only mutable property.
pub(super) async fn update(
    Changing { app, changes }: Changing,
    mount: Mount,
    path: GroupPath,
    JsonObject(body): JsonObject,
) -> Result<Reply, Problem> {
    found(&app, &path).await?;
    schema::check(&body, &UPDATE)?;
    let description = text(&body, "description");
    let updated = changes.commit(DescribeGroup { group: path.0, description }).await?;
    Ok(changed(&updated, mount))
}

/// `DELETE /v1/groups/{group}`: deletes a group without members and servers.
pub(super) async fn delete(
    Changing { changes, .. }: Changing,
    GroupPath(group): GroupPath,
) -> Result<Reply, Problem> {
    changes.commit(DeleteGroup { group }).await?;
    Ok(Reply::no_content())
}

/// `PUT /v1/groups/{group}/members`: adds projects. New ones must exist.
pub(super) async fn add_members(
    Changing { app, changes }: Changing,
    mount: Mount,
    path: GroupPath,
    JsonObject(body): JsonObject,
) -> Result<Reply, Problem> {
    let known = found(&app, &path).await?;
    schema::check(&body, &MEMBERS)?;
    let listed = body.get("members").and_then(Value::as_array).into_iter().flatten();
    let members: Vec<String> =
        listed.map(|member| member.as_str().unwrap_or_default().to_owned()).collect();
    let new = group::new_members(&known.members, &members);
    if !are_projects(&app.identity, &new).await? {
        return Err(Problem::conflict("Member list contains invalid tenant IDs"));
    }
    let updated = changes.commit(AddMembers { group: path.0, members }).await?;
    Ok(changed(&updated, mount))
}

/// `DELETE /v1/groups/{group}/members`: removes all members, if none has servers in the group.
pub(super) async fn remove_members(
    Changing { changes, .. }: Changing,
    GroupPath(group): GroupPath,
) -> Result<Reply, Problem> {
    changes.commit(RemoveMembers { group, members: None }).await?;
    Ok(Reply::no_content())
}

/// `GET /v1/groups/{group}/members/{member}`: responds whether the project is a member.
pub(super) async fn show_member(
    State(app): State<Arc<App>>,
    path: GroupPath,
    MemberPath(member): MemberPath,
) -> Result<Reply, Problem> {
    let is_member = found(&app, &path).await?.has_member(&member);
    if is_member { Ok(Reply::no_content()) } else { Err(Refusal::MemberNotFound.into()) }
}

/// `DELETE /v1/groups/{group}/members/{member}`: removes a member, if it has no servers in the
/// group.
pub(super) async fn remove_member(
    Changing { changes, .. }: Changing,
    GroupPath(group): GroupPath,
    MemberPath(member): MemberPath,
) -> Result<Reply, Problem> {
    changes.commit(RemoveMembers { group, members: Some(vec![member]) }).await?;
    Ok(Reply::no_content())
}

/// Responds whether the group in the path exists.
pub(super) async fn exists(State(app): State<Arc<App>>, path: GroupPath) -> Result<Reply, Problem> {
    found(&app, &path).await.map(|_| Reply::no_content())
}

async fn found(app: &App, path: &GroupPath) -> Result<StoredGroup, Problem> {
    Ok(app.store.group(&path.0).await?)
}

/// Returns the response with a group that was just written.
fn changed(group: &StoredGroup, mount: Mount) -> Reply {
    Reply::json(&mount.group(group)).status(StatusCode::CREATED)
}

/// Returns whether all ids are UUIDs of projects and, with Keystone, exist there.
async fn are_projects(identity: &Identity, ids: &[String]) -> Result<bool, Problem> {
    if !ids.iter().all(|id| group::is_project_id(id)) {
        return Ok(false);
    }
    for some in ids.chunks(QUESTIONS_MAX) {
        let known = try_join_all(some.iter().map(|id| identity.knows_project(id))).await?;
        if known.contains(&false) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn text(body: &Object, key: &str) -> Option<String> {
    body.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn name(value: &Value) -> Result<(), String> {
    let is_name = value.as_str().is_some_and(group::is_name);
    let why = if is_name { schema::text_fault(value, NAME_MAX) } else { Some(rule()) };
    why.map_or(Ok(()), Err)
}

fn rule() -> String {
    group::NAME_RULE.to_owned()
}

fn kind(value: &Value) -> Result<(), String> {
    let known = value.as_str().and_then(GroupKind::named);
    known.map(drop).ok_or_else(|| "must be affinity, diversity or exclusivity".to_owned())
}

fn level(value: &Value) -> Result<(), String> {
    let known = value.as_str().and_then(Level::named);
    known.map(drop).ok_or_else(|| "must be host, rack or cluster".to_owned())
}

fn members(value: &Value) -> Result<(), String> {
    let members = value.as_array().ok_or("not of type array")?;
    if members.len() > MEMBERS_MAX {
        return Err(format!("more than {MEMBERS_MAX} members"));
    }
    let fault = members.iter().find_map(|member| schema::text_fault(member, NAME_MAX));
    fault.map_or(Ok(()), |fault| Err(format!("a member is {fault}")))
}
