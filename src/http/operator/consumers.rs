//! `/-/v1/consumers` and `/-/v1/allocations/get`: many consumers with their allocations.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Uri;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::context::{Problem, RequestCaller};
use super::costly;
use super::requests::{only_known, without_parameters};
use super::views::consumers as view;
use crate::http::api::in_turn::work_in;
use crate::http::api::intake;
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::placement::query::Query;
use crate::http::placement::spelling::{any_uuid, dashed_uuid};
use crate::store::consumers::{ConsumerFilter, ConsumerPage};
use crate::store::events::ProviderAllocations;
use crate::store::reads::{ConsumerAllocations, TypeFilter};

/// Default and maximum number of consumers in a list.
const LIMIT: u32 = 1000;
const LIMIT_MAX: u32 = 5000;
/// The parameters of a list.
pub(super) const LIST_QUERY: [Parameter; 6] = [
    Parameter::new("project", ParameterKind::Text, "Only consumers of this project."),
    Parameter::new("user", ParameterKind::Text, "Only consumers of this user."),
    Parameter::new("type", ParameterKind::Text, "Only consumers of this type; `unknown`: of none."),
    Parameter::new(
        "provider",
        ParameterKind::Uuid,
        "Only consumers with allocations on this resource provider.",
    ),
    Parameter::new(
        "limit",
        ParameterKind::Number(1, Some(LIMIT_MAX as usize)),
        "Maximum number of consumers.",
    ),
    Parameter::new("marker", ParameterKind::Uuid, "The last consumer of the page before."),
];
/// Maximum number of consumers in a request.
const NAMED_MAX: usize = 1000;

/// `GET /-/v1/consumers`: the consumers that match all filters, ascending by UUID, with paging.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    uri: Uri,
) -> Result<Reply, Problem> {
    let query = Query::parse(uri.query().unwrap_or_default())?;
    let filter = filter(&query)?;
    let turn = costly::turn(&app, caller.requester()).await?;
    let ConsumerPage { consumers, has_more } = app.store.consumers(filter).await?;
    let write = move || {
        let next_marker = consumers.last().map(|(uuid, _)| *uuid).filter(|_| has_more);
        let consumers = consumers.into_iter().map(consumer).collect();
        Reply::json(&view::Consumers { consumers, next_marker }).modified(None)
    };
    work_in(turn, write).await
}

fn filter(query: &Query) -> Result<ConsumerFilter, Problem> {
    only_known(query, &LIST_QUERY)?;
    let text = |name: &str| -> Result<_, Problem> { Ok(query.once(name)?.map(str::to_owned)) };
    let uuid = |name: &str| -> Result<_, Problem> {
        let invalid = |text| Problem::bad_request(format!("{name} must be a UUID, not {text}"));
        query.once(name)?.map(|text| any_uuid(text).ok_or_else(|| invalid(text))).transpose()
    };
    let limit = query.number("limit", LIMIT, 1..=LIMIT_MAX)?;
    Ok(ConsumerFilter {
        uuids: None,
        project: text("project")?,
        user: text("user")?,
        consumer_type: match text("type")? {
            None => TypeFilter::All,
            Some(unknown) if unknown == "unknown" => TypeFilter::Unknown,
            Some(name) => TypeFilter::Named(name),
        },
        providers: uuid("provider")?.map(|uuid| vec![uuid]),
        after: uuid("marker")?,
        limit: limit.into(),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConsumersBody {
    #[schemars(length(max = NAMED_MAX))]
    consumers: Vec<String>,
}

/// `POST /-/v1/allocations/get`: the allocations of the named consumers, read in one snapshot.
/// Consumers without allocations are omitted.
pub(super) async fn allocations(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    request: Request,
) -> Result<Reply, Problem> {
    without_parameters(request.uri())?;
    let body = intake::read(request.into_body(), &app.options).await?;
    let body: ConsumersBody = serde_json::from_slice(&body).map_err(|error| {
        Problem::bad_request(format!("the body must be {{\"consumers\": [UUID, ...]}}: {error}"))
    })?;
    if body.consumers.len() > NAMED_MAX {
        let count = body.consumers.len();
        let detail = format!("at most {NAMED_MAX} consumers can be named, not {count}");
        return Err(Problem::bad_request(detail));
    }
    let uuids = body.consumers.iter().map(|text| {
        let invalid = || Problem::bad_request(format!("{text:?} is not the UUID of a consumer"));
        dashed_uuid(text).ok_or_else(invalid)
    });
    let uuids: Vec<Uuid> = uuids.collect::<Result<_, _>>()?;
    let limit = i64::try_from(uuids.len()).map_err(|error| Problem::internal(error.to_string()))?;
    let filter = ConsumerFilter { uuids: Some(uuids), ..ConsumerFilter::all(limit) };
    let turn = costly::turn(&app, caller.requester()).await?;
    let ConsumerPage { consumers, has_more } = app.store.consumers(filter).await?;
    if has_more {
        let detail = "these consumers have too many allocations for one answer; name fewer";
        return Err(Problem::bad_request(detail));
    }
    let write = move || {
        let consumers = consumers.into_iter().map(consumer).collect();
        Reply::json(&view::Allocations { consumers }).modified(None)
    };
    work_in(turn, write).await
}

fn consumer((uuid, held): (Uuid, ConsumerAllocations)) -> view::Consumer {
    view::Consumer {
        uuid,
        project_id: held.project,
        user_id: held.user,
        consumer_type: held.consumer_type.unwrap_or_else(|| "unknown".to_owned()),
        consumer_generation: held.generation,
        allocations: held
            .providers
            .into_iter()
            .map(|on| {
                let resources = on.resources.into_iter().collect();
                (on.provider, ProviderAllocations { generation: on.generation, resources })
            })
            .collect(),
    }
}
