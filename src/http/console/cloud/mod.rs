//! The cloud: hosts in their racks, or a list of hosts, with the sums of their classes.

mod parameters;
mod survey;
mod views;

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;

use self::parameters::Parameters;
use self::survey::Wanted;
use super::context::{ConsoleCaller, Problem};
use super::page::{Shell, html, see_other};
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::operator::costly;
use crate::http::operator::requests::query_of;
use crate::planner::topology::Topology;

/// `GET /ui`: the cloud. [`parameters`] has the parameters of the query.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    ConsoleCaller(caller): ConsoleCaller,
    shell: Shell,
    uri: Uri,
) -> Result<Reply, Problem> {
    let query = query_of(&uri)?;
    let parameters = Parameters::of(&query)?;
    let world = app.store.world().await?;
    // A UUID of nothing else may be that of a consumer.
    if let Wanted::Consumer(uuid) = Wanted::of(&parameters.find, &world) {
        return Ok(see_other(&format!("{}/consumers/{uuid}", shell.base)));
    }
    let racks_by_names = app.options.planner.host_names;
    let work = move || {
        let topology = Topology::of(&world, racks_by_names);
        views::page(shell, &parameters, &world, &topology).map(|page| html(&page))
    };
    costly::run(&app, caller.requester(), work).await?
}
