//! Options of the planner.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::address_or_none::{AddressOrNone, NONE, endpoints};
use super::values::{count, seconds};
use crate::http::app::PlannerSettings;
use crate::http::edge::listener::Endpoint;
use crate::model::{Goal, PlacementPolicy};
use crate::planner::headroom::HeadroomShare;
use crate::store::planner::caps::Caps;

/// Treatment of an allocation in a unit reserved for an exclusivity group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Exclusivity {
    /// The allocation is refused.
    Enforce,
    /// The allocation is admitted and logged.
    Report,
}

/// Parser of the names of goals.
fn goal() -> impl TypedValueParser<Value = Goal> {
    let names = PossibleValuesParser::new(Goal::ALL.map(Goal::name));
    names.try_map(|name| Goal::named(&name).ok_or("is not a policy"))
}

/// Options of the planner.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Planner")]
pub struct PlannerOptions {
    /// Addresses of the planner's API, in the form of --listen; `none`: do not serve it.
    #[arg(long, default_value = "127.0.0.1:8090", value_name = "ADDRESS", value_delimiter = ',')]
    pub planner_listen: Vec<AddressOrNone>,

    /// Maximum solving time of a plan, in seconds, whatever the request asks for.
    ///
    /// A request without a time gets 2 seconds. Clients of this API wait for 5 seconds.
    #[arg(long, default_value = "4", value_name = "SECONDS", value_parser = seconds)]
    pub planner_timeout_max: Duration,

    /// Number of threads that choose hosts, shared equally by concurrent plans; 0: one per
    /// processor, less one for other requests if there are more than two.
    ///
    /// Each plan has at least one thread. More threads find better plans in the same time.
    #[arg(long, default_value = "0", value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(..=1024))]
    pub planner_threads: u16,

    /// Treatment of an allocation in a host, rack or cluster reserved for an exclusivity group.
    #[arg(long, default_value = "enforce", value_name = "WHAT")]
    pub planner_exclusivity: Exclusivity,

    /// Seconds after the last change of a plan until its holds for servers that have not arrived end; 0:
    /// never.
    ///
    /// It must be longer than the longest build of a stack. Capacity of a placement that is reserved without the
    /// UUID of a server stays held, because the server may be there.
    #[arg(long, default_value = "86400", value_name = "SECONDS")]
    pub planner_hold_ttl: u32,

    /// List a host among allocation candidates also if it has room only in the capacity that a plan holds for
    /// a server of the requested amounts.
    #[arg(long, default_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub planner_held_hosts: bool,

    /// Read the rack of a host from its name where no trait names one.
    ///
    /// For example, the host pdk15r05c001 is in the rack pdk15r05.
    #[arg(long, default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub planner_host_names: bool,

    /// Policy by which plans choose storage backends for volumes: on as few as possible, evenly by number, or
    /// evenly by use.
    #[arg(long, default_value = "spread", value_name = "POLICY", value_parser = goal())]
    pub planner_volume_policy: Goal,

    /// Share of the capacity of a resource class that plans leave free on every provider, in percent;
    /// may be repeated.
    ///
    /// For example, VCPU=10. Claims of the Placement API may use all of the capacity.
    #[arg(long, value_name = "CLASS=PERCENT", value_delimiter = ',')]
    pub planner_headroom: Vec<HeadroomShare>,

    /// TOML file with flavors that are stored at each start (see samples/flavors.toml).
    #[arg(long, value_name = "FILE")]
    pub planner_flavors: Option<PathBuf>,

    /// Maximum number of plans of one project; a further one is refused with 409.
    #[arg(long, default_value = "10000", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub planner_project_plans: u32,

    /// Maximum number of placements in all plans of one project; further ones are refused with 409.
    #[arg(long, default_value = "50000", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub planner_project_placements: u32,

    /// Maximum number of requests of one project that each replica plans at once; further ones
    /// wait.
    #[arg(long, default_value = "8", value_name = "COUNT", value_parser = count)]
    pub planner_project_requests: usize,
}

