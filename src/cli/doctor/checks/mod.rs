//! `berth doctor` and `berth upgrade-check`: look at the configuration, the database, Keystone, certificates,
//! descriptors and the clock, and say what is wrong and what to do about it. They only read.

mod certificates;
mod database;
mod finding;

use std::sync::Arc;

use crate::auth::keystone::Keystone;
use crate::auth::policy::Policy;
use crate::config::sources::{Source, with_origins};
use crate::config::{Auth, Config};
use crate::server::serve::{Parts, descriptor_shortage};

pub use self::finding::{Finding, Verdict, worst};

/// A token that no Keystone has issued.
const NO_TOKEN: &str = "berth-doctor-asks-whether-keystone-answers";

/// Runs all checks of `berth doctor`. `sources` says where the options came from.
pub async fn doctor(config: &Config, sources: &[Source]) -> Vec<Finding> {
    let mut findings = vec![configuration(config, sources)];
    findings.extend(policy(config));
    findings.push(descriptors(config));
    findings.extend(certificates::check(config));
    findings.extend(database::condition(config).await);
    findings.extend(keystone(config).await);
    findings
}

/// Runs all checks of `berth upgrade-check`: whether this program can take over from the one before.
pub async fn upgrade_check(config: &Config, sources: &[Source]) -> Vec<Finding> {
    let mut findings = vec![configuration(config, sources)];
    findings.extend(policy(config));
    findings.extend(database::upgrade(config).await);
    findings
}

/// Whether `berth serve` would accept the options, and the files that they name.
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

/// What is strange about the policy. That it cannot be read is a fault of the configuration.
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

/// Whether Keystone gives Berth a token, has an endpoint in its catalog, and lets Berth validate tokens: it is asked
/// about a token that it does not know.
async fn keystone(config: &Config) -> Vec<Finding> {
    const SUBJECT: &str = "keystone";
    if config.auth == Auth::Noauth2 {
        return vec![Finding::skipped(SUBJECT, "--auth noauth2 asks no Keystone")];
    }
    let advice = "look at the --keystone- options, and whether the user of Berth may validate \
                  tokens; see docs/keystone.md";
    let keystone = match config.keystone.read().and_then(Keystone::new) {
        Ok(keystone) => Arc::new(keystone),
        Err(why) => return vec![Finding::failure(SUBJECT, why, advice)],
    };
    vec![match keystone.validate(NO_TOKEN, false, None).await {
        Ok(None) => {
            let fine = Finding::fine(SUBJECT, "it answers, and lets Berth validate tokens");
            return [Some(fine), catalog(&keystone).await].into_iter().flatten().collect();
        }
        Ok(Some(_)) => {
            Finding::failure(SUBJECT, "it accepts a token that nobody has issued", advice)
        }
        Err(why) => Finding::failure(SUBJECT, why.to_string(), advice),
    }]
}

/// Whether clients find Berth by the catalog. It says nothing if Berth's own token came without one.
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
