//! The client on whose behalf Keystone is queried, so that client addresses share Keystone fairly.

use std::net::{IpAddr, Ipv6Addr};

use crate::fairness::turns::Requester;

/// The part of an IPv6 address that a network gives to one client: its first 64 bits.
const CLIENT_BITS: u128 = !0 << 64;

/// Returns the client at an address; `None`: on a Unix socket.
pub(super) fn client(address: Option<IpAddr>) -> Requester {
    Requester::hashed(address.map(|address| match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & CLIENT_BITS).into(),
        address @ IpAddr::V4(_) => address,
    }))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures_util::FutureExt;

    use super::client;
    use crate::fairness::turns::{QueueFull, Turn, Turns, WaitingLimits};

    const BOUND: WaitingLimits = WaitingLimits { per_requester: 3, total: 5 };

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn now(turns: &Turns, address: &str) -> Option<Turn> {
        turns.turn(client(Some(at(address)))).now_or_never().map(Result::unwrap)
    }

    #[tokio::test]
    async fn clients_take_turns_however_many_requests_each_has() {
        let turns = Turns::bounded(1, 1, WaitingLimits { total: 6, ..BOUND });
        let place = now(&turns, "192.0.2.1").unwrap();
        let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
        for name in
            ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"]
        {
            let (turns, sender) = (turns.clone(), sender.clone());
            let taking = async move {
                let place = turns.turn(client(Some(at(name)))).await.unwrap();
                sender.send(name).unwrap();
                drop(place);
            };
            let mut taking = Box::pin(taking);
            assert!(taking.as_mut().now_or_never().is_none());
            tokio::spawn(taking);
        }
        drop((place, sender));
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
        let turns = Turns::bounded(1, 1, BOUND);
        let place = now(&turns, "192.0.2.1").unwrap();
        let wait = |address: String| {
            let turns = turns.clone();
            let mut taking =
                Box::pin(async move { turns.turn(client(Some(at(&address)))).await.map(drop) });
            (taking.as_mut().now_or_never(), taking)
        };
        let mut own = Vec::new();
        for _ in 0..BOUND.per_requester {
            let (result, taking) = wait("192.0.2.1".to_owned());
            assert_eq!(result, None);
            own.push(taking);
        }
        assert_eq!(wait("192.0.2.1".to_owned()).0, Some(Err(QueueFull)));
        let mut others = Vec::new();
        for number in BOUND.per_requester..BOUND.total {
            let (result, taking) = wait(format!("198.51.100.{number}"));
            assert_eq!(result, None);
            others.push(taking);
        }
        assert_eq!(wait("192.0.2.2".to_owned()).0, Some(Err(QueueFull)));
        drop(own);
        assert_eq!(wait("192.0.2.2".to_owned()).0, None);
        drop(others);
        // No request waits any more, so the place is free again.
        drop(place);
        assert!(now(&turns, "192.0.2.1").is_some());
    }
}
