//! Options of the commands that talk to a running placement service, Berth or the reference.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use clap::Args;

use crate::auth::keystone::Secret;
use crate::config::values::secret;
use crate::moving::placement_client::{self, Access, Client, Limits, Settings};
use crate::server::failure::Failure;

/// Bytes of a mebibyte.
const MIB: usize = 1 << 20;

/// The address on which `berth serve` listens by default.
const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 8778);

/// Maximum wait for a connection to this machine.
const LOCAL_CONNECT_MAX: Duration = Duration::from_secs(1);

/// Options for a placement service and its credentials.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The placement service")]
pub struct ServiceOptions {
    /// URL of the placement service, instead of the one in Keystone's catalog.
    ///
    /// By default, if neither --os-cloud nor the environment (`OS_*`) is set, commands that only read use
    /// `http://127.0.0.1:8778`.
    ///
    /// Without --token, the token is Keystone's if --os-cloud or the environment (`OS_AUTH_URL`, `OS_USERNAME`,
    /// `OS_PASSWORD`, `OS_PROJECT_NAME` and so on, as for `openstack`) has credentials; else `admin`, which a service
    /// without authentication (noauth2) accepts for the administrator.
    #[arg(long, env = "BERTH_PLACEMENT_URL", value_name = "URL")]
    pub url: Option<String>,

    /// The credentials of the caller, and the limits of its requests.
    #[command(flatten)]
    pub caller: CallerOptions,
}

/// The credentials for a placement service, and the limits of requests to it.
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

    /// Limits of the requests.
    #[command(flatten)]
    pub limits: LimitOptions,
}

/// Limits of a client.
#[derive(Args, Clone, Copy, Debug)]
pub struct LimitOptions {
    /// Maximum number of concurrent requests to a service.
    #[arg(long, env = "BERTH_CONCURRENCY", default_value = "8", value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,

    /// Timeout for a response, in seconds.
    #[arg(long, env = "BERTH_ANSWER_TIMEOUT", default_value = "60", value_name = "SECONDS",
          value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub answer_timeout: u16,

    /// Maximum size of a response, in MiB.
    #[arg(long, env = "BERTH_ANSWER_MAX_MIB", default_value = "256", value_name = "MIB",
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub answer_max_mib: u16,
}

impl LimitOptions {
    /// The limits in the client's form.
    pub fn limits(self) -> Limits {
        Limits {
            concurrency: self.concurrency.into(),
            timeout: Duration::from_secs(self.answer_timeout.into()),
            answer_max: usize::from(self.answer_max_mib) * MIB,
        }
    }
}

impl From<placement_client::Error> for Failure {
    fn from(error: placement_client::Error) -> Self {
        Self(error.to_string())
    }
}

/// The default service of a command.
#[derive(Clone, Copy, Debug)]
enum Unnamed {
    /// None: a command that writes needs an explicit service.
    Refused,
    /// The one at this address, if it responds and nothing is set.
    At(SocketAddr),
}

impl Unnamed {
    /// The URL of this service.
    fn url(self, settings: &Settings) -> Result<String, String> {
        const UNKNOWN: &str = "which placement service? Name its URL (--url), a cloud (--os-cloud), or \
                               set the environment of OpenStack's clients (OS_AUTH_URL and so on)";
        match self {
            Self::At(address) if settings.is_empty() => {
                let connected = TcpStream::connect_timeout(&address, LOCAL_CONNECT_MAX);
                connected.map(|_| format!("http://{address}")).map_err(|_| {
                    format!(
                        "nothing responds at {address}, where Berth listens by default: {UNKNOWN}"
                    )
                })
            }
            Self::At(_) | Self::Refused => Err(UNKNOWN.to_owned()),
        }
    }
}

impl CallerOptions {
    /// A client of the service at this URL, or of the one in the cloud or the environment.
    fn client(&self, url: Option<&str>, unnamed: Unnamed) -> Result<Client, String> {
        let settings = settings(self.os_cloud.as_deref())?;
        let is_named = url.is_some() || self.os_cloud.is_some() || settings.name_a_service();
        let local = (!is_named).then(|| unnamed.url(&settings)).transpose()?;
        let url = url.or(local.as_deref());
        Client::new(Access::of(url, self.token.as_ref(), &settings)?, self.limits.limits())
    }
}

