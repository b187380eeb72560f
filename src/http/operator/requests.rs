//! The requests in a query of the operator API: the query itself, or several queries and flavors by
//! name.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderMap, Uri};

use super::context::{Problem, microversion};
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::app::App;
use crate::http::placement::allocation_candidates::{keep_out, request, unknown};
use crate::http::placement::microversion::Microversion;
use crate::http::placement::query::Query;
use crate::planner::aggregates::AggregateMetadata;
use crate::planner::flavor::Flavor;
use crate::planner::request_of;
use crate::search::Request;
use crate::search::explain::check_names;
use crate::search::fit::Excluded;
use crate::world::World;

/// The parameters that name requests: a complete query, or a flavor by name or id.
pub(super) const QUERY: &str = "query";
pub(super) const FLAVOR: &str = "flavor";
/// The parameters that name requests.
pub(super) const REQUESTS_QUERY: [Parameter; 2] = [
    Parameter::new(QUERY, ParameterKind::Texts, "A complete query for candidates."),
    Parameter::new(FLAVOR, ParameterKind::Texts, "A flavor, by name or id."),
];
/// Maximum number of requests in one query.
pub(super) const REQUESTS_MAX: usize = 32;

/// A request for candidates.
#[derive(Clone, Debug)]
pub(super) struct NamedRequest {
    /// The query as written, or the name of the flavor.
    pub(super) words: String,
    /// Whether it is a flavor.
    pub(super) is_flavor: bool,
    pub(super) request: Request,
    /// Required metadata of the host's aggregates, by key.
    demands: BTreeMap<String, String>,
}

/// The requests, and the metadata of aggregates.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    pub(super) requests: Vec<NamedRequest>,
    metadata: AggregateMetadata,
}

impl Requests {
    /// Excludes the hosts that the flavor does not allow because of the metadata of their
    /// aggregates.
    pub(super) fn close(&self, request: &NamedRequest, world: &World, excluded: &mut Excluded) {
        if request.demands.is_empty() {
            return;
        }
        for root in world.trees().filter(|root| !self.metadata.meets(root, &request.demands)) {
            excluded.close(world, root.id());
        }
    }
}

/// Parses the query of a URI.
pub(in crate::http) fn query_of(uri: &Uri) -> Result<Query, Problem> {
    uri.query().map_or_else(|| Ok(Query::default()), |text| Ok(Query::parse(text)?))
}

/// Rejects other query parameters than these.
pub(super) fn only_known(query: &Query, known: &[Parameter]) -> Result<(), Problem> {
    let Some(other) = query.names().find(|name| known.iter().all(|it| it.name != *name)) else {
        return Ok(());
    };
    let known = known.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
    Err(Problem::bad_request(format!("{other} is not one of the parameters {known}")))
}

/// Rejects query parameters of an operation that takes none.
pub(super) fn without_parameters(uri: &Uri) -> Result<(), Problem> {
    match query_of(uri)?.names().next() {
        Some(name) => Err(Problem::bad_request(format!(
            "this operation takes no query parameters (got {name})"
        ))),
        None => Ok(()),
    }
}

/// Parses the requests of a query without its other parameters: either the parameters of `GET
/// /allocation_candidates`, or any number of `query` and `flavor`. Uses the current world.
///
/// # Errors
/// The query has both or neither; a request is invalid or names something unknown; a flavor does
/// not exist.
pub(super) async fn requests(
    app: &App,
    headers: &HeaderMap,
    query: &Query,
) -> Result<(Requests, Arc<World>), Problem> {
    let version = microversion(headers)?;
    let queries: Vec<&str> = query.all(QUERY).collect();
    let names: Vec<String> = query.all(FLAVOR).map(str::to_owned).collect();
    if queries.len() + names.len() > REQUESTS_MAX {
        return Err(Problem::bad_request(format!("at most {REQUESTS_MAX} requests are allowed")));
    }
    let rest = query.without(QUERY).without(FLAVOR);
    let mut requests = Vec::new();
    if queries.is_empty() && names.is_empty() {
        requests.push(of_query(&rest, rest.written(), version, app)?);
    } else if let Some((name, _)) = rest.pairs().next() {
        return Err(Problem::bad_request(format!(
            "{name} must be part of the value of {QUERY} if {QUERY} or {FLAVOR} is given"
        )));
    }
    for text in queries {
        let words = text.to_owned();
        requests.push(of_query(&Query::parse(text)?, words, version, app)?);
    }
    let flavors =
        if names.is_empty() { Vec::new() } else { app.store.flavors_named(&names).await? };
    let needs_metadata = names.iter().any(|name| {
        let flavor = flavors.iter().find(|it| it.name == *name || it.id == *name);
        flavor.is_some_and(|it| it.rules().is_ok_and(|rules| !rules.aggregates.is_empty()))
    });
    let metadata = if needs_metadata {
        app.store.aggregate_metadata().await?
    } else {
        AggregateMetadata::default()
    };
    let world = app.store.world().await?;
    for name in names {
        let flavor = flavor_named(&flavors, &name)?;
        let wrong = |why| Problem::bad_request(format!("flavor {name}: {why}"));
        let size = flavor.size().map_err(wrong)?;
        let demands = flavor.rules().map_err(wrong)?.aggregates;
        let request = request_of(&world, &size);
        requests.push(NamedRequest { words: name, is_flavor: true, request, demands });
    }
    let is_single = requests.len() == 1;
    for request in &requests {
        check_names(&world, &request.request).map_err(|name| {
            let mut problem = Problem::from(unknown(name));
            if !is_single {
                problem.detail = format!("{}: {}", request.words, problem.detail);
            }
            problem
        })?;
    }
    if !app.store.report_only() {
        for request in &mut requests {
            keep_out(&mut request.request, &world);
        }
    }
    Ok((Requests { requests, metadata }, world))
}

/// Returns the flavor with a name, or else with that id.
pub(super) fn flavor_named<'f>(flavors: &'f [Flavor], name: &str) -> Result<&'f Flavor, Problem> {
    let by_name = flavors.iter().find(|it| it.name == name);
    by_name.or_else(|| flavors.iter().find(|it| it.id == name)).ok_or_else(|| {
        Problem::bad_request(format!("there is no flavor {name}; `berth flavor list` shows all"))
    })
}

fn of_query(
    query: &Query,
    words: String,
    version: Microversion,
    app: &App,
) -> Result<NamedRequest, Problem> {
    let request = request(query, version, &app.options)?;
    Ok(NamedRequest { words, is_flavor: false, request, demands: BTreeMap::new() })
}
