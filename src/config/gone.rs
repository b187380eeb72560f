//! Options of `berth serve` that earlier versions had. They have no effect, and are refused from the next version on.

use clap::{Arg, ArgAction, Command};

use super::sources::{Origin, Source, variable};
use crate::http::current_options::OptionInForce;

const GONE: [&str; 29] = [
    "body-timeout",
    "cors-allow-credentials",
    "cors-allow-headers",
    "cors-allow-methods",
    "cors-expose-headers",
    "cors-max-age",
    "header-timeout",
    "idle-timeout",
    "incomplete-consumer-project-id",
    "incomplete-consumer-user-id",
    "keystone-application-credential-name",
    "keystone-auth-type",
    "keystone-endpoint",
    "keystone-project-id",
    "keystone-retries",
    "keystone-service-type",
    "keystone-trust-id",
    "keystone-user-id",
    "max-body-bytes",
    "otlp-service-name",
    "planner-project-bytes",
    "planner-project-groups",
    "planner-project-waiting",
    "planner-timeout",
    "policy-default-rule",
    "randomize-allocation-candidates",
    "refused-age",
    "refused-bytes",
    "search-timeout",
];

/// Returns whether an option is one of them.
pub fn is_gone(option: &str) -> bool {
    GONE.contains(&option)
}

/// Returns whether one of them has this environment variable.
pub fn has_variable(name: &str) -> bool {
    GONE.iter().any(|option| variable(option) == name)
}

/// Lets a command accept them, with any values, without showing them.
#[must_use]
pub fn accept(command: Command) -> Command {
    command.args(GONE.map(|option| {
        let arg = Arg::new(option.replace('-', "_")).long(option).env(variable(option));
        arg.action(ArgAction::Append).num_args(0..=1).hide(true)
    }))
}

/// Returns the options that have an effect.
pub fn in_force(sources: &[Source]) -> Vec<OptionInForce> {
    let in_force = sources.iter().filter(|source| !is_gone(&source.option));
    in_force.map(Source::in_force).collect()
}

/// Returns a warning for each one that is set.
pub fn warnings(sources: &[Source]) -> impl Iterator<Item = String> {
    let set = sources.iter().filter(|source| source.origin != Origin::Default);
    set.filter(|source| is_gone(&source.option)).map(|Source { option, origin, .. }| {
        format!("there is no option {option} any more, and it has no effect; remove it ({origin})")
    })
}
