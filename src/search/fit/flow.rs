//! The maximum flow from sources to sinks, each source to some of the sinks.

#![expect(clippy::indexing_slicing, reason = "sources and sinks are numbered densely")]

use std::collections::VecDeque;

/// Maximum number of connections, and of rounds; beyond it, a simpler bound is used.
const CONNECTIONS_MAX: usize = 20_000;
const ROUNDS_MAX: usize = 2000;

/// A source: its amount, and the sinks that can take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) amount: u64,
    pub(super) sinks: Vec<usize>,
}

/// The maximum flow, or an upper bound of it. `capacities` are those of the sinks. Also returns the work, in
/// numbers read.
pub(super) fn max_flow(sources: &[Source], capacities: &[u64]) -> (u64, usize) {
    let sum = |numbers: &mut dyn Iterator<Item = u64>| numbers.fold(0, u64::saturating_add);
    let bound =
        sum(&mut sources.iter().map(|it| it.amount)).min(sum(&mut capacities.iter().copied()));
    let connections: usize = sources.iter().map(|it| it.sinks.len()).sum();
    if connections > CONNECTIONS_MAX {
        return (bound, sources.len());
    }
    let mut network = Network::new(sources, capacities);
    let mut flow: u64 = 0;
    for round in 0..ROUNDS_MAX {
        match network.augment() {
            0 => return (flow, (round + 1) * connections),
            more => flow = flow.saturating_add(more),
        }
    }
    (bound, ROUNDS_MAX * connections)
}

struct Network<'s> {
    sources: &'s [Source],
    /// The remaining amount of each source.
    left: Vec<u64>,
    room: Vec<u64>,
    /// The flow on each connection of each source.
    flows: Vec<Vec<u64>>,
    /// For each sink, its connections: source, and position among those of the source.
    into: Vec<Vec<(usize, usize)>>,
}

impl<'s> Network<'s> {
    fn new(sources: &'s [Source], capacities: &[u64]) -> Self {
        let mut into = vec![Vec::new(); capacities.len()];
        for (source, it) in sources.iter().enumerate() {
            for (at, sink) in it.sinks.iter().enumerate() {
                into[*sink].push((source, at));
            }
        }
        Self {
            sources,
            left: sources.iter().map(|it| it.amount).collect(),
            room: capacities.to_vec(),
            flows: sources.iter().map(|it| vec![0; it.sinks.len()]).collect(),
            into,
        }
    }

    /// Increases the flow along a shortest augmenting path. Returns the increase; 0 if there is no such path.
    fn augment(&mut self) -> u64 {
        // The connection by which each sink and each source was reached.
        let mut by_sink: Vec<Option<(usize, usize)>> = vec![None; self.room.len()];
        let mut by_source: Vec<Option<(usize, usize)>> = vec![None; self.sources.len()];
        let mut seen: Vec<bool> = self.left.iter().map(|left| *left > 0).collect();
        let mut ahead: VecDeque<usize> = (0..seen.len()).filter(|it| seen[*it]).collect();
        while let Some(source) = ahead.pop_front() {
            for (at, &sink) in self.sources[source].sinks.iter().enumerate() {
                if by_sink[sink].is_some() {
                    continue;
                }
                by_sink[sink] = Some((source, at));
                if self.room[sink] > 0 {
                    return self.send(sink, &by_sink, &by_source);
                }
                for &(other, back) in &self.into[sink] {
                    if !seen[other] && self.flows[other][back] > 0 {
                        seen[other] = true;
                        by_source[other] = Some((sink, back));
                        ahead.push_back(other);
                    }
                }
            }
        }
        0
    }

    /// Increases the flow as much as possible along the path that ends in a sink.
    fn send(
        &mut self,
        last: usize,
        by_sink: &[Option<(usize, usize)>],
        by_source: &[Option<(usize, usize)>],
    ) -> u64 {
        let mut way = Vec::new();
        let (mut sink, mut most) = (last, self.room[last]);
        while let Some((source, at)) = by_sink[sink] {
            way.push((source, at, true));
            match by_source[source] {
                None => {
                    most = most.min(self.left[source]);
                    self.left[source] -= most;
                    break;
                }
                Some((before, back)) => {
                    most = most.min(self.flows[source][back]);
                    way.push((source, back, false));
                    sink = before;
                }
            }
        }
        self.room[last] -= most;
        for (source, at, is_more) in way {
            let flow = &mut self.flows[source][at];
            *flow = if is_more { flow.saturating_add(most) } else { flow.saturating_sub(most) };
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::{Source, max_flow};

    fn source(amount: u64, sinks: &[usize]) -> Source {
        Source { amount, sinks: sinks.to_vec() }
    }

    #[test]
    fn placed_servers_are_rerouted_if_that_places_more() {
        let sources = [source(3, &[0, 1]), source(2, &[0])];
        assert_eq!(max_flow(&sources, &[3, 2]).0, 5);
        let sources = [source(1, &[0, 1]), source(1, &[0, 2]), source(1, &[0])];
        assert_eq!(max_flow(&sources, &[1, 1, 1]).0, 3);
        assert_eq!(max_flow(&sources, &[1, 1, 0]).0, 2);
        assert_eq!(max_flow(&[], &[]).0, 0);
    }
}
