//! `/-/v1/events`: changes as they are committed.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use metrics::counter;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::{AskedBy, Problem, made_within};
use crate::fairness::turns::{Asker, Turn};
use crate::http::api::reply::Reply;
use crate::http::api::streamed::Parts;
use crate::http::app::App;
use crate::http::layers::middleware::Live;
use crate::http::operator::views::events::{Change, Event, MadeBy};
use crate::http::placement::accept::{Accept, JSON};
use crate::http::placement::allocation_candidates::aside;
use crate::http::placement::query::Query;
use crate::store::events::reading::{Cursor, Found, Row};

/// One JSON value for each line.
const LINES: &str = "application/x-ndjson";
/// Server-Sent Events.
const SSE: &str = "text/event-stream";
/// The number from which a client of Server-Sent Events goes on.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The pause after the database could not be asked.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// The metrics of events that were told, and of answers that were ended here, by reason.
const TOLD: &str = "berth_events_told_total";
const ENDED: &str = "berth_event_answers_ended_total";

/// What clients are told whose answer ends.
const SLOW: &str = "the client has taken nothing in for too long";
const LATE: &str = "an answer lasts for so long only";
const STOPPED: &str = "the server stops";
/// What clients are told that have missed something.
const GAP: &str =
    "the log does not reach back to this number, or begins anew: read everything again";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Lines,
    Sse,
}

/// `GET /-/v1/events`: changes after the number `since`, or from now on, as long as the client listens.
pub(super) async fn follow(
    State(app): State<Arc<App>>,
    AskedBy(caller): AskedBy,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    if !app.store.keeps_events() {
        return Err(Problem::not_found("This server keeps no events: it runs without --events."));
    }
    let form = match Accept::from_headers(&headers).best_of(&[LINES, SSE, JSON]) {
        Some(SSE) => Form::Sse,
        Some(_) => Form::Lines,
        None => {
            let detail = format!("Only {LINES} and {SSE} are provided.");
            return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, detail));
        }
    };
    let query = Query::parse(uri.query().unwrap_or_default())?;
    let since = since(&query, &headers)?;
    let turns_of = caller.asker();
    let seat = app.followers.turn_now(turns_of).ok_or_else(|| {
        let most = app.options.events.followers;
        Problem::not_now(format!(
            "{most} clients at most can follow events, all but one of them with tokens of one project; ask \
             again later"
        ))
    })?;
    let tail = app.store.event_tail();
    let number = match since {
        Some(number) => number,
        None => app.store.event_number().await?,
    };
    let cursor = Cursor::at(number);
    if let Found::Gap = app.store.events_after(cursor).await? {
        return Err(Problem::new(StatusCode::GONE, format!("{number}: {GAP}.")));
    }
    // It ends by itself, with a word.
    let most = app.options.events.lifetime * 2;
    let body = made_within(most, |parts| {
        let follower = Follower { app, form, parts, cursor, turns_of };
        follower.send_all(tail, seat)
    });
    let media_type = if form == Form::Sse { SSE } else { LINES };
    let reply = Reply::body(body.await?).of_type(media_type).modified(None);
    let mut response = reply.into_response();
    response.extensions_mut().insert(Live);
    Ok(response)
}

/// The number after which the client wants events.
fn since(query: &Query, headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    if let Some(other) = query.names().find(|name| *name != "since") {
        return Err(Problem::bad_request(format!("the only parameter is since, not {other}")));
    }
    let last = headers.get(LAST_EVENT_ID).map(|id| String::from_utf8_lossy(id.as_bytes()));
    let since = query.once("since")?;
    let Some(said) = last.as_deref().or(since) else { return Ok(None) };
    said.parse().ok().filter(|number| *number >= 0).map(Some).ok_or_else(|| {
        Problem::bad_request(format!("since must be the number of an event, not {said}"))
    })
}

/// Sends events to a client.
struct Follower {
    app: Arc<App>,
    form: Form,
    parts: Parts,
    cursor: Cursor,
    turns_of: Asker,
}

/// Why there is no further event. The client can go on later, but for a gap.
enum End {
    Gap,
    /// The client does not take in what it is sent.
    Slow,
    /// The answer has lasted for as long as one may.
    Late,
    Stopped,
}