/// The settings of a cloud in clouds.yaml, or of the environment.
fn settings(os_cloud: Option<&str>) -> Result<Settings, String> {
    match os_cloud {
        Some(cloud) => Settings::cloud(cloud),
        None => Ok(Settings::environment()),
    }
}

impl ServiceOptions {
    /// A client of the named service. It connects with the first request.
    ///
    /// # Errors
    /// A message: what is missing or wrong.
    pub fn client(&self) -> Result<Client, Failure> {
        self.caller.client(self.url.as_deref(), Unnamed::Refused).map_err(Failure)
    }

    /// A client that only reads; the default is the service on this machine.
    ///
    /// # Errors
    /// A message: what is missing or wrong.
    pub fn reader(&self) -> Result<Client, Failure> {
        self.caller.client(self.url.as_deref(), Unnamed::At(LOCAL.into())).map_err(Failure)
    }
}

/// Options for the replicas of a placement service and their credentials.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The placement service")]
pub struct ReplicaOptions {
    /// URL of the placement service, instead of the one in Keystone's catalog.
    ///
    /// By default, if neither --os-cloud nor the environment (`OS_*`) is set, `http://127.0.0.1:8778`.
    ///
    /// May be repeated, with the address of one replica each; in the environment, URLs are separated by spaces.
    /// Without --token, the token is Keystone's if --os-cloud or the environment (`OS_AUTH_URL`, `OS_USERNAME`,
    /// `OS_PASSWORD`, `OS_PROJECT_NAME` and so on, as for `openstack`) has credentials; else `admin`, which a service
    /// without authentication (noauth2) accepts for the administrator.
    #[arg(long, env = "BERTH_PLACEMENT_URL", value_name = "URL", value_delimiter = ' ')]
    pub url: Vec<String>,

    /// The credentials of the caller, and the limits of its requests.
    #[command(flatten)]
    pub caller: CallerOptions,
}

impl ReplicaOptions {
    /// Clients of all replicas, at least one, that only read. They connect with the first request.
    ///
    /// # Errors
    /// A message: what is missing or wrong.
    pub fn readers(&self) -> Result<Vec<Client>, String> {
        let unnamed = Unnamed::At(LOCAL.into());
        if self.url.is_empty() {
            return Ok(vec![self.caller.client(None, unnamed)?]);
        }
        self.url.iter().map(|url| self.caller.client(Some(url), unnamed)).collect()
    }
}

/// A client of the service with this name: a URL, or a cloud in clouds.yaml.
///
/// # Errors
/// A message: what is missing or wrong.
pub(super) fn named(
    name: &str,
    token: Option<&Secret>,
    os_cloud: Option<&str>,
    limits: LimitOptions,
) -> Result<Client, String> {
    let access = if name.contains("://") {
        Access::of(Some(name), token, &settings(os_cloud)?)?
    } else {
        let failed = |why| format!("{name} is not a URL, so it is the name of a cloud: {why}");
        Access::of(None, token, &Settings::cloud(name).map_err(failed)?)?
    };
    Client::new(access, limits.limits())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::{Settings, Unnamed};

    #[test]
    fn a_reading_command_uses_the_local_server_by_default() {
        let nothing = Settings::of_environment([]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(Unnamed::At(address).url(&nothing), Ok(format!("http://{address}")));
        assert!(
            Unnamed::Refused.url(&nothing).unwrap_err().starts_with("which placement service?")
        );
        let user = Settings::of_environment([("OS_USERNAME".to_owned(), "nova".to_owned())]);
        assert!(
            Unnamed::At(address).url(&user).unwrap_err().starts_with("which placement service?")
        );
        drop(listener);
        let why = Unnamed::At(address).url(&nothing).unwrap_err();
        assert!(why.starts_with(&format!("nothing responds at {address}")), "{why}");
    }
}
