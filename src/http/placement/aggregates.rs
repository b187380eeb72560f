//! `/resource_providers/{uuid}/aggregates`.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::body::{Body, Integer};
use super::extract::{ProviderPath, generation_changed};
use super::microversion::{AGGREGATES_GENERATION, Ladder, Microversion};
use super::problem::{Problem, RefusedAs as _};
use super::schema::{Schema, Shape, array, integer, object, uuid};
use super::since::Since;
use super::spelling::any_uuid;
use crate::http::api::extract::Changing;
use crate::http::api::python::text_repr;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::model::effort::steps;
use crate::model::{Generation, Refusal};
use crate::store::aggregates::ReplaceAggregates;

/// Schema of `PUT .../aggregates`: a list of UUIDs; from 1.19, an object with the generation.
pub(super) static REPLACE_BODY: LazyLock<Ladder<Schema>> = LazyLock::new(|| {
    Ladder::from(array().of(uuid()).with("uniqueItems", true))
        .then(AGGREGATES_GENERATION, |list| {
            object()
                .require("aggregates", list)
                .require("resource_provider_generation", integer())
                .closed()
        })
        .map(Shape::for_bodies)
});

#[derive(Deserialize)]
struct AggregatesBody {
    aggregates: Vec<String>,
    resource_provider_generation: Integer,
}

/// Maximum length of an aggregate as written, in bytes: a URN in braces has 47.
const SPELLING_MAX: usize = 64;

/// `GET .../aggregates`: the aggregates of the provider, in the notation in which they were sent.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    microversion: Microversion,
    path: ProviderPath,
) -> Result<Reply, Problem> {
    let world = app.store.world().await?;
    let provider = path.provider(&world)?;
    let aggregates = provider.aggregates_as_spelled();
    let view = View::of(&aggregates, provider.generation(), microversion);
    Ok(Reply::json(&view).modified(app.now()))
}

/// `PUT .../aggregates`: replaces the aggregates of the provider. From 1.19 the generation in the
/// body is compared and incremented.
pub(super) async fn replace(
    Changing { app, changes }: Changing,
    microversion: Microversion,
    path: ProviderPath,
    body: Body,
) -> Result<Reply, Problem> {
    let target = path.target(&app).await?;
    let uuid = target.uuid;
    let (names, expected_generation) = parse(&body, microversion)?;
    if let Some(expected_generation) = expected_generation {
        target.check_generation(expected_generation, generation_changed)?;
    }
    let aggregates = all_spelled(&names)?;
    let change = ReplaceAggregates { provider: uuid, expected_generation, aggregates };
    let generation = changes.commit(change).await.refused_as(|why| match why {
        Refusal::ProviderGeneration { .. } => generation_changed(),
        other => other.into(),
    })?;
    Ok(Reply::json(&View::of(&names, generation, microversion)).modified(app.now()))
}

/// Parses a body: the aggregates in their notation, and the expected generation.
fn parse(
    body: &Body,
    microversion: Microversion,
) -> Result<(Vec<String>, Option<Generation>), Problem> {
    let schema = REPLACE_BODY.at(microversion);
    if microversion.has(AGGREGATES_GENERATION) {
        let body: AggregatesBody = body.parse(schema)?;
        Ok((body.aggregates, Some(body.resource_provider_generation.0)))
    } else {
        Ok((body.parse(schema)?, None))
    }
}

fn all_spelled(names: &[String]) -> Result<Vec<(Uuid, String)>, Problem> {
    names.iter().inspect(|_| steps(1)).map(|name| spelled(name)).collect()
}

/// Parses an aggregate. Any number of dashes and braces is accepted, up to a length limit.
fn spelled(name: &str) -> Result<(Uuid, String), Problem> {
    let refused = |why| {
        let name = text_repr(name);
        Problem::bad_request(format!("JSON does not validate: {name} {why}"))
    };
    if name.len() > SPELLING_MAX {
        return Err(refused("is too long"));
    }
    let uuid = any_uuid(name).ok_or_else(|| refused("is not a 'uuid'"))?;
    Ok((uuid, name.to_owned()))
}

/// The aggregates of a provider.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Aggregates")]
pub(super) struct View<'a> {
    aggregates: &'a [String],
    #[serde(skip_serializing_if = "Since::is_hidden")]
    resource_provider_generation: Since<{ AGGREGATES_GENERATION.minor() }, Generation>,
}

impl<'a> View<'a> {
    fn of(aggregates: &'a [String], generation: Generation, microversion: Microversion) -> Self {
        let resource_provider_generation = Since::at(microversion, generation);
        Self { aggregates, resource_provider_generation }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::{View, all_spelled, parse};
    use crate::http::placement::body::Body;
    use crate::http::placement::microversion::{INITIAL, LATEST};
    use crate::model::effort::grows_evenly;

    /// Bodies of a megabyte: valid, with an aggregate repeated at the end, and with another value
    /// there.
    #[test]
    fn reading_aggregates_takes_no_longer_than_the_body() {
        let uuid = |nth: usize| Uuid::from_u128(nth as u128).to_string();
        let again = uuid(1);
        for (last, is_fine) in [(uuid(0), true), (again, false), ("x".to_owned(), false)] {
            for microversion in [INITIAL, LATEST] {
                let body = |count: usize| {
                    let mut names: Vec<_> = (1..=count).map(uuid).collect();
                    names.push(last.clone());
                    let body = if microversion == INITIAL {
                        json!(names)
                    } else {
                        json!({"aggregates": names, "resource_provider_generation": 0})
                    };
                    Body(body.to_string().into())
                };
                grows_evenly(&last, 26_000, body, |body| {
                    let read = parse(body, microversion).and_then(|(names, _)| {
                        all_spelled(&names)?;
                        Ok(serde_json::to_vec(&View::of(&names, 0, microversion)).unwrap())
                    });
                    assert_eq!(read.is_ok(), is_fine, "{microversion}");
                });
            }
        }
    }
}
