//! Options of the commands that talk to a running placement service, Berth or the reference.

use std::time::Duration;

use clap::Args;

use crate::keystone::Secret;
use crate::placement_client::{Access, Client, Limits, Settings};

/// Bytes of a mebibyte.
const MIB: usize = 1 << 20;

/// Which placement service, and as whom.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The placement service")]
pub struct ServiceOptions {
    /// URL of the placement service, instead of the one in Keystone's catalog.
    ///
    /// Without --token, the token is Keystone's if --os-cloud or the environment (`OS_AUTH_URL`,
    /// `OS_USERNAME`, `OS_PASSWORD`, `OS_PROJECT_NAME` and so on, as for `openstack`) say how to get
    /// one; else `admin`, which a service without authentication (noauth2) takes for the administrator.
    #[arg(long, env = "BERTH_PLACEMENT_URL", value_name = "URL")]
    pub url: Option<String>,

    /// The credentials of the caller, and the limits of its requests.
    #[command(flatten)]
    pub caller: CallerOptions,
}

/// The credentials with which a command asks a placement service, and the limits of its requests.
#[derive(Args, Clone, Debug)]
pub struct CallerOptions {
    /// Token for the service at --url.
    ///
    /// Other processes on the machine can see flags: prefer the environment.
    #[arg(long, env = "BERTH_PLACEMENT_TOKEN", hide_env_values = true, value_name = "TOKEN",
          requires = "url", value_parser = secret)]
    pub token: Option<Secret>,

    /// Cloud in clouds.yaml whose credentials and catalog are used, instead of the environment's.
    ///
    /// The file is looked for as `openstack` does: `OS_CLIENT_CONFIG_FILE`, the working
    /// directory, ~/.config/openstack, /etc/openstack.
    #[arg(long, env = "OS_CLOUD", value_name = "NAME")]
    pub os_cloud: Option<String>,

    /// What bounds the work.
    #[command(flatten)]
    pub limits: LimitOptions,
}

/// What bounds the work of a client.
#[derive(Args, Clone, Copy, Debug)]
pub struct LimitOptions {
    /// Requests that a service has to answer at once.
    #[arg(long, env = "BERTH_CONCURRENCY", default_value = "8", value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,

    /// Seconds to wait for an answer.
    #[arg(long, env = "BERTH_ANSWER_TIMEOUT", default_value = "60", value_name = "SECONDS",
          value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub answer_timeout: u16,

    /// Size of an answer at the most, in MiB.
    #[arg(long, env = "BERTH_ANSWER_MAX_MIB", default_value = "256", value_name = "MIB",
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub answer_max_mib: u16,
}

impl LimitOptions {
    /// What they mean.
    pub fn limits(&self) -> Limits {
        Limits {
            concurrency: self.concurrency.into(),
            timeout: Duration::from_secs(self.answer_timeout.into()),
            answer_max: usize::from(self.answer_max_mib) * MIB,
        }
    }
}

impl CallerOptions {
    /// A client of the service at this URL, or of the one that the cloud or the environment names.
    fn client(&self, url: Option<&str>) -> Result<Client, String> {
        let settings = settings(self.os_cloud.as_deref())?;
        if url.is_none() && self.os_cloud.is_none() && !settings.name_a_service() {
            return Err(
                "which placement service? Name its URL (--url), a cloud (--os-cloud), or set \
                        the environment of OpenStack's clients (OS_AUTH_URL and so on)"
                    .to_owned(),
            );
        }
        Client::new(Access::of(url, self.token.as_ref(), &settings)?, self.limits.limits())
    }
}

/// What a cloud in clouds.yaml says, or else the environment.
fn settings(os_cloud: Option<&str>) -> Result<Settings, String> {
    match os_cloud {
        Some(cloud) => Settings::cloud(cloud),
        None => Ok(Settings::environment()),
    }
}

impl ServiceOptions {
    /// A client of the service. It does not connect before the first request.
    ///
    /// # Errors
    /// A sentence: what is missing or wrong.
    pub fn client(&self) -> Result<Client, String> {
        self.caller.client(self.url.as_deref())
    }
}

/// Which replicas of a placement service, and as whom.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The placement service")]
pub struct ReplicaOptions {
    /// URL of the placement service, instead of the one in Keystone's catalog.
    ///
    /// Can be repeated, with the address of one replica each; in the environment, URLs are separated by
    /// spaces. Without --token, the token is Keystone's if --os-cloud or the environment (`OS_AUTH_URL`,
    /// `OS_USERNAME`, `OS_PASSWORD`, `OS_PROJECT_NAME` and so on, as for `openstack`) say how to get
    /// one; else `admin`, which a service without authentication (noauth2) takes for the administrator.
    #[arg(long, env = "BERTH_PLACEMENT_URL", value_name = "URL", value_delimiter = ' ')]
    pub url: Vec<String>,

    /// The credentials of the caller, and the limits of its requests.
    #[command(flatten)]
    pub caller: CallerOptions,
}

impl ReplicaOptions {
    /// A client of each replica, at least one. They do not connect before the first request.
    ///
    /// # Errors
    /// A sentence: what is missing or wrong.
    pub fn clients(&self) -> Result<Vec<Client>, String> {
        if self.url.is_empty() {
            return Ok(vec![self.caller.client(None)?]);
        }
        self.url.iter().map(|url| self.caller.client(Some(url))).collect()
    }
}

/// A client of the service with this name: a URL, or a cloud in clouds.yaml.
///
/// # Errors
/// A sentence: what is missing or wrong.
pub(super) fn named(
    name: &str,
    token: Option<&Secret>,
    os_cloud: Option<&str>,
    limits: LimitOptions,
) -> Result<Client, String> {
    let access = if name.contains("://") {
        Access::of(Some(name), token, &settings(os_cloud)?)?
    } else {
        let told = |why| format!("{name} is no URL, so it is the name of a cloud: {why}");
        Access::of(None, token, &Settings::cloud(name).map_err(told)?)?
    };
    Client::new(access, limits.limits())
}

/// A secret that is not empty.
pub(super) fn secret(text: &str) -> Result<Secret, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.into()) }
}
