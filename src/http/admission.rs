//! How many requests of one project are planned at once.
//!
//! Each project has its own places and its own queue, so one that asks a lot waits for itself and for
//! nobody else. Only projects that have a request here take memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::app::PlannerSettings;

/// The places and queues of all projects.
#[derive(Debug)]
pub(super) struct Admissions {
    /// Requests of one project that work at once.
    at_once: usize,
    /// Further ones that wait.
    waiting: usize,
    /// How long they wait.
    max_wait: Duration,
    gates: Mutex<HashMap<String, Gate>>,
}

/// What there is for a project that has requests here.
#[derive(Debug)]
struct Gate {
    places: Arc<Semaphore>,
    /// Its requests that work or wait.
    inside: usize,
}

/// A place, as long as it is held.
#[derive(Debug)]
pub(super) struct Admitted<'a> {
    /// Dropped before the request is counted out, so that a gate that goes has all its places.
    _place: OwnedSemaphorePermit,
    _counted: Counted<'a>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmissionError {
    /// So many requests of the project are planned, and so many wait.
    QueueFull(usize, usize),
    /// So many are planned, and none of them has ended for so long.
    Timeout(usize, Duration),
}

/// A request that works or waits; it is counted out when this is dropped, also in mid-wait.
#[derive(Debug)]
struct Counted<'a> {
    admissions: &'a Admissions,
    project: String,
}

impl Admissions {
    /// Places and queues as the settings say.
    pub(super) fn new(settings: &PlannerSettings) -> Self {
        Self {
            at_once: settings.at_once,
            waiting: settings.waiting,
            max_wait: settings.timeout_max,
            gates: Mutex::default(),
        }
    }

    /// A place for a request of the project; those that wait get one in the order in which they came.
    pub(super) async fn enter(&self, project: &str) -> Result<Admitted<'_>, AdmissionError> {
        let (counted, places) = self.count_in(project)?;
        let place = tokio::time::timeout(self.max_wait, places.acquire_owned()).await;
        match place {
            Ok(Ok(place)) => Ok(Admitted { _place: place, _counted: counted }),
            // No gate is ever closed.
            Ok(Err(_)) | Err(_) => Err(AdmissionError::Timeout(self.at_once, self.max_wait)),
        }
    }

    fn count_in(&self, project: &str) -> Result<(Counted<'_>, Arc<Semaphore>), AdmissionError> {
        let mut gates = self.gates();
        let most = self.at_once.saturating_add(self.waiting);
        let gate = gates.entry(project.to_owned()).or_insert_with(|| Gate {
            places: Arc::new(Semaphore::new(self.at_once.min(Semaphore::MAX_PERMITS))),
            inside: 0,
        });
        if gate.inside >= most {
            return Err(AdmissionError::QueueFull(self.at_once, self.waiting));
        }
        gate.inside += 1;
        let counted = Counted { admissions: self, project: project.to_owned() };
        Ok((counted, Arc::clone(&gate.places)))
    }

    fn gates(&self) -> MutexGuard<'_, HashMap<String, Gate>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut gates = self.admissions.gates();
        if let Some(gate) = gates.get_mut(&self.project) {
            gate.inside -= 1;
            if gate.inside == 0 {
                gates.remove(&self.project);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::{AdmissionError, Admissions};
    use crate::http::app::PlannerSettings;

    fn admissions(at_once: usize, waiting: usize) -> Admissions {
        Admissions::new(&PlannerSettings { at_once, waiting, ..PlannerSettings::default() })
    }

    fn inside(admissions: &Admissions, project: &str) -> Option<usize> {
        admissions.gates().get(project).map(|gate| gate.inside)
    }

    #[tokio::test]
    async fn each_project_has_its_own_places() {
        let admissions = admissions(2, 0);
        let one = admissions.enter("p").await.unwrap();
        let two = admissions.enter("p").await.unwrap();
        assert_eq!(admissions.enter("p").await.unwrap_err(), AdmissionError::QueueFull(2, 0));
        let other = admissions.enter("q").await.unwrap();
        drop(one);
        let three = admissions.enter("p").await.unwrap();
        drop((two, three, other));
        assert!(admissions.gates().is_empty(), "who has no request takes no memory");
    }

    #[tokio::test]
    async fn who_waits_gets_the_next_place_and_who_goes_away_gives_his_up() {
        let admissions = admissions(1, 2);
        let first = admissions.enter("p").await.unwrap();
        let waker = Waker::noop();
        let mut context = Context::from_waker(waker);
        let mut second = pin!(admissions.enter("p"));
        assert!(second.as_mut().poll(&mut context).is_pending());
        {
            let mut gone = pin!(admissions.enter("p"));
            assert!(gone.as_mut().poll(&mut context).is_pending());
            assert_eq!(inside(&admissions, "p"), Some(3));
            assert_eq!(admissions.enter("p").await.unwrap_err(), AdmissionError::QueueFull(1, 2));
        }
        assert_eq!(inside(&admissions, "p"), Some(2));
        drop(first);
        let Poll::Ready(Ok(second)) = second.as_mut().poll(&mut context) else { panic!() };
        assert_eq!(inside(&admissions, "p"), Some(1));
        drop(second);
        assert!(admissions.gates().is_empty());
    }

    #[tokio::test]
    async fn who_waits_too_long_is_told() {
        let admissions = Admissions { max_wait: Duration::ZERO, ..admissions(1, 1) };
        let first = admissions.enter("p").await.unwrap();
        let late = admissions.enter("p").await.unwrap_err();
        assert_eq!(late, AdmissionError::Timeout(1, Duration::ZERO));
        assert_eq!(inside(&admissions, "p"), Some(1));
        drop(first);
    }
}
