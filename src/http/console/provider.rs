//! A provider: its tree, what shares with it, and who has allocations of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use uuid::Uuid;

use super::amounts::{Amounts, Grouped};
use super::consumers::{Consumer, list};
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
use crate::model::Inventory;
use crate::model::provider::InventoryRow;
use crate::model::traits::SHARING;
use crate::planner::topology::Topology;
use crate::store::consumers::ConsumerFilter;
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
    rack: Option<Arc<str>>,
    tree: FirstItems<ProviderCard>,
    sharing: Vec<ProviderCard>,
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
struct ProviderLink {
    name: String,
    uuid: Uuid,
}

/// An inventory.
struct InventoryLine {
    name: String,
    amounts: Amounts,
    ratio: f64,
    units: String,
}

/// Consumers with allocations of the provider or of those below it.
enum Consumers {
    /// The caller may not see them.
    Hidden,
    Shown {
        rows: Vec<Consumer>,
        has_more: bool,
    },
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
    let provider = world.provider(uuid).ok_or_else(missing)?;
    let subtree: Vec<Uuid> = provider.subtree().map(|it| it.uuid()).take(PROVIDERS_MAX).collect();
    let may_see_consumers = app.policy.check(&caller, rule::CONSUMERS, None).is_ok();
    let turn = costly::turn(&app, caller.requester()).await?;
    let consumers = if may_see_consumers {
        let providers = Some(subtree.clone());
        let filter = ConsumerFilter { providers, ..ConsumerFilter::all(CONSUMERS_MAX) };
        let found = app.store.consumers(filter).await?;
        Consumers::Shown { rows: list(&world, found.consumers), has_more: found.has_more }
    } else {
        Consumers::Hidden
    };
    let history = history::read(&app, &caller, &subtree, &uri).await?;
    let racks_by_names = app.options.planner.host_names;
    let work = move || -> Result<Reply, Problem> {
        let provider =
            world.provider(uuid).ok_or_else(|| Problem::internal("a provider is gone"))?;
        let root = provider.root();
        let card = |it| card(&world, &it, &provider);
        Ok(html(&ProviderPage {
            name: provider.name().to_owned(),
            uuid,
            root: (root != provider).then(|| link(&root)),
            rack: Topology::of(&world, racks_by_names).location(&root).rack,
            tree: FirstItems::of(PROVIDERS_MAX, root.tree().count(), root.tree().map(card)),
            sharing: sharing_with(&world, &root).map(card).collect(),
            consumers,
            history,
            shell,
        }))
    };
    work_in::<Console, _>(turn, work).await?
}

/// Returns the providers outside of the tree of a root that share with it.
fn sharing_with<'w>(
    world: &'w World,
    root: &Provider<'w>,
) -> impl Iterator<Item = Provider<'w>> + use<'w> {
    let root = *root;
    let sharing = world.signature_of(root.slot()).into_iter().flat_map(|id| world.sharing_with(id));
    let sharing: BTreeSet<u32> = sharing.collect();
    let sharing = sharing.into_iter().filter_map(|slot| world.at(slot));
    sharing.filter(move |it| it.root() != root).take(SHARING_MAX)
}

fn link(provider: &Provider<'_>) -> ProviderLink {
    ProviderLink { name: provider.name().to_owned(), uuid: provider.uuid() }
}

/// Returns the limits of an allocation as a text. The text is empty without limits.
fn units(terms: &Inventory) -> String {
    let limits = [
        ("at least", terms.min_unit, terms.min_unit > 1),
        ("at most", terms.max_unit, terms.max_unit < terms.total),
        ("in steps of", terms.step_size, terms.step_size > 1),
    ];
    let limits = limits.into_iter().filter(|(.., is_limit)| *is_limit);
    let texts = limits.map(|(text, units, _)| format!("{text} {}", Grouped(units.into())));
    texts.collect::<Vec<_>>().join(", ")
}

fn card(world: &World, provider: &Provider<'_>, requested: &Provider<'_>) -> ProviderCard {
    let depth = std::iter::successors(provider.parent(), Provider::parent).count();
    let inventory = |row: InventoryRow| {
        let terms = row.terms;
        InventoryLine {
            name: world.name_of_class(row.class).to_owned(),
            amounts: Amounts::of(&row),
            ratio: terms.allocation_ratio,
            units: units(&terms),
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
