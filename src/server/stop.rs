//! Signals that stop the server.
//!
//! They are received by a thread of its own, which ends the process also when all others are stuck:
//! work that cannot be interrupted does not keep it alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::observe::telemetry::Telemetry;

/// How long after the grace the process may take to see to its end.
const MARGIN: Duration = Duration::from_secs(5);
/// The exit code of a process that was told twice.
const TOLD_TWICE: i32 = 130;
/// The exit code of a process that did not stop in time.
const STUCK: i32 = 1;

/// How long threads may go on when what they worked for is done.
const LAST_WORK_MAX: Duration = Duration::from_millis(100);

/// Does something asynchronous, and does not wait for work on other threads that is still going on
/// at its end: a search that nobody waits for any more would hold the process as long as it takes.
///
/// # Errors
/// The runtime cannot be had.
pub fn run<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_WORK_MAX);
    Ok(outcome)
}

/// The word to stop.
#[derive(Debug)]
pub struct Stop {
    told: watch::Receiver<bool>,
    served: Arc<AtomicBool>,
}

impl Stop {
    /// Ready when the process is told to stop.
    pub async fn told(&self) {
        // Without the thread, only SIGKILL stops this process.
        if self.told.clone().wait_for(|told| *told).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Notes that serving has ended: what is left to do bounds itself.
    pub fn served(&self) {
        self.served.store(true, Ordering::Relaxed);
    }
}

/// Begins to wait for SIGTERM and SIGINT. The first asks to stop; if serving has not ended so long
/// after that and a little more, the process ends. The second ends it at once. The private
/// PostgreSQL stops when it sees this process end.
///
/// # Errors
/// Signals cannot be received.
pub fn listen(grace: Duration, telemetry: Arc<Telemetry>) -> Result<Stop, String> {
    let told = watch::Sender::new(false);
    let stop = Stop { told: told.subscribe(), served: Arc::default() };
    let served = Arc::clone(&stop.served);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let wait = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(async {
                match Signals::new() {
                    Ok(mut signals) => {
                        drop(ready.send(Ok(())));
                        signals.obey(&told, grace, &served, &telemetry).await;
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            }),
            Err(error) => drop(ready.send(Err(error))),
        }
    };
    let cannot = |why: &dyn std::fmt::Display| format!("signals cannot be received: {why}");
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .map_err(|error| cannot(&error))?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(stop),
        Ok(Err(error)) => Err(cannot(&error)),
        Err(error) => Err(cannot(&error)),
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    async fn obey(
        &mut self,
        told: &watch::Sender<bool>,
        grace: Duration,
        served: &AtomicBool,
        telemetry: &Telemetry,
    ) {
        let signal = self.next().await;
        // First, because a log that nobody takes in may hold this thread.
        told.send_replace(true);
        tracing::info!(signal, "finishing the requests in flight; once more stops at once");
        let again = tokio::time::timeout(grace + MARGIN, self.next()).await.is_ok();
        let code = if !again && !served.load(Ordering::Relaxed) {
            tracing::error!("serving has not ended within {grace:?}; stopping all the same");
            STUCK
        } else {
            if !again {
                // The database is being stopped, which has bounds of its own.
                self.next().await;
            }
            tracing::warn!("stopping at once");
            TOLD_TWICE
        };
        telemetry.end();
        std::process::exit(code);
    }
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn work_that_goes_on_does_not_hold_the_end() {
        let (end, at_end) = std::sync::mpsc::channel::<()>();
        let (begin, has_begun) = std::sync::mpsc::channel();
        let work = async move {
            drop(tokio::task::spawn_blocking(move || {
                begin.send(()).unwrap();
                // Until the test ends, which it does not if it is waited for.
                at_end.recv().unwrap_err();
            }));
            has_begun.recv().unwrap();
            "done"
        };
        assert_eq!(run(work).unwrap(), "done");
        drop(end);
    }
}
