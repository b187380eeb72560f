//! `/resource_providers/{uuid}/inventories` and `.../inventories/{resource_class}`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::body::{Body, Integer};
use super::extract::{ClassPath, ProviderPath, Target};
use super::microversion::{Ladder, Microversion, RESERVED_WHOLE};
use super::names::NAME;
use super::problem::{Code, Problem, RefusedAs as _};
use super::resource_providers;
use super::schema::{Schema, Shape, integer, map, number, object, string};
use crate::http::api::extract::Changing;
use crate::http::api::json::Ordered;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::layers::external_url::ExternalUrl;
use crate::model::effort::steps;
use crate::model::inventory::Inventory;
use crate::model::provider::InventoryRow;
use crate::model::{Generation, Refusal};
use crate::store::inventories::{DeleteInventory, ReplaceInventories, WriteInventory};
use crate::world::{Provider, World};

/// The greatest single-precision number, the reference's maximum of ratios.
const RATIO_MAX: f64 = 3.402_82e38;

/// Schema of `POST .../inventories`.
pub(super) static CREATE_BODY: LazyLock<Schema> = LazyLock::new(|| {
    terms().require("resource_class", string().with("pattern", NAME)).closed().for_bodies()
});

/// Schema of `PUT .../inventories/{resource_class}`.
pub(super) static UPDATE_BODY: LazyLock<Schema> = LazyLock::new(|| {
    terms().require("resource_provider_generation", integer()).closed().for_bodies()
});

/// Schema of `PUT .../inventories`.
pub(super) static REPLACE_BODY: LazyLock<Schema> = LazyLock::new(|| replace_body().for_bodies());

/// Schema of all inventories of a provider.
pub(super) fn replace_body() -> Shape {
    object()
        .require("resource_provider_generation", integer())
        .require("inventories", map().each(NAME, terms().closed()))
        .closed()
}

fn terms() -> Shape {
    let count = |least: u8| integer().with("maximum", i32::MAX).with("minimum", least);
    object()
        .allow("resource_provider_generation", integer())
        .require("total", count(1))
        .allow("reserved", count(0))
        .allow("min_unit", count(1))
        .allow("max_unit", count(1))
        .allow("step_size", count(1))
        .allow("allocation_ratio", number().with("maximum", RATIO_MAX))
}

/// An inventory in a request.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct InventoryBody {
    total: Integer<i32>,
    reserved: Option<Integer<i32>>,
    min_unit: Option<Integer<i32>>,
    max_unit: Option<Integer<i32>>,
    step_size: Option<Integer<i32>>,
    allocation_ratio: Option<f64>,
}

/// All inventories of a provider in a request.
#[derive(Deserialize)]
pub(super) struct InventoriesBody {
    pub(super) resource_provider_generation: Integer,
    inventories: Ordered<InventoryBody>,
}

#[derive(Deserialize)]
struct CreateBody {
    resource_class: String,
    #[serde(flatten)]
    terms: InventoryBody,
}

#[derive(Deserialize)]
struct UpdateBody {
    resource_provider_generation: Integer,
    #[serde(flatten)]
    terms: InventoryBody,
}

impl InventoryBody {
    fn inventory(&self) -> Inventory {
        let or =
            |given: Option<Integer<i32>>, default| given.map_or(default, |Integer(given)| given);
        Inventory {
            total: self.total.0,
            reserved: or(self.reserved, 0),
            min_unit: or(self.min_unit, 1),
            max_unit: or(self.max_unit, i32::MAX),
            step_size: or(self.step_size, 1),
            allocation_ratio: self.allocation_ratio.unwrap_or(1.0),
        }
    }
}

impl InventoriesBody {
    /// Returns the inventories by class name, in the order of the request.
    pub(super) fn inventories(self) -> Vec<(String, Inventory)> {
        let members = self.inventories.0.into_iter();
        members.map(|(class, terms)| (class, terms.inventory())).collect()
    }
}

