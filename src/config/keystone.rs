//! Options of `--auth keystone`: the location of Keystone, and Berth's credentials. The names are
//! those of the `[keystone_authtoken]` options of OpenStack services.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values::{seconds, secret};
use crate::auth::keystone::{
    AuthOptions, ClientTls, Credentials, Domain, Options, Scope, Secret, User,
};

/// Type of Berth's credentials for Keystone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuthType {
    /// A user with a password.
    #[value(alias = "v3password")]
    Password,
    /// An application credential.
    V3applicationcredential,
}

/// Options of `--auth keystone`.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Keystone")]
pub struct KeystoneOptions {
    /// URL at which Berth gets its own token, such as `https://HOST:5000` or
    /// `https://HOST/identity`.
    ///
    /// Required with --auth keystone.
    #[arg(long, env = "BERTH_KEYSTONE_AUTH_URL", value_name = "URL")]
    pub keystone_auth_url: Option<String>,

    /// Type of Berth's credentials for Keystone.
    #[arg(long, env = "BERTH_KEYSTONE_AUTH_TYPE", default_value = "password", value_name = "KIND")]
    pub keystone_auth_type: AuthType,

    /// Name of the user as which Berth authenticates.
    ///
    /// The user may validate tokens if it has the role admin or service.
    #[arg(long, env = "BERTH_KEYSTONE_USERNAME", value_name = "NAME")]
    pub keystone_username: Option<String>,

    /// Id of the user, instead of the name.
    #[arg(long, env = "BERTH_KEYSTONE_USER_ID", value_name = "ID")]
    pub keystone_user_id: Option<String>,

    /// Name of the user's domain.
    #[arg(long, env = "BERTH_KEYSTONE_USER_DOMAIN_NAME", value_name = "NAME")]
    pub keystone_user_domain_name: Option<String>,

    /// Id of the user's domain.
    #[arg(long, env = "BERTH_KEYSTONE_USER_DOMAIN_ID", value_name = "ID")]
    pub keystone_user_domain_id: Option<String>,

