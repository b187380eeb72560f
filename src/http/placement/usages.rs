//! `/resource_providers/{uuid}/usages` and `/usages`.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::extract::{ProviderPath, RequestCaller};
use super::microversion::{CONSUMER_TYPE, Ladder, Microversion};
use super::names::LONGEST;
use super::problem::Problem;
use super::query::Query;
use super::schema::{Schema, Shape, object, string};
use super::since::Since;
use crate::auth::policy::rule;
use crate::http::api::json::Ordered;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::model::{Bug, Generation};
use crate::store::reads::{TypeFilter, UsageFilter, UsageOfType};

/// Schema of the query of `GET /usages`.
pub(super) static TOTAL_QUERY: LazyLock<Ladder<Schema>> = LazyLock::new(|| {
    let text = || string().length(1, LONGEST);
    let kind = string().with("pattern", "^[A-Z0-9_]+$|^all|^unknown$").length(1, LONGEST);
    Ladder::from(object().require("project_id", text()).allow("user_id", text()).closed())
        .then(CONSUMER_TYPE, |query| query.allow("consumer_type", kind.clone()))
        .map(Shape::for_queries)
});

/// `GET /resource_providers/{uuid}/usages`: the allocated amount of each class on the provider.
pub(super) async fn of_provider(
    State(app): State<Arc<App>>,
    path: ProviderPath,
) -> Result<Reply, Problem> {
    let world = app.store.world().await?;
    let provider = path.provider_or(&world, |missing| format!("{missing}: {missing}"))?;
    let usages = provider.inventories();
    let usages = usages.map(|row| (world.name_of_class(row.class).to_owned(), row.used));
    let usages = Ordered(usages.collect());
    let view = OfProvider { resource_provider_generation: provider.generation(), usages };
    Ok(Reply::json(&view).modified(app.now()))
}

/// `GET /usages`: the allocated amount of each class for a project, or one of its users; from 1.38
/// by consumer type. The policy depends on the project, so the handler checks it.
pub(super) async fn total(
    State(app): State<Arc<App>>,
    microversion: Microversion,
    RequestCaller(caller): RequestCaller,
    query: Query,
) -> Result<Reply, Problem> {
    app.policy.check(&caller, rule::USAGES, query.last("project_id"))?;
    query.check(TOTAL_QUERY.at(microversion))?;
    let by_type = microversion.has(CONSUMER_TYPE);
    let kind = query.last("consumer_type");
    let unchecked = || Bug::new("a query that was checked names no project");
    let filter = UsageFilter {
        project: query.last("project_id").ok_or_else(unchecked)?.to_owned(),
        user: query.last("user_id").map(str::to_owned),
        consumer_type: match kind {
            None if by_type => TypeFilter::Each,
            None | Some("all") => TypeFilter::All,
            Some("unknown") => TypeFilter::Unknown,
            Some(name) => TypeFilter::Named(name.to_owned()),
        },
    };
    let of_all = filter.consumer_type == TypeFilter::All;
    let usages = app.store.usages(filter).await?;
    let usages = if by_type {
        TotalUsages::ByType(Since::at(microversion, by_types(usages, of_all)))
    } else {
        TotalUsages::ByClass(Ordered(usages.into_iter().flat_map(|it| it.resources).collect()))
    };
    Ok(Reply::json(&Total { usages }).modified(app.now()))
}

fn by_types(usages: Vec<UsageOfType>, of_all: bool) -> Ordered<Ordered<i64>> {
    let nameless = if of_all { "all" } else { "unknown" };
    let used = usages.into_iter().filter(|usage| !usage.resources.is_empty());
    let entries = used.map(|UsageOfType { consumer_type, resources, consumers }| {
        let count = ("consumer_count".to_owned(), consumers);
        let sums = resources.into_iter().chain([count]).collect();
        (consumer_type.unwrap_or_else(|| nameless.to_owned()), Ordered(sums))
    });
    Ordered(entries.collect())
}

/// Allocated amounts on a provider, by resource class.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "ProviderUsages")]
pub(super) struct OfProvider {
    resource_provider_generation: Generation,
    usages: Ordered<i64>,
}

/// Allocated amounts of a project.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Usages")]
pub(super) struct Total {
    usages: TotalUsages,
}

/// Amounts by resource class, or by consumer type and resource class, with the number of consumers of the type.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
enum TotalUsages {
    ByClass(Ordered<i64>),
    ByType(Since<{ CONSUMER_TYPE.minor() }, Ordered<Ordered<i64>>>),
}
