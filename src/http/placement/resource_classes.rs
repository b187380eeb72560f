//! `/resource_classes` and `/resource_classes/{name}`.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::body;
use super::body::Body;
use super::extract::NamePath;
use super::names::{CUSTOM, LONGEST};
use super::problem::{Problem, RefusedAs as _};
use super::resource_providers::Link;
use super::schema::{Schema, object, string};
use crate::http::api::extract::Changing;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::layers::external_url::ExternalUrl;
use crate::model::Refusal;
use crate::store::resource_classes::{DeleteClass, EnsureClass, RenameClass};

/// Schema of `POST /resource_classes`, and until 1.6 of `PUT /resource_classes/{name}`.
pub(super) static BODY: LazyLock<Schema> = LazyLock::new(|| {
    let name = string().with("pattern", CUSTOM).with("maxLength", LONGEST);
    object().require("name", name).closed().for_bodies()
});

#[derive(Deserialize)]
struct ClassBody {
    name: String,
}

/// `GET /resource_classes`: all resource classes, standard and custom.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    external_url: ExternalUrl,
) -> Result<Reply, Problem> {
    let world = app.store.world().await?;
    let known = world.catalogue().classes.values();
    let modified = known.clone().map(|class| class.updated_at).max();
    let resource_classes = known.map(|class| View::of(&class.name, &external_url)).collect();
    Ok(Reply::json(&List { resource_classes }).modified(modified.unwrap_or(app.now())))
}

/// `POST /resource_classes`: creates a custom class. Its name must be new.
pub(super) async fn create(
    Changing { changes, .. }: Changing,
    external_url: ExternalUrl,
    body: Body,
) -> Result<Reply, Problem> {
    let ClassBody { name } = body.parse(&BODY)?;
    let location = external_url.location(&path(&name));
    if !changes.commit(EnsureClass { name: name.clone() }).await? {
        let detail = format!("Conflicting resource class already exists: {name}");
        return Err(Problem::conflict(detail));
    }
    Ok(Reply::created().at(&location))
}

/// `GET /resource_classes/{name}`: responds whether the class exists.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    external_url: ExternalUrl,
    NamePath(name): NamePath,
) -> Result<Reply, Problem> {
    let world = app.store.world().await?;
    let class = world.class_id(&name).and_then(|id| world.catalogue().classes.get(&id));
    let missing = || Problem::not_found(Refusal::ClassNotFound(name.clone()).to_string());
    let modified = class.ok_or_else(missing)?.updated_at;
    Ok(Reply::json(&View::of(&name, &external_url)).modified(modified))
}

/// `PUT /resource_classes/{name}` from 1.2 to 1.6: renames a custom class. The new name must not be
/// in use. Inventories and allocations keep the class.
pub(super) async fn rename(
    Changing { changes, .. }: Changing,
    external_url: ExternalUrl,
    NamePath(name): NamePath,
    body: Body,
) -> Result<Reply, Problem> {
    let ClassBody { name: new_name } = body.parse(&BODY)?;
    let change = RenameClass { name: name.clone(), new_name: new_name.clone() };
    changes.commit(change).await.refused_as(|why| match why {
        Refusal::ClassExists(_) => {
            Problem::conflict(format!("Resource class already exists: {new_name}"))
        }
        Refusal::ClassStandardUpdate(_) => {
            Problem::bad_request(format!("Cannot update standard resource class {name}"))
        }
        other => other.into(),
    })?;
    Ok(Reply::json(&View::of(&new_name, &external_url)))
}

/// `PUT /resource_classes/{name}` from 1.7: creates a custom class unless it exists.
pub(super) async fn ensure(
    Changing { app, changes }: Changing,
    external_url: ExternalUrl,
    NamePath(name): NamePath,
) -> Result<Reply, Problem> {
    body::check(&json!({ "name": name }), &BODY)?;
    let location = external_url.location(&path(&name));
    let world = app.store.world().await?;
    let known = world.class_id(&name).is_some();
    let created = !known && changes.commit(EnsureClass { name }).await?;
    Ok(if created { Reply::created() } else { Reply::no_content() }.at(&location))
}

/// `DELETE /resource_classes/{name}`: deletes a custom class that no inventory uses.
pub(super) async fn delete(
    Changing { changes, .. }: Changing,
    NamePath(name): NamePath,
) -> Result<Reply, Problem> {
    let change = DeleteClass { name };
    changes.commit(change).await.refused_as(|why| match why {
        Refusal::ClassStandardDelete(_) => {
            Problem::bad_request(format!("Error in delete resource class: {why}"))
        }
        Refusal::ClassInUse { .. } => {
            Problem::conflict(format!("Error in delete resource class: {why}"))
        }
        other => other.into(),
    })?;
    Ok(Reply::no_content())
}

fn path(name: &str) -> String {
    format!("/resource_classes/{name}")
}

/// A list of resource classes.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "ResourceClasses")]
pub(super) struct List<'a> {
    resource_classes: Vec<View<'a>>,
}

/// A resource class.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "ResourceClass")]
pub(super) struct View<'a> {
    name: &'a str,
    links: [Link; 1],
}

impl<'a> View<'a> {
    fn of(name: &'a str, external_url: &ExternalUrl) -> Self {
        Self { name, links: [Link { rel: "self", href: external_url.href(&path(name)) }] }
    }
}
