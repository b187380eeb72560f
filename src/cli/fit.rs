//! `berth fit`: counts how many more instances of some requests fit.

use clap::Args;
use url::form_urlencoded::Serializer;

use super::columns::FormatOptions;
use super::explain::shown;
use super::page::{Cell, Page, Tone};
use super::service::ServiceOptions;
use super::terminal::Colours;
use crate::http::operator::views::fit::{Fits, Number, RequestFit};
use crate::http::pasted_query;
use crate::moving::placement_client::Microversion;
use crate::server::failure::Failure;

/// Path of the resource.
const PATH: &str = "/-/v1/fit";

/// Requests whose instances are counted.
#[derive(Args, Clone, Debug)]
pub struct RequestOptions {
    /// A query, in the form of `GET /allocation_candidates`.
    ///
    /// A line of a log with a path and `?` in front of the query is accepted as well. Quote it, because it contains
    /// `&`. Each query is counted separately.
    #[arg(value_name = "QUERY", required_unless_present = "flavor")]
    pub queries: Vec<String>,

    /// A flavor of the planner, by name or id.
    #[arg(long, value_name = "NAME")]
    pub flavor: Vec<String>,

    /// Microversion of the queries.
    #[arg(long, value_name = "1.N", default_value_t = Microversion::MAX)]
    pub microversion: Microversion,
}

/// Options of `fit`.
#[derive(Args, Clone, Debug)]
pub struct FitOptions {
    /// The requests to fit.
    #[command(flatten)]
    pub requests: RequestOptions,

    /// Count also by group of hosts: `aggregate`, or `trait:PREFIX` such as `trait:CUSTOM_RACK_`.
    #[arg(long, value_name = "GROUPS")]
    pub by: Option<String>,

    /// Leave out a host, by name or UUID, as if it were drained.
    #[arg(long, value_name = "HOST")]
    pub drain: Vec<String>,

    /// Leave out all hosts with a trait or in an aggregate, as if a rack were lost.
    #[arg(long, value_name = "TRAIT|UUID")]
    pub without: Vec<String>,

    /// Maximum number of hosts, and of groups, in the output.
    #[arg(long, value_name = "COUNT", default_value = "10",
          value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub hosts: u16,

    /// Output format.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The server.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Runs `berth fit`, and returns its output.
///
/// # Errors
/// The server does not respond, or a query is invalid.
pub async fn run(options: &FitOptions) -> Result<String, Failure> {
    let client = options.service.reader()?;
    let response = client.get(&path(options), options.requests.microversion).await?;
    shown(response, options.format, text)
}

impl RequestOptions {
    /// The query parameters for queries and flavors.
    pub(super) fn parameters(&self) -> Serializer<'static, String> {
        let mut parameters = Serializer::new(String::new());
        for query in &self.queries {
            parameters.append_pair("query", pasted_query(query));
        }
        for flavor in &self.flavor {
            parameters.append_pair("flavor", flavor);
        }
        parameters
    }
}

fn path(options: &FitOptions) -> String {
    let mut query = options.requests.parameters();
    for (name, values) in [("drain", &options.drain), ("without", &options.without)] {
        for value in values {
            query.append_pair(name, value);
        }
    }
    if let Some(by) = &options.by {
        query.append_pair("by", by);
    }
    query.append_pair("hosts", &options.hosts.to_string());
    format!("{PATH}?{}", query.finish())
}

fn text(fits: &Fits, colours: Colours) -> String {
    let mut page = Page::new(colours);
    for it in &fits.left_out {
        let hosts = if it.hosts == 1 { "host is" } else { "hosts are" };
        page.line(format_args!("{} {hosts} left out ({} {}).", it.hosts, it.parameter, it.value));
    }
    for it in &fits.requests {
        if !page.is_empty() {
            page.blank();
        }
        add(&mut page, it);
    }
    page.finish()
}

