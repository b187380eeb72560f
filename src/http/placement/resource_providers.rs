//! `/resource_providers` and `/resource_providers/{uuid}`.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::body::Body;
use super::extract::{ProviderPath, RequestCaller, Target, no_provider};
use super::microversion::{
    AGGREGATES, ALLOCATIONS_LINK, CREATED_PROVIDER_SHOWN, Ladder, MEMBER_OF, Microversion,
    NESTED_PROVIDERS, PROVIDERS_REQUIRED, REPARENTING, RESOURCES_QUERY, TRAITS,
};
use super::problem::{Code, Problem, RefusedAs as _};
use super::query::{self, Grammar, Query};
use super::schema::{Schema, Shape, any_of, null, object, string, uuid};
use super::since::Since;
use super::spelling::{any_uuid, dashed_uuid};
use crate::http::api::extract::Changing;
use crate::http::api::in_turn::work_in;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::layers::external_url::ExternalUrl;
use crate::model::{Generation, Refusal};
use crate::observe::spans::{Timed, span};
use crate::search::Unknown;
use crate::search::listing::{self, Filter};
use crate::store::providers::{CreateProvider, DeleteProvider, ProviderRecord, UpdateProvider};
use crate::world::{Provider, World};

/// Lists over more providers than this are built on a blocking thread, in a turn.
const SLOTS_AT_ONCE: u32 = 1024;

/// Schema of the query of `GET /resource_providers`.
pub(super) static LIST_QUERY: LazyLock<Ladder<Schema>> = LazyLock::new(|| {
    Ladder::from(object().allow("name", string()).allow("uuid", uuid()).closed())
        .then(MEMBER_OF, |query| query.allow("member_of", string()))
        .then(RESOURCES_QUERY, |query| query.allow("resources", string()))
        .then(NESTED_PROVIDERS, |query| query.allow("in_tree", uuid()))
        .then(PROVIDERS_REQUIRED, |query| query.allow("required", string()))
        .map(Shape::for_queries)
});

/// Schema of `POST /resource_providers`.
pub(super) static CREATE_BODY: LazyLock<Ladder<Schema>> =
    LazyLock::new(|| create_body().map(Shape::for_bodies));

/// Schema of `PUT /resource_providers/{uuid}`: the same without the UUID.
pub(super) static UPDATE_BODY: LazyLock<Ladder<Schema>> =
    LazyLock::new(|| create_body().map(|body| body.without("uuid").for_bodies()));

fn create_body() -> Ladder<Shape> {
    let first = object().require("name", string().with("maxLength", 200)).allow("uuid", uuid());
    Ladder::from(first.closed())
        .then(NESTED_PROVIDERS, |body| body.allow("parent_provider_uuid", any_of([uuid(), null()])))
}

/// Links of a provider to its sub-resources.
static LINKS: LazyLock<Ladder<Vec<&'static str>>> = LazyLock::new(|| {
    let and = |more| move |links: Vec<&'static str>| [links, vec![more]].concat();
    Ladder::from(vec!["inventories", "usages"])
        .then(AGGREGATES, and("aggregates"))
        .then(TRAITS, and("traits"))
        .then(ALLOCATIONS_LINK, and("allocations"))
});

#[derive(Deserialize)]
struct ProviderBody {
    name: String,
    uuid: Option<String>,
    #[serde(default)]
    parent_provider_uuid: Parent,
}

/// The parent in a request.
#[derive(Default, Deserialize)]
#[serde(from = "Option<String>")]
enum Parent {
    #[default]
    Unsaid,
    None,
    Named(String),
}

impl From<Option<String>> for Parent {
    fn from(name: Option<String>) -> Self {
        name.map_or(Self::None, Self::Named)
    }
}

/// `GET /resource_providers`: the providers that match all filters. A list over many providers is
/// built on a blocking thread, in a turn.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    microversion: Microversion,
    RequestCaller(caller): RequestCaller,
    external_url: ExternalUrl,
    query: Query,
) -> Result<Reply, Problem> {
    let filter = listed_by(&query, microversion)?;
    let world = app.store.world().await?;
    if filter.uuid.is_some() || filter.in_tree.is_some() || world.end() <= SLOTS_AT_ONCE {
        return listed(&app, microversion, &external_url, &world, &filter);
    }
    let turn = app.search_turns.turn(caller.requester()).timed(span!("queue")).await;
    let turn = turn.map_err(|error| Problem::not_now(error.to_string()))?;
    work_in(turn, move || listed(&app, microversion, &external_url, &world, &filter)).await?
}

fn listed(
    app: &App,
    microversion: Microversion,
    external_url: &ExternalUrl,
    world: &World,
    filter: &Filter,
) -> Result<Reply, Problem> {
    let providers = span!("search").in_scope(|| listing::list(world, filter)).map_err(unknown)?;
    let views: Vec<_> =
        providers.iter().map(|it| View::of(it, external_url, microversion)).collect();
    let modified = providers.iter().map(Provider::updated_at).max();
    Ok(Reply::json(&List { resource_providers: views }).modified(modified.unwrap_or(app.now())))
}

