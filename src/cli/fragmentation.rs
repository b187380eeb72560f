//! `berth fragmentation`: shows free capacity that some requests cannot use.

use clap::Args;

use super::columns::FormatOptions;
use super::explain::shown;
use super::fit::{RequestOptions, words};
use super::page::{Cell, Page, Tone};
use super::service::ServiceOptions;
use super::terminal::Colours;
use crate::http::operator::views::fragmentation::{Fragment, Fragmentation, RequestFragments};
use crate::server::failure::Failure;

/// Path of the resource.
const PATH: &str = "/-/v1/fragmentation";

/// Options of `fragmentation`.
#[derive(Args, Clone, Debug)]
pub struct FragmentationOptions {
    /// The requests.
    #[command(flatten)]
    pub requests: RequestOptions,

    /// Maximum number of hosts in the output.
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

/// Runs `berth fragmentation`, and returns its output.
///
/// # Errors
/// The server does not respond, or a query is invalid.
pub async fn run(options: &FragmentationOptions) -> Result<String, Failure> {
    let client = options.service.reader()?;
    let mut query = options.requests.parameters();
    query.append_pair("hosts", &options.hosts.to_string());
    let path = format!("{PATH}?{}", query.finish());
    shown(client.get(&path, options.requests.microversion).await?, options.format, text)
}

fn text(all: &Fragmentation, colours: Colours) -> String {
    let mut page = Page::new(colours);
    for it in &all.requests {
        if !page.is_empty() {
            page.blank();
        }
        add(&mut page, it);
    }
    if all.requests.len() > 1 {
        page.blank();
        page.toned(Tone::Heading, format_args!("Of no use for any of these, on hosts:"));
        page.blank();
        if !all.for_all.complete {
            page.line(format_args!("Only hosts that were examined for each of them are in it."));
            page.blank();
        }
        let rows = all.for_all.classes.iter().map(row);
        page.table(["CLASS", "FREE", "OF NO USE"], rows);
    }
    page.finish()
}

fn row(it: &Fragment) -> [Cell; 3] {
    let part = (it.unusable.saturating_mul(100)).checked_div(it.free);
    let unusable = match part {
        Some(percent) => format!("{} ({percent} %)", it.unusable),
        None => it.unusable.to_string(),
    };
    let is_most = part.is_some_and(|percent| percent >= 50);
    let tone = if is_most { Tone::Bad } else { Tone::Plain };
    [it.resource_class.clone().into(), it.free.to_string().into(), Cell::new(tone, unusable)]
}

fn add(page: &mut Page, it: &RequestFragments) {
    let (times, ideal) = (words(it.fits), it.in_one_piece);
    page.toned(
        Tone::of(it.fits.at_least > 0),
        format_args!(
            "{} fits {times}; if all that is free were in one piece: {ideal}.",
            it.request
        ),
    );
    page.blank();
    if !it.complete {
        page.line(format_args!("Not all hosts were examined, because that takes too long."));
        page.blank();
    }
    let rows = it.classes.iter().map(|it| row(&it.fragment));
    page.table(["CLASS", "FREE", "OF NO USE"], rows);
    if it.hosts.is_empty() {
        return;
    }
    page.blank();
    let (shown, count) = (it.hosts.len(), it.host_count);
    page.toned(Tone::Heading, format_args!("Hosts with most of no use ({shown} of {count}):"));
    page.blank();
    let rows = it.hosts.iter().map(|host| {
        let left = host.classes.iter().map(|it| format!("{} {}", it.resource_class, it.unusable));
        let left = left.collect::<Vec<_>>().join(", ");
        let why = match host.short_of.as_slice() {
            [] => "other conditions".to_owned(),
            classes => classes.join(", "),
        };
        let fits = Cell::new(Tone::of(host.fits.at_least > 0), host.fits.at_least.to_string());
        [host.host.clone().into(), fits, left.into(), Cell::new(Tone::Bad, why)]
    });
    page.table(["HOST", "FITS", "THEN LEFT", "SHORT OF"], rows);
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::cli::terminal::Colours;
    use crate::http::operator::views::fit::Number;
    use crate::http::operator::views::fragmentation::{
        ClassFragment, CommonFragments, Fragment, Fragmentation, HostFragments, RequestFragments,
    };

    fn fragment(class: &str, free: u64, unusable: u64) -> Fragment {
        Fragment { resource_class: class.to_owned(), free, unusable }
    }

    #[test]
    fn unusable_capacity_is_listed_by_class_and_host() {
        let number = |number| Number { at_least: number, at_most: Some(number), exact: true };
        let request = RequestFragments {
            request: "m1.large".to_owned(),
            is_flavor: true,
            complete: true,
            fits: number(1),
            in_one_piece: 3,
            classes: vec![ClassFragment { requested: 4, fragment: fragment("VCPU", 12, 8) }],
            host_count: 2,
            hosts: vec![HostFragments {
                host: "cn1".to_owned(),
                uuid: String::new(),
                fits: number(1),
                classes: vec![fragment("VCPU", 7, 3)],
                short_of: vec!["VCPU".to_owned()],
            }],
        };
        let all = Fragmentation {
            requests: vec![request.clone(), RequestFragments { hosts: Vec::new(), ..request }],
            for_all: CommonFragments { complete: false, classes: vec![fragment("VCPU", 12, 3)] },
        };
        insta::assert_snapshot!(text(&all, Colours::None), @r"
        m1.large fits once; if all that is free were in one piece: 3.

        CLASS  FREE  OF NO USE
        VCPU   12    8 (66 %)

        Hosts with most of no use (1 of 2):

        HOST  FITS  THEN LEFT  SHORT OF
        cn1   1     VCPU 3     VCPU

        m1.large fits once; if all that is free were in one piece: 3.

        CLASS  FREE  OF NO USE
        VCPU   12    8 (66 %)

        Of no use for any of these, on hosts:

        Only hosts that were examined for each of them are in it.

        CLASS  FREE  OF NO USE
        VCPU   12    3 (25 %)
        ");
    }
}
