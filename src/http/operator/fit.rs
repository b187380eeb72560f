//! `/-/v1/fit`: counts how often requests fit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use uuid::Uuid;

use super::context::{Problem, RequestCaller};
use super::costly::{self, WORK_MAX};
use super::requests::{Requests, query_of, requests};
use super::views::fit as view;
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::placement::allocation_candidates::unknown;
use crate::http::placement::query::Query;
use crate::search::fit::{Bounds, CountParameters, Excluded, Fit, GroupBy, GroupFit, HostFit, fit};
use crate::search::{Unknown, budget};
use crate::world::{Provider, World};

/// The parameter for the number of hosts and groups in a response.
pub(super) const HOSTS: &str = "hosts";
/// Default and maximum number of hosts and groups in a response.
const HOSTS_NAMED: usize = 10;
const HOSTS_MAX: usize = 1000;
/// The parameter by which hosts are grouped.
const BY: &str = "by";
/// The parameters that exclude hosts.
const DRAIN: &str = "drain";
const WITHOUT: &str = "without";
/// Maximum number of values of these parameters.
const LEFT_OUT_MAX: usize = 1000;
/// The parameter for the number of hosts.
pub(super) const HOSTS_QUERY: [Parameter; 1] = [Parameter::new(
    HOSTS,
    ParameterKind::Number(0, Some(HOSTS_MAX)),
    "Maximum number of hosts and groups.",
)];
/// The other parameters besides the requests.
pub(super) const OWN_QUERY: [Parameter; 3] = [
    Parameter::new(
        BY,
        ParameterKind::Text,
        "How hosts are grouped: `aggregate`, or `trait:PREFIX`.",
    ),
    Parameter::new(DRAIN, ParameterKind::Texts, "A host that is excluded, by name or UUID."),
    Parameter::new(
        WITHOUT,
        ParameterKind::Texts,
        "An aggregate or a trait whose hosts are excluded.",
    ),
];

/// The parameters besides the requests.
struct FitParameters {
    names_max: usize,
    by: Option<GroupBy>,
    drained: Vec<String>,
    without: Vec<String>,
}

#[derive(Default)]
struct ExcludedHosts {
    excluded: Excluded,
    named: Vec<view::LeftOut>,
}

/// `GET /-/v1/fit`: takes the query of `GET /allocation_candidates`, at the microversion of the
/// header `OpenStack-API-Version`, or at the latest; or several queries and flavors.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Reply, Problem> {
    let query = query_of(&uri)?;
    let terms = terms(&query)?;
    let own = [HOSTS, BY, DRAIN, WITHOUT];
    let rest = own.iter().fold(query, |query, name| query.without(name));
    let (requests, world) = requests(&app, &headers, &rest).await?;
    let turns_of = caller.requester();
    let (names_max, by) = (terms.names_max, terms.by.clone());
    let excluded_hosts = {
        let world = Arc::clone(&world);
        costly::run(&app, turns_of, move || left_out(&world, &terms)).await?
    };
    let excluded_hosts = excluded_hosts.map_err(Problem::bad_request)?;
    let work = move || {
        let requests = fits(&world, &requests, &excluded_hosts.excluded, names_max, by.as_ref())?;
        let (providers, left_out) = (world.len(), excluded_hosts.named);
        Ok(Reply::json(&view::Fits { providers, left_out, requests }))
    };
    let response = costly::run(&app, turns_of, work).await?;
    response.map_err(|name| Problem::from(unknown(name)))
}

/// Returns the number of hosts to list.
pub(super) fn names_max(query: &Query) -> Result<usize, Problem> {
    Ok(query.number(HOSTS, HOSTS_NAMED, 0..=HOSTS_MAX)?)
}

fn terms(query: &Query) -> Result<FitParameters, Problem> {
    let names_max = names_max(query)?;
    let by = query.once(BY)?.map(group_by).transpose()?;
    let all = |name| -> Vec<String> { query.all(name).map(str::to_owned).collect() };
    let (drained, without) = (all(DRAIN), all(WITHOUT));
    if drained.len() + without.len() > LEFT_OUT_MAX {
        return Err(Problem::bad_request(format!(
            "{DRAIN} and {WITHOUT} can be given at most {LEFT_OUT_MAX} times"
        )));
    }
    Ok(FitParameters { names_max, by, drained, without })
}

