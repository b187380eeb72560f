//! The whole API as one table: path, method, versions, rule, handler, description.
//!
//! Order matters twice: `Allow` lists the methods of a path in table order, and the first of
//! several rows of a method decides the response of a version without any.

use super::dialect::Placement;
use super::microversion::{
    AGGREGATES, ALLOCATION_CANDIDATES, DELETE_ALL_INVENTORIES, ENSURE_RESOURCE_CLASS,
    POST_ALLOCATIONS, RESHAPER, RESOURCE_CLASSES, TRAITS, USAGES,
};
use super::{
    aggregates, allocation_candidates, allocations, inventories, reshaper, resource_classes,
    resource_providers, root, traits, usages,
};
use crate::auth::policy::rule;
use crate::http::api::dialect::Route;
use crate::http::api::routes::{delete, get, post, put, route};

/// The route that needs no token.
pub(super) fn root() -> Route<Placement> {
    route(
        "/",
        [get(.., None, root::show)
            .of_any_media()
            .about("Returns the range of microversions.")
            .returns::<root::Document>()],
    )
}

/// The API.
pub(super) fn table() -> Vec<Route<Placement>> {
    [classes(), providers(), provider_parts(), consumers(), traits()]
        .into_iter()
        .flatten()
        .collect()
}

fn classes() -> Vec<Route<Placement>> {
    vec![
        route(
            "/resource_classes",
            [
                get(RESOURCE_CLASSES.., rule::CLASSES_LIST, resource_classes::list)
                    .about("Lists all resource classes, standard and custom.")
                    .returns::<resource_classes::List<'_>>(),
                post(RESOURCE_CLASSES.., rule::CLASSES_CREATE, resource_classes::create)
                    .about("Creates a custom resource class.")
                    .body(&resource_classes::BODY)
                    .creates_silently(),
            ],
        ),
        route(
            "/resource_classes/{name}",
            [
                get(RESOURCE_CLASSES.., rule::CLASSES_SHOW, resource_classes::show)
                    .about("Returns a resource class.")
                    .returns::<resource_classes::View<'_>>(),
                put(
                    RESOURCE_CLASSES..ENSURE_RESOURCE_CLASS,
                    rule::CLASSES_UPDATE,
                    resource_classes::rename,
                )
                .about("Renames a custom resource class.")
                .body(&resource_classes::BODY)
                .returns::<resource_classes::View<'_>>(),
                put(ENSURE_RESOURCE_CLASS.., rule::CLASSES_UPDATE, resource_classes::ensure)
                    .of_any_media()
                    .about("Creates a custom resource class, unless it exists.")
                    .creates_silently()
                    .returns_nothing(),
                delete(RESOURCE_CLASSES.., rule::CLASSES_DELETE, resource_classes::delete)
                    .about("Deletes a custom resource class that no inventory uses.")
                    .returns_nothing(),
            ],
        ),
    ]
}

fn providers() -> Vec<Route<Placement>> {
    vec![
        route(
            "/resource_providers",
            [
                get(.., rule::PROVIDERS_LIST, resource_providers::list)
                    .about("Lists the resource providers that match all filters.")
                    .query(&resource_providers::LIST_QUERY)
                    .returns::<resource_providers::List<'_>>(),
                post(.., rule::PROVIDERS_CREATE, resource_providers::create)
                    .about("Creates a resource provider, below a parent if the body names one.")
                    .body(&resource_providers::CREATE_BODY)
                    .returns::<resource_providers::View<'_>>()
                    .creates_silently(),
            ],
        ),
        route(
            "/resource_providers/{uuid}",
            [
                get(.., rule::PROVIDERS_SHOW, resource_providers::show)
                    .about("Returns a resource provider.")
                    .returns::<resource_providers::View<'_>>(),
                delete(.., rule::PROVIDERS_DELETE, resource_providers::delete)
                    .about("Deletes a resource provider without children and allocations.")
                    .returns_nothing(),
                put(.., rule::PROVIDERS_UPDATE, resource_providers::update)
                    .about("Renames a resource provider, or moves it below another parent.")
                    .body(&resource_providers::UPDATE_BODY)
                    .returns::<resource_providers::View<'_>>(),
            ],
        ),
        route(
            "/resource_providers/{uuid}/inventories",
            [
                get(.., rule::INVENTORIES_LIST, inventories::list)
                    .about("Returns the inventories of a resource provider.")
                    .returns::<inventories::List>(),
                post(.., rule::INVENTORIES_CREATE, inventories::create)
                    .about("Adds an inventory to a resource provider.")
                    .body(&inventories::CREATE_BODY)
                    .creates::<inventories::One>(),
                put(.., rule::INVENTORIES_UPDATE, inventories::replace)
                    .about("Replaces all inventories of a resource provider.")
                    .body(&inventories::REPLACE_BODY)
                    .returns::<inventories::List>(),
                delete(DELETE_ALL_INVENTORIES.., rule::INVENTORIES_DELETE, inventories::delete_all)
                    .not_allowed_elsewhere()
                    .about("Deletes all inventories of a resource provider.")
                    .returns_nothing(),
            ],
        ),
        route(
            "/resource_providers/{uuid}/inventories/{resource_class}",
            [
                get(.., rule::INVENTORIES_SHOW, inventories::show)
                    .about("Returns an inventory of a resource provider.")
                    .returns::<inventories::One>(),
                put(.., rule::INVENTORIES_UPDATE, inventories::update)
                    .about("Changes an inventory of a resource provider.")
                    .body(&inventories::UPDATE_BODY)
                    .returns::<inventories::One>(),
                delete(.., rule::INVENTORIES_DELETE, inventories::delete)
                    .about("Deletes an inventory without allocations.")
                    .returns_nothing(),
            ],
        ),
    ]
}