/// `GET .../inventories`: all inventories of the provider, by class.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    path: ProviderPath,
) -> Result<Reply, Problem> {
    let world = app.store.world().await?;
    let provider = shown_provider(&path, &world)?;
    let rows: Vec<_> = provider.inventories().collect();
    let name = |row: &InventoryRow| world.name_of_class(row.class).to_owned();
    let modified = rows.iter().map(|row| row.updated_at).max();
    let inventories = rows.iter().map(|row| (name(row), View::of(&row.terms))).collect();
    let generation = provider.generation();
    Ok(Reply::json(&List { resource_provider_generation: generation, inventories })
        .modified(modified))
}

/// `POST .../inventories`: creates the inventory of one class. A generation in the body is not
/// compared. The class must exist and have no inventory there, and the inventory must have
/// capacity. Increments the generation.
pub(super) async fn create(
    Changing { app, changes }: Changing,
    microversion: Microversion,
    external_url: ExternalUrl,
    path: ProviderPath,
    body: Body,
) -> Result<Reply, Problem> {
    let Target { uuid, .. } = path.target(&app).await?;
    let CreateBody { resource_class: class, terms } = body.parse(&CREATE_BODY)?;
    let inventory = terms.inventory();
    let unable = |why: &dyn std::fmt::Display| {
        Problem::bad_request(format!(
            "Unable to create inventory for resource provider {uuid}: {why}"
        ))
    };
    check_capacity(&class, &inventory, uuid, microversion).map_err(|why| unable(&why))?;
    // As in the reference, a generation in the body is ignored.
    let change = WriteInventory {
        provider: uuid,
        class: class.clone(),
        inventory,
        expected_generation: None,
        is_new: true,
    };
    let generation = changes.commit(change).await.refused_as(|why| match why {
        Refusal::ProviderNotFound(_) => why.into(),
        Refusal::ClassNotFound(_) => unable(&why),
        other => {
            Problem::conflict(format!("Update conflict: {other}")).code(Code::ConcurrentUpdate)
        }
    })?;
    let location =
        external_url.location(&format!("{}/inventories/{class}", resource_providers::path(uuid)));
    let reply = one(&inventory, generation).modified(app.now());
    Ok(reply.status(StatusCode::CREATED).at(&location))
}

/// `PUT .../inventories`: replaces all inventories. Compares the generation in the body, checks the
/// capacities, and compares the generation again in the transaction. Classes that the body omits
/// lose their inventory, which must have no allocations. Increments the generation.
pub(super) async fn replace(
    Changing { app, changes }: Changing,
    microversion: Microversion,
    path: ProviderPath,
    body: Body,
) -> Result<Reply, Problem> {
    let target = path.target(&app).await?;
    let uuid = target.uuid;
    let body: InventoriesBody = body.parse(&REPLACE_BODY)?;
    let Integer(expected_generation) = body.resource_provider_generation;
    target.check_generation(expected_generation, generation_conflict)?;
    let inventories = body.inventories();
    check_capacities(&inventories, uuid, microversion)?;
    let modified = if inventories.is_empty() { None } else { Some(app.now()) };
    let change = ReplaceInventories {
        provider: uuid,
        expected_generation: Some(expected_generation),
        inventories: inventories.clone(),
    };
    let committed = changes.commit(change).await;
    let generation = committed.refused_as(|why| replace_refused(why, uuid))?;
    Ok(Reply::json(&List::of(&inventories, generation)).modified(modified))
}

/// `DELETE .../inventories`: deletes all inventories, none of which may have allocations.
/// Increments the generation without comparing it.
pub(super) async fn delete_all(
    Changing { app, changes }: Changing,
    path: ProviderPath,
) -> Result<Reply, Problem> {
    let Target { uuid, .. } = path.target(&app).await?;
    let change =
        ReplaceInventories { provider: uuid, expected_generation: None, inventories: Vec::new() };
    changes.commit(change).await.refused_as(|why| match why {
        Refusal::InventoryInUse { .. } => {
            Problem::conflict(why.to_string()).code(Code::InventoryInUse)
        }
        Refusal::ProviderGeneration { .. } => Problem::conflict(format!(
            "Unable to delete inventory for resource provider {uuid} because the inventory was \
             updated by another process. Please retry your request."
        ))
        .code(Code::ConcurrentUpdate),
        other => other.into(),
    })?;
    Ok(Reply::no_content())
}

