//! `POST /-/v1/explain`: tests a claim. Also converts the faults of claims and other changes into
//! views.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Request, State};
use uuid::Uuid;

use super::refused::rfc_3339;
use super::{Problem, RequestCaller, costly, microversion};
use crate::http::api::in_turn::work_in;
use crate::http::api::intake;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::operator::views::claim::{
    ClaimExplanation, ClaimFault, ClaimFaults, ClaimRefusal, ClaimedInventory, Holder,
};
use crate::http::placement::allocations::{claims_of, refused};
use crate::http::placement::body::Body;
use crate::http::placement::query::Query;
use crate::model::claim::{Fault, Faults};
use crate::model::{Expected, Inventory, Refusal};
use crate::store::{self, claim_check};
use crate::world::World;

/// The parameters of the query.
const PARAMETERS: [&str; 2] = ["consumer", "holders"];
/// Default and maximum number of holders of an inventory in a response.
const HOLDERS: u32 = 10;
const HOLDERS_MAX: u32 = 1000;

/// `POST /-/v1/explain`: takes the body of `PUT /allocations/{consumer}` with the parameter
/// `consumer`, or that of `POST /allocations`, and returns whether it would be refused. Writes
/// nothing.
pub(super) async fn explain(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    request: Request,
) -> Result<Reply, Problem> {
    let (parts, body) = request.into_parts();
    let version = microversion(&parts.headers)?;
    let query = Query::parse(parts.uri.query().map_or("", |query| query))?;
    if let Some(other) = query.names().find(|name| !PARAMETERS.contains(name)) {
        let known = PARAMETERS.join(", ");
        return Err(Problem::bad_request(format!("{other} is not one of the parameters {known}")));
    }
    let holders = holders(&query)?;
    let body = Body(intake::read(body, &app.options).await?);
    let consumer = query.once("consumer")?;
    let claims = claims_of(&body, consumer, version, &app.options)?;
    let named = claims.first().map(|claim| claim.consumer).filter(|_| consumer.is_some());
    let turn = costly::turn(&app, caller.requester()).await?;
    let checked = app.store.check_claims(&claims, holders).await?;
    let world = app.store.known_world();
    let write = move || {
        let refusal = checked.refusal.map(|refusal| claim_refusal(refusal, named));
        let inventories = checked.inventories.iter().map(|it| claimed_inventory(&world, it));
        Reply::json(&ClaimExplanation {
            allowed: refusal.is_none(),
            refusal,
            faults: claim_faults(&world, &checked.faults),
            inventories: inventories.collect(),
            inventories_count: checked.inventories_count,
        })
    };
    work_in(turn, write).await
}

/// Returns the number of holders to list.
fn holders(query: &Query) -> Result<u32, Problem> {
    let Some(value) = query.once("holders")? else { return Ok(HOLDERS) };
    value.parse().ok().filter(|number| (1..=HOLDERS_MAX).contains(number)).ok_or_else(|| {
        Problem::bad_request(format!(
            "holders must be a number from 1 to {HOLDERS_MAX}, not {value}"
        ))
    })
}

/// Returns the response of the Placement API.
fn claim_refusal(refusal: Refusal, consumer: Option<Uuid>) -> ClaimRefusal {
    let problem = refused(store::Error::Refused(refusal), consumer);
    ClaimRefusal { status: problem.status.as_u16(), detail: problem.detail }
}

fn claimed_inventory(world: &World, it: &claim_check::ClaimedInventory) -> ClaimedInventory {
    let terms = &it.terms;
    let holder = |it: &claim_check::Holder| Holder {
        consumer: it.consumer.to_string(),
        amount: it.amount,
        generation: it.generation,
        consumer_type: it.consumer_type.clone(),
        project_id: it.project.clone(),
        user_id: it.user.clone(),
        since: rfc_3339(it.since),
    };
    ClaimedInventory {
        provider: it.provider.to_string(),
        name: world.provider(it.provider).map(|it| it.name().to_owned()),
        resource_class: it.class.clone(),
        wanted: it.wanted,
        given_back: it.given_back,
        used: it.used,
        capacity: terms.capacity(),
        total: terms.total,
        reserved: terms.reserved,
        allocation_ratio: terms.allocation_ratio,
        min_unit: terms.min_unit,
        max_unit: terms.max_unit,
        step_size: terms.step_size,
        holders_count: it.holders_count,
        holders: it.holders.iter().map(holder).collect(),
    }
}

/// Converts the faults of claims, with the names of providers in a world.
pub(in crate::http) fn claim_faults(world: &World, faults: &Faults) -> ClaimFaults {
    let written = faults.listed.iter().map(|fault| claim_fault(world, fault));
    ClaimFaults { count: faults.count, faults: written.collect() }
}

