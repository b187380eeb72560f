//! `/-/v1/fragmentation`: free capacity that is unusable for some requests.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};

use super::context::{Problem, RequestCaller};
use super::costly::{self, WORK_MAX};
use super::fit::{HOSTS, names_max, number, view_of};
use super::requests::{Requests, query_of, requests};
use super::views::fragmentation as view;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::placement::allocation_candidates::unknown;
use crate::search::fit::{
    CountParameters, Excluded, Fragment, HostFragments, RequestFragments, fragmentation,
};
use crate::search::{Unknown, budget};
use crate::world::World;

/// `GET /-/v1/fragmentation`: takes the query of `GET /allocation_candidates`, or several queries and flavors.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Reply, Problem> {
    let query = query_of(&uri)?;
    let names_max = names_max(&query)?;
    let (requests, world) = requests(&app, &headers, &query.without(HOSTS)).await?;
    let work = move || respond(&world, &requests, names_max).map(|view| Reply::json(&view));
    let reply = costly::run(&app, caller.requester(), work).await?;
    reply.map_err(|name| Problem::from(unknown(name)))
}

fn respond(
    world: &World,
    requests: &Requests,
    names_max: usize,
) -> Result<view::Fragmentation, Unknown> {
    let excluded: Vec<Excluded> = requests
        .requests
        .iter()
        .map(|it| {
            let mut excluded = Excluded::default();
            requests.close(it, world, &mut excluded);
            excluded
        })
        .collect();
    let parameters: Vec<CountParameters<'_>> = requests
        .requests
        .iter()
        .zip(&excluded)
        .map(|(it, excluded)| CountParameters {
            request: &it.request,
            excluded,
            names_max,
            by: None,
        })
        .collect();
    // Each request has its share, so that an expensive one leaves some for the others.
    let work_max = WORK_MAX / parameters.len().max(1);
    let found = fragmentation(world, &parameters, || budget(work_max))?;
    let written =
        |(it, found): (&super::requests::NamedRequest, &RequestFragments)| view::RequestFragments {
            request: it.words.clone(),
            is_flavor: it.is_flavor,
            ..request(world, found)
        };
    Ok(view::Fragmentation {
        requests: requests.requests.iter().zip(&found.requests).map(written).collect(),
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