/// `POST /resource_providers`: creates a provider, below a parent if the body names one. Name and
/// UUID must be new, and the parent must exist.
pub(super) async fn create(
    Changing { changes, .. }: Changing,
    microversion: Microversion,
    external_url: ExternalUrl,
    body: Body,
) -> Result<Reply, Problem> {
    let body: ProviderBody = body.parse(CREATE_BODY.at(microversion))?;
    let uuid = body.uuid.as_deref().and_then(any_uuid).unwrap_or_else(Uuid::new_v4);
    let name = body.name.clone();
    let refused = |why| create_refused(why, &name, uuid);
    if name.is_empty() {
        let why = "Object action create failed because: name is required";
        return Err(cannot_create(&name, uuid, why));
    }
    let missing = || refused(Refusal::ParentNotFound);
    let parent = match body.parent_provider_uuid {
        Parent::Named(text) => Some(dashed_uuid(&text).ok_or_else(missing)?),
        Parent::None | Parent::Unsaid => None,
    };
    let change = CreateProvider { uuid, name: body.name, parent };
    let record = changes.commit(change).await.refused_as(refused)?;
    let location = external_url.location(&path(uuid));
    let shown = microversion
        .show(CREATED_PROVIDER_SHOWN, View::of_record(&record, &external_url, microversion));
    Ok(match shown {
        Some(view) => Reply::json(&view).modified(record.updated_at),
        None => Reply::created(),
    }
    .at(&location))
}

/// `GET /resource_providers/{uuid}`: the provider, with links to its sub-resources.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    microversion: Microversion,
    external_url: ExternalUrl,
    path: ProviderPath,
) -> Result<Reply, Problem> {
    let world = app.store.world().await?;
    let provider = path.provider(&world)?;
    let view = View::of(&provider, &external_url, microversion);
    Ok(Reply::json(&view).modified(provider.updated_at()))
}

/// `PUT /resource_providers/{uuid}`: renames the provider or, from 1.14, sets its parent. Until
/// 1.36 an existing parent cannot be changed; from 1.37 the provider may move to another tree or
/// become a root, but not below itself.
pub(super) async fn update(
    Changing { app, changes }: Changing,
    microversion: Microversion,
    external_url: ExternalUrl,
    path: ProviderPath,
    body: Body,
) -> Result<Reply, Problem> {
    let Target { uuid, .. } = path.target(&app).await?;
    let body: ProviderBody = body.parse(UPDATE_BODY.at(microversion))?;
    let name = body.name.clone();
    let refused = |why| update_refused(why, &name, uuid);
    let missing = || refused(Refusal::ParentNotFound);
    let parent = match body.parent_provider_uuid {
        Parent::Named(text) => Some(Some(dashed_uuid(&text).ok_or_else(missing)?)),
        Parent::None => Some(None),
        Parent::Unsaid => None,
    };
    let may_reparent = microversion.has(REPARENTING);
    let change = UpdateProvider { uuid, name: body.name, parent, may_reparent };
    let record = changes.commit(change).await.refused_as(refused)?;
    let view = View::of_record(&record, &external_url, microversion);
    Ok(Reply::json(&view).modified(record.updated_at))
}

/// `DELETE /resource_providers/{uuid}`: deletes a provider without children and allocations, with
/// its inventories, traits and aggregates.
pub(super) async fn delete(
    Changing { changes, .. }: Changing,
    ProviderPath(text): ProviderPath,
) -> Result<Reply, Problem> {
    let refused = |why| delete_refused(why, &text);
    let missing = || refused(Refusal::ProviderNotFound(Uuid::nil()));
    let uuid = dashed_uuid(&text).ok_or_else(missing)?;
    changes.commit(DeleteProvider { uuid }).await.refused_as(refused)?;
    Ok(Reply::no_content())
}

/// Returns the filter of a list query.
///
/// # Errors
/// The query is invalid at this version.
pub(in crate::http) fn listed_by(
    query: &Query,
    microversion: Microversion,
) -> Result<Filter, Problem> {
    query.check(LIST_QUERY.at(microversion))?;
    filter(query, Grammar::at(microversion))
}

fn filter(query: &Query, grammar: Grammar) -> Result<Filter, Problem> {
    let aggregates = query::member_of(query, "", grammar)?;
    let traits = query::traits(query, "", grammar)?;
    let resources = query.last("resources").map(query::resources).transpose()?;
    Ok(Filter {
        // Every provider has a name, so an empty one does not filter.
        name: query.last("name").filter(|name| !name.is_empty()).map(str::to_owned),
        uuid: query.last("uuid").and_then(any_uuid),
        in_tree: query.last("in_tree").and_then(any_uuid),
        member_of: aggregates.required,
        not_member_of: aggregates.forbidden,
        required: traits.required,
        forbidden: traits.forbidden,
        resources: resources.unwrap_or_default(),
    })
}