/// `GET .../inventories/{resource_class}`: the inventory of one class.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    path: ProviderPath,
    ClassPath(class): ClassPath,
) -> Result<Reply, Problem> {
    let world = app.store.world().await?;
    let provider = shown_provider(&path, &world)?;
    let row =
        world.class_id(&class).and_then(|class| provider.inventory(class)).ok_or_else(|| {
            Problem::not_found(format!("No inventory of class {class} for {}", path.0))
        })?;
    Ok(one(&row.terms, provider.generation()).modified(row.updated_at))
}

/// `PUT .../inventories/{resource_class}`: replaces an existing inventory. The capacity may be less
/// than the allocated amount; then no more can be allocated. The generation in the body is compared
/// and incremented.
pub(super) async fn update(
    Changing { app, changes }: Changing,
    microversion: Microversion,
    path: ProviderPath,
    ClassPath(class): ClassPath,
    body: Body,
) -> Result<Reply, Problem> {
    let target = path.target(&app).await?;
    let uuid = target.uuid;
    let body: UpdateBody = body.parse(&UPDATE_BODY)?;
    let Integer(expected_generation) = body.resource_provider_generation;
    target.check_generation(expected_generation, generation_conflict)?;
    let inventory = body.terms.inventory();
    check_capacity(&class, &inventory, uuid, microversion)
        .map_err(|why| cannot_update(uuid, &why))?;
    let expected_generation = Some(expected_generation);
    let change =
        WriteInventory { provider: uuid, class, inventory, expected_generation, is_new: false };
    let generation = changes.commit(change).await.refused_as(|why| match why {
        Refusal::ProviderGeneration { .. } => generation_conflict(),
        Refusal::InventoryNotFound(_) => Problem::bad_request(format!(
            "No inventory record with resource class for resource provider {uuid}: {why}"
        )),
        other => other.into(),
    })?;
    Ok(one(&inventory, generation).modified(app.now()))
}

/// `DELETE .../inventories/{resource_class}`: deletes the inventory of a class, which must have no
/// allocations. Increments the generation without comparing it.
pub(super) async fn delete(
    Changing { app, changes }: Changing,
    path: ProviderPath,
    ClassPath(class): ClassPath,
) -> Result<Reply, Problem> {
    let Target { uuid, .. } = path.target(&app).await?;
    let change = DeleteInventory { provider: uuid, class: class.clone() };
    changes.commit(change).await.refused_as(|why| match why {
        Refusal::ClassNotFound(_) | Refusal::InventoryNotFoundForDelete(_) => {
            Problem::not_found(format!("No inventory of class {class} found for delete: {why}"))
        }
        Refusal::InventoryInUse { .. } | Refusal::ProviderGeneration { .. } => {
            Problem::conflict(format!("Unable to delete inventory of class {class}: {why}"))
                .code(Code::ConcurrentUpdate)
        }
        other => other.into(),
    })?;
    Ok(Reply::no_content())
}

fn shown_provider<'w>(path: &ProviderPath, world: &'w World) -> Result<Provider<'w>, Problem> {
    path.provider_or(world, |missing| format!("{missing} : {missing}"))
}

fn check_capacities(
    inventories: &[(String, Inventory)],
    provider: Uuid,
    microversion: Microversion,
) -> Result<(), Problem> {
    for (class, inventory) in inventories {
        steps(1);
        check_capacity(class, inventory, provider, microversion)
            .map_err(|why| cannot_update(provider, &why))?;
    }
    Ok(())
}

