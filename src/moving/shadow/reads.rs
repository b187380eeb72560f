//! Mirrored reads: each is sent to Berth, and the answers are compared. Where they differ, both services
//! are asked again, because something may have changed in between.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::{Mutex, mpsc};

use super::comparison::{Report, Verdict, compare};
use super::exchange::{Answered, Incomparable};
use super::mirror::{Mirror, Read, scope_of_read};
use super::records::Found;
use super::route::Kind;
use super::service::PlacementService;
use super::tally::Outcome;
use crate::moving::compare::answers::Difference;
use crate::moving::compare::known::Rule;

/// Reads that may wait to be asked again.
pub(super) const SUSPECTS_MAX: usize = 64;
/// The pauses before both services are asked again.
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

/// A read whose answers differ.
pub(super) struct Suspect {
    read: Read,
    berth: Answered,
    differences: Vec<Difference>,
}

/// What mirrors reads.
pub(super) struct Reader {
    pub(super) mirror: Arc<Mirror>,
    pub(super) upstream: PlacementService,
    pub(super) berth: PlacementService,
    pub(super) report: Arc<Report>,
    pub(super) suspects: mpsc::Sender<Suspect>,
    /// How often a difference must be seen again.
    pub(super) confirmations: usize,
}

impl Reader {
    /// Mirrors one read after the other, beside others who do.
    pub(super) async fn run(self: Arc<Self>, queue: Arc<Mutex<mpsc::Receiver<Read>>>) {
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

    async fn mirror_one(&self, read: Read) {
        let tally = &self.mirror.tally;
        if !self.mirror.until_applied(read.after).await {
            return tally.not_mirrored(Kind::Read, "behind");
        }
        let asked = self.berth.ask(&read.asked, Vec::new(), || self.mirror.copy()).await;
        let berth = match asked {
            Ok(berth) => berth,
            Err(why) => return tally.not_mirrored(Kind::Read, why.name()),
        };
        tally.mirrored(Kind::Read);
        tally.took(read.asked.route(), read.upstream.took, berth.took);
        match compare(&read.asked, b"", &read.upstream, &berth) {
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

    /// Asks again about one suspect after the other: never about several at once, so that the upstream has
    /// little more to do.
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
        let Suspect { read, mut berth, differences: mut seen } = suspect;
        let mut upstream: Option<Answered> = None;
        let mut confirmations = 0;
        // With none to be seen again, a difference counts that no write can have made.
        let mut is_disturbed = self.may_have_changed(&read, &read.upstream, &berth, read.began);
        for pause in PAUSES {
            if confirmations >= self.confirmations && !is_disturbed {
                let upstream = upstream.as_ref().map_or(&read.upstream, |it| it);
                let found = differing(&read, upstream, &berth, &seen);
                return self.report.add(&Found { confirmations, ..found });
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
                    if differences != seen {
                        seen = differences;
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

    /// Asks both services again, and compares. If they cannot be asked, nobody knows.
    async fn ask_again(&self, read: &Read) -> Result<(Answered, Answered, Verdict), Outcome> {
        let unknown = |_| Outcome::Unconfirmed;
        let (upstream, berth) = self.ask_both(read).await.map_err(unknown)?;
        let is_refused = |it: &Answered| it.status == StatusCode::UNAUTHORIZED;
        if is_refused(&upstream) && !is_refused(&read.upstream) {
            // The token has expired.
            return Err(Outcome::Unconfirmed);
        }
        let verdict = compare(&read.asked, b"", &upstream, &berth).map_err(unknown)?;
        Ok((upstream, berth, verdict))
    }

    fn may_have_changed(
        &self,
        read: &Read,
        upstream: &Answered,
        berth: &Answered,
        since: Instant,
    ) -> bool {
        let scope = scope_of_read(&read.asked, [upstream.body.bytes(), berth.body.bytes()]);
        self.mirror.recent.may_have_changed(&scope, since)
    }

    /// Asks the upstream, and then Berth, which by then has the writes that the upstream had.
    async fn ask_both(&self, read: &Read) -> Result<(Answered, Answered), Incomparable> {
        let upstream = self.upstream.ask(&read.asked, Vec::new(), || self.mirror.copy()).await?;
        self.mirror.until_applied(self.mirror.accepted()).await;
        let berth = self.berth.ask(&read.asked, Vec::new(), || self.mirror.copy()).await?;
        Ok((upstream, berth))
    }
}

/// What is told of a read whose answers differ.
fn differing<'f>(
    read: &'f Read,
    upstream: &'f Answered,
    berth: &'f Answered,
    differences: &'f [Difference],
) -> Found<'f> {
    Found {
        asked: &read.asked,
        body: b"",
        upstream,
        berth,
        outcome: Outcome::Different,
        known: None,
        confirmations: 0,
        differences,
    }
}

/// The same, if the difference is meant.
fn known<'f>(rule: &'static Rule, found: Found<'f>) -> Found<'f> {
    Found { outcome: Outcome::Known, known: Some(rule), ..found }
}