fn provider_parts() -> Vec<Route<Placement>> {
    vec![
        route(
            "/resource_providers/{uuid}/usages",
            [get(.., rule::PROVIDER_USAGES, usages::of_provider)
                .about("Returns the allocated amounts on a resource provider.")
                .returns::<usages::OfProvider>()],
        ),
        route(
            "/resource_providers/{uuid}/aggregates",
            [
                get(AGGREGATES.., rule::AGGREGATES_LIST, aggregates::list)
                    .media_first()
                    .about("Returns the aggregates of a resource provider.")
                    .returns::<aggregates::View<'_>>(),
                put(AGGREGATES.., rule::AGGREGATES_UPDATE, aggregates::replace)
                    .media_first()
                    .about("Replaces the aggregates of a resource provider.")
                    .body(&aggregates::REPLACE_BODY)
                    .returns::<aggregates::View<'_>>(),
            ],
        ),
        route(
            "/resource_providers/{uuid}/allocations",
            [get(.., rule::PROVIDER_ALLOCATIONS_LIST, allocations::list_of_provider)
                .about("Returns the allocations on a resource provider, by consumer.")
                .returns::<allocations::OfProvider>()],
        ),
    ]
}

fn consumers() -> Vec<Route<Placement>> {
    vec![
        route(
            "/allocations",
            [post(POST_ALLOCATIONS.., rule::ALLOCATIONS_MANAGE, allocations::replace_many)
                .about("Replaces the allocations of several consumers in one transaction.")
                .body(&allocations::request::REPLACE_MANY_BODY)
                .returns_nothing()],
        ),
        route(
            "/allocations/{consumer}",
            [
                get(.., rule::ALLOCATIONS_LIST, allocations::show)
                    .about("Returns the allocations of a consumer, by resource provider.")
                    .returns::<allocations::OfConsumer<'_>>(),
                put(.., rule::ALLOCATIONS_UPDATE, allocations::replace)
                    .about("Replaces the allocations of a consumer.")
                    .body(&allocations::request::REPLACE_BODY)
                    .returns_nothing(),
                delete(.., rule::ALLOCATIONS_DELETE, allocations::delete)
                    .about("Deletes the allocations of a consumer.")
                    .returns_nothing(),
            ],
        ),
        route(
            "/allocation_candidates",
            [get(ALLOCATION_CANDIDATES.., rule::CANDIDATES_LIST, allocation_candidates::list)
                .about("Returns the ways to allocate the requested resources.")
                .query(&allocation_candidates::LIST_QUERY)
                .returns::<allocation_candidates::Candidates>()],
        ),
        route(
            "/usages",
            [get(USAGES.., None, usages::total)
                .about("Returns the allocated amounts of a project, or of one of its users.")
                .query(&usages::TOTAL_QUERY)
                .returns::<usages::Total>()],
        ),
        route(
            "/reshaper",
            [post(RESHAPER.., rule::RESHAPE, reshaper::reshape)
                .about("Replaces inventories and allocations together, in one transaction.")
                .body(&reshaper::BODY)
                .returns_nothing()],
        ),
    ]
}

fn traits() -> Vec<Route<Placement>> {
    vec![
        route(
            "/traits",
            [get(TRAITS.., rule::TRAITS_LIST, traits::list)
                .about("Lists the traits that match the filters.")
                .query(&traits::LIST_QUERY)
                .returns::<traits::View<'_>>()],
        ),
        route(
            "/traits/{name}",
            [
                get(TRAITS.., rule::TRAITS_SHOW, traits::show)
                    .of_any_media()
                    .about("Responds whether a trait exists.")
                    .returns_nothing(),
                put(TRAITS.., rule::TRAITS_UPDATE, traits::ensure)
                    .of_any_media()
                    .about("Creates a custom trait, unless it exists.")
                    .creates_silently()
                    .returns_nothing(),
                delete(TRAITS.., rule::TRAITS_DELETE, traits::delete)
                    .about("Deletes a custom trait that no resource provider has.")
                    .returns_nothing(),
            ],
        ),
        route(
            "/resource_providers/{uuid}/traits",
            [
                get(TRAITS.., rule::PROVIDER_TRAITS_LIST, traits::list_of_provider)
                    .about("Returns the traits of a resource provider.")
                    .returns::<traits::View<'_>>(),
                put(TRAITS.., rule::PROVIDER_TRAITS_UPDATE, traits::replace_of_provider)
                    .about("Replaces the traits of a resource provider.")
                    .body(&traits::REPLACE_BODY)
                    .returns::<traits::View<'_>>(),
                delete(TRAITS.., rule::PROVIDER_TRAITS_DELETE, traits::delete_of_provider)
                    .about("Removes all traits of a resource provider.")
                    .returns_nothing(),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests;
