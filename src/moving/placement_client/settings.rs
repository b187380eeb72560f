//! The settings of OpenStack's clients: the environment (`OS_*`), and `clouds.yaml`.

use std::collections::BTreeMap;
use std::fmt;

use super::clouds_file;

/// The name that OpenStack's clients give to the cloud that the environment describes.
const ENVIRONMENT: &str = "envvars";
const PREFIX: &str = "OS_";
/// Variables that select settings, and are not settings themselves.
const SELECTION: [&str; 4] =
    ["cloud", "client_config_file", "client_secure_file", "client_vendor_file"];
/// Settings with a location or a login method. If one lacks the others that it needs, that is reported.
const LOCATIONS: [&str; 4] = ["auth_url", "auth_type", "endpoint", "placement_endpoint_override"];
/// Settings whose values must not be shown.
const SECRETS: [&str; 3] = ["password", "token", "application_credential_secret"];

/// Settings by name, such as `auth_url`.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<String, String>,
    /// The name of a cloud; `None` for the environment.
    cloud: Option<String>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.values.iter().map(|(name, value)| {
            (name, if SECRETS.contains(&name.as_str()) { "***" } else { value.as_str() })
        });
        formatter.debug_map().entries(shown).finish()
    }
}

impl Settings {
    /// The settings in these environment variables.
    pub fn of_environment(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let setting = |(name, value): (String, String)| {
            let name = name.strip_prefix(PREFIX)?.to_ascii_lowercase();
            let counts = !value.is_empty() && !SELECTION.contains(&name.as_str());
            counts.then_some((name, value))
        };
        Self { values: variables.into_iter().filter_map(setting).collect(), cloud: None }
    }

    /// The settings of this process's environment. Variables that are not UTF-8 are ignored.
    pub fn environment() -> Self {
        let text = |it: std::ffi::OsString| it.into_string().ok();
        Self::of_environment(
            std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))),
        )
    }

    /// The settings of a cloud in `clouds.yaml` and `secure.yaml`, which are searched like OpenStack's clients do;
    /// the environment's if the name is `envvars`.
    ///
    /// # Errors
    /// A message: there is no such cloud, or a file cannot be read.
    pub fn cloud(name: &str) -> Result<Self, String> {
        let environment = Self::environment();
        if name == ENVIRONMENT {
            return Ok(environment);
        }
        let values = clouds_file::find(name, &clouds_file::Places::usual())?;
        Ok(Self { values, cloud: Some(name.to_owned()) })
    }

    /// A setting, if it has a value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns whether they have a location or a login method.
    pub fn name_a_service(&self) -> bool {
        LOCATIONS.iter().any(|name| self.get(name).is_some())
    }

    /// The origin of the settings, for messages.
    pub(super) fn origin(&self) -> String {
        match &self.cloud {
            Some(cloud) => format!("cloud {cloud}"),
            None => "environment".to_owned(),
        }
    }

    /// A message about a missing setting.
    pub(super) fn missing(&self, name: &str) -> String {
        match &self.cloud {
            Some(cloud) => format!("cloud {cloud}: {name} is missing in clouds.yaml"),
            None => format!("the environment variable {PREFIX}{} is missing", name.to_uppercase()),
        }
    }

    #[cfg(test)]
    pub(super) fn of_cloud(name: &str, values: BTreeMap<String, String>) -> Self {
        Self { values, cloud: Some(name.to_owned()) }
    }
}
