//! The whole API as one table: path, method, versions, rule, handler.
//!
//! Order matters twice: `Allow` lists the methods of a path as they stand here, and of several rows
//! of one method the first says what a version without any is told.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;

use axum::http::Method;
use std::ops::RangeBounds;

use super::call::Call;
use super::microversion::{
    AGGREGATES, ALLOCATION_CANDIDATES, DELETE_ALL_INVENTORIES, ENSURE_RESOURCE_CLASS, Microversion,
    POST_ALLOCATIONS, RESHAPER, RESOURCE_CLASSES, TRAITS, USAGES, Versions,
};
use super::problem::Problem;
use super::reply::Reply;
use super::{
    aggregates, allocation_candidates, allocations, inventories, reshaper, resource_classes,
    resource_providers, root, traits, usages,
};
use crate::policy::{Rule, rule};

/// The API.
pub(super) static TABLE: LazyLock<Vec<Route>> = LazyLock::new(|| {
    vec![
        at("/", [get(.., None, root::show).in_any_form()]),
        at(
            "/resource_classes",
            [
                get(RESOURCE_CLASSES.., rule::CLASSES_LIST, resource_classes::list),
                post(RESOURCE_CLASSES.., rule::CLASSES_CREATE, resource_classes::create),
            ],
        ),
        at(
            "/resource_classes/{name}",
            [
                get(RESOURCE_CLASSES.., rule::CLASSES_SHOW, resource_classes::show),
                put(
                    RESOURCE_CLASSES..ENSURE_RESOURCE_CLASS,
                    rule::CLASSES_UPDATE,
                    resource_classes::rename,
                ),
                put(ENSURE_RESOURCE_CLASS.., rule::CLASSES_UPDATE, resource_classes::ensure)
                    .bodiless(),
                delete(RESOURCE_CLASSES.., rule::CLASSES_DELETE, resource_classes::delete),
            ],
        ),
        at(
            "/resource_providers",
            [
                get(.., rule::PROVIDERS_LIST, resource_providers::list),
                post(.., rule::PROVIDERS_CREATE, resource_providers::create),
            ],
        ),
        at(
            "/resource_providers/{uuid}",
            [
                get(.., rule::PROVIDERS_SHOW, resource_providers::show),
                delete(.., rule::PROVIDERS_DELETE, resource_providers::delete),
                put(.., rule::PROVIDERS_UPDATE, resource_providers::update),
            ],
        ),
        at(
            "/resource_providers/{uuid}/inventories",
            [
                get(.., rule::INVENTORIES_LIST, inventories::list),
                post(.., rule::INVENTORIES_CREATE, inventories::create),
                put(.., rule::INVENTORIES_UPDATE, inventories::replace),
                delete(DELETE_ALL_INVENTORIES.., rule::INVENTORIES_DELETE, inventories::delete_all)
                    .not_allowed_elsewhere(),
            ],
        ),
        at(
            "/resource_providers/{uuid}/inventories/{resource_class}",
            [
                get(.., rule::INVENTORIES_SHOW, inventories::show),
                put(.., rule::INVENTORIES_UPDATE, inventories::update),
                delete(.., rule::INVENTORIES_DELETE, inventories::delete),
            ],
        ),
        at(
            "/resource_providers/{uuid}/usages",
            [get(.., rule::PROVIDER_USAGES, usages::of_provider)],
        ),
        at(
            "/resource_providers/{uuid}/aggregates",
            [
                get(AGGREGATES.., rule::AGGREGATES_LIST, aggregates::list).media_first(),
                put(AGGREGATES.., rule::AGGREGATES_UPDATE, aggregates::replace).media_first(),
            ],
        ),
        at(
            "/resource_providers/{uuid}/allocations",
            [get(.., rule::PROVIDER_ALLOCATIONS_LIST, allocations::list_of_provider)],
        ),
        at(
            "/allocations",
            [post(POST_ALLOCATIONS.., rule::ALLOCATIONS_MANAGE, allocations::replace_many)],
        ),
        at(
            "/allocations/{consumer}",
            [
                get(.., rule::ALLOCATIONS_LIST, allocations::show),
                put(.., rule::ALLOCATIONS_UPDATE, allocations::replace),
                delete(.., rule::ALLOCATIONS_DELETE, allocations::delete),
            ],
        ),
        at(
            "/allocation_candidates",
            [get(ALLOCATION_CANDIDATES.., rule::CANDIDATES_LIST, allocation_candidates::list)],
        ),
        at("/traits", [get(TRAITS.., rule::TRAITS_LIST, traits::list)]),
        at(
            "/traits/{name}",
            [
                get(TRAITS.., rule::TRAITS_SHOW, traits::show).in_any_form(),
                put(TRAITS.., rule::TRAITS_UPDATE, traits::ensure).bodiless(),
                delete(TRAITS.., rule::TRAITS_DELETE, traits::delete),
            ],
        ),
        at(
            "/resource_providers/{uuid}/traits",
            [
                get(TRAITS.., rule::PROVIDER_TRAITS_LIST, traits::list_of_provider),
                put(TRAITS.., rule::PROVIDER_TRAITS_UPDATE, traits::replace_of_provider),
                delete(TRAITS.., rule::PROVIDER_TRAITS_DELETE, traits::delete_of_provider),
            ],
        ),
        at("/usages", [get(USAGES.., None, usages::total)]),
        at("/reshaper", [post(RESHAPER.., rule::RESHAPE, reshaper::reshape)]),
    ]
});

