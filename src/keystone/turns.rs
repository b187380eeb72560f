//! Places for questions to Keystone, shared fairly among the addresses they are asked for.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The part of an IPv6 address that a network gives to one client: its first 64 bits.
const CLIENT_BITS: u128 = !0 << 64;

/// Whom a request comes from, as far as places are shared; `None`: by a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client(Option<IpAddr>);

impl Client {
    fn at(address: Option<IpAddr>) -> Self {
        Self(address.map(|address| match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & CLIENT_BITS).into(),
            address @ IpAddr::V4(_) => address,
        }))
    }
}

/// A number of places. When all are taken, each client with waiting requests gets the next free
/// place in turn, however many requests each of them has.
#[derive(Clone, Debug)]
pub(super) struct Turns(Arc<Mutex<State>>);

/// How many requests may wait for a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// Of one client.
    pub(super) of_one: usize,
    /// Of all.
    pub(super) of_all: usize,
}

#[derive(Debug)]
struct State {
    free: usize,
    bound: Waiting,
    waiting: HashMap<Client, VecDeque<oneshot::Sender<Turn>>>,
    /// Those of `waiting`, whose turn is next first.
    order: VecDeque<Client>,
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Turn(Option<Turns>);

/// Too many wait for a place already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests wait for a question to it already")]
pub(super) struct Full;

impl Turns {
    pub(super) fn new(places: usize, bound: Waiting) -> Self {
        let (waiting, order) = (HashMap::new(), VecDeque::new());
        let state = State { free: places, bound, waiting, order };
        Self(Arc::new(Mutex::new(state)))
    }

    /// A place for a request that comes from an address; waits until there is one.
    ///
    /// # Errors
    /// As many as may wait do so already, of this address or of all.
    pub(super) async fn take(&self, address: Option<IpAddr>) -> Result<Turn, Full> {
        let Some(waits) = self.state().join(Client::at(address))? else {
            return Ok(Turn(Some(self.clone())));
        };
        // The other half is dropped with the last place only, and one of those is waited for.
        waits.await.map_err(|_| Full)
    }

    /// How many wait for a place.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state().waiting.values().map(VecDeque::len).sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a place on to the next who still waits.
    fn give_back(&self) {
        loop {
            let next = self.state().next();
            let Some(next) = next else { return };
            match next.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                // Not waiting any more; this place is not to be given back a second time.
                Err(mut turn) => drop(turn.0.take()),
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.give_back();
        }
    }
}

impl State {
    /// Takes a place (`None`), or waits for one.
    fn join(&mut self, client: Client) -> Result<Option<oneshot::Receiver<Turn>>, Full> {
        if self.free > 0 {
            self.free -= 1;
            return Ok(None);
        }
        if self.is_full(client) {
            self.forget_those_who_left();
            if self.is_full(client) {
                return Err(Full);
            }
        }
        let (place, waits) = oneshot::channel();
        let queue = self.waiting.entry(client).or_default();
        if queue.is_empty() {
            self.order.push_back(client);
        }
        queue.push_back(place);
        Ok(Some(waits))
    }

    fn is_full(&self, client: Client) -> bool {
        self.waiting.get(&client).is_some_and(|queue| queue.len() >= self.bound.of_one)
            || self.waiting.values().map(VecDeque::len).sum::<usize>() >= self.bound.of_all
    }

    fn forget_those_who_left(&mut self) {
        self.waiting.retain(|_, queue| {
            queue.retain(|place| !place.is_closed());
            !queue.is_empty()
        });
        let waiting = &self.waiting;
        self.order.retain(|client| waiting.contains_key(client));
    }

    /// Who gets a place that has become free; if nobody waits, it stays free.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        while let Some(client) = self.order.pop_front() {
            let Some(queue) = self.waiting.get_mut(&client) else { continue };
            let next = queue.pop_front();
            if queue.is_empty() {
                self.waiting.remove(&client);
            } else {
                self.order.push_back(client);
            }
            if next.is_some() {
                return next;
            }
        }
        self.free += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures_util::FutureExt;

    use super::{Full, Turn, Turns, Waiting};

    const BOUND: Waiting = Waiting { of_one: 3, of_all: 5 };

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn now(turns: &Turns, address: &str) -> Option<Turn> {
        turns.take(Some(at(address))).now_or_never().map(Result::unwrap)
    }

    #[tokio::test]
    async fn clients_take_turns_however_many_requests_each_has() {
        let turns = Turns::new(1, Waiting { of_all: 6, ..BOUND });
        let place = now(&turns, "192.0.2.1").unwrap();
        let (told, mut served) = tokio::sync::mpsc::unbounded_channel();
        for name in
            ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"]
        {
            let (turns, told) = (turns.clone(), told.clone());
            let taking = async move {
                let place = turns.take(Some(at(name))).await.unwrap();
                told.send(name).unwrap();
                drop(place);
            };
            let mut taking = Box::pin(taking);
            assert!(taking.as_mut().now_or_never().is_none());
            tokio::spawn(taking);
        }
        drop((place, told));
        let mut order = Vec::new();
        while let Some(name) = served.recv().await {
            order.push(name);
        }
        // The last two are one client.
        let expected =
            ["192.0.2.1", "192.0.2.2", "2001:db8::1", "192.0.2.1", "2001:db8::2", "192.0.2.1"];
        assert_eq!(order, expected);
        assert!(now(&turns, "192.0.2.1").is_some());
    }

    #[tokio::test]
    async fn so_many_wait_and_no_more_and_those_who_left_do_not_count() {
        let turns = Turns::new(1, BOUND);
        let place = now(&turns, "192.0.2.1").unwrap();
        let wait = |address: String| {
            let turns = turns.clone();
            let mut taking =
                Box::pin(async move { turns.take(Some(at(&address))).await.map(drop) });
            (taking.as_mut().now_or_never(), taking)
        };
        let mut own = Vec::new();
        for _ in 0..BOUND.of_one {
            let (told, taking) = wait("192.0.2.1".to_owned());
            assert_eq!(told, None);
            own.push(taking);
        }
        assert_eq!(wait("192.0.2.1".to_owned()).0, Some(Err(Full)));
        let mut others = Vec::new();
        for number in BOUND.of_one..BOUND.of_all {
            let (told, taking) = wait(format!("198.51.100.{number}"));
            assert_eq!(told, None);
            others.push(taking);
        }
        assert_eq!(wait("192.0.2.2".to_owned()).0, Some(Err(Full)));
        drop(own);
        assert_eq!(wait("192.0.2.2".to_owned()).0, None);
        drop(others);
        // Nobody waits any more: the place is free again.
        drop(place);
        assert!(now(&turns, "192.0.2.1").is_some());
    }
}
