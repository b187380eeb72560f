//! `/traits`, `/traits/{name}` and `/resource_providers/{uuid}/traits`.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use axum::extract::State;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::body::{Body, Integer};
use super::extract::{NamePath, ProviderPath, Target, generation_changed};
use super::names::{CUSTOM, LONGEST};
use super::problem::{Code, Problem, RefusedAs as _};
use super::query::Query;
use super::schema::{Schema, array, integer, object, string};
use crate::http::api::extract::Changing;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::layers::external_url::ExternalUrl;
use crate::model::{Generation, Refusal, TraitId};
use crate::store::traits::{DeleteTrait, EnsureTrait, ReplaceTraits};
use crate::world::World;

/// Schema of the query of `GET /traits`.
pub(super) static LIST_QUERY: LazyLock<Schema> = LazyLock::new(|| {
    object().allow("name", string()).allow("associated", string()).closed().for_queries()
});

/// Schema of the name in `PUT /traits/{name}`.
static CUSTOM_TRAIT: LazyLock<Schema> =
    LazyLock::new(|| string().length(1, LONGEST).with("pattern", CUSTOM).for_bodies());

/// Schema of `PUT .../traits`.
pub(super) static REPLACE_BODY: LazyLock<Schema> = LazyLock::new(|| {
    object()
        .require("traits", array().of(string().length(1, LONGEST)))
        .require("resource_provider_generation", integer())
        .closed()
        .for_bodies()
});

#[derive(Deserialize)]
struct TraitsBody {
    traits: Vec<String>,
    resource_provider_generation: Integer,
}

/// `GET /traits`: the traits that match the filters.
pub(super) async fn list(State(app): State<Arc<App>>, query: Query) -> Result<Reply, Problem> {
    query.check(&LIST_QUERY)?;
    let filter = Filter::of(&query)?;
    let world = app.store.world().await?;
    let known = world.catalogue().traits.iter();
    let passing = known.filter(|(id, it)| filter.passes(&it.name, || world.trait_in_use(**id)));
    let ids: Vec<_> = passing.map(|(id, _)| *id).collect();
    Ok(Reply::json(&View::of(&world, &ids, None)).modified(changed(&world, &ids, &app)))
}

/// `GET /traits/{name}`: responds whether the trait exists.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    NamePath(name): NamePath,
) -> Result<Reply, Problem> {
    let world = app.store.world().await?;
    let missing = || Problem::not_found(Refusal::TraitsNotFound(name.clone()).to_string());
    let id = world.trait_id(&name).ok_or_else(missing)?;
    Ok(Reply::no_content().modified(changed(&world, &[id], &app)))
}

/// `PUT /traits/{name}`: creates a custom trait unless it exists.
pub(super) async fn ensure(
    Changing { app, changes }: Changing,
    external_url: ExternalUrl,
    NamePath(name): NamePath,
) -> Result<Reply, Problem> {
    if CUSTOM_TRAIT.check(&Value::from(name.as_str())).is_err() {
        return Err(Problem::bad_request(
            "The trait is invalid. A valid trait must be no longer than 255 characters, start with \
             the prefix \"CUSTOM_\" and use following characters: \"A\"-\"Z\", \"0\"-\"9\" and \"_\"",
        ));
    }
    let location = external_url.location(&format!("/traits/{name}"));
    let world = app.store.world().await?;
    if let Some(id) = world.trait_id(&name) {
        return Ok(Reply::no_content().modified(changed(&world, &[id], &app)).at(&location));
    }
    let change = EnsureTrait { name };
    let (created, changed) = changes.commit(change).await?;
    let reply = if created { Reply::created() } else { Reply::no_content() };
    Ok(reply.modified(changed).at(&location))
}

/// `DELETE /traits/{name}`: deletes a custom trait that no provider has.
pub(super) async fn delete(
    Changing { changes, .. }: Changing,
    NamePath(name): NamePath,
) -> Result<Reply, Problem> {
    let change = DeleteTrait { name };
    changes.commit(change).await.refused_as(|why| match why {
        Refusal::TraitStandardDelete(_) => Problem::bad_request(why.to_string()),
        other => other.into(),
    })?;
    Ok(Reply::no_content())
}

/// `GET .../traits`: the traits of the provider.
pub(super) async fn list_of_provider(
    State(app): State<Arc<App>>,
    path: ProviderPath,
) -> Result<Reply, Problem> {
    let world = app.store.world().await?;
    let provider = path.provider_or(&world, |missing| format!("{missing}: {missing}"))?;
    let view = View::of(&world, provider.traits(), Some(provider.generation()));
    Ok(Reply::json(&view).modified(changed(&world, provider.traits(), &app)))
}

/// `PUT .../traits`: replaces the traits of the provider. Compares the generation in the body,
/// before the transaction and in it. All traits must exist. Increments the generation.
pub(super) async fn replace_of_provider(
    Changing { app, changes }: Changing,
    path: ProviderPath,
    body: Body,
) -> Result<Reply, Problem> {
    let body: TraitsBody = body.parse(&REPLACE_BODY)?;
    let target = path.target(&app).await?;
    let uuid = target.uuid;
    let Integer(expected_generation) = body.resource_provider_generation;
    target.check_generation(expected_generation, generation_changed)?;
    let world = app.store.world().await?;
    let mut ids: Vec<_> = body.traits.iter().filter_map(|name| world.trait_id(name)).collect();
    ids.sort_unstable();
    ids.dedup();
    let change = ReplaceTraits {
        provider: uuid,
        expected_generation: Some(expected_generation),
        traits: body.traits,
    };
    let generation = changes.commit(change).await.refused_as(|why| match why {
        Refusal::ProviderGeneration { .. } => generation_changed(),
        Refusal::TraitsNotFound(names) => Problem::bad_request(format!("No such trait {names}")),
        other => other.into(),
    })?;
    let view = View::of(&world, &ids, Some(generation));
    Ok(Reply::json(&view).modified(changed(&world, &ids, &app)))
}

