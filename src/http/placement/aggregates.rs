//! `/resource_providers/{uuid}/aggregates`.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::body::Whole;
use super::call::{Call, Target};
use super::microversion::{AGGREGATES_GENERATION, Ladder, Microversion};
use super::problem::{Code, Problem};
use super::reply::Reply;
use super::schema::{Schema, Shape, array, integer, object, uuid};
use super::spelling::any_uuid;
use crate::http::python::text_repr;
use crate::model::{Generation, Refusal};
use crate::store::Error;
use crate::store::aggregates::ReplaceAggregates;

/// What `PUT .../aggregates` accepts: a list, later an object with a generation.
static REPLACE_BODY: LazyLock<Ladder<Schema>> = LazyLock::new(|| {
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
struct Wanted {
    aggregates: Vec<String>,
    resource_provider_generation: Whole,
}

/// The longest spelling of an aggregate, in bytes: as a URN in braces it has 47.
const SPELLING_MAX: usize = 64;

/// `GET .../aggregates`
pub(super) async fn list(call: Call) -> Result<Reply, Problem> {
    let world = call.app.store.world().await?;
    let provider = call.provider(&world)?;
    let aggregates = provider.aggregates_as_spelled();
    let view = View::of(&aggregates, provider.generation(), call.asked);
    Ok(Reply::json(&view).modified(call.now()))
}

/// `PUT .../aggregates`
pub(super) async fn replace(call: Call) -> Result<Reply, Problem> {
    let Target { uuid, generation } = call.target().await?;
    let schema = REPLACE_BODY.at(call.asked);
    let (names, seen) = if call.asked.has(AGGREGATES_GENERATION) {
        let wanted: Wanted = call.body.parse(schema)?;
        (wanted.aggregates, Some(wanted.resource_provider_generation.0))
    } else {
        (call.body.parse(schema)?, None)
    };
    if seen.is_some_and(|seen| seen != generation) {
        return Err(generation_changed());
    }
    let aggregates = names.iter().map(|name| spelled(name)).collect::<Result<_, Problem>>()?;
    let change = ReplaceAggregates { provider: uuid, seen, aggregates };
    let generation = call.app.store.commit(change).await.map_err(|error| match error {
        Error::Refused(Refusal::ProviderGeneration { .. }) => generation_changed(),
        other => other.into(),
    })?;
    Ok(Reply::json(&View::of(&names, generation, call.asked)).modified(call.now()))
}

/// An aggregate with its spelling. Any number of dashes and braces makes no other UUID, but more than
/// anyone needs is not kept.
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

fn generation_changed() -> Problem {
    let detail = "Resource provider's generation already changed. Please update the generation and \
                  try again.";
    Problem::conflict(detail).code(Code::ConcurrentUpdate)
}

#[derive(Serialize)]
struct View<'a> {
    aggregates: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_provider_generation: Option<Generation>,
}

impl<'a> View<'a> {
    fn of(aggregates: &'a [String], generation: Generation, asked: Microversion) -> Self {
        let resource_provider_generation = asked.show(AGGREGATES_GENERATION, generation);
        Self { aggregates, resource_provider_generation }
    }
}
