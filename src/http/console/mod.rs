//! The console: pages about the cloud, below `/ui` on the address of the Placement API.
//!
//! The pages only read. They need no scripts, call the functions behind the operator API, and obey its policy rules.
//! A browser sends its token in a [cookie](session).

mod amounts;
mod assets;
mod cloud;
mod consumers;
mod context;
mod form;
mod history;
pub(super) mod now;
mod page;
mod plans;
mod provider;
mod reference;
mod session;
mod sign_in;
mod why;

use std::sync::Arc;

use tower::ServiceBuilder;

pub(super) use self::context::Console;
use self::session::ROOT;
pub(super) use self::session::handles;
use super::api;
use super::api::dialect::Route;
use super::api::routes::{get, post, route};
use super::app::App;
use super::layers::service::HttpService;
use crate::auth::policy::{operator as rule, planning};

/// Creates the service of the console.
pub(super) fn service(app: &Arc<App>) -> HttpService {
    let open: [Route<Console>; 5] = [
        route("/ui/style.css", [get::<Console, _, _>(.., None, assets::style)]),
        route("/ui/icon.svg", [get::<Console, _, _>(.., None, assets::icon)]),
        route("/ui/live.js", [get::<Console, _, _>(.., None, assets::live)]),
        route(
            "/ui/sign-in",
            [
                get::<Console, _, _>(.., None, sign_in::show),
                post::<Console, _, _>(.., None, sign_in::submit),
            ],
        ),
        route("/ui/sign-out", [post::<Console, _, _>(.., None, sign_in::sign_out)]),
    ];
    let table: [Route<Console>; 10] = [
        route("/ui/api", [get::<Console, _, _>(.., None, reference::list)]),
        route("/ui/api/{operation}", [get::<Console, _, _>(.., None, reference::show)]),
        route(
            "/ui/plans",
            [
                get::<Console, _, _>(.., planning::PLANS_LIST, plans::list),
                post::<Console, _, _>(.., planning::PLANS_CREATE, plans::try_stack),
            ],
        ),
        route("/ui/plans/{plan}", [get::<Console, _, _>(.., planning::PLANS_SHOW, plans::show)]),
        route(ROOT, [get::<Console, _, _>(.., rule::PROVIDERS, cloud::show)]),
        route("/ui/providers/{uuid}", [get::<Console, _, _>(.., rule::PROVIDERS, provider::show)]),
        route("/ui/why", [get::<Console, _, _>(.., rule::EXPLAIN, why::show)]),
        route("/ui/now", [get::<Console, _, _>(.., rule::PROVIDERS, now::show)]),
        route("/ui/consumers/{uuid}", [get::<Console, _, _>(.., rule::CONSUMERS, consumers::show)]),
        route(
            "/ui/projects/{project}",
            [get::<Console, _, _>(.., rule::CONSUMERS, consumers::of_project)],
        ),
    ];
    let pages = api::service(app, open, table);
    let app = Arc::clone(app);
    let prepared = ServiceBuilder::new()
        .map_request(move |request| session::prepared(&app, request))
        .service(pages);
    HttpService::new(prepared)
}
