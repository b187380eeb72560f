//! Options of `--auth keystone`: the location of Keystone, and Berth's credentials. The names are
//! those of the `[keystone_authtoken]` options of OpenStack services.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::{seconds, secret};
use crate::auth::keystone::{
    AuthOptions, ClientTls, Credentials, Domain, Options, Scope, Secret, User,
};

/// Number of times a failed connection is retried within the timeout of requests.
const RETRIES: u32 = 3;

/// Options of `--auth keystone`.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Keystone")]
pub struct KeystoneOptions {
    /// URL at which Berth gets its own token, such as `https://HOST:5000` or
    /// `https://HOST/identity`.
    ///
    /// Required with --auth keystone.
    #[arg(long, value_name = "URL")]
    pub keystone_auth_url: Option<String>,

    /// Name of the user as which Berth authenticates.
    ///
    /// The user may validate tokens if it has the role admin or service.
    #[arg(long, value_name = "NAME")]
    pub keystone_username: Option<String>,

    /// Name of the user's domain.
    #[arg(long, value_name = "NAME")]
    pub keystone_user_domain_name: Option<String>,

    /// Id of the user's domain.
    #[arg(long, value_name = "ID")]
    pub keystone_user_domain_id: Option<String>,

    /// Password of the user.
    ///
    /// Other processes on the machine can see flags: prefer the environment, the configuration
    /// file, or --keystone-password-file.
    #[arg(long, hide_env_values = true, value_name = "PASSWORD", value_parser = secret)]
    pub keystone_password: Option<Secret>,

    /// File with the password; white space at its end is ignored.
    ///
    /// Default: the systemd credential `berth.keystone-password`, if there is one.
    #[arg(long, value_name = "FILE")]
    pub keystone_password_file: Option<PathBuf>,

    /// Name of the project that Berth's token is scoped to.
    #[arg(long, value_name = "NAME")]
    pub keystone_project_name: Option<String>,

    /// Name of the project's domain.
    #[arg(long, value_name = "NAME")]
    pub keystone_project_domain_name: Option<String>,

    /// Id of the project's domain.
    #[arg(long, value_name = "ID")]
    pub keystone_project_domain_id: Option<String>,

    /// Scope Berth's token to the whole system (`all`) instead of a project.
    #[arg(long, value_name = "all", value_parser = ["all"])]
    pub keystone_system_scope: Option<String>,

    /// Id of the application credential with which Berth authenticates, instead of a user with a
    /// password.
    #[arg(long, value_name = "ID")]
    pub keystone_application_credential_id: Option<String>,

    /// Secret of the application credential.
    #[arg(long, hide_env_values = true, value_name = "SECRET", value_parser = secret)]
    pub keystone_application_credential_secret: Option<Secret>,

    /// File with the secret of the application credential.
    ///
    /// Default: the systemd credential `berth.keystone-application-credential-secret`, if there is
    /// one.
    #[arg(long, value_name = "FILE")]
    pub keystone_application_credential_secret_file: Option<PathBuf>,

    /// URL in a 401 response, where clients get a token. Default: the auth URL.
    #[arg(long, value_name = "URL")]
    pub keystone_www_authenticate_uri: Option<String>,

    /// Keystone endpoint in the catalog at which tokens are validated: internal, public or admin.
    ///
    /// Without such an endpoint, they are validated at the auth URL.
    #[arg(long, default_value = "internal", value_name = "NAME")]
    pub keystone_interface: String,

    /// Region of the Keystone endpoint. Default: any.
    #[arg(long, value_name = "NAME")]
    pub keystone_region_name: Option<String>,

    /// PEM file with the authorities that sign Keystone's certificate. Default: those of the
    /// system.
    #[arg(long, value_name = "FILE")]
    pub keystone_ca_file: Option<PathBuf>,

    /// PEM file with the certificate that Berth presents to Keystone.
    #[arg(long, value_name = "FILE")]
    pub keystone_cert_file: Option<PathBuf>,

    /// PEM file with the key of that certificate.
    #[arg(long, value_name = "FILE")]
    pub keystone_key_file: Option<PathBuf>,

