//! Mirrored writes: one after the other, in the order in which the upstream accepted them.
//!
//! Requests in progress at the same time may have been carried out in another order than the responses were sent. A
//! write that Berth refuses is therefore tried again after each write that was in progress together with it. While
//! Berth cannot be reached, writes wait in the queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{Method, header};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::comparison::{Report, Verdict, compare};
use super::exchange::{Incomparable, TimedResponse};
use super::mirror::{Mirror, MirroredWrite, scope_of_write};
use super::records::RecordedDifference;
use super::route::Kind;
use super::service::PlacementService;
use super::tally::{Certainty, Outcome};
use crate::http_client::Failure;

/// Maximum time for forwarding the bodies of a write that the upstream has accepted.
const PASS_MAX: Duration = Duration::from_mins(1);
/// Pause before a failed write is sent again.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Maximum time for which a refused write waits for concurrent ones.
const COMPANY_MAX: Duration = Duration::from_secs(2);
/// Maximum number of refused writes that wait.
const REFUSED_MAX: usize = 32;

/// A write that Berth has refused so far.
struct RefusedWrite {
    ready: PreparedWrite,
    berth: TimedResponse,
    since: Instant,
}

/// A write with its body.
struct PreparedWrite {
    write: MirroredWrite,
    body: Vec<u8>,
    upstream: Option<TimedResponse>,
    /// Whether Berth may have carried it out without a response.
    is_uncertain: bool,
}

/// Outcome of sending a write to Berth.
enum SendOutcome {
    /// Berth has carried it out, or refused it.
    Answered(TimedResponse),
    /// The write is dropped.
    Lost(&'static str),
}

/// Mirrors writes.
pub(super) struct Writer {
    pub(super) mirror: Arc<Mirror>,
    pub(super) berth: PlacementService,
    pub(super) report: Arc<Report>,
}

impl Writer {
    /// Mirrors one write after the other.
    pub(super) async fn run(self, mut queue: mpsc::Receiver<MirroredWrite>) {
        let mut refused: VecDeque<RefusedWrite> = VecDeque::new();
        loop {
            let patience = refused.front().map(|it| COMPANY_MAX.saturating_sub(it.since.elapsed()));
            let next = match patience {
                None => queue.recv().await,
                Some(patience) => {
                    let Ok(next) = timeout(patience, queue.recv()).await else {
                        refused.pop_front().iter().for_each(|it| self.refuse(it));
                        continue;
                    };
                    next
                }
            };
            let Some(write) = next else {
                return refused.iter().for_each(|it| self.refuse(it));
            };
            // Writes that ended before this one began were not concurrent with it.
            while let Some(first) = refused.front()
                && first.ready.write.accepted < write.began
            {
                refused.pop_front().iter().for_each(|it| self.refuse(it));
            }
            if let Some(new) = self.mirror_one(write).await {
                refused.push_back(new);
            } else {
                refused = self.again(refused).await;
            }
            if refused.len() > REFUSED_MAX {
                refused.pop_front().iter().for_each(|it| self.refuse(it));
            }
        }
    }

    /// Sends refused writes again. Returns those that are refused again.
    async fn again(&self, refused: VecDeque<RefusedWrite>) -> VecDeque<RefusedWrite> {
        let mut left = VecDeque::new();
        for RefusedWrite { mut ready, berth, since } in refused {
            match self.send(&mut ready).await {
                SendOutcome::Lost(reason) => self.lose(&ready, reason),
                SendOutcome::Answered(now) if now.status.is_success() => self.done(&ready, &now),
                SendOutcome::Answered(_) => left.push_back(RefusedWrite { ready, berth, since }),
            }
        }
        left
    }

    /// Mirrors a write; returns it if Berth refuses it.
    async fn mirror_one(&self, mut write: MirroredWrite) -> Option<RefusedWrite> {
        let (number, id) = (write.number, write.id);
        let body = match write.body.take() {
            None => Ok(Vec::new()),
            Some(passed) => match timeout(PASS_MAX, passed).await {
                Ok(Ok(passed)) if passed.is_complete => match passed.copy {
                    Ok(copy) => Ok(copy.bytes().to_vec()),
                    Err(omitted) => Err(omitted.name()),
                },
                _ => Err("cut_off"),
            },
        };
        let body = match body {
            Ok(body) => body,
            Err(reason) => {
                self.mirror.lose(id, reason, Certainty::Accepted);
                self.mirror.done(number);
                return None;
            }
        };
        self.mirror.recent.learn(id, scope_of_write(&write.head, &body));
        let (_, closed) = tokio::sync::oneshot::channel();
        let passing = std::mem::replace(&mut write.upstream, closed);
        let upstream = timeout(PASS_MAX, passing).await.ok().and_then(Result::ok);
        let body = with_chosen_uuid(&write, &body, upstream.as_ref()).unwrap_or(body);
        let mut ready = PreparedWrite { write, body, upstream, is_uncertain: false };
        let sent = self.send(&mut ready).await;
        self.mirror.done(number);
        match sent {
            SendOutcome::Lost(reason) => self.lose(&ready, reason),
            SendOutcome::Answered(berth) if berth.status.is_success() => self.done(&ready, &berth),
            SendOutcome::Answered(berth) => {
                return Some(RefusedWrite { ready, berth, since: Instant::now() });
            }
        }
        None
    }

    /// Sends a write until Berth has responded, or the mirror is off.
    async fn send(&self, ready: &mut PreparedWrite) -> SendOutcome {
        tokio::select! {
            biased;
            () = self.mirror.off() => SendOutcome::Lost("off"),
            sent = self.insist(ready) => sent,
        }
    }

