//! Signals that stop the server.
//!
//! A separate thread receives them, so that the process ends even if all other threads are stuck: uninterruptible
//! work does not keep it alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::observe::telemetry::Telemetry;

/// Extra time after the grace period before the process is ended.
const MARGIN: Duration = Duration::from_secs(5);
/// Exit code after a second signal.
const SECOND_SIGNAL: i32 = 130;
/// Exit code of a process that did not stop in time.
const STUCK: i32 = 1;

/// Time for threads to finish after the main future has ended.
const LAST_WORK_MAX: Duration = Duration::from_millis(100);

/// Runs a future, without waiting for work on other threads at its end: an abandoned search would otherwise delay the
/// exit.
///
/// # Errors
/// The runtime cannot be created.
pub fn run<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_WORK_MAX);
    Ok(outcome)
}

/// The stop signal.
#[derive(Debug)]
pub struct Stop {
    requested: watch::Receiver<bool>,
    served: Arc<AtomicBool>,
}

impl Stop {
    /// Waits until the process is told to stop.
    pub async fn requested(&self) {
        // Without the thread, only SIGKILL stops this process.
        if self.requested.clone().wait_for(|requested| *requested).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Marks the end of serving: the remaining work has timeouts of its own.
    pub fn served(&self) {
        self.served.store(true, Ordering::Relaxed);
    }
}

/// Starts a thread for SIGTERM and SIGINT. The first signal requests a stop; if serving has not ended after `grace`
/// and a margin, the process is ended. The second ends it at once. The private PostgreSQL stops when this process
/// ends.
///
/// # Errors
/// Signals cannot be received.
pub fn listen(grace: Duration, telemetry: Arc<Telemetry>) -> Result<Stop, String> {
    let requested = watch::Sender::new(false);
    let stop = Stop { requested: requested.subscribe(), served: Arc::default() };
    let served = Arc::clone(&stop.served);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let wait = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(async {
                match Signals::new() {
                    Ok(mut signals) => {
                        drop(ready.send(Ok(())));
                        signals.obey(&requested, grace, &served, &telemetry).await;
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
        requested: &watch::Sender<bool>,
        grace: Duration,
        served: &AtomicBool,
        telemetry: &Telemetry,
    ) {
        let signal = self.next().await;
        // Before logging, because writing to a blocked log may stall this thread.
        requested.send_replace(true);
        tracing::info!(signal, "finishing the requests in flight; a second signal stops at once");
        let again = tokio::time::timeout(grace + MARGIN, self.next()).await.is_ok();
        let code = if !again && !served.load(Ordering::Relaxed) {
            tracing::error!("serving has not ended within {grace:?}; stopping all the same");
            STUCK
        } else {
            if !again {
                // Stopping the database has timeouts of its own.
                self.next().await;
            }
            tracing::warn!("stopping at once");
            SECOND_SIGNAL
        };
        telemetry.end();
        std::process::exit(code);
    }
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn abandoned_work_does_not_delay_the_end() {
        let (end, at_end) = std::sync::mpsc::channel::<()>();
        let (begin, has_begun) = std::sync::mpsc::channel();
        let work = async move {
            drop(tokio::task::spawn_blocking(move || {
                begin.send(()).unwrap();
                // Blocks until the test ends, which would never happen if it were waited for.
                at_end.recv().unwrap_err();
            }));
            has_begun.recv().unwrap();
            "done"
        };
        assert_eq!(run(work).unwrap(), "done");
        drop(end);
    }
}