/// `DELETE .../traits`: removes all traits of the provider. Increments the generation without
/// comparing it.
pub(super) async fn delete_of_provider(
    Changing { app, changes }: Changing,
    path: ProviderPath,
) -> Result<Reply, Problem> {
    let Target { uuid, .. } = path.target(&app).await?;
    let change = ReplaceTraits { provider: uuid, expected_generation: None, traits: Vec::new() };
    changes.commit(change).await.refused_as(|why| match why {
        Refusal::ProviderGeneration { .. } => {
            Problem::conflict(why.to_string()).code(Code::ConcurrentUpdate)
        }
        other => other.into(),
    })?;
    Ok(Reply::no_content())
}

/// The filter of a list.
#[derive(Clone, Debug, Default)]
struct Filter {
    names: Option<HashSet<String>>,
    like: Option<Like>,
    in_use: Option<bool>,
}

impl Filter {
    fn of(query: &Query) -> Result<Self, Problem> {
        let mut filter = Self::default();
        if let Some(value) = query.last("name") {
            let (operator, operand) = value.split_once(':').ok_or_else(|| {
                Problem::bad_request(format!(
                    "Badly formatted name parameter. Expected name query string parameter in form: \
                     ?name=[in|startswith]:[name1,name2|prefix]. Got: \"{value}\""
                ))
            })?;
            match operator {
                "in" => filter.names = Some(operand.split(',').map(str::to_owned).collect()),
                "startswith" => filter.like = Some(Like::beginning_with(operand)?),
                // Other operators are ignored, as in the reference.
                _ => {}
            }
        }
        if let Some(value) = query.last("associated") {
            filter.in_use = Some(value.to_lowercase().parse().map_err(|_| {
                let detail =
                    "The query parameter \"associated\" only accepts \"true\" or \"false\"";
                Problem::bad_request(detail)
            })?);
        }
        Ok(filter)
    }

    fn passes(&self, name: &str, in_use: impl FnOnce() -> bool) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name))
            && self.like.as_ref().is_none_or(|like| like.matches(name))
            && self.in_use.is_none_or(|filter| filter == in_use())
    }
}

/// A pattern of `SQLite`'s `LIKE`, because the reference passes the prefix to it unescaped: `%`
/// matches any characters, `_` matches one, and case is ignored.
#[derive(Clone, Debug)]
enum Like {
    /// Matches no trait.
    Nothing,
    Pattern(Regex),
}

impl Like {
    fn beginning_with(beginning: &str) -> Result<Self, Problem> {
        // Names have no other characters, and are not longer.
        let known = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '%');
        let least = beginning.chars().filter(|it| *it != '%').count();
        if least > LONGEST || !beginning.chars().all(known) {
            return Ok(Self::Nothing);
        }
        let mut pattern = "^".to_owned();
        let mut before = None;
        for character in beginning.chars() {
            match character {
                '%' if before == Some('%') => {}
                '%' => pattern.push_str("[A-Z0-9_]*"),
                '_' => pattern.push_str("[A-Z0-9_]"),
                other => pattern.push(other.to_ascii_uppercase()),
            }
            before = Some(character);
        }
        let pattern = Regex::new(&pattern);
        pattern.map(Self::Pattern).map_err(|error| Problem::internal(error.to_string()))
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Pattern(pattern) => pattern.is_match(name),
        }
    }
}

/// Returns the time of the last change to one of the traits; for an empty list, the current time.
fn changed(world: &World, traits: &[TraitId], app: &App) -> i64 {
    let known = &world.catalogue().traits;
    let changes = traits.iter().filter_map(|id| known.get(id)).map(|it| it.updated_at);
    changes.max().unwrap_or_else(|| app.now())
}

/// Traits; those of a provider with its generation.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Traits")]
pub(super) struct View<'w> {
    traits: Vec<&'w str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_provider_generation: Option<Generation>,
}

impl<'w> View<'w> {
    fn of(world: &'w World, traits: &[TraitId], generation: Option<Generation>) -> Self {
        let traits = traits.iter().map(|id| world.name_of_trait(*id)).collect();
        Self { traits, resource_provider_generation: generation }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{REPLACE_BODY, TraitsBody};
    use crate::http::placement::body::Body;
    use crate::model::effort::grows_evenly;

    /// Bodies of a megabyte, valid and with an error at the end. The store looks the traits up.
    #[test]
    fn reading_traits_takes_no_longer_than_the_body() {
        for (last, is_fine) in [(json!("CUSTOM_Z"), true), (json!(""), false), (json!(1), false)] {
            let body = |count: usize| {
                let mut names: Vec<_> =
                    (1..count).map(|nth| json!(format!("CUSTOM_{nth}"))).collect();
                names.push(last.clone());
                let body = json!({"traits": names, "resource_provider_generation": 0});
                Body(body.to_string().into())
            };
            grows_evenly(&last.to_string(), 64_000, body, |body| {
                assert_eq!(body.parse::<TraitsBody>(&REPLACE_BODY).is_ok(), is_fine);
            });
        }
    }
}
