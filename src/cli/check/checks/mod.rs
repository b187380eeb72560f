//! Checks of `berth check` and `berth check --upgrade`: the configuration, the database, Keystone, certificates,
//! descriptors and the clock. They change nothing.

mod certificates;
mod database;
mod finding;

use std::io::{self, ErrorKind};
use std::sync::Arc;

use crate::auth::keystone::Keystone;
use crate::cli::health;
use crate::config::sources::{Source, with_origins};
use crate::config::{Auth, Config, gone};
use crate::http::admin::health::{DRAINED, Ready};
use crate::http::edge::listener::Endpoint;
use crate::server::parts::Parts;
use crate::server::serve::descriptor_shortage;

pub use self::finding::{Finding, Verdict, worst};

/// A token that no Keystone has issued.
const NO_TOKEN: &str = "berth-check-of-keystone";

/// Runs all checks of `berth check`. `sources` has the origins of the options.
pub async fn all(config: &Config, sources: &[Source]) -> Vec<Finding> {
    let mut findings = configuration(config, sources);
    findings.extend(server(config).await);
    findings.push(descriptors(config));
    findings.extend(certificates::check(config));
    findings.extend(database::condition(config).await);
    findings.extend(keystone(config).await);
    findings
}

/// Runs all checks of `berth check --upgrade`: whether this version can replace the running one.
pub async fn upgrade(config: &Config, sources: &[Source]) -> Vec<Finding> {
    let mut findings = configuration(config, sources);
    findings.extend(database::upgrade(config).await);
    findings
}

/// Checks that `berth serve` would accept the options, and the files in them.
fn configuration(config: &Config, sources: &[Source]) -> Vec<Finding> {
    let parts = match Parts::read(config) {
        Ok(parts) => parts,
        Err(why) => {
            return vec![Finding::failure(
                "configuration",
                with_origins(why.to_string(), sources),
                "correct the option; `berth config check` shows where each value comes from",
            )];
        }
    };
    let mut findings =
        vec![Finding::fine("configuration", "the options and the files they name are valid")];
    let advice = "remove the option";
    findings
        .extend(gone::warnings(sources).map(|why| Finding::warning("configuration", why, advice)));
    let advice = "correct the policy file; `berth policy list` shows the rules";
    let policy = parts.warnings().iter().cloned();
    findings.extend(policy.map(|why| Finding::warning("policy", why, advice)));
    findings
}

/// Asks the server that runs with these options whether it is ready.
async fn server(config: &Config) -> Vec<Finding> {
    const SUBJECT: &str = "server";
    let advice = "see the failures below, and `journalctl -u berth -p warning`";
    let config = config.clone();
    let outcomes = tokio::task::spawn_blocking(move || health::readiness(&config)).await;
    let finding = |(endpoint, outcome): (Endpoint, io::Result<String>)| match outcome {
        Ok(words) if words == Ready::All.text() => {
            Finding::fine(SUBJECT, format!("{endpoint} is ready"))
        }
        Ok(words) => Finding::failure(SUBJECT, format!("{endpoint}: {words}"), advice),
        Err(why) if matches!(why.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => {
            Finding::skipped(SUBJECT, format!("none runs at {endpoint}"))
        }
        Err(why) if why.kind() == ErrorKind::WouldBlock => Finding::failure(
            SUBJECT,
            format!("{endpoint} accepts connections and does not respond"),
            "the process hangs: save its log, and `systemctl restart berth`",
        ),
        Err(why) if why.to_string().ends_with(DRAINED) => Finding::warning(
            SUBJECT,
            format!("{endpoint}: {DRAINED}"),
            "`berth members --resume` ends that",
        ),
        Err(why) => Finding::failure(SUBJECT, format!("{endpoint}: {why}"), advice),
    };
    // Addresses that contradict each other are reported by the check of the configuration.
    outcomes.into_iter().flatten().flatten().map(finding).collect()
}

fn descriptors(config: &Config) -> Finding {
    match descriptor_shortage(config) {
        None => Finding::fine("descriptors", "there are enough for --max-connections"),
        Some(why) => Finding::warning(
            "descriptors",
            format!("{why} (as seen by this command, not by the service)"),
            "raise LimitNOFILE of the service, or lower --max-connections",
        ),
    }
}

/// Checks that Keystone issues a token to Berth, has an endpoint in its catalog, and lets Berth validate tokens, by
/// validating a token that does not exist.
async fn keystone(config: &Config) -> Vec<Finding> {
    const SUBJECT: &str = "keystone";
    if config.auth == Auth::Noauth2 {
        return vec![Finding::skipped(SUBJECT, "--auth noauth2 asks no Keystone")];
    }
    let advice = "check the --keystone- options, and whether Berth's user may validate \
                  tokens; see docs/keystone.md";
    let keystone = match config.keystone.read().and_then(Keystone::new) {
        Ok(keystone) => Arc::new(keystone),
        Err(why) => return vec![Finding::failure(SUBJECT, why, advice)],
    };
    vec![match keystone.validate(NO_TOKEN, false, None).await {
        Ok(None) => {
            let fine = Finding::fine(SUBJECT, "it responds, and lets Berth validate tokens");
            let catalog = catalog(&keystone).await;
            return [Some(fine), catalog, clock(&keystone)].into_iter().flatten().collect();
        }
        Ok(Some(_)) => {
            Finding::failure(SUBJECT, "it accepts a token that was never issued", advice)
        }
        Err(why) => Finding::failure(SUBJECT, why.to_string(), advice),
    }]
}

/// Checks that the clocks of this machine and of Keystone agree.
fn clock(keystone: &Keystone) -> Option<Finding> {
    let why = keystone.clock_fault()?;
    Some(Finding::failure("keystone clock", why, "synchronise both clocks; see `timedatectl`"))
}

/// Checks that the catalog has an endpoint for clients; `None` if Berth's own token came without a catalog.
async fn catalog(keystone: &Keystone) -> Option<Finding> {
    const SUBJECT: &str = "catalog";
    let is_named = keystone.names_placement().await.ok().flatten()?;
    Some(if is_named {
        Finding::fine(SUBJECT, "it has an endpoint of the type placement")
    } else {
        Finding::warning(
            SUBJECT,
            "it has no endpoint of the type placement, by which clients find Berth",
            "`openstack endpoint create` makes one, after `openstack service create --name \
             placement placement`; look also at --keystone-region-name",
        )
    })
}
