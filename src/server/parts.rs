//! The parts of a server that are made from its options before it starts.

use std::sync::Arc;

use crate::auth::keystone::Keystone;
use crate::auth::policy::Policy;
use crate::config::{Auth, Config};
use crate::http::admin::token::AdminToken;
use crate::http::edge::tls::Tls;
use crate::http::layers::cors::Cors;
use crate::http::layers::identity::{ByToken, Identity};
use crate::http::layers::proxy::Trusted;
use crate::server::failure::Failure;
use crate::store::planner::flavors::SetFlavors;

/// Validated options, with the contents of their files.
#[derive(Debug)]
pub struct Parts {
    pub(super) policy: Policy,
    /// Warnings about the policy.
    pub(super) warnings: Vec<String>,
    pub(super) trusted: Trusted,
    pub(super) cors: Option<Cors>,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) identity: Identity,
    pub(super) flavors: SetFlavors,
    pub(super) admin_token: Option<AdminToken>,
}

impl Parts {
    /// Validates the options and reads their files.
    ///
    /// # Errors
    /// Messages for all invalid options and unreadable files, one per line.
    pub fn read(config: &Config) -> Result<Self, Failure> {
        let mut wrong = Vec::new();
        wrong.extend(config.check().err());
        wrong.extend(config.audit.check().err());
        let admin_token = value_or_collect(config.network.admin_token(), &mut wrong);
        let policy = value_or_collect(Policy::load(config.policy.source()), &mut wrong);
        // It was checked above that certificate and key are given together.
        let tls = config.network.tls().ok().flatten().map(Tls::new).transpose();
        let tls = value_or_collect(tls, &mut wrong);
        let trusted = value_or_collect(config.network.trusted(), &mut wrong);
        let cors = value_or_collect(config.network.cors(), &mut wrong);
        let identity = value_or_collect(identity(config), &mut wrong);
        let flavors = value_or_collect(flavors(config), &mut wrong);
        match (policy, tls, trusted, cors, identity, flavors, admin_token) {
            (
                Some((policy, warnings)),
                Some(tls),
                Some(trusted),
                Some(cors),
                Some(identity),
                Some(flavors),
                Some(admin_token),
            ) if wrong.is_empty() => {
                let tls = tls.map(Arc::new);
                Ok(Self { policy, warnings, trusted, cors, tls, identity, flavors, admin_token })
            }
            _ => Err(Failure(wrong.join("\n"))),
        }
    }

    /// Returns the warnings about the policy.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns a message for each fault with which the server starts all the same.
    pub fn faults(&self) -> Vec<String> {
        self.tls.iter().filter_map(|tls| tls.expired()).collect()
    }
}

/// The value, or `None` after collecting the error.
fn value_or_collect<T>(outcome: Result<T, String>, wrong: &mut Vec<String>) -> Option<T> {
    outcome.map_err(|why| wrong.push(why)).ok()
}

/// Authentication of callers.
fn identity(config: &Config) -> Result<Identity, String> {
    if config.auth == Auth::Noauth2 {
        return Ok(Identity::NoAuth);
    }
    let keystone = Keystone::new(config.keystone.read()?)?;
    let by_token = ByToken::new(Arc::new(keystone), config.keystone.rules());
    Ok(Identity::Keystone(Arc::new(by_token)))
}

/// The flavors to set at the start.
pub(crate) fn flavors(config: &Config) -> Result<SetFlavors, String> {
    let file = config.planner.planner_flavors.as_deref();
    let read = file.map(crate::config::flavors::read).transpose();
    let flavors = read.map_err(|why| format!("--planner-flavors {why}"))?;
    Ok(SetFlavors(flavors.unwrap_or_default()))
}