impl PlannerOptions {
    /// The addresses of the planner's API; empty if it is not served.
    ///
    /// # Errors
    /// A message: the list is empty, or has addresses and `none`.
    pub fn endpoints(&self) -> Result<Vec<&Endpoint>, String> {
        planner_endpoints(&self.planner_listen)
    }

    /// Returns whether violations of exclusivity are only logged.
    pub fn report_only(&self) -> bool {
        self.planner_exclusivity == Exclusivity::Report
    }

    /// The number of threads that choose hosts.
    fn threads(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
        match self.planner_threads {
            0 => most_of(processors()),
            threads => usize::from(threads),
        }
    }

    /// The settings of the planner.
    pub fn settings(&self) -> PlannerSettings {
        PlannerSettings {
            timeout_max: self.planner_timeout_max,
            host_names: self.planner_host_names,
            volume_policy: PlacementPolicy::of_hosts(self.planner_volume_policy),
            held_hosts: self.planner_held_hosts,
            hold_seconds: (self.planner_hold_ttl > 0).then_some(self.planner_hold_ttl),
            caps: Caps {
                plans: self.planner_project_plans,
                placements: self.planner_project_placements,
                ..Caps::default()
            },
            at_once: self.planner_project_requests,
            threads: self.threads(),
            ..PlannerSettings::default()
        }
    }
}

/// All processors but one; with two, both, because two plans may be made at once on a thread each.
fn most_of(processors: usize) -> usize {
    if processors > 2 { processors - 1 } else { processors }
}

/// The addresses of the planner; empty if it is not served.
///
/// # Errors
/// No address is named, or `none` with others.
pub fn planner_endpoints(listen: &[AddressOrNone]) -> Result<Vec<&Endpoint>, String> {
    if listen.is_empty() {
        return Err(format!("--planner-listen needs an address, or the word {NONE}"));
    }
    endpoints("--planner-listen", listen)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Exclusivity, PlannerOptions};
    use crate::http::app::PlannerSettings;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        options: PlannerOptions,
    }

    fn options(flags: &[&str]) -> PlannerOptions {
        let flags = flags.iter().map(|flag| format!("--planner-{flag}"));
        Cli::try_parse_from(std::iter::once("berth".to_owned()).chain(flags)).unwrap().options
    }

    fn endpoints(listen: &str) -> Result<Vec<String>, String> {
        let options = options(&[&format!("listen={listen}")]);
        options.endpoints().map(|found| found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_defaults_are_those_of_the_application() {
        let options = options(&[]);
        let threads = options.threads();
        assert_eq!(options.settings(), PlannerSettings { threads, ..PlannerSettings::default() });
        assert_eq!(options.planner_exclusivity, Exclusivity::Enforce);
    }

    #[test]
    fn it_is_served_somewhere_or_nowhere() {
        assert_eq!(endpoints("none").unwrap(), [""; 0]);
        assert_eq!(
            endpoints("127.0.0.1:1,unix:/run/planner.sock").unwrap(),
            ["127.0.0.1:1", "unix:/run/planner.sock"]
        );
        assert!(endpoints("none,127.0.0.1:1").unwrap_err().contains("alone"));
        assert!(Cli::try_parse_from(["berth", "--planner-listen", "nowhere"]).is_err());
    }

    #[test]
    fn head_room_is_a_list_of_classes() {
        let shares = options(&["headroom=VCPU=10,MEMORY_MB=5"]).planner_headroom;
        let shares: Vec<(&str, u8)> =
            shares.iter().map(|share| (share.class.as_str(), share.percent)).collect();
        assert_eq!(shares, [("VCPU", 10), ("MEMORY_MB", 5)]);
        assert!(options(&[]).planner_headroom.is_empty());
        assert!(Cli::try_parse_from(["berth", "--planner-headroom", "VCPU=100"]).is_err());
    }
}
