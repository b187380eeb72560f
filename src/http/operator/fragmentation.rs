//! `/-/v1/fragmentation`: free capacity that is unusable for some requests.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};

use super::asked::{AllAsked, query_of, requests};
use super::fit::{HOSTS, names_max, number, view_of};
use super::question::{self, WORK_MAX};
use super::{AskedBy, Problem};
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::operator::views::fragmentation as view;
use crate::http::placement::allocation_candidates::unknown;
use crate::search::fit::{
    Excluded, Fragment, HostFragments, Question, RequestFragments, fragmentation,
};
use crate::search::{Unknown, budget};
use crate::world::World;

/// `GET /-/v1/fragmentation`: takes the query of `GET /allocation_candidates`, or several queries and flavors.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    AskedBy(caller): AskedBy,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Reply, Problem> {
    let query = query_of(&uri)?;
    let names_max = names_max(&query)?;
    let (asked, world) = requests(&app, &headers, &query.without(HOSTS)).await?;
    let work = move || answer(&world, &asked, names_max).map(|answer| Reply::json(&answer));
    let answer = question::answer(&app, caller.requester(), work).await?;
    answer.map_err(|name| Problem::from(unknown(name)))
}

fn answer(
    world: &World,
    asked: &AllAsked,
    names_max: usize,
) -> Result<view::Fragmentation, Unknown> {
    let excluded: Vec<Excluded> = asked
        .requests
        .iter()
        .map(|it| {
            let mut excluded = Excluded::default();
            asked.close(it, world, &mut excluded);
            excluded
        })
        .collect();
    let questions: Vec<Question<'_>> = asked
        .requests
        .iter()
        .zip(&excluded)
        .map(|(it, excluded)| Question { request: &it.request, excluded, names_max, by: None })
        .collect();
    // Each request has its share, so that an expensive one leaves some for the others.
    let work_max = WORK_MAX / questions.len().max(1);
    let found = fragmentation(world, &questions, || budget(work_max))?;
    let written = |(it, found): (&super::asked::Asked, &RequestFragments)| view::RequestFragments {
        request: it.words.clone(),
        is_flavor: it.is_flavor,
        ..request(world, found)
    };
    Ok(view::Fragmentation {
        requests: asked.requests.iter().zip(&found.requests).map(written).collect(),
        for_all: view::CommonFragments {
            complete: found.for_all.is_complete,
            classes: found.for_all.classes.iter().map(|it| fragment(world, it)).collect(),
        },
    })
}

fn request(world: &World, found: &RequestFragments) -> view::RequestFragments {
    let class = |it: &crate::search::fit::ClassFragment| view::ClassFragment {
        requested: it.requested,
        fragment: fragment(world, &it.fragment),
    };
    let host = |it: &HostFragments| {
        let root = world.provider_by_id(it.root)?;
        Some(view::HostFragments {
            host: root.name().to_owned(),
            uuid: root.uuid().to_string(),
            fits: view_of(it.fits),
            classes: it.classes.iter().map(|it| fragment(world, it)).collect(),
            short_of: it.short_of.iter().map(|id| world.name_of_class(*id).to_owned()).collect(),
        })
    };
    view::RequestFragments {
        request: String::new(),
        is_flavor: false,
        complete: found.is_complete,
        fits: number(found.fits, found.is_complete),
        in_one_piece: found.in_one_piece,
        classes: found.classes.iter().map(class).collect(),
        host_count: found.host_count,
        hosts: found.hosts.iter().filter_map(host).collect(),
    }
}

fn fragment(world: &World, it: &Fragment) -> view::Fragment {
    let resource_class = world.name_of_class(it.class).to_owned();
    view::Fragment { resource_class, free: it.free, unusable: it.unusable }
}