impl Follower {
    /// Sends events until there is a reason not to, and says so.
    async fn send_all(mut self, tail: watch::Receiver<i64>, seat: Turn) -> Result<(), Problem> {
        let ended = self.send_until_the_end(tail).await?;
        drop(seat);
        let (reason, change) = match ended {
            End::Gap => ("gap", Change::Gap { detail: GAP.to_owned() }),
            End::Slow => ("slow", Change::End { detail: SLOW.to_owned() }),
            End::Late => ("late", Change::End { detail: LATE.to_owned() }),
            End::Stopped => ("stopped", Change::End { detail: STOPPED.to_owned() }),
        };
        counter!(ENDED, "reason" => reason).increment(1);
        Ok(self.parts.send(self.said(change)).await?)
    }

    async fn send_until_the_end(&mut self, mut tail: watch::Receiver<i64>) -> Result<End, Problem> {
        let settings = self.app.options.events;
        let until = Instant::now() + settings.lifetime;
        let app = Arc::clone(&self.app);
        let mut stopped = std::pin::pin!(app.stopped());
        let mut part = self.said(Change::Position {});
        loop {
            if !part.is_empty() && !self.parts.send_within(part, settings.patience).await? {
                return Ok(End::Slow);
            }
            tail.mark_unchanged();
            if Instant::now() > until {
                return Ok(End::Late);
            }
            part = match self.app.store.events_after(self.cursor).await {
                Ok(Found::Gap) => return Ok(End::Gap),
                Ok(Found::Events(rows, cursor)) => {
                    let (form, since) = (self.form, self.cursor.number);
                    self.cursor = cursor;
                    let work = move || read(form, &rows, since);
                    let (part, count) = aside(&self.app, self.turns_of, work).await??;
                    counter!(TOLD).increment(count);
                    part
                }
                Ok(Found::Nothing) => {
                    tokio::select! {
                        changed = tail.changed() => {
                            if changed.is_err() {
                                return Ok(End::Stopped);
                            }
                            Bytes::new()
                        }
                        () = sleep(settings.heartbeat) => self.said(Change::Position {}),
                        () = &mut stopped => return Ok(End::Stopped),
                        () = sleep_until(until) => Bytes::new(),
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "events cannot be read now");
                    sleep(PAUSE).await;
                    self.said(Change::Position {})
                }
            };
        }
    }

    /// Something that is no change, as the client reads it.
    fn said(&self, change: Change) -> Bytes {
        let (number, made_by) = (self.cursor.number, MadeBy::default());
        let mut written = Vec::new();
        let event = Event { number, at: None, change, made_by };
        if let Ok(event) = serde_json::to_value(event) {
            write(self.form, &mut written, number, &event);
        }
        written.into()
    }
}

/// Events as the client reads them, without those up to a number; and how many they are.
fn read(form: Form, rows: &[Row], since: i64) -> Result<(Bytes, u64), Problem> {
    let (mut written, mut count) = (Vec::new(), 0);
    for row in rows {
        let entries: Vec<Map<String, Value>> = serde_json::from_str(&row.entries)
            .map_err(|error| Problem::internal(format!("events from {} on: {error}", row.first)))?;
        for (number, entry) in (row.first..).zip(entries) {
            if number <= since {
                continue;
            }
            let mut event = Map::with_capacity(entry.len() + 2);
            event.insert("number".to_owned(), number.into());
            event.insert("at".to_owned(), row.at.clone().into());
            event.extend(entry);
            write(form, &mut written, number, &Value::Object(event));
            count += 1;
        }
    }
    Ok((written.into(), count))
}

fn write(form: Form, written: &mut Vec<u8>, number: i64, event: &Value) {
    match form {
        Form::Lines => written.extend_from_slice(format!("{event}\n").as_bytes()),
        Form::Sse => {
            let kind = event.get("kind").and_then(Value::as_str).unwrap_or("event");
            let text = format!("id: {number}\nevent: {kind}\ndata: {event}\n\n");
            written.extend_from_slice(text.as_bytes());
        }
    }
}
