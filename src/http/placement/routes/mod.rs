//! The whole API as one table: path, method, versions, rule, handler.
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
    route("/", [get(.., None, root::show).of_any_media()])
}

/// The API.
#[expect(clippy::too_many_lines, reason = "it is one table")]
pub(super) fn table() -> Vec<Route<Placement>> {
    vec![
        route(
            "/resource_classes",
            [
                get(RESOURCE_CLASSES.., rule::CLASSES_LIST, resource_classes::list),
                post(RESOURCE_CLASSES.., rule::CLASSES_CREATE, resource_classes::create),
            ],
        ),
        route(
            "/resource_classes/{name}",
            [
                get(RESOURCE_CLASSES.., rule::CLASSES_SHOW, resource_classes::show),
                put(
                    RESOURCE_CLASSES..ENSURE_RESOURCE_CLASS,
                    rule::CLASSES_UPDATE,
                    resource_classes::rename,
                ),
                put(ENSURE_RESOURCE_CLASS.., rule::CLASSES_UPDATE, resource_classes::ensure)
                    .of_any_media(),
                delete(RESOURCE_CLASSES.., rule::CLASSES_DELETE, resource_classes::delete),
            ],
        ),
        route(
            "/resource_providers",
            [
                get(.., rule::PROVIDERS_LIST, resource_providers::list),
                post(.., rule::PROVIDERS_CREATE, resource_providers::create),
            ],
        ),
        route(
            "/resource_providers/{uuid}",
            [
                get(.., rule::PROVIDERS_SHOW, resource_providers::show),
                delete(.., rule::PROVIDERS_DELETE, resource_providers::delete),
                put(.., rule::PROVIDERS_UPDATE, resource_providers::update),
            ],
        ),
        route(
            "/resource_providers/{uuid}/inventories",
            [
                get(.., rule::INVENTORIES_LIST, inventories::list),
                post(.., rule::INVENTORIES_CREATE, inventories::create),
                put(.., rule::INVENTORIES_UPDATE, inventories::replace),
                delete(DELETE_ALL_INVENTORIES.., rule::INVENTORIES_DELETE, inventories::delete_all)
                    .not_allowed_elsewhere(),
            ],
        ),
        route(
            "/resource_providers/{uuid}/inventories/{resource_class}",
            [
                get(.., rule::INVENTORIES_SHOW, inventories::show),
                put(.., rule::INVENTORIES_UPDATE, inventories::update),
                delete(.., rule::INVENTORIES_DELETE, inventories::delete),
            ],
        ),
        route(
            "/resource_providers/{uuid}/usages",
            [get(.., rule::PROVIDER_USAGES, usages::of_provider)],
        ),
        route(
            "/resource_providers/{uuid}/aggregates",
            [
                get(AGGREGATES.., rule::AGGREGATES_LIST, aggregates::list).media_first(),
                put(AGGREGATES.., rule::AGGREGATES_UPDATE, aggregates::replace).media_first(),
            ],
        ),
        route(
            "/resource_providers/{uuid}/allocations",
            [get(.., rule::PROVIDER_ALLOCATIONS_LIST, allocations::list_of_provider)],
        ),
        route(
            "/allocations",
            [post(POST_ALLOCATIONS.., rule::ALLOCATIONS_MANAGE, allocations::replace_many)],
        ),
        route(
            "/allocations/{consumer}",
            [
                get(.., rule::ALLOCATIONS_LIST, allocations::show),
                put(.., rule::ALLOCATIONS_UPDATE, allocations::replace),
                delete(.., rule::ALLOCATIONS_DELETE, allocations::delete),
            ],
        ),
        route(
            "/allocation_candidates",
            [get(ALLOCATION_CANDIDATES.., rule::CANDIDATES_LIST, allocation_candidates::list)],
        ),
        route("/traits", [get(TRAITS.., rule::TRAITS_LIST, traits::list)]),
        route(
            "/traits/{name}",
            [
                get(TRAITS.., rule::TRAITS_SHOW, traits::show).of_any_media(),
                put(TRAITS.., rule::TRAITS_UPDATE, traits::ensure).of_any_media(),
                delete(TRAITS.., rule::TRAITS_DELETE, traits::delete),
            ],
        ),
        route(
            "/resource_providers/{uuid}/traits",
            [
                get(TRAITS.., rule::PROVIDER_TRAITS_LIST, traits::list_of_provider),
                put(TRAITS.., rule::PROVIDER_TRAITS_UPDATE, traits::replace_of_provider),
                delete(TRAITS.., rule::PROVIDER_TRAITS_DELETE, traits::delete_of_provider),
            ],
        ),
        route("/usages", [get(USAGES.., None, usages::total)]),
        route("/reshaper", [post(RESHAPER.., rule::RESHAPE, reshaper::reshape)]),
    ]
}

#[cfg(test)]
mod tests;