/// A path with the rows that answer it.
pub(super) struct Route {
    /// As it is written, with `{name}` for a part that varies.
    pub(super) path: &'static str,
    /// In the order of the table.
    pub(super) rows: Vec<Row>,
}

/// One way to answer a path.
pub(super) struct Row {
    /// The method.
    pub(super) method: Method,
    /// The versions that have it.
    pub(super) versions: Versions,
    /// What other versions are told.
    pub(super) elsewhere: Elsewhere,
    /// Which media types it is about.
    pub(super) media: Media,
    /// Whether the media type is looked at before the version.
    pub(super) media_before_version: bool,
    /// Who may; `None`: anyone, or the handler asks.
    pub(super) rule: Option<Rule>,
    /// What answers.
    pub(super) handler: Handler,
}

/// What versions are told that do not have a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// There is no such thing.
    NotFound,
    /// There is, but not by this method.
    NotAllowed,
}

/// Which media types a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    /// It gives JSON, which the client must accept.
    JsonOut,
    /// It takes JSON, which the client must send.
    JsonIn,
    /// Neither.
    Any,
}

/// A handler.
pub(super) type Handler = Box<dyn Fn(Call) -> Answer + Send + Sync>;

/// What a handler will say.
pub(super) type Answer = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send>>;

fn at<const N: usize>(path: &'static str, rows: [Row; N]) -> Route {
    Route { path, rows: rows.into() }
}

fn get<F, A>(
    versions: impl RangeBounds<Microversion>,
    rule: impl Into<Option<Rule>>,
    handler: F,
) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    Row::new(Method::GET, Versions::of(versions), rule.into(), handler).media(Media::JsonOut)
}

fn post<F, A>(
    versions: impl RangeBounds<Microversion>,
    rule: impl Into<Option<Rule>>,
    handler: F,
) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    Row::new(Method::POST, Versions::of(versions), rule.into(), handler).media(Media::JsonIn)
}

fn put<F, A>(
    versions: impl RangeBounds<Microversion>,
    rule: impl Into<Option<Rule>>,
    handler: F,
) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    Row::new(Method::PUT, Versions::of(versions), rule.into(), handler).media(Media::JsonIn)
}

fn delete<F, A>(
    versions: impl RangeBounds<Microversion>,
    rule: impl Into<Option<Rule>>,
    handler: F,
) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    Row::new(Method::DELETE, Versions::of(versions), rule.into(), handler)
}

impl Route {
    /// The methods there are but for one that a client tried in vain, in the order of the table.
    pub(super) fn allow_but(&self, tried: &Method) -> String {
        let methods = self.rows.iter().map(|row| &row.method).filter(|method| *method != tried);
        let mut methods: Vec<&str> = methods.map(Method::as_str).collect();
        methods.dedup();
        methods.join(", ")
    }
}

impl Row {
    fn new<F, A>(method: Method, versions: Versions, rule: Option<Rule>, handler: F) -> Self
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Reply, Problem>> + Send + 'static,
    {
        Self {
            method,
            versions,
            elsewhere: Elsewhere::NotFound,
            media: Media::Any,
            media_before_version: false,
            rule,
            handler: Box::new(move |call| Box::pin(handler(call))),
        }
    }

    fn media(self, media: Media) -> Self {
        Self { media, ..self }
    }

    /// The answer does not depend on what the client accepts.
    fn in_any_form(self) -> Self {
        self.media(Media::Any)
    }

    /// No body is looked at.
    fn bodiless(self) -> Self {
        self.media(Media::Any)
    }

    /// The media type is looked at before the version.
    fn media_first(self) -> Self {
        Self { media_before_version: true, ..self }
    }

    /// Versions without it are told that the method is not allowed.
    fn not_allowed_elsewhere(self) -> Self {
        Self { elsewhere: Elsewhere::NotAllowed, ..self }
    }
}

#[cfg(test)]
mod tests;
