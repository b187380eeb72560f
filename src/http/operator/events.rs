//! `/-/v1/events`: the event stream.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use metrics::counter;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::context::{Problem, RequestCaller, made_within};
use super::requests::only_known;
use super::views::events::{Event, Message, Notice};
use crate::fairness::turns::{Requester, Turn};
use crate::http::api::json::{JSON, LINES};
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::api::reply::Reply;
use crate::http::api::streamed::Parts;
use crate::http::app::App;
use crate::http::layers::service::Streaming;
use crate::http::placement::accept::Accept;
use crate::http::placement::allocation_candidates::aside;
use crate::http::placement::query::Query;
use crate::store::events::MadeBy;
use crate::store::events::reading::{Cursor, NextEvents, Row};

pub(super) const SSE: &str = "text/event-stream";
/// The number after which a client of Server-Sent Events continues.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Pause after a failed read of the database.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// The parameters.
pub(super) const FOLLOW_QUERY: [Parameter; 1] = [Parameter::new(
    "since",
    ParameterKind::Number(0, None),
    "The number of the last known event.",
)];

/// Metrics of events sent, and of streams ended by the server, by reason.
const SENT: &str = "berth_events_sent_total";
const ENDED: &str = "berth_event_responses_ended_total";

/// Detail of the last message of a stream.
const SLOW: &str = "the client has read nothing for too long";
const LATE: &str = "the stream has reached its maximum duration";
const STOPPED: &str = "the server is stopping";
/// Detail of the message about missed events.
const GAP: &str =
    "the log does not reach back to this number, or has been restarted: read everything again";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Lines,
    Sse,
}

/// `GET /-/v1/events`: changes after the number `since`, or from now on, until the client
/// disconnects.
pub(super) async fn follow(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
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
    let turns_of = caller.requester();
    let seat = app.followers.turn_now(turns_of).ok_or_else(|| {
        let most = app.options.events.followers;
        Problem::not_now(format!(
            "at most {most} clients can follow events, and one of them must be of another project; \
             retry later"
        ))
    })?;
    let tail = app.store.event_tail();
    let number = match since {
        Some(number) => number,
        None => app.store.event_number().await?,
    };
    let cursor = Cursor::at(number);
    if let NextEvents::Gap = app.store.events_after(cursor).await? {
        return Err(Problem::new(StatusCode::GONE, format!("{number}: {GAP}.")));
    }
    // The stream ends with a message before this timeout.
    let most = app.options.events.lifetime * 2;
    let body = made_within(most, |parts| {
        let follower = Follower { app, form, parts, cursor, turns_of };
        follower.send_all(tail, seat)
    });
    let media_type = if form == Form::Sse { SSE } else { LINES };
    let reply = Reply::body(body.await?).of_type(media_type).modified(None);
    let mut response = reply.into_response();
    response.extensions_mut().insert(Streaming);
    Ok(response)
}

/// Returns the number after which the client wants events.
fn since(query: &Query, headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    only_known(query, &FOLLOW_QUERY)?;
    let last = headers.get(LAST_EVENT_ID).map(|id| String::from_utf8_lossy(id.as_bytes()));
    let since = query.once("since")?;
    let Some(value) = last.as_deref().or(since) else { return Ok(None) };
    value.parse().ok().filter(|number| *number >= 0).map(Some).ok_or_else(|| {
        Problem::bad_request(format!("since must be the number of an event, not {value}"))
    })
}

/// Sends events to a client.
struct Follower {
    app: Arc<App>,
    form: Form,
    parts: Parts,
    cursor: Cursor,
    turns_of: Requester,
}

/// Reason to end a stream. Except after a gap, the client can continue later.
enum End {
    Gap,
    /// The client reads too slowly.
    Slow,
    /// The stream has reached its maximum duration.
    Late,
    Stopped,
}

impl Follower {
    /// Sends events until there is a reason to end, and sends the reason.
    async fn send_all(mut self, tail: watch::Receiver<i64>, seat: Turn) -> Result<(), Problem> {
        let ended = self.send_until_the_end(tail).await?;
        drop(seat);
        let (reason, notice) = match ended {
            End::Gap => ("gap", Notice::Gap { detail: GAP.to_owned() }),
            End::Slow => ("slow", Notice::End { detail: SLOW.to_owned() }),
            End::Late => ("late", Notice::End { detail: LATE.to_owned() }),
            End::Stopped => ("stopped", Notice::End { detail: STOPPED.to_owned() }),
        };
        counter!(ENDED, "reason" => reason).increment(1);
        Ok(self.parts.send(self.message(notice)).await?)
    }

    async fn send_until_the_end(&mut self, mut tail: watch::Receiver<i64>) -> Result<End, Problem> {
        let settings = self.app.options.events;
        let until = Instant::now() + settings.lifetime;
        let app = Arc::clone(&self.app);
        let mut stopped = std::pin::pin!(app.stopped());
        let mut part = self.message(Notice::Position {});
        loop {
            if !part.is_empty() && !self.parts.send_within(part, settings.patience).await? {
                return Ok(End::Slow);
            }
            tail.mark_unchanged();
            if Instant::now() > until {
                return Ok(End::Late);
            }
            part = match self.app.store.events_after(self.cursor).await {
                Ok(NextEvents::Gap) => return Ok(End::Gap),
                Ok(NextEvents::Events(rows, cursor)) => {
                    let (form, since) = (self.form, self.cursor.number);
                    self.cursor = cursor;
                    let work = move || read(form, &rows, since);
                    let (part, count) = aside(&self.app, self.turns_of, work).await??;
                    counter!(SENT).increment(count);
                    part
                }
                Ok(NextEvents::Nothing) => {
                    tokio::select! {
                        changed = tail.changed() => {
                            if changed.is_err() {
                                return Ok(End::Stopped);
                            }
                            Bytes::new()
                        }
                        () = sleep(settings.heartbeat) => self.message(Notice::Position {}),
                        () = &mut stopped => return Ok(End::Stopped),
                        () = sleep_until(until) => Bytes::new(),
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot read events");
                    sleep(PAUSE).await;
                    self.message(Notice::Position {})
                }
            };
        }
    }

    /// Serializes a notice.
    fn message(&self, notice: Notice) -> Bytes {
        let (number, made_by) = (self.cursor.number, MadeBy::default());
        let mut written = Vec::new();
        let message = Message::Notice(notice);
        let event = Event { number, at: None, message, made_by };
        if let Ok(event) = serde_json::to_value(event) {
            write(self.form, &mut written, number, &event);
        }
        written.into()
    }
}

/// Serializes the events after a number, and returns their count.
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
