//! The whole API as one table: path, who may ask, methods, handlers.
//!
//! `Allow` lists the methods of a path as they stand here.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;

use axum::http::Method;

use super::call::Call;
use super::problem::Problem;
use super::reply::Reply;
use super::{groups, placements, plans, status, versions};

/// The API.
pub(super) static TABLE: LazyLock<Vec<Route>> = LazyLock::new(|| {
    vec![
        at("/", Access::Anybody, [get(versions::root)]),
        at("/v1", Access::Project, [get(versions::endpoints)]),
        at("/v1/groups", Access::Admin, [get(groups::list), post(groups::create)]),
        at(
            "/v1/groups/{group}",
            Access::Admin,
            [get(groups::show), put(groups::update), delete(groups::delete)],
        )
        .of_item(groups::exists),
        at(
            "/v1/groups/{group}/members",
            Access::Admin,
            [put(groups::add_members), delete(groups::remove_members)],
        )
        .of_item(groups::exists),
        at(
            "/v1/groups/{group}/members/{member}",
            Access::Admin,
            [get(groups::show_member), delete(groups::remove_member)],
        )
        .of_item(groups::member_exists),
        at("/v1/placements", Access::Project, [get(placements::list), post(placements::recommend)]),
        at(
            "/v1/placements/{placement}",
            Access::Project,
            [get(placements::show), post(placements::reserve), delete(placements::delete)],
        )
        .of_item(placements::exists),
        at("/v1/plans", Access::Project, [get(plans::list), post(plans::create)]),
        at(
            "/v1/plans/{plan}",
            Access::Project,
            [get(plans::show), put(plans::update), delete(plans::delete)],
        )
        .of_item(plans::exists),
        at("/v1/status", Access::Project, [head(status::check), get(status::show)]),
    ]
});

/// Who may ask. Everybody else is told that authentication is needed, and nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Also who is not known.
    Anybody,
    /// Who asks for a project.
    Project,
    /// Who asks for a project as an administrator.
    Admin,
}

/// A path with what answers it.
pub(super) struct Route {
    /// As it is written, with `{name}` for a part that varies.
    pub(super) path: &'static str,
    /// Who may ask.
    pub(super) access: Access,
    /// In the order of `Allow`.
    pub(super) rows: Vec<Row>,
    /// Whether the item that the path names exists, if it names one.
    pub(super) exists: Option<Exists>,
}

/// One way to answer a path.
pub(super) struct Row {
    /// The method.
    pub(super) method: Method,
    /// Whether a JSON object is needed.
    pub(super) takes_body: bool,
    /// What answers.
    pub(super) handler: Handler,
}

/// A handler.
pub(super) type Handler = Box<dyn Fn(Call) -> Later<Reply> + Send + Sync>;

/// Says what is missing, if something is.
pub(super) type Exists = Box<dyn Fn(Call) -> Later<()> + Send + Sync>;

/// What will be said.
pub(super) type Later<T> = Pin<Box<dyn Future<Output = Result<T, Problem>> + Send>>;

fn at<const N: usize>(path: &'static str, access: Access, rows: [Row; N]) -> Route {
    Route { path, access, rows: rows.into(), exists: None }
}

impl Route {
    /// The same, where `OPTIONS` is answered only if an item exists.
    fn of_item<F, A>(self, exists: F) -> Self
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), Problem>> + Send + 'static,
    {
        Self { exists: Some(Box::new(move |call| Box::pin(exists(call)))), ..self }
    }

    /// The methods there are.
    pub(super) fn allow(&self) -> String {
        self.rows.iter().map(|row| row.method.as_str()).collect::<Vec<_>>().join(",")
    }
}

fn row<F, A>(method: Method, handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    let takes_body = method == Method::POST || method == Method::PUT;
    Row { method, takes_body, handler: Box::new(move |call| Box::pin(handler(call))) }
}

fn get<F, A>(handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    row(Method::GET, handler)
}

fn head<F, A>(handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    row(Method::HEAD, handler)
}

fn post<F, A>(handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    row(Method::POST, handler)
}

fn put<F, A>(handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    row(Method::PUT, handler)
}

fn delete<F, A>(handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    row(Method::DELETE, handler)
}
