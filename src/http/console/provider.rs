//! A provider: its tree, what shares with it, and who has allocations of it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use uuid::Uuid;

use super::amounts::{Amounts, Grouped};
use super::context::{Console, ConsoleCaller, Problem};
use super::history::{self, HistorySection};
use super::page::{FirstItems, Shell, html};
use crate::auth::policy::operator as rule;
use crate::http::api::extract::path_parts;
use crate::http::api::in_turn::work_in;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::operator::costly;
use crate::http::placement::spelling::dashed_uuid;
use crate::model::provider::InventoryRow;
use crate::model::traits::SHARING;
use crate::store::consumers::{ConsumerFilter, ConsumerPage};
use crate::store::reads::ConsumerAllocations;
use crate::world::{Provider, World};

/// Maximum numbers of providers of a tree, of sharing providers, and of consumers on the page.
const PROVIDERS_MAX: usize = 100;
/// Maximum numbers of inventories, of traits and of aggregates of each provider on the page.
const NAMES_MAX: usize = 60;
const SHARING_MAX: usize = 20;
const CONSUMERS_MAX: i64 = 50;

path_parts! {
    Problem;
    /// The UUID of a provider.
    ProviderPath = "uuid";
}

/// The page.
#[derive(Template)]
#[template(path = "console/provider.html")]
struct ProviderPage {
    shell: Shell,
    name: String,
    uuid: Uuid,
    root: Option<ProviderLink>,
    tree: FirstItems<ProviderCard>,
    sharing: Vec<ProviderLink>,
    consumers: Consumers,
    history: HistorySection,
}

/// A provider of the tree.
struct ProviderCard {
    provider: ProviderLink,
    is_requested: bool,
    /// The number of providers above it.
    depth: usize,
    generation: i64,
    inventories: FirstItems<InventoryLine>,
    traits: FirstItems<String>,
    aggregates: FirstItems<String>,
    shares: bool,
}

/// A link to the page of a provider.
pub(super) struct ProviderLink {
    pub(super) name: String,
    pub(super) uuid: Uuid,
}

/// An inventory.
struct InventoryLine {
    name: String,
    amounts: Amounts,
    ratio: f64,
    units: String,
}

/// Consumers with allocations of the provider.
enum Consumers {
    /// The caller may not see them.
    Hidden,
    Shown {
        rows: Vec<ConsumerRow>,
        has_more: bool,
    },
}

/// A consumer.
struct ConsumerRow {
    uuid: Uuid,
    kind: String,
    project: String,
    amounts: String,
}

/// `GET /ui/providers/{uuid}`
pub(super) async fn show(
    State(app): State<Arc<App>>,
    ConsoleCaller(caller): ConsoleCaller,
    shell: Shell,
    ProviderPath(uuid): ProviderPath,
    uri: Uri,
) -> Result<Reply, Problem> {
    let missing = || Problem::not_found(format!("There is no resource provider {uuid}."));
    let uuid = dashed_uuid(&uuid).ok_or_else(missing)?;
    let world = app.store.world().await?;
    if world.provider(uuid).is_none() {
        return Err(missing());
    }
    let may_see_consumers = app.policy.check(&caller, rule::CONSUMERS, None).is_ok();
    let turn = costly::turn(&app, caller.requester()).await?;
    let consumers = if may_see_consumers {
        let filter = ConsumerFilter { provider: Some(uuid), ..ConsumerFilter::all(CONSUMERS_MAX) };
        consumers_of(app.store.consumers(filter).await?, uuid)
    } else {
        Consumers::Hidden
    };
    let history = history::read(&app, &caller, Some(uuid), &uri).await?;
    let work = move || -> Result<Reply, Problem> {
        let provider =
            world.provider(uuid).ok_or_else(|| Problem::internal("a provider is gone"))?;
        Ok(html(&page(shell, &world, provider, consumers, history)))
    };
    work_in::<Console, _>(turn, work).await?
}

fn consumers_of(page: ConsumerPage, provider: Uuid) -> Consumers {
    let row = |(uuid, it): (Uuid, ConsumerAllocations)| {
        let held = it.providers.iter().find(|held| held.provider == provider);
        ConsumerRow {
            uuid,
            kind: it.consumer_type.unwrap_or_else(|| "unknown".to_owned()),
            project: it.project,
            amounts: amounts_text(held.map_or(&[][..], |held| &held.resources)),
        }
    };
    Consumers::Shown {
        rows: page.consumers.into_iter().map(row).collect(),
        has_more: page.has_more,
    }
}

/// Returns amounts as a text such as `2 VCPU, 4,096 MEMORY_MB`.
pub(super) fn amounts_text(amounts: &[(String, i64)]) -> String {
    let texts: Vec<String> =
        amounts.iter().map(|(class, amount)| format!("{} {class}", Grouped(*amount))).collect();
    texts.join(", ")
}

fn page(
    shell: Shell,
    world: &World,
    provider: Provider<'_>,
    consumers: Consumers,
    history: HistorySection,
) -> ProviderPage {
    let root = provider.root();
    let count = provider.tree().count();
    let sharing = world.signature_of(root.slot()).into_iter().flat_map(|id| world.sharing_with(id));
    let mut sharing: Vec<u32> = sharing.collect();
    sharing.sort_unstable();
    sharing.dedup();
    let sharing = sharing.into_iter().filter_map(|slot| world.at(slot));
    let sharing = sharing.filter(|it| it.root() != root).take(SHARING_MAX);
    ProviderPage {
        name: provider.name().to_owned(),
        uuid: provider.uuid(),
        root: (root != provider).then(|| link(&root)),
        tree: FirstItems::of(
            PROVIDERS_MAX,
            count,
            provider.tree().map(|it| card(world, &it, &provider)),
        ),
        sharing: sharing.map(|it| link(&it)).collect(),
        consumers,
        history,
        shell,
    }
}

fn link(provider: &Provider<'_>) -> ProviderLink {
    ProviderLink { name: provider.name().to_owned(), uuid: provider.uuid() }
}

fn card(world: &World, provider: &Provider<'_>, requested: &Provider<'_>) -> ProviderCard {
    let depth = std::iter::successors(provider.parent(), Provider::parent).count();
    let inventory = |row: InventoryRow| {
        let terms = row.terms;
        InventoryLine {
            name: world.name_of_class(row.class).to_owned(),
            amounts: Amounts::of(&row),
            ratio: terms.allocation_ratio,
            units: format!(
                "{} to {} in steps of {}",
                Grouped(terms.min_unit.into()),
                Grouped(terms.max_unit.into()),
                Grouped(terms.step_size.into())
            ),
        }
    };
    let mut traits: Vec<String> =
        provider.traits().iter().map(|id| world.name_of_trait(*id).to_owned()).collect();
    traits.sort_unstable();
    let aggregates = provider.aggregates_as_spelled();
    ProviderCard {
        provider: link(provider),
        is_requested: provider == requested,
        depth,
        generation: provider.generation(),
        inventories: FirstItems::of(
            NAMES_MAX,
            provider.inventories().count(),
            provider.inventories().map(inventory),
        ),
        shares: traits.iter().any(|name| name == SHARING),
        traits: FirstItems::of(NAMES_MAX, traits.len(), traits.into_iter()),
        aggregates: FirstItems::of(NAMES_MAX, aggregates.len(), aggregates.into_iter()),
    }
}