    /// Password of the user.
    ///
    /// Other processes on the machine can see flags: prefer the environment, the configuration
    /// file, or --keystone-password-file.
    #[arg(long, env = "BERTH_KEYSTONE_PASSWORD", hide_env_values = true, value_name = "PASSWORD",
          value_parser = secret)]
    pub keystone_password: Option<Secret>,

    /// File with the password; white space at its end is ignored.
    ///
    /// Default: the systemd credential `berth.keystone-password`, if there is one.
    #[arg(long, env = "BERTH_KEYSTONE_PASSWORD_FILE", value_name = "FILE")]
    pub keystone_password_file: Option<PathBuf>,

    /// Name of the project that Berth's token is scoped to.
    #[arg(long, env = "BERTH_KEYSTONE_PROJECT_NAME", value_name = "NAME")]
    pub keystone_project_name: Option<String>,

    /// Id of the project, instead of the name.
    #[arg(long, env = "BERTH_KEYSTONE_PROJECT_ID", value_name = "ID")]
    pub keystone_project_id: Option<String>,

    /// Name of the project's domain.
    #[arg(long, env = "BERTH_KEYSTONE_PROJECT_DOMAIN_NAME", value_name = "NAME")]
    pub keystone_project_domain_name: Option<String>,

    /// Id of the project's domain.
    #[arg(long, env = "BERTH_KEYSTONE_PROJECT_DOMAIN_ID", value_name = "ID")]
    pub keystone_project_domain_id: Option<String>,

    /// Scope Berth's token to the whole system (`all`) instead of a project.
    #[arg(long, env = "BERTH_KEYSTONE_SYSTEM_SCOPE", value_name = "all", value_parser = ["all"])]
    pub keystone_system_scope: Option<String>,

    /// Scope Berth's token to the trust with this id instead of a project.
    #[arg(long, env = "BERTH_KEYSTONE_TRUST_ID", value_name = "ID")]
    pub keystone_trust_id: Option<String>,

    /// Id of the application credential with which Berth authenticates.
    #[arg(long, env = "BERTH_KEYSTONE_APPLICATION_CREDENTIAL_ID", value_name = "ID")]
    pub keystone_application_credential_id: Option<String>,

    /// Name of the application credential, instead of the id; also needs the user.
    #[arg(long, env = "BERTH_KEYSTONE_APPLICATION_CREDENTIAL_NAME", value_name = "NAME")]
    pub keystone_application_credential_name: Option<String>,

    /// Secret of the application credential.
    #[arg(long, env = "BERTH_KEYSTONE_APPLICATION_CREDENTIAL_SECRET", hide_env_values = true,
          value_name = "SECRET", value_parser = secret)]
    pub keystone_application_credential_secret: Option<Secret>,

    /// File with the secret of the application credential.
    ///
    /// Default: the systemd credential `berth.keystone-application-credential-secret`, if there is
    /// one.
    #[arg(long, env = "BERTH_KEYSTONE_APPLICATION_CREDENTIAL_SECRET_FILE", value_name = "FILE")]
    pub keystone_application_credential_secret_file: Option<PathBuf>,

    /// URL in a 401 response, where clients get a token. Default: the auth URL.
    #[arg(long, env = "BERTH_KEYSTONE_WWW_AUTHENTICATE_URI", value_name = "URL")]
    pub keystone_www_authenticate_uri: Option<String>,

    /// URL at which tokens are validated. Default: from the catalog.
    #[arg(long, env = "BERTH_KEYSTONE_ENDPOINT", value_name = "URL")]
    pub keystone_endpoint: Option<String>,

    /// Keystone endpoint to take from the catalog: internal, public or admin.
    #[arg(long, env = "BERTH_KEYSTONE_INTERFACE", default_value = "internal", value_name = "NAME")]
    pub keystone_interface: String,

    /// Region of the Keystone endpoint. Default: any.
    #[arg(long, env = "BERTH_KEYSTONE_REGION_NAME", value_name = "NAME")]
    pub keystone_region_name: Option<String>,

    /// PEM file with the authorities that sign Keystone's certificate. Default: those of the
    /// system.
    #[arg(long, env = "BERTH_KEYSTONE_CA_FILE", value_name = "FILE")]
    pub keystone_ca_file: Option<PathBuf>,

    /// PEM file with the certificate that Berth presents to Keystone.
    #[arg(long, env = "BERTH_KEYSTONE_CERT_FILE", value_name = "FILE")]
    pub keystone_cert_file: Option<PathBuf>,

    /// PEM file with the key of that certificate.
    #[arg(long, env = "BERTH_KEYSTONE_KEY_FILE", value_name = "FILE")]
    pub keystone_key_file: Option<PathBuf>,

    /// Accept any certificate from Keystone. An attacker on the path can then read every token.
    #[arg(long, env = "BERTH_KEYSTONE_INSECURE", default_value = "false", num_args = 0..=1,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub keystone_insecure: bool,

    /// Maximum time for which a request waits for Keystone to validate its token, in seconds; then
    /// the response is 503.
    #[arg(long, env = "BERTH_KEYSTONE_TIMEOUT", default_value = "10", value_name = "SECONDS",
          value_parser = seconds)]
    pub keystone_timeout: Duration,

    /// Number of times a failed connection to Keystone is retried within that time.
    #[arg(long, env = "BERTH_KEYSTONE_RETRIES", default_value = "3", value_name = "COUNT")]
    pub keystone_retries: u32,

    /// Seconds for which a validated token is cached; 0: validate every request.
    ///
    /// A revoked token may continue to work for this long.
    #[arg(
        long,
        env = "BERTH_KEYSTONE_TOKEN_CACHE_TIME",
        default_value = "300",
        value_name = "SECONDS"
    )]
    pub keystone_token_cache_time: u32,

    /// Roles that make a service token valid; it needs one of them.
    ///
    /// A service sends a service token when it acts on behalf of a user.
    #[arg(
        long,
        env = "BERTH_KEYSTONE_SERVICE_TOKEN_ROLES",
        default_value = "service",
        value_delimiter = ',',
        value_name = "ROLES"
    )]
    pub keystone_service_token_roles: Vec<String>,

    /// Refuse requests whose service token has none of those roles; with false, ignore such a
    /// token.
    #[arg(long, env = "BERTH_KEYSTONE_SERVICE_TOKEN_ROLES_REQUIRED", default_value = "true",
          num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set,
          value_name = "BOOL")]
    pub keystone_service_token_roles_required: bool,

    /// Type of this service in the access rules of application credentials.
    #[arg(
        long,
        env = "BERTH_KEYSTONE_SERVICE_TYPE",
        default_value = "placement",
        value_name = "TYPE"
    )]
    pub keystone_service_type: String,
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
            endpoint: self.keystone_endpoint.clone(),
            interface: self.keystone_interface.trim_end_matches("URL").to_owned(),
            region: self.keystone_region_name.clone(),
            tls: self.tls()?,
            timeout: self.keystone_timeout,
            retries: self.keystone_retries,
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
            service_type: self.keystone_service_type.clone(),
        }
    }

    fn credentials(&self) -> Result<Credentials, String> {
        match self.keystone_auth_type {
            AuthType::Password => Ok(Credentials::Password {
                user: self.user()?,
                password: one_secret(
                    "keystone-password",
                    self.keystone_password.as_ref(),
                    self.keystone_password_file.as_ref(),
                )?,
                scope: self.scope()?,
            }),
            AuthType::V3applicationcredential => self.application_credential(),
        }
    }

    fn application_credential(&self) -> Result<Credentials, String> {
        let secret = one_secret(
            "keystone-application-credential-secret",
            self.keystone_application_credential_secret.as_ref(),
            self.keystone_application_credential_secret_file.as_ref(),
        )?;
        let (id, name) = (
            self.keystone_application_credential_id.clone(),
            self.keystone_application_credential_name.clone(),
        );
        match (id, name) {
            (Some(id), None) => Ok(Credentials::ApplicationCredential { id, secret }),
            (None, Some(name)) => {
                Ok(Credentials::NamedApplicationCredential { name, user: self.user()?, secret })
            }
            _ => Err("--keystone-auth-type v3applicationcredential needs either \
                      --keystone-application-credential-id or -name"
                .to_owned()),
        }
    }

    fn user(&self) -> Result<User, String> {
        let domain =
            domain(self.keystone_user_domain_id.as_ref(), self.keystone_user_domain_name.as_ref());
        named("user", self.keystone_user_id.as_ref(), self.keystone_username.as_ref(), domain)
    }

    fn scope(&self) -> Result<Scope, String> {
        let project = self.keystone_project_id.is_some() || self.keystone_project_name.is_some();
        match (&self.keystone_system_scope, &self.keystone_trust_id, project) {
            (Some(_), None, false) => Ok(Scope::System),
            (None, Some(trust), false) => Ok(Scope::Trust(trust.clone())),
            (None, None, _) => {
                let domain = domain(
                    self.keystone_project_domain_id.as_ref(),
                    self.keystone_project_domain_name.as_ref(),
                );
                let (id, name) =
                    (self.keystone_project_id.as_ref(), self.keystone_project_name.as_ref());
                named("project", id, name, domain).map(Scope::Project)
            }
            _ => Err("Berth's token can be scoped to one thing only: a project, the system \
                      (--keystone-system-scope) or a trust (--keystone-trust-id)"
                .to_owned()),
        }
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

fn domain(id: Option<&String>, name: Option<&String>) -> Option<Domain> {
    id.cloned().map(Domain::Id).or_else(|| name.cloned().map(Domain::Name))
}

fn named(
    what: &str,
    id: Option<&String>,
    name: Option<&String>,
    domain: Option<Domain>,
) -> Result<User, String> {
    let option = if what == "user" { "username" } else { "project-name" };
    match (id, name, domain) {
        (Some(id), _, _) => Ok(User::Id(id.clone())),
        (None, Some(name), Some(domain)) => Ok(User::Name(name.clone(), domain)),
        (None, Some(_), None) => Err(format!(
            "--keystone-{option} needs --keystone-{what}-domain-name or -id (usually Default or \
             default)"
        )),
        (None, None, _) => {
            Err(format!("--auth keystone needs --keystone-{option} or --keystone-{what}-id"))
        }
    }
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
    fn what_is_missing_or_too_much_is_named() {
        for (flags, named) in [
            ("", "--keystone-auth-url"),
            ("auth-url=http://k", "--keystone-username"),
            ("auth-url=http://k username=u", "--keystone-user-domain-name"),
            ("auth-url=http://k user-id=u", "--keystone-password"),
            ("auth-url=http://k user-id=u password=p", "--keystone-project-name"),
            ("auth-url=http://k user-id=u password=p password-file=/x", "not both"),
            ("auth-url=http://k user-id=u password-file=/no/such", "/no/such"),
            ("auth-url=http://k user-id=u password=p trust-id=t project-id=p", "one thing only"),
            ("auth-url=http://k auth-type=v3applicationcredential", "credential-secret"),
            (
                "auth-url=http://k auth-type=v3applicationcredential \
                 application-credential-secret=s",
                "credential-id",
            ),
            ("auth-url=http://k user-id=u password=p project-id=p key-file=/k", "cert-file"),
        ] {
            let why = options(flags).read().unwrap_err();
            assert!(why.contains(named), "{flags}: {why}");
        }
    }
}
