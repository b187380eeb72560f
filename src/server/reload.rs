//! Changes of the configuration while the server runs: policy files are watched, and SIGHUP reloads the
//! configuration. Options that can change at run time are applied; the log lists these and other changed options.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::auth::policy::{Policy, Reload};
use crate::config::Config;
use crate::config::sources::{Digests, ReadOptions, Reloading, Source, digests, with_origins};
use crate::observe::log_settings;
use crate::server::failure::Failure;
use crate::server::parts::{self, Parts};
use crate::store::Store;
use crate::store::effects::Recorder;

/// Interval for checking policy files.
const POLICY_PERIOD: Duration = Duration::from_secs(2);
/// Options whose new values are applied. For TLS, the files are read again under their old names.
const APPLIED: [&str; 3] = ["log", "log-format", "planner-flavors"];

/// Reloads policy files when they have changed, and the configuration on SIGHUP. It handles SIGHUP even if there is
/// nothing to reload, because the signal would end the process. `store` is set once the store is open, and
/// `started_with` has the options of the running process.
pub(crate) async fn follow(policy: Arc<Policy>, store: Arc<OnceLock<Store>>, reloading: Reloading) {
    let Reloading { started_with, read_options, current } = reloading;
    let hangup = signal(SignalKind::hangup());
    let mut hangup =
        hangup.inspect_err(|error| tracing::error!(%error, "SIGHUP cannot be received")).ok();
    loop {
        let is_requested = if let Some(hangup) = &mut hangup {
            tokio::time::timeout(POLICY_PERIOD, hangup.recv()).await.is_ok()
        } else {
            tokio::time::sleep(POLICY_PERIOD).await;
            false
        };
        if is_requested {
            match tokio::task::spawn_blocking(move || read(read_options)).await {
                Ok(Ok((config, sources))) => {
                    apply(&config, store.get()).await;
                    for applied in sources.iter().filter(|it| APPLIED.contains(&it.option.as_str()))
                    {
                        current.set(applied.in_force());
                    }
                    report_others(&started_with, &digests(&sources));
                }
                Ok(Err(why)) => {
                    let why = why.lines().map(str::trim).collect::<Vec<_>>().join("; ");
                    tracing::error!("SIGHUP: the configuration stays as it is: {why}");
                }
                Err(error) => tracing::error!(%error, "SIGHUP: the configuration stays as it is"),
            }
        }
        read_policy(&policy, is_requested).await;
    }
}

/// Reads the options again, and validates them.
///
/// # Errors
/// All errors in them.
fn read(read_options: ReadOptions) -> Result<(Box<Config>, Vec<Source>), String> {
    let (config, sources) = read_options()?;
    Parts::read(&config).map_err(|Failure(why)| with_origins(why, &sources))?;
    Ok((config, sources))
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
        return tracing::info!("SIGHUP: the flavors are set when the database is available");
    };
    match parts::flavors(config) {
        Ok(flavors) => {
            let count = flavors.0.len();
            match store.changes(Recorder::none()).commit(flavors).await {
                Ok(()) => tracing::info!(%file, count, "SIGHUP: the flavors are set"),
                Err(error) => tracing::error!(%error, %file, "SIGHUP: the flavors are not set"),
            }
        }
        Err(why) => tracing::error!("SIGHUP: the flavors stay as they are: {why}"),
    }
}

/// Logs the options that have changed since the start and need a restart.
fn report_others(started_with: &Digests, now: &Digests) {
    let options = changed(started_with, now).join(", ");
    if !options.is_empty() {
        tracing::warn!(options, "SIGHUP: these options have changed, which needs a restart");
    }
}

/// The options that were changed, added or removed, and are not applied.
fn changed<'a>(before: &'a Digests, now: &'a Digests) -> Vec<&'a str> {
    // A removed option changes nothing, unless it has a default.
    let is_applied =
        |option: &&String| APPLIED.contains(&option.as_str()) && now.contains_key(*option);
    let all: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let others = all.into_iter().filter(|option| !is_applied(option));
    others.filter(|option| before.get(*option) != now.get(*option)).map(String::as_str).collect()
}

async fn read_policy(policy: &Arc<Policy>, is_requested: bool) {
    let looked_at = Arc::clone(policy);
    match tokio::task::spawn_blocking(move || looked_at.reload()).await {
        Ok(Reload::Unchanged) if is_requested => tracing::info!("SIGHUP: the policy is unchanged"),
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

#[cfg(test)]
mod tests {
    use super::{Digests, changed};

    #[test]
    fn options_are_compared_with_those_of_the_start() {
        let options = |all: &[(&str, u64)]| -> Digests {
            all.iter().map(|(option, digest)| ((*option).to_owned(), *digest)).collect()
        };
        let before =
            options(&[("log", 1), ("database-url", 2), ("planner-flavors", 3), ("tls-cert", 4)]);
        assert!(changed(&before, &before).is_empty());
        let now =
            options(&[("log", 9), ("database-url", 9), ("planner-flavors", 9), ("tls-cert", 4)]);
        assert_eq!(changed(&before, &now), ["database-url"]);
        let now = options(&[("log", 1), ("database-url", 2), ("data-dir", 1)]);
        assert_eq!(changed(&before, &now), ["data-dir", "planner-flavors", "tls-cert"]);
    }
}
