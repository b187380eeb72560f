//! Checks of `berth doctor` and `berth upgrade-check`: the configuration, the database, Keystone, certificates,
//! descriptors and the clock. They only read.

mod certificates;
mod database;
mod finding;

use std::sync::Arc;

use crate::auth::keystone::Keystone;
use crate::auth::policy::Policy;
use crate::config::sources::{Source, with_origins};
use crate::config::{Auth, Config};
use crate::server::parts::Parts;
use crate::server::serve::descriptor_shortage;

pub use self::finding::{Finding, Verdict, worst};

/// A token that no Keystone has issued.
const NO_TOKEN: &str = "berth-doctor-asks-whether-keystone-answers";

/// Runs all checks of `berth doctor`. `sources` has the origins of the options.
pub async fn doctor(config: &Config, sources: &[Source]) -> Vec<Finding> {
    let mut findings = vec![configuration(config, sources)];
    findings.extend(policy(config));
    findings.push(descriptors(config));
    findings.extend(certificates::check(config));
    findings.extend(database::condition(config).await);
    findings.extend(keystone(config).await);
    findings
}

/// Runs all checks of `berth upgrade-check`: whether this version can replace the running one.
pub async fn upgrade_check(config: &Config, sources: &[Source]) -> Vec<Finding> {
    let mut findings = vec![configuration(config, sources)];
    findings.extend(policy(config));
    findings.extend(database::upgrade(config).await);
    findings
}

/// Checks that `berth serve` would accept the options, and the files in them.
fn configuration(config: &Config, sources: &[Source]) -> Finding {
    match Parts::read(config) {
        Ok(_) => Finding::fine("configuration", "the options and the files they name are valid"),
        Err(why) => Finding::failure(
            "configuration",
            with_origins(why.to_string(), sources),
            "correct the option; `berth config check` shows where each value comes from",
        ),
    }
}

/// Reports warnings about the policy. An unreadable policy is an error of the configuration.
fn policy(config: &Config) -> Vec<Finding> {
    let Ok((_, warnings)) = Policy::load(config.policy.source()) else { return Vec::new() };
    let advice = "correct the policy file; `berth policy list` shows the rules";
    warnings.into_iter().map(|why| Finding::warning("policy", why, advice)).collect()
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