    /// Accept any certificate from Keystone. An attacker on the path can then read every token.
    #[arg(long, default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub keystone_insecure: bool,

    /// Maximum time for which a request waits for Keystone to validate its token, in seconds; then
    /// the response is 503.
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    pub keystone_timeout: Duration,

    /// Seconds for which a validated token is cached; 0: validate every request.
    ///
    /// A revoked token may continue to work for this long.
    #[arg(long, default_value = "300", value_name = "SECONDS")]
    pub keystone_token_cache_time: u32,

    /// Roles that make a service token valid; it needs one of them.
    ///
    /// A service sends a service token when it acts on behalf of a user.
    #[arg(long, default_value = "service", value_delimiter = ',', value_name = "ROLES")]
    pub keystone_service_token_roles: Vec<String>,

    /// Refuse requests whose service token has none of those roles; with false, ignore such a
    /// token.
    #[arg(long, default_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub keystone_service_token_roles_required: bool,
}

impl KeystoneOptions {
    /// Validates the options, and reads their files.
    ///
    /// # Errors
    /// A message: an option is missing or superfluous, or a file cannot be read.
    pub fn read(&self) -> Result<Options, String> {
        let auth_url = self.keystone_auth_url.clone();
        Ok(Options {
            auth_url: auth_url.ok_or("--auth keystone needs --keystone-auth-url")?,
            credentials: self.credentials()?,
            interface: self.keystone_interface.trim_end_matches("URL").to_owned(),
            region: self.keystone_region_name.clone(),
            tls: self.tls()?,
            timeout: self.keystone_timeout,
            retries: RETRIES,
            cache_time: Duration::from_secs(self.keystone_token_cache_time.into()),
        })
    }

    /// The rules for callers whom Keystone has authenticated.
    pub fn rules(&self) -> AuthOptions {
        AuthOptions {
            www_authenticate_uri: self.keystone_www_authenticate_uri.clone(),
            service_token_roles: self
                .keystone_service_token_roles
                .iter()
                .map(|role| role.trim().to_owned())
                .collect(),
            service_token_roles_required: self.keystone_service_token_roles_required,
        }
    }

    fn credentials(&self) -> Result<Credentials, String> {
        let id = self.keystone_application_credential_id.clone();
        let has_secret = self.keystone_application_credential_secret.is_some()
            || self.keystone_application_credential_secret_file.is_some();
        match id {
            None if has_secret => Err("--keystone-application-credential-secret needs \
                                       --keystone-application-credential-id"
                .to_owned()),
            None => self.password(),
            Some(id) => {
                let secret = one_secret(
                    "keystone-application-credential-secret",
                    self.keystone_application_credential_secret.as_ref(),
                    self.keystone_application_credential_secret_file.as_ref(),
                )?;
                Ok(Credentials::ApplicationCredential { id, secret })
            }
        }
    }

    fn password(&self) -> Result<Credentials, String> {
        let user_domain = (&self.keystone_user_domain_id, &self.keystone_user_domain_name);
        let project_domain = (&self.keystone_project_domain_id, &self.keystone_project_domain_name);
        Ok(Credentials::Password {
            user: named("user", self.keystone_username.as_ref(), user_domain)?,
            password: one_secret(
                "keystone-password",
                self.keystone_password.as_ref(),
                self.keystone_password_file.as_ref(),
            )?,
            scope: match (&self.keystone_system_scope, &self.keystone_project_name) {
                (Some(_), None) => Scope::System,
                (None, project) => {
                    Scope::Project(named("project", project.as_ref(), project_domain)?)
                }
                (Some(_), Some(_)) => {
                    return Err("Berth's token can be scoped to one thing only: a project or the \
                                system (--keystone-system-scope)"
                        .to_owned());
                }
            },
        })
    }

