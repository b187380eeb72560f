//! Changes of the configuration while the server runs: policy files are followed, and SIGHUP reads the
//! configuration again. What can be changed is applied; the log says what was done, and which other
//! options have changed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{self, Command, Invocation};
use crate::config::Config;
use crate::policy::{Policy, Reload};
use crate::store::Store;
use crate::{log_settings, serve};

/// How often policy files are looked at.
const POLICY_PERIOD: Duration = Duration::from_secs(2);
/// Options whose new values are applied. Of TLS, the files are read again, not their names.
const APPLIED: [&str; 3] = ["log", "log-format", "planner-flavors"];

/// Reads policy files again when they have changed, and the configuration on SIGHUP. It listens for SIGHUP
/// even if there is nothing to read again: the signal must not end the process. `store` is set once the
/// store is open.
pub(crate) async fn follow(policy: Arc<Policy>, store: Arc<OnceLock<Store>>) {
    let hangup = signal(SignalKind::hangup());
    let mut hangup =
        hangup.inspect_err(|error| tracing::error!(%error, "SIGHUP cannot be received")).ok();
    let mut options = read().map_or_else(|_| Vec::new(), |(_, options)| options);
    loop {
        let is_asked = if let Some(hangup) = &mut hangup {
            tokio::time::timeout(POLICY_PERIOD, hangup.recv()).await.is_ok()
        } else {
            tokio::time::sleep(POLICY_PERIOD).await;
            false
        };
        if is_asked {
            match read() {
                Ok((config, now)) => {
                    apply(&config, store.get()).await;
                    report_others(&options, &now);
                    options = now;
                }
                Err(why) => tracing::error!("SIGHUP: the configuration stays as it is: {why}"),
            }
        }
        read_policy(&policy, is_asked).await;
    }
}

/// Option and value, where the value is shown.
type Options = Vec<(String, String)>;

/// The configuration as arguments, environment and file say it now.
fn read() -> Result<(Box<Config>, Options), String> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let parsed = cli::parse(&arguments).map_err(|error| error.to_string())?;
    let Invocation { command, sources } = parsed;
    let Command::Serve(config) = command else { return Err("this is no server".to_owned()) };
    config.check()?;
    Ok((config, sources.into_iter().map(|source| (source.option, source.value)).collect()))
}

async fn apply(config: &Config, store: Option<&Store>) {
    match log_settings::configure(config.logs.settings()) {
        Ok(changed) => {
            let (filter, format) = (&config.logs.log, config.logs.log_format.name());
            if changed.filter {
                tracing::info!(filter, "SIGHUP: the log filter has changed");
            } else {
                tracing::info!("SIGHUP: the log filter is unchanged");
            }
            if changed.format {
                tracing::info!(format, "SIGHUP: the log format has changed");
            }
        }
        Err(why) => tracing::error!("SIGHUP: the log stays as it is: --log: {why}"),
    }
    let Some(file) = &config.planner.planner_flavors else { return };
    let file = file.display();
    let Some(store) = store else {
        return tracing::info!("SIGHUP: the flavors are set when the database is there");
    };
    match serve::flavors(config) {
        Ok(flavors) => {
            let count = flavors.0.len();
            match store.commit(flavors).await {
                Ok(()) => tracing::info!(%file, count, "SIGHUP: the flavors are set"),
                Err(error) => tracing::error!(%error, %file, "SIGHUP: the flavors are not set"),
            }
        }
        Err(why) => tracing::error!("SIGHUP: the flavors stay as they are: {why}"),
    }
}

/// Names the options that have other values than before and need a new process.
fn report_others(before: &Options, now: &Options) {
    let changed = |(option, value): &&(String, String)| {
        !APPLIED.contains(&option.trim_start_matches('-'))
            && !before.contains(&(option.clone(), value.clone()))
    };
    let changed: Vec<&str> =
        now.iter().filter(changed).map(|(option, _)| option.as_str()).collect();
    if !changed.is_empty() {
        let options = changed.join(", ");
        tracing::warn!(options, "SIGHUP: these options have changed, which needs a restart");
    }
}

async fn read_policy(policy: &Arc<Policy>, is_asked: bool) {
    let looked_at = Arc::clone(policy);
    match tokio::task::spawn_blocking(move || looked_at.reload()).await {
        Ok(Reload::Unchanged) if is_asked => tracing::info!("SIGHUP: the policy is unchanged"),
        Ok(Reload::Unchanged) | Err(_) => {}
        Ok(Reload::Changed(warnings)) => {
            tracing::info!("policy: the rules have changed");
            for warning in warnings {
                tracing::warn!("policy: {warning}");
            }
        }
        Ok(Reload::Kept(why)) => {
            tracing::error!("policy: {why}; the rules before stay in force");
        }
    }
}
