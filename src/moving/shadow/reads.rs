//! Mirrored reads: each is sent to Berth, and the responses are compared. If they differ, both services are asked
//! again, because something may have changed in between.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::{Mutex, mpsc};

use super::comparison::{Report, Verdict, compare};
use super::exchange::{Incomparable, TimedResponse};
use super::mirror::{Mirror, MirroredRead, scope_of_read};
use super::records::RecordedDifference;
use super::route::Kind;
use super::service::PlacementService;
use super::tally::Outcome;
use crate::moving::compare::known::Rule;
use crate::moving::compare::response::Difference;

/// Maximum number of reads that wait for a repetition.
pub(super) const SUSPECTS_MAX: usize = 64;
/// Pauses before the repetitions.
const PAUSES: [Duration; 8] = [
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
];

/// A read whose responses differ.
pub(super) struct Suspect {
    read: MirroredRead,
    berth: TimedResponse,
    differences: Vec<Difference>,
}

/// Mirrors reads.
pub(super) struct Reader {
    pub(super) mirror: Arc<Mirror>,
    pub(super) upstream: PlacementService,
    pub(super) berth: PlacementService,
    pub(super) report: Arc<Report>,
    pub(super) suspects: mpsc::Sender<Suspect>,
    /// Number of repetitions that must show the same difference.
    pub(super) confirmations: usize,
}

impl Reader {
    /// Mirrors one read after the other; several of these run at once.
    pub(super) async fn run(self: Arc<Self>, queue: Arc<Mutex<mpsc::Receiver<MirroredRead>>>) {
        loop {
            let next = queue.lock().await.recv().await;
            let Some(read) = next else { return };
            tokio::select! {
                biased;
                () = self.mirror.off() => self.mirror.tally.not_mirrored(Kind::Read, "off"),
                () = self.mirror_one(read) => {}
            }
        }
    }

    async fn mirror_one(&self, read: MirroredRead) {
        let tally = &self.mirror.tally;
        if !self.mirror.until_applied(read.after).await {
            return tally.not_mirrored(Kind::Read, "behind");
        }
        let answered = self.berth.ask(&read.head, Vec::new(), || self.mirror.copy()).await;
        let berth = match answered {
            Ok(berth) => berth,
            Err(why) => return tally.not_mirrored(Kind::Read, why.name()),
        };
        tally.mirrored(Kind::Read);
        tally.took(read.head.route(), read.upstream.took, berth.took);
        match compare(&read.head, b"", &read.upstream, &berth) {
            Err(why) => tally.not_mirrored(Kind::Read, why.name()),
            Ok(Verdict::Same) => tally.compared(Kind::Read, Outcome::Same),
            Ok(Verdict::Known(rule, differences)) => {
                self.report
                    .add(&known(rule, differing(&read, &read.upstream, &berth, &differences)));
            }
            Ok(Verdict::Different(differences)) => {
                let suspect = Suspect { read, berth, differences };
                if self.suspects.try_send(suspect).is_err() {
                    tally.compared(Kind::Read, Outcome::Unconfirmed);
                }
            }
        }
    }

    /// Repeats one suspect after the other, never several at once, to limit the upstream's load.
    pub(super) async fn confirm(self: Arc<Self>, mut queue: mpsc::Receiver<Suspect>) {
        while let Some(suspect) = queue.recv().await {
            let tally = &self.mirror.tally;
            tokio::select! {
                biased;
                () = self.mirror.off() => tally.compared(Kind::Read, Outcome::Unconfirmed),
                () = self.confirm_one(suspect) => {}
            }
        }
    }

    async fn confirm_one(&self, suspect: Suspect) {
        let Suspect { read, mut berth, differences: mut previous } = suspect;
        let mut upstream: Option<TimedResponse> = None;
        let mut confirmations = 0;
        // Without repetitions, a difference counts only if no write can have caused it.
        let mut is_disturbed = self.may_have_changed(&read, &read.upstream, &berth, read.began);
        for pause in PAUSES {
            if confirmations >= self.confirmations && !is_disturbed {
                let upstream = upstream.as_ref().map_or(&read.upstream, |it| it);
                let found = differing(&read, upstream, &berth, &previous);
                return self.report.add(&RecordedDifference { confirmations, ..found });
            }
            tokio::time::sleep(pause).await;
            let since = Instant::now();
            match self.ask_again(&read).await {
                Err(outcome) => return self.mirror.tally.compared(Kind::Read, outcome),
                Ok((one, other, Verdict::Known(rule, differences))) => {
                    let found = known(rule, differing(&read, &one, &other, &differences));
                    return self.report.add(&found);
                }
                Ok((_, _, Verdict::Same)) => {
                    return self.mirror.tally.compared(Kind::Read, Outcome::Changing);
                }
                Ok((one, other, Verdict::Different(differences))) => {
                    is_disturbed = self.may_have_changed(&read, &one, &other, since);
                    if differences != previous {
                        previous = differences;
                        confirmations = 0;
                    } else if !is_disturbed {
                        confirmations += 1;
                    }
                    (upstream, berth) = (Some(one), other);
                }
            }
        }
        self.mirror.tally.compared(Kind::Read, Outcome::Changing);
    }

    /// Repeats the request to both services, and compares. If that fails, the outcome is unconfirmed.
    async fn ask_again(
        &self,
        read: &MirroredRead,
    ) -> Result<(TimedResponse, TimedResponse, Verdict), Outcome> {
        let unknown = |_| Outcome::Unconfirmed;
        let (upstream, berth) = self.ask_both(read).await.map_err(unknown)?;
        let is_refused = |it: &TimedResponse| it.status == StatusCode::UNAUTHORIZED;
        if is_refused(&upstream) && !is_refused(&read.upstream) {
            // The token has expired.
            return Err(Outcome::Unconfirmed);
        }
        let verdict = compare(&read.head, b"", &upstream, &berth).map_err(unknown)?;
        Ok((upstream, berth, verdict))
    }

    fn may_have_changed(
        &self,
        read: &MirroredRead,
        upstream: &TimedResponse,
        berth: &TimedResponse,
        since: Instant,
    ) -> bool {
        let scope = scope_of_read(&read.head, [upstream.body.bytes(), berth.body.bytes()]);
        self.mirror.recent.may_have_changed(&scope, since)
    }

    /// Sends the request to the upstream, and then to Berth once it has the writes that the upstream had.
    async fn ask_both(
        &self,
        read: &MirroredRead,
    ) -> Result<(TimedResponse, TimedResponse), Incomparable> {
        let upstream = self.upstream.ask(&read.head, Vec::new(), || self.mirror.copy()).await?;
        self.mirror.until_applied(self.mirror.accepted()).await;
        let berth = self.berth.ask(&read.head, Vec::new(), || self.mirror.copy()).await?;
        Ok((upstream, berth))
    }
}

/// The record of a read whose responses differ.
fn differing<'f>(
    read: &'f MirroredRead,
    upstream: &'f TimedResponse,
    berth: &'f TimedResponse,
    differences: &'f [Difference],
) -> RecordedDifference<'f> {
    RecordedDifference {
        head: &read.head,
        body: b"",
        upstream,
        berth,
        outcome: Outcome::Different,
        known: None,
        confirmations: 0,
        differences,
    }
}

/// The same record, for a known difference.
fn known<'f>(rule: &'static Rule, found: RecordedDifference<'f>) -> RecordedDifference<'f> {
    RecordedDifference { outcome: Outcome::Known, known: Some(rule), ..found }
}