    async fn insist(&self, ready: &mut PreparedWrite) -> SendOutcome {
        loop {
            let head = &ready.write.head;
            let was_uncertain = std::mem::replace(&mut ready.is_uncertain, true);
            let sent = self.berth.ask(head, ready.body.clone(), || self.mirror.copy()).await;
            match sent {
                // Its database is unavailable, or a proxy does not reach it: the outcome is unknown.
                Ok(berth) if matches!(berth.status.as_u16(), 502..=504) => {}
                Ok(berth) => {
                    ready.is_uncertain = was_uncertain;
                    return SendOutcome::Answered(berth);
                }
                Err(Incomparable::Failed(Failure::NotConnected(_))) => {
                    ready.is_uncertain = was_uncertain;
                }
                Err(Incomparable::Failed(Failure::TimedOut | Failure::Broken(_))) => {}
                Err(why @ (Incomparable::Omitted(_) | Incomparable::Encoded)) => {
                    return SendOutcome::Lost(why.name());
                }
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    fn lose(&self, ready: &PreparedWrite, reason: &'static str) {
        let certainty = if ready.is_uncertain { Certainty::Unknown } else { Certainty::Accepted };
        self.mirror.lose(ready.write.id, reason, certainty);
    }

    /// Counts a write that Berth has carried out, and compares the responses.
    fn done(&self, ready: &PreparedWrite, berth: &TimedResponse) {
        let tally = &self.mirror.tally;
        self.mirror.recent.end(ready.write.id, Instant::now());
        tally.mirrored(Kind::Write);
        let Some(upstream) = &ready.upstream else { return };
        tally.took(ready.write.head.route(), upstream.took, berth.took);
        match compare(&ready.write.head, &ready.body, upstream, berth) {
            Err(why) => tally.not_mirrored(Kind::Write, why.name()),
            Ok(Verdict::Same) => tally.compared(Kind::Write, Outcome::Same),
            Ok(verdict) => self.found(ready, upstream, berth, verdict, Outcome::Different),
        }
    }

    /// Counts a write that Berth has finally refused.
    fn refuse(&self, refused: &RefusedWrite) {
        let RefusedWrite { ready, berth, .. } = refused;
        let tally = &self.mirror.tally;
        self.mirror.recent.end(ready.write.id, Instant::now());
        if ready.is_uncertain {
            tally.lacks(Certainty::Unknown);
            return tally.compared(Kind::Write, Outcome::Uncertain);
        }
        tally.lacks(Certainty::Accepted);
        tally.mirrored(Kind::Write);
        let Some(upstream) = &ready.upstream else {
            return tally.compared(Kind::Write, Outcome::Refused);
        };
        match compare(&ready.write.head, &ready.body, upstream, berth) {
            Ok(verdict) => self.found(ready, upstream, berth, verdict, Outcome::Refused),
            Err(_) => tally.compared(Kind::Write, Outcome::Refused),
        }
    }

    fn found(
        &self,
        ready: &PreparedWrite,
        upstream: &TimedResponse,
        berth: &TimedResponse,
        verdict: Verdict,
        otherwise: Outcome,
    ) {
        let (outcome, known, differences) = match verdict {
            Verdict::Same => (otherwise, None, Vec::new()),
            Verdict::Known(rule, differences) => (Outcome::Known, Some(rule), differences),
            Verdict::Different(differences) => (otherwise, None, differences),
        };
        self.report.add(&RecordedDifference {
            head: &ready.write.head,
            body: &ready.body,
            upstream,
            berth,
            outcome,
            known,
            confirmations: 0,
            differences: &differences,
        });
    }
}

/// The body with the UUID that the upstream has chosen for a new provider, if it has.
fn with_chosen_uuid(
    write: &MirroredWrite,
    body: &[u8],
    upstream: Option<&TimedResponse>,
) -> Option<Vec<u8>> {
    if write.head.method != Method::POST || write.head.route() != "/resource_providers" {
        return None;
    }
    let location = upstream?.headers.get(header::LOCATION)?.to_str().ok()?;
    with_uuid(body, location)
}

/// A body with the UUID at the end of a location, if it has none.
fn with_uuid(body: &[u8], location: &str) -> Option<Vec<u8>> {
    let mut provider: Value = serde_json::from_slice(body).ok()?;
    let members = provider.as_object_mut()?;
    let (_, uuid) = location.trim_end_matches('/').rsplit_once('/')?;
    let uuid: uuid::Uuid = uuid.parse().ok()?;
    if members.contains_key("uuid") {
        return None;
    }
    members.insert("uuid".to_owned(), uuid.to_string().into());
    Some(provider.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::with_uuid;

    #[test]
    fn a_new_provider_gets_the_uuid_that_was_chosen_for_it() {
        let uuid = "4e8e5957-649f-477b-9e5b-f1f75b21c03c";
        let location = format!("http://old/placement/resource_providers/{uuid}");
        let with = |body: &str| {
            with_uuid(body.as_bytes(), &location).map(|it| String::from_utf8(it).unwrap())
        };
        assert_eq!(with(r#"{"name":"a"}"#), Some(format!(r#"{{"name":"a","uuid":"{uuid}"}}"#)));
        assert_eq!(with(r#"{"uuid":"b","name":"a"}"#), None);
        assert_eq!(with("[]"), None);
        assert_eq!(with_uuid(b"{}", "/resource_providers"), None);
    }
}