/// Capacity must be positive; from 1.26 it may be zero.
fn check_capacity(
    class: &str,
    inventory: &Inventory,
    provider: Uuid,
    microversion: Microversion,
) -> Result<(), String> {
    let (least, reserved_is) = *Ladder::from((1, "greater than or equal to"))
        .then(RESERVED_WHOLE, |_| (0, "greater than"))
        .at(microversion);
    if inventory.capacity() >= least {
        return Ok(());
    }
    Err(format!(
        "Invalid inventory for '{class}' on resource provider '{provider}'. The reserved value is \
         {reserved_is} total."
    ))
}

fn generation_conflict() -> Problem {
    Problem::conflict("resource provider generation conflict").code(Code::ConcurrentUpdate)
}

fn cannot_update(provider: Uuid, why: &str) -> Problem {
    Problem::bad_request(format!(
        "Unable to update inventory for resource provider {provider}: {why}"
    ))
}

fn replace_refused(why: Refusal, provider: Uuid) -> Problem {
    match why {
        Refusal::ProviderGeneration { .. } => generation_conflict(),
        Refusal::ClassNotFound(_) => Problem::bad_request(format!(
            "Unknown resource class in inventory for resource provider {provider}: {why}"
        )),
        Refusal::InventoryInUse { .. } => {
            Problem::conflict(format!("update conflict: {why}")).code(Code::InventoryInUse)
        }
        other => other.into(),
    }
}

fn one(inventory: &Inventory, generation: Generation) -> Reply {
    Reply::json(&One {
        inventory: View::of(inventory),
        resource_provider_generation: (generation != 0).then_some(generation),
    })
}

/// The inventories of a provider, by resource class.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Inventories")]
pub(super) struct List {
    resource_provider_generation: Generation,
    inventories: BTreeMap<String, View>,
}

impl List {
    fn of(inventories: &[(String, Inventory)], resource_provider_generation: Generation) -> Self {
        let named = inventories.iter().inspect(|_| steps(1));
        let inventories = named.map(|(class, it)| (class.clone(), View::of(it))).collect();
        Self { resource_provider_generation, inventories }
    }
}

/// The inventory of a resource class.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "InventoryOfClass")]
pub(super) struct One {
    #[serde(flatten)]
    inventory: View,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_provider_generation: Option<Generation>,
}

/// An inventory.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Inventory")]
struct View {
    total: i32,
    reserved: i32,
    min_unit: i32,
    max_unit: i32,
    step_size: i32,
    allocation_ratio: f64,
}

impl View {
    fn of(inventory: &Inventory) -> Self {
        let &Inventory { total, reserved, min_unit, max_unit, step_size, allocation_ratio } =
            inventory;
        Self { total, reserved, min_unit, max_unit, step_size, allocation_ratio }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{InventoriesBody, List, REPLACE_BODY, check_capacities};
    use crate::http::placement::body::Body;
    use crate::http::placement::microversion::LATEST;
    use crate::model::effort::grows_evenly;

    /// Bodies of a megabyte: valid, with a schema violation at the end, or with an inventory
    /// without capacity.
    #[test]
    fn reading_inventories_takes_no_longer_than_the_body() {
        for (last, is_fine) in [
            (r#"{"total": 1}"#, true),
            (r#"{"total": 0}"#, false),
            (r#"{"total": 1, "reserved": 2}"#, false),
        ] {
            let body = |count: usize| {
                let mut members: Vec<_> =
                    (1..count).map(|nth| format!(r#""CUSTOM_{nth}":{{"total":1}}"#)).collect();
                members.push(format!(r#""VCPU":{last}"#));
                let members = members.join(",");
                let text =
                    format!(r#"{{"resource_provider_generation":0,"inventories":{{{members}}}}}"#);
                Body(text.into())
            };
            grows_evenly(last, 36_000, body, |body| {
                let all =
                    body.parse::<InventoriesBody>(&REPLACE_BODY).map(InventoriesBody::inventories);
                let read = all.and_then(|all| {
                    check_capacities(&all, Uuid::nil(), LATEST)?;
                    Ok(serde_json::to_vec(&List::of(&all, 0)).unwrap())
                });
                assert_eq!(read.is_ok(), is_fine);
            });
        }
    }
}