fn claim_fault(world: &World, fault: &Fault) -> ClaimFault {
    let name = |provider: &Uuid| world.provider(*provider).map(|it| it.name().to_owned());
    match fault {
        Fault::ConsumerGeneration { consumer, expected, actual } => {
            let given = match expected {
                Expected::Is(generation) => Some(*generation),
                Expected::Any | Expected::NoConsumer => None,
            };
            let (consumer, actual) = (consumer.to_string(), *actual);
            ClaimFault::ConsumerGeneration { consumer, given, actual }
        }
        Fault::ProviderGeneration { provider, given, actual } => ClaimFault::ProviderGeneration {
            provider: provider.to_string(),
            given: *given,
            actual: *actual,
        },
        Fault::UnknownProvider(provider) => {
            ClaimFault::UnknownProvider { provider: provider.to_string() }
        }
        Fault::UnknownClass(class) => ClaimFault::UnknownClass { resource_class: class.clone() },
        Fault::NoInventory { provider, class } => ClaimFault::NoInventory {
            provider: provider.to_string(),
            name: name(provider),
            resource_class: class.clone(),
        },
        Fault::Amount { provider, class, amount, terms } => {
            amount_fault((provider.to_string(), name(provider), class.clone()), *amount, terms)
        }
        Fault::Capacity { provider, class, wanted, given_back, used, terms } => {
            let inventory = (provider.to_string(), name(provider), class.clone());
            capacity_fault(inventory, [*wanted, *given_back, *used], terms)
        }
        Fault::Exclusive { provider, group, unit } => ClaimFault::Exclusive {
            provider: provider.to_string(),
            name: name(provider),
            group: group.clone(),
            unit: unit.clone(),
        },
        Fault::InventoryInUse { provider, used } => ClaimFault::InventoryInUse {
            provider: provider.to_string(),
            name: name(provider),
            resource_classes: class_names(used),
            used: amounts(used),
        },
        Fault::InventoryExists { provider, class } => ClaimFault::InventoryExists {
            provider: provider.to_string(),
            name: name(provider),
            resource_class: class.clone(),
        },
        Fault::ProviderInUse { provider, used } => ClaimFault::ProviderInUse {
            provider: provider.to_string(),
            name: name(provider),
            used: amounts(used),
        },
        Fault::ProviderHasChildren { provider, children } => ClaimFault::ProviderHasChildren {
            provider: provider.to_string(),
            name: name(provider),
            children: children.clone(),
        },
        Fault::UnknownTraits(names) => ClaimFault::UnknownTraits { traits: names.clone() },
        Fault::TraitInUse { name, providers } => {
            ClaimFault::TraitInUse { r#trait: name.clone(), providers: providers.clone() }
        }
        Fault::ClassInUse { name, providers } => {
            ClaimFault::ClassInUse { resource_class: name.clone(), providers: providers.clone() }
        }
    }
}

/// An inventory: provider, name of the provider, class.
type NamedInventory = (String, Option<String>, String);

fn amount_fault(
    (provider, name, resource_class): NamedInventory,
    amount: i64,
    terms: &Inventory,
) -> ClaimFault {
    let (limit, limit_value) = violated(amount, terms);
    let (limit, limit_value) = (limit.to_owned(), limit_value.into());
    ClaimFault::Amount { provider, name, resource_class, amount, limit, limit_value }
}

fn capacity_fault(
    (provider, name, resource_class): NamedInventory,
    [wanted, given_back, used]: [i64; 3],
    terms: &Inventory,
) -> ClaimFault {
    let capacity = terms.capacity();
    let after = (used - given_back).saturating_add(wanted);
    ClaimFault::Capacity {
        provider,
        name,
        resource_class,
        wanted,
        given_back,
        used,
        capacity,
        total: terms.total,
        reserved: terms.reserved,
        allocation_ratio: terms.allocation_ratio,
        // An inventory over its capacity may stay as full as it is.
        missing: after.saturating_sub(capacity.max(used)),
    }
}

/// `VCPU, VGPU`
fn class_names(used: &[(String, i64)]) -> String {
    let classes: Vec<&str> = used.iter().map(|(class, _)| class.as_str()).collect();
    classes.join(", ")
}

/// Amounts by class name.
fn amounts(used: &[(String, i64)]) -> BTreeMap<String, i64> {
    used.iter().cloned().collect()
}

/// Returns the limit that an amount violates.
fn violated(amount: i64, terms: &Inventory) -> (&'static str, i32) {
    if amount < i64::from(terms.min_unit) {
        ("min_unit", terms.min_unit)
    } else if amount > i64::from(terms.max_unit) {
        ("max_unit", terms.max_unit)
    } else {
        ("step_size", terms.step_size)
    }
}
