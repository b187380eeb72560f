//! The whole API as one table: path, methods, the rules they are under, handlers.
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
use crate::policy::{Rule, planning as rule};

/// The API.
pub(super) static TABLE: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let mut table = vec![
        at("/", Access::Anybody, [get(&[], versions::root)]),
        at("/v1", Access::Project, [get(&[], versions::endpoints)]),
    ];
    table.extend(groups());
    table.extend(placements());
    table.extend(plans());
    table.push(at(
        "/v1/status",
        Access::Project,
        [head(&[rule::STATUS_SHOW], status::check), get(&[rule::STATUS_SHOW], status::show)],
    ));
    table
});

fn groups() -> [Route; 4] {
    [
        at(
            "/v1/groups",
            Access::Project,
            [get(&[rule::GROUPS_LIST], groups::list), post(&[rule::GROUPS_CREATE], groups::create)],
        ),
        at(
            "/v1/groups/{group}",
            Access::Project,
            [
                get(&[rule::GROUPS_SHOW], groups::show),
                put(&[rule::GROUPS_UPDATE], groups::update),
                delete(&[rule::GROUPS_DELETE], groups::delete),
            ],
        )
        .of_item(groups::exists),
        at(
            "/v1/groups/{group}/members",
            Access::Project,
            [
                put(&[rule::MEMBERS_ADD], groups::add_members),
                delete(&[rule::MEMBERS_REMOVE], groups::remove_members),
            ],
        )
        .of_item(groups::exists),
        at(
            "/v1/groups/{group}/members/{member}",
            Access::Project,
            [
                get(&[rule::MEMBERS_SHOW], groups::show_member),
                delete(&[rule::MEMBERS_REMOVE], groups::remove_member),
            ],
        )
        .of_item(groups::member_exists),
    ]
}

fn placements() -> [Route; 2] {
    [
        at(
            "/v1/placements",
            Access::Project,
            [
                get(&[rule::PLACEMENTS_LIST], placements::list),
                post(&[rule::PLACEMENTS_RECOMMEND], placements::recommend).planned(),
            ],
        ),
        at(
            "/v1/placements/{placement}",
            Access::Project,
            [
                get(&[rule::PLACEMENTS_SHOW], placements::show),
                post(&[rule::PLACEMENTS_RESERVE], placements::reserve).planned(),
                delete(&[rule::PLACEMENTS_DELETE], placements::delete).planned(),
            ],
        )
        .of_item(placements::exists),
    ]
}

fn plans() -> [Route; 2] {
    [
        at(
            "/v1/plans",
            Access::Project,
            [
                get(&[rule::PLANS_LIST], plans::list),
                post(&[rule::PLANS_CREATE], plans::create).planned(),
            ],
        ),
        at(
            "/v1/plans/{plan}",
            Access::Project,
            [
                get(&[rule::PLANS_SHOW], plans::show),
                put(&[rule::PLANS_UPDATE, rule::PLANS_MIGRATE], plans::update).planned(),
                delete(&[rule::PLANS_DELETE], plans::delete),
            ],
        )
        .of_item(plans::exists),
    ]
}

/// Who is answered, before rules are asked. Everybody else is told that authentication is needed,
/// and nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Also who is not known.
    Anybody,
    /// Who asks for a project.
    Project,
}

/// A path with what answers it.
pub(super) struct Route {
    /// As it is written, with `{name}` for a part that varies.
    pub(super) path: &'static str,
    /// Who is answered.
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
    /// The rules that it may be under: one of them has to let the caller pass. None: nobody is asked.
    /// Where there are several, the handler knows which it is.
    pub(super) rules: &'static [Rule],
    /// Whether a JSON object is needed.
    pub(super) takes_body: bool,
    /// Whether places may be looked for: then it counts among what its project has planned at once.
    pub(super) plans: bool,
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

impl Row {
    /// The same, where places may be looked for.
    fn planned(self) -> Self {
        Self { plans: true, ..self }
    }
}

fn row<F, A>(method: Method, rules: &'static [Rule], handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    let takes_body = method == Method::POST || method == Method::PUT;
    let handler: Handler = Box::new(move |call| Box::pin(handler(call)));
    Row { method, rules, takes_body, plans: false, handler }
}

fn get<F, A>(rules: &'static [Rule], handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    row(Method::GET, rules, handler)
}

fn head<F, A>(rules: &'static [Rule], handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    row(Method::HEAD, rules, handler)
}

fn post<F, A>(rules: &'static [Rule], handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    row(Method::POST, rules, handler)
}

fn put<F, A>(rules: &'static [Rule], handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    row(Method::PUT, rules, handler)
}

fn delete<F, A>(rules: &'static [Rule], handler: F) -> Row
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    row(Method::DELETE, rules, handler)
}