pub(in crate::http) fn unknown(name: Unknown) -> Problem {
    Problem::bad_request(match name {
        Unknown::Class(class) => format!(
            "Invalid resource class in resources parameter: {}",
            Refusal::ClassNotFound(class)
        ),
        Unknown::Traits(traits) | Unknown::RootTraits(traits) => format!(
            "Invalid trait(s) in \"required\" parameter: {}",
            Refusal::TraitsNotFound(traits.join(", "))
        ),
    })
}

fn cannot_create(name: &str, uuid: Uuid, why: &str) -> Problem {
    Problem::bad_request(format!("Unable to create resource provider \"{name}\", {uuid}: {why}"))
}

fn create_refused(why: Refusal, name: &str, uuid: Uuid) -> Problem {
    match why {
        Refusal::ProviderUuidTaken(_) | Refusal::ProviderNameTaken(_) => {
            let detail = format!("Conflicting resource provider {why} already exists.");
            Problem::conflict(detail).code(Code::DuplicateName)
        }
        Refusal::ParentIsSelf | Refusal::ParentNotFound => {
            cannot_create(name, uuid, &why.to_string())
        }
        other => other.into(),
    }
}

fn update_refused(why: Refusal, name: &str, uuid: Uuid) -> Problem {
    match why {
        Refusal::ProviderNotFound(_) => Problem::not_found(why.to_string()),
        Refusal::ProviderNameTaken(_) => {
            let detail = format!("Conflicting resource provider {name} already exists.");
            Problem::conflict(detail).code(Code::DuplicateName)
        }
        other => Problem::bad_request(format!("Unable to save resource provider {uuid}: {other}")),
    }
}

fn delete_refused(why: Refusal, uuid: &str) -> Problem {
    match why {
        Refusal::ProviderNotFound(_) => {
            Problem::not_found(format!("{} for delete", no_provider(uuid)))
        }
        Refusal::ProviderHasChildren { .. } => {
            let detail = format!(
                "Unable to delete parent resource provider {uuid}: It has child resource providers."
            );
            Problem::conflict(detail).code(Code::CannotDeleteParent)
        }
        Refusal::ProviderInUse { .. } => {
            let detail = format!("Unable to delete resource provider {uuid}: {why}");
            Problem::conflict(detail).code(Code::ProviderInUse)
        }
        other => other.into(),
    }
}

/// Returns the path of a provider.
pub(super) fn path(uuid: Uuid) -> String {
    format!("/resource_providers/{uuid}")
}

/// A list of providers.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "ResourceProviders")]
pub(super) struct List<'a> {
    resource_providers: Vec<View<'a>>,
}

/// A resource provider.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "ResourceProvider")]
pub(super) struct View<'a> {
    uuid: Uuid,
    name: &'a str,
    generation: Generation,
    links: Vec<Link>,
    #[serde(skip_serializing_if = "Since::is_hidden")]
    parent_provider_uuid: Since<{ NESTED_PROVIDERS.minor() }, Option<Uuid>>,
    #[serde(skip_serializing_if = "Since::is_hidden")]
    root_provider_uuid: Since<{ NESTED_PROVIDERS.minor() }, Uuid>,
}

/// A link to a resource.
#[derive(JsonSchema, Serialize)]
pub(in crate::http) struct Link {
    pub(in crate::http) rel: &'static str,
    pub(in crate::http) href: String,
}

impl<'a> View<'a> {
    fn of(provider: &Provider<'a>, external_url: &ExternalUrl, microversion: Microversion) -> Self {
        let parent = provider.parent().map(|parent| parent.uuid());
        let root = provider.root().uuid();
        Self {
            uuid: provider.uuid(),
            name: provider.name(),
            generation: provider.generation(),
            links: links(provider.uuid(), external_url, microversion),
            parent_provider_uuid: Since::at(microversion, parent),
            root_provider_uuid: Since::at(microversion, root),
        }
    }

    fn of_record(
        record: &'a ProviderRecord,
        external_url: &ExternalUrl,
        microversion: Microversion,
    ) -> Self {
        Self {
            uuid: record.uuid,
            name: &record.name,
            generation: record.generation,
            links: links(record.uuid, external_url, microversion),
            parent_provider_uuid: Since::at(microversion, record.parent),
            root_provider_uuid: Since::at(microversion, record.root),
        }
    }
}

fn links(uuid: Uuid, external_url: &ExternalUrl, microversion: Microversion) -> Vec<Link> {
    let own = external_url.href(&path(uuid));
    let others =
        LINKS.at(microversion).iter().map(|rel| Link { rel, href: format!("{own}/{rel}") });
    let others: Vec<_> = others.collect();
    std::iter::once(Link { rel: "self", href: own }).chain(others).collect()
}