fn add(page: &mut Page, it: &RequestFit) {
    let hosts = if it.fitting_hosts == 1 { "host" } else { "hosts" };
    let (times, count) = (words(it.fits), it.fitting_hosts);
    page.toned(
        Tone::of(it.fits.at_least > 0),
        format_args!("{} fits {times}, on {count} {hosts}.", it.request),
    );
    if !it.complete {
        page.line(format_args!(
            "Not all hosts were examined, because that takes too long: more may fit."
        ));
    }
    if !it.hosts.is_empty() {
        page.blank();
        let rows = it.hosts.iter().map(|host| [host.host.clone().into(), fitting(host.fits)]);
        page.table(["HOST", "FITS"], rows);
    }
    if let Some(groups) = &it.groups {
        page.blank();
        let rows = groups.named.iter().map(|group| {
            let name = group.group.clone().unwrap_or_else(|| "(none)".to_owned());
            let counts = [group.hosts, group.fitting_hosts].map(|count| count.to_string());
            let [hosts, with_room] = counts;
            [name.into(), hosts.into(), with_room.into(), fitting(group.fits)]
        });
        page.table(["GROUP", "HOSTS", "WITH ROOM", "FITS"], rows);
        if groups.named.len() < groups.count {
            let (shown, all) = (groups.named.len(), groups.count);
            page.line(format_args!("{shown} of {all} groups."));
        }
    }
}

pub(super) fn words(number: Number) -> String {
    match number {
        Number { at_least: 1, exact: true, .. } => "once".to_owned(),
        Number { at_least, exact: true, .. } => format!("{at_least} times"),
        Number { at_least, at_most: Some(at_most), .. } => {
            format!("at least {at_least} and at most {at_most} times")
        }
        Number { at_least, at_most: None, .. } => format!("at least {at_least} times"),
    }
}

/// A cell with the number of times that something fits.
fn fitting(number: Number) -> Cell {
    Cell::new(Tone::of(number.at_least > 0), short(number))
}

fn short(number: Number) -> String {
    match number {
        Number { at_least, exact: true, .. } => at_least.to_string(),
        Number { at_least, at_most: Some(at_most), .. } => format!("{at_least} to {at_most}"),
        Number { at_least, at_most: None, .. } => format!("{at_least} or more"),
    }
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::cli::terminal::Colours;
    use crate::http::operator::views::fit::{
        Fits, GroupFit, Groups, HostFit, LeftOut, Number, RequestFit,
    };

    fn exactly(number: u64) -> Number {
        Number { at_least: number, at_most: Some(number), exact: true }
    }

    #[test]
    fn numbers_say_whether_they_are_exact() {
        let request = RequestFit {
            request: "m1.large".to_owned(),
            is_flavor: true,
            complete: true,
            fits: exactly(7),
            fitting_hosts: 2,
            hosts: vec![
                HostFit { host: "cn1".to_owned(), uuid: String::new(), fits: exactly(5) },
                HostFit { host: "cn2".to_owned(), uuid: String::new(), fits: exactly(2) },
            ],
            groups: Some(Groups {
                count: 3,
                named: vec![
                    GroupFit {
                        group: Some("CUSTOM_RACK_1".to_owned()),
                        hosts: 4,
                        fitting_hosts: 2,
                        fits: exactly(7),
                    },
                    GroupFit {
                        group: None,
                        hosts: 1,
                        fitting_hosts: 0,
                        fits: Number { at_least: 0, at_most: Some(2), exact: false },
                    },
                ],
            }),
        };
        let bounded = RequestFit {
            request: "resources=VCPU:2".to_owned(),
            is_flavor: false,
            complete: false,
            fits: Number { at_least: 3, at_most: None, exact: false },
            fitting_hosts: 1,
            hosts: Vec::new(),
            groups: None,
        };
        let fits = Fits {
            providers: 5,
            left_out: vec![LeftOut {
                parameter: "without".to_owned(),
                value: "CUSTOM_RACK_2".to_owned(),
                hosts: 3,
            }],
            requests: vec![request, bounded],
        };
        insta::assert_snapshot!(text(&fits, Colours::None), @r"
        3 hosts are left out (without CUSTOM_RACK_2).

        m1.large fits 7 times, on 2 hosts.

        HOST  FITS
        cn1   5
        cn2   2

        GROUP          HOSTS  WITH ROOM  FITS
        CUSTOM_RACK_1  4      2          7
        (none)         1      0          0 to 2
        2 of 3 groups.

        resources=VCPU:2 fits at least 3 times, on 1 host.
        Not all hosts were examined, because that takes too long: more may fit.
        ");
    }
}