fn group_by(value: &str) -> Result<GroupBy, Problem> {
    match value.split_once(':') {
        None if value == "aggregate" => Ok(GroupBy::Aggregate),
        Some(("trait", prefix)) if !prefix.is_empty() => {
            Ok(GroupBy::TraitPrefix(prefix.to_owned()))
        }
        None | Some(_) => Err(Problem::bad_request(format!(
            "{BY} must be aggregate, or trait:PREFIX such as trait:CUSTOM_RACK_, not {value}"
        ))),
    }
}

/// Counts how often each request fits.
fn fits(
    world: &World,
    requests: &Requests,
    excluded: &Excluded,
    names_max: usize,
    by: Option<&GroupBy>,
) -> Result<Vec<view::RequestFit>, Unknown> {
    let work_max = WORK_MAX / requests.requests.len().max(1);
    let mut fits = Vec::new();
    for it in &requests.requests {
        let mut excluded = excluded.clone();
        requests.close(it, world, &mut excluded);
        let parameters =
            CountParameters { request: &it.request, excluded: &excluded, names_max, by };
        let found = fit(world, &parameters, budget(work_max))?;
        fits.push(view::RequestFit {
            request: it.words.clone(),
            is_flavor: it.is_flavor,
            ..written(world, &found, by.is_some())
        });
    }
    Ok(fits)
}

/// Returns the hosts that the query excludes.
fn left_out(world: &World, terms: &FitParameters) -> Result<ExcludedHosts, String> {
    let mut excluded_hosts = ExcludedHosts::default();
    let add = |excluded_hosts: &mut ExcludedHosts, parameter: &str, value: &str, hosts| {
        let (parameter, value) = (parameter.to_owned(), value.to_owned());
        excluded_hosts.named.push(view::LeftOut { parameter, value, hosts });
    };
    let by_name = by_name(world, &terms.drained);
    for name in &terms.drained {
        let by_uuid = name.parse().ok().and_then(|uuid| world.provider(uuid));
        let host = by_uuid.or_else(|| by_name.get(name.as_str()).copied());
        let root =
            host.ok_or_else(|| format!("{DRAIN}: there is no resource provider {name}"))?.root();
        excluded_hosts.excluded.lose(world, root.id());
        add(&mut excluded_hosts, DRAIN, name, 1);
    }
    for name in &terms.without {
        let hosts = match name.parse::<Uuid>() {
            Ok(aggregate) => excluded_hosts.excluded.lose_members(world, aggregate),
            Err(_) => excluded_hosts.excluded.lose_carriers(world, name).ok_or_else(|| {
                format!("{WITHOUT}: {name} is neither a trait nor the UUID of an aggregate")
            })?,
        };
        add(&mut excluded_hosts, WITHOUT, name, hosts);
    }
    Ok(excluded_hosts)
}

/// Returns the providers with these names.
fn by_name<'w>(world: &'w World, names: &[String]) -> HashMap<&'w str, Provider<'w>> {
    if names.is_empty() {
        return HashMap::new();
    }
    let names: HashSet<&str> = names.iter().map(String::as_str).collect();
    let found = world.providers().filter(|provider| names.contains(provider.name()));
    found.map(|provider| (provider.name(), provider)).collect()
}

/// Converts a result into its view, without the text of the request.
fn written(world: &World, found: &Fit, are_grouped: bool) -> view::RequestFit {
    let number = |bounds: Bounds| number(bounds, found.is_complete);
    let host = |it: &HostFit| {
        let root = world.provider_by_id(it.root)?;
        let (host, uuid) = (root.name().to_owned(), root.uuid().to_string());
        Some(view::HostFit { host, uuid, fits: view_of(it.fits) })
    };
    let group = |it: &GroupFit| view::GroupFit {
        group: it.group.clone(),
        hosts: it.hosts,
        fitting_hosts: it.fitting,
        fits: number(it.fits),
    };
    let groups = || view::Groups {
        count: found.group_count,
        named: found.groups.iter().map(group).collect(),
    };
    view::RequestFit {
        request: String::new(),
        is_flavor: false,
        complete: found.is_complete,
        fits: number(found.total),
        fitting_hosts: found.fitting,
        hosts: found.hosts.iter().filter_map(host).collect(),
        groups: are_grouped.then(groups),
    }
}

/// Returns a number. Its upper bound is known only if all hosts were examined.
pub(super) fn number(bounds: Bounds, is_complete: bool) -> view::Number {
    let known = view_of(bounds);
    if is_complete { known } else { view::Number { at_most: None, exact: false, ..known } }
}

pub(super) fn view_of(bounds: Bounds) -> view::Number {
    view::Number {
        at_least: bounds.at_least,
        at_most: Some(bounds.at_most),
        exact: bounds.is_exact(),
    }
}
