//! `berth policy`: lists the rules, and checks whether a caller passes them.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::auth::keystone::Keystone;
use crate::auth::policy::{self, Caller, Evaluation, Policy, Rules};
use crate::config::values::pair;
use crate::config::{KeystoneOptions, PolicyOptions};

/// Commands for policy rules.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Print every effective rule with its operations and its default.
    List(PolicyListOptions),
    /// Report whether a caller passes a rule, and why.
    ///
    /// Without a rule, prints the verdict of every rule, one per line. Exits with 0 if the caller
    /// passes, with 1 if not, with 2 if this cannot be determined.
    Check(Box<PolicyCheckOptions>),
    /// Print a policy file with every rule and its default, commented out.
    Sample,
}

/// Options of `policy list`.
#[derive(Args, Clone, Debug)]
pub struct PolicyListOptions {
    /// Read the options of `berth serve` from this TOML file.
    ///
    /// Default: /etc/berth/berth.toml if it exists; /dev/null means no file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The policy files.
    #[command(flatten)]
    pub policy: PolicyOptions,
}

/// Options of `policy check`.
#[derive(Args, Clone, Debug)]
pub struct PolicyCheckOptions {
    /// Read the options of `berth serve` from this TOML file.
    ///
    /// Default: /etc/berth/berth.toml if it exists; /dev/null means no file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Rule, such as placement:usages.
    #[arg(value_name = "RULE")]
    pub rule: Option<String>,

    /// Roles of the caller, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "ROLES",
          required_unless_present_any = ["credentials", "token"])]
    pub roles: Vec<String>,

    /// Id of the caller.
    #[arg(long, value_name = "ID")]
    pub user_id: Option<String>,

    /// Id of the project that the caller's token is scoped to.
    #[arg(long, value_name = "ID")]
    pub project_id: Option<String>,

    /// Id of the domain that the caller's token is scoped to.
    #[arg(long, value_name = "ID")]
    pub domain_id: Option<String>,

    /// `all` if the caller's token is scoped to the whole system.
    #[arg(long, value_name = "all")]
    pub system_scope: Option<String>,

    /// JSON file with the caller's attributes, by their names in policies.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["roles", "token"])]
    pub credentials: Option<PathBuf>,

    /// Token of the caller, to be validated by Keystone.
    ///
    /// Other processes on the machine can see flags: prefer the environment.
    #[arg(
        long,
        env = "BERTH_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        conflicts_with = "roles"
    )]
    pub token: Option<String>,

    /// Attribute of the target, such as `project_id=ID`; may be repeated. Default: the caller's own
    /// project and user.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub target: Vec<(String, String)>,

    /// The policy files.
    #[command(flatten)]
    pub policy: PolicyOptions,

    /// Keystone.
    #[command(flatten)]
    pub keystone: KeystoneOptions,
}

/// The output of `policy list`.
///
/// # Errors
/// A file is unreadable or invalid.
pub fn list(options: &PolicyListOptions) -> Result<String, String> {
    let (policy, _) = Policy::load(options.policy.source())?;
    Ok(policy::list(&policy.rules()))
}

/// Returns whether the caller passes, and the output of `policy check`.
///
/// # Errors
/// A file is unreadable or invalid, or Keystone does not validate the token.
pub async fn check(options: &PolicyCheckOptions) -> Result<(bool, String), String> {
    let (policy, warnings) = Policy::load(options.policy.source())?;
    let caller = caller(options).await?;
    let given: Vec<(&str, Option<&str>)> =
        options.target.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))).collect();
    let own = policy::own(&caller);
    let target: &policy::Target<'_> = if given.is_empty() { &own } else { &given };
    let rules = policy.rules();
    let mut evaluation = rules.evaluation(&caller, target);
    let fits = !scoped_elsewhere(&caller);
    let (passes, mut lines) = match &options.rule {
        Some(rule) => one(&mut evaluation, rule, fits)?,
        None => (true, all(&rules, &mut evaluation, fits)),
    };
    lines.extend(warnings);
    Ok((passes, lines.join("\n")))
}

fn one(
    evaluation: &mut Evaluation<'_>,
    rule: &str,
    fits: bool,
) -> Result<(bool, Vec<String>), String> {
    let why = evaluation.explain(rule);
    let mut why =
        why.ok_or_else(|| format!("there is no rule {rule:?}; see `berth policy list`"))?;
    let fits = fits || !policy::is_for_operations(rule);
    if !fits {
        why.push("operations require a token that is scoped to a project".to_owned());
    }
    let passes = fits && evaluation.passes(rule);
    why.insert(0, format!("{rule}: {}", if passes { "allowed" } else { "denied" }));
    Ok((passes, why))
}

fn all(rules: &Rules, evaluation: &mut Evaluation<'_>, fits: bool) -> Vec<String> {
    let line = |(name, _): (&str, String)| {
        let fits = fits || !policy::is_for_operations(name);
        let passes = fits && evaluation.passes(name);
        format!("{name} {}", if passes { "allowed" } else { "denied" })
    };
    rules.all().into_iter().map(line).collect()
}

fn scoped_elsewhere(caller: &Caller) -> bool {
    caller.system.is_some() || caller.domain.is_some()
}

async fn caller(options: &PolicyCheckOptions) -> Result<Caller, String> {
    if let Some(token) = &options.token {
        let keystone = Arc::new(Keystone::new(options.keystone.read()?)?);
        let response =
            keystone.validate(token, false, None).await.map_err(|failure| failure.to_string())?;
        let response = response.ok_or("Keystone does not know the token, or it has expired")?;
        return Ok(Caller::clone(&response.caller));
    }
    if let Some(path) = &options.credentials {
        let failed = |why: &str| format!("{}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error.to_string()))?;
        return credentials(&text).map_err(|why| failed(&why));
    }
    Ok(Caller {
        user: options.user_id.clone(),
        project: options.project_id.clone(),
        domain: options.domain_id.clone(),
        system: options.system_scope.clone(),
        roles: options.roles.clone(),
        ..Caller::default()
    })
}

/// Parses a caller's attributes, by their names in policies.
fn credentials(text: &str) -> Result<Caller, String> {
    let values: serde_json::Map<String, Value> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut caller = Caller::default();
    for (name, value) in values {
        let one = || value.as_str().map(str::to_owned);
        let several = || -> Vec<String> {
            let texts = value.as_array().into_iter().flatten();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        match name.as_str() {
            "user_id" => caller.user = one(),
            "user_domain_id" => caller.user_domain = one(),
            "project_id" => caller.project = one(),
            "project_domain_id" => caller.project_domain = one(),
            "domain_id" => caller.domain = one(),
            "system_scope" => caller.system = one(),
            "roles" => caller.roles = several(),
            "service_user_id" => caller.service_user = one(),
            "service_project_id" => caller.service_project = one(),
            "service_roles" => caller.service_roles = several(),
            // Redundant, or the same for all callers.
            "is_admin_project"
            | "system"
            | "service_user_domain_id"
            | "service_project_domain_id" => {}
            other => return Err(format!("nothing is known of callers by the name {other:?}")),
        }
    }
    Ok(caller)
}
