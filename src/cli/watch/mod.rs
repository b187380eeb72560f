//! `berth watch`: shows changes as they are committed.

mod words;

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use reqwest::StatusCode;
use tokio::time::sleep;
use uuid::Uuid;

use self::words::{Names, concerns, line, tone};
use super::columns::{FormatOptions, ListFormat};
use super::page::painted;
use super::service::ServiceOptions;
use super::terminal::Colours;
use crate::http::operator::views::events::{Event, Message, Notice};
use crate::moving::placement_client::{Client, Error, Microversion, is_for_now};
use crate::observe::printable::escaped;
use crate::server::failure::Failure;

/// Path of the resource.
const PATH: &str = "/-/v1/events";
/// Requested format.
const LINES: &str = "application/x-ndjson";
/// Pause before retrying a failed request. It doubles with each failure.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Options of `watch`.
#[derive(Args, Clone, Debug)]
pub struct WatchOptions {
    /// Only changes that concern this provider (its UUID or name), consumer (its UUID), or project (its ID).
    ///
    /// A change concerns a provider if it changes the provider itself, or a consumer's allocations there. Default:
    /// all changes.
    #[arg(value_name = "PROVIDER|CONSUMER|PROJECT")]
    pub object: Option<String>,

    /// Start after the event with this number, instead of now.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..))]
    pub since: Option<i64>,

    /// Output format: one line of text or JSON per event.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The server.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Runs `berth watch`: passes events to `say`, and other messages to `notice`, until the output is closed. Reconnects
/// after a broken connection, from the last number.
///
/// # Errors
/// The server does not respond at the start, or refuses later on.
pub async fn run(
    options: &WatchOptions,
    say: impl Fn(&str) -> bool,
    notice: impl Fn(&str),
) -> Result<(), Failure> {
    let notice = |words: &str| notice(&escaped(words));
    let client = options.service.reader()?;
    let mut names = names(&client).await?;
    let object = options.object.as_deref().map(|object| known(object, &names, &notice));
    let colours = Colours::of_stdout();
    let (mut since, mut pause, mut is_first) = (options.since, PAUSE, true);
    loop {
        let path = since.map_or(PATH.to_owned(), |number| format!("{PATH}?since={number}"));
        let mut lines = match client.lines(&path, LINES).await {
            Ok(lines) => lines,
            Err(error) if error.status() == Some(StatusCode::GONE) => {
                notice(
                    "Events are missing here: the log does not reach back that far, or was restarted. Continuing from now.",
                );
                since = None;
                continue;
            }
            Err(error) if !is_first && is_for_now(&error) => {
                notice(&format!("{error}; trying again in {} s", pause.as_secs()));
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
                continue;
            }
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => {
                return Err(Failure(format!("only Berth with --events reports changes: {error}")));
            }
            Err(error) => return Err(error.into()),
        };
        (pause, is_first) = (PAUSE, false);
        let broken = loop {
            let read = match lines.next().await {
                Ok(Some(read)) => read,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            let event: Event = serde_json::from_str(&read).map_err(|error| {
                Failure(escaped(&format!("{read:.200}: this is not an event: {error}")))
            })?;
            since = Some(event.number);
            if let Message::Notice(received) = &event.message {
                let Notice::Gap { detail } = received else { continue };
                since = None;
                notice(&format!("Events are missing here: {detail}."));
            }
            if object.as_ref().is_none_or(|object| concerns(&event, object)) {
                let is_heard = match options.format.chosen() {
                    ListFormat::Json => say(&read),
                    ListFormat::Table => {
                        let line = line(&event, &names);
                        line.is_none_or(|line| say(&painted(tone(&event), &line, colours)))
                    }
                };
                if !is_heard {
                    return Ok(());
                }
            }
            names.learn(&event);
        };
        if let Some(error) = broken {
            notice(&format!("{error}; continuing from the last event"));
            sleep(PAUSE).await;
        }
    }
}

/// The UUID of the provider or consumer that `object` names; otherwise the project.
fn known(object: &str, names: &Names, notice: &impl Fn(&str)) -> String {
    if let Some(uuid) = names.uuid(object).or_else(|| Uuid::parse_str(object).ok()) {
        return uuid.to_string();
    }
    notice(&format!("No provider is called {object}: watching the project of this name."));
    object.to_owned()
}

/// The names of all providers.
async fn names(client: &Client) -> Result<Names, Error> {
    let providers = client.providers::<Uuid>("", Microversion::MAX).await?;
    let names: HashMap<Uuid, String> = providers.into_iter().map(|it| (it.uuid, it.name)).collect();
    Ok(Names(names))
}