    fn tls(&self) -> Result<ClientTls, String> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let identity = match (&self.keystone_cert_file, &self.keystone_key_file) {
            (None, None) => None,
            // One file may contain both.
            (Some(both), None) => Some(read(both)?),
            (Some(certificate), Some(key)) => {
                Some([read(certificate)?, b"\n".to_vec(), read(key)?].concat())
            }
            (None, Some(_)) => {
                return Err("--keystone-key-file needs --keystone-cert-file".to_owned());
            }
        };
        let ca = self.keystone_ca_file.as_ref().map(read).transpose()?;
        Ok(ClientTls { ca, identity, insecure: self.keystone_insecure })
    }
}

fn one_secret(
    option: &str,
    given: Option<&Secret>,
    file: Option<&PathBuf>,
) -> Result<Secret, String> {
    match (given, file) {
        (Some(given), None) => Ok(given.clone()),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("--{option}-file {}: {error}", path.display()))?;
            secret(text.trim_end())
                .map_err(|_| format!("--{option}-file {}: the file is empty", path.display()))
        }
        (Some(_), Some(_)) => Err(format!("pass --{option} or --{option}-file, not both")),
        (None, None) => Err(format!("--auth keystone needs --{option} or --{option}-file")),
    }
}

/// A user or a project by its name, in a domain with an id or a name.
fn named(
    what: &str,
    name: Option<&String>,
    domain: (&Option<String>, &Option<String>),
) -> Result<User, String> {
    let option = if what == "user" { "username" } else { "project-name" };
    let name = name.ok_or_else(|| format!("--auth keystone needs --keystone-{option}"))?;
    let domain = match domain {
        (Some(id), _) => Domain::Id(id.clone()),
        (None, Some(name)) => Domain::Name(name.clone()),
        (None, None) => {
            return Err(format!(
                "--keystone-{option} needs --keystone-{what}-domain-name or -id (usually Default \
                 or default)"
            ));
        }
    };
    Ok(User::Name(name.clone(), domain))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::KeystoneOptions;
    use crate::auth::keystone::{Credentials, Domain, Scope, User};

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        options: KeystoneOptions,
    }

    fn options(flags: &str) -> KeystoneOptions {
        let flags = flags.split_whitespace().map(|flag| format!("--keystone-{flag}"));
        let flags = std::iter::once("berth".to_owned()).chain(flags);
        Cli::try_parse_from(flags).unwrap().options
    }

    const USER: &str = "auth-url=http://k username=u user-domain-id=d";

    const PASSWORD: &str = "auth-url=http://k username=berth user-domain-id=default \
                            password=s3cret project-name=service project-domain-id=default";

    #[test]
    fn a_password_needs_user_and_scope() {
        let read = options(PASSWORD).read().unwrap();
        let default = || Domain::Id("default".into());
        assert_eq!(
            read.credentials,
            Credentials::Password {
                user: User::Name("berth".into(), default()),
                password: "s3cret".into(),
                scope: Scope::Project(User::Name("service".into(), default())),
            }
        );
        assert!(!format!("{:?}", options(PASSWORD)).contains("s3cret"));
    }

    #[test]
    fn an_application_credential_replaces_the_password() {
        let flags =
            format!("{PASSWORD} application-credential-id=i application-credential-secret=s");
        assert_eq!(
            options(&flags).read().unwrap().credentials,
            Credentials::ApplicationCredential { id: "i".into(), secret: "s".into() }
        );
    }

    #[test]
    fn missing_and_superfluous_options_are_named() {
        let with = |flags: &str| format!("{USER} {flags}");
        for (flags, named) in [
            ("", "--keystone-auth-url"),
            ("auth-url=http://k", "--keystone-username"),
            ("auth-url=http://k username=u", "--keystone-user-domain-name"),
            (USER, "--keystone-password"),
            (&with("password=p"), "--keystone-project-name"),
            (&with("password=p password-file=/x"), "not both"),
            (&with("password-file=/no/such"), "/no/such"),
            (&with("password=p system-scope=all project-name=p"), "one thing only"),
            ("auth-url=http://k application-credential-id=i", "credential-secret"),
            ("auth-url=http://k application-credential-secret=s", "credential-id"),
            (&format!("{PASSWORD} key-file=/k"), "cert-file"),
        ] {
            let why = options(flags).read().unwrap_err();
            assert!(why.contains(named), "{flags}: {why}");
        }
    }
}
