//! Completion time of a message that is alone in the network, in closed form.

use unrack_engine::network::Network;
use unrack_engine::topology::{Link, Topology};
use unrack_protocol::cxl::{MessageClass, Params};
use unrack_units::Time;
use unrack_workload::{Endpoints, Kind, Message, NodeId};

/// Number of lines from which on a message is assumed to progress in equal periods: 4 MiB.
const STEADY: u32 = 1 << 16;
/// Longest period that is considered, in lines.
const LONGEST_PERIOD: u32 = 1 << 15;
/// Number of lines that fill whole flits of either format, both as data and as requests.
const WHOLE_FLITS: u32 = 60;

#[derive(Debug, Clone)]
pub(super) struct LoneMessage {
    network: Network,
    params: Params,
}

/// One link of a path.
#[derive(Debug, Clone, Copy)]
struct PathLink {
    /// Transmission time of a flit.
    flit: Time,
    /// Time from the end of a flit until its content can be used.
    latency: Time,
}

impl LoneMessage {
    pub(super) fn new(network: &Network, params: &Params) -> LoneMessage {
        LoneMessage { network: network.clone(), params: *params }
    }

    fn way(&self, src: NodeId, dst: NodeId) -> impl Iterator<Item = PathLink> + '_ {
        let mut links = self.network.links(src, dst).enumerate().peekable();
        std::iter::from_fn(move || {
            let (number, link) = links.next()?;
            let (is_first, is_last) = (number == 0, links.peek().is_none());
            let hop = if is_last { Time::ZERO } else { self.params.hop };
            let port = if is_first || is_last { self.params.port } else { Time::ZERO };
            let flit = link.pace.transmit(self.params.flit.bytes().get());
            Some(PathLink { flit, latency: link.propagation + port + hop })
        })
    }

    /// Returns the number of flits that `lines` messages of a class take.
    fn flits(&self, class: MessageClass, lines: u64) -> u64 {
        (lines * u64::from(class.slots())).div_ceil(u64::from(self.params.flit.slots()))
    }

    /// Returns the time from the start of `lines` messages at one node until the last one has arrived at another node.
    fn cross(&self, class: MessageClass, lines: u64, ends: Endpoints) -> Time {
        let Endpoints { src, dst } = ends;
        let first = self.way(src, dst).next().expect("a way has links");
        if self.way(src, dst).any(|leg| leg.flit != first.flit) {
            return self.relay(class, lines, ends);
        }
        // A switch forwards each message when it has arrived, and keeps the pace. Therefore each further link adds the flits of one
        // message.
        let legs = self.way(src, dst).count() as u64;
        let latency: Time = self.way(src, dst).map(|leg| leg.latency).sum();
        first.flit * (self.flits(class, 1) * (legs - 1) + self.flits(class, lines)) + latency
    }

    /// Computes the same time as `cross` over links of different rates, flit by flit.
    fn relay(&self, class: MessageClass, lines: u64, ends: Endpoints) -> Time {
        let mut ready = vec![Time::ZERO; lines as usize];
        for leg in self.way(ends.src, ends.dst) {
            self.pass(class, &mut ready, leg);
        }
        *ready.last().expect("a message has lines")
    }

    /// Replaces the times at which each line can start on a link by the times at which the line can start on the next link.
    fn pass(&self, class: MessageClass, ready: &mut [Time], leg: PathLink) {
        let (mut next, mut left, mut start) = (0, 0, Time::ZERO);
        while next < ready.len() {
            if left == 0 {
                start = start.max(ready[next]);
            }
            let (end, mut room) = (start + leg.flit, self.params.flit.slots());
            while room > 0 && next < ready.len() && (left > 0 || ready[next] <= start) {
                left = if left == 0 { class.slots() } else { left };
                let filled = left.min(room);
                (left, room) = (left - filled, room - filled);
                if left == 0 {
                    ready[next] = end + leg.latency;
                    next += 1;
                }
            }
            start = end;
        }
    }

    /// Returns a small network without faults that has a path like the message's, and the message on that path. All lines of the message
    /// take one path, so a network of thousands of nodes need not be built to simulate it. If no small network has such a path, returns the
    /// whole network without faults.
    pub(super) fn smallest(&self, message: &Message) -> (Network, Message) {
        let links: Vec<Link> = self.network.links(message.src, message.dst).collect();
        let small = match links[..] {
            [host, last] if host == last => Some((Topology::star(2, host), 1)),
            [host, core, other, last] if (host, core) == (last, other) => {
                Some((Topology::leaf_spine(2, 1, 1, host, core), 1))
            }
            [host, core, .., last] if links.len() == 6 && host == last && links[1..5] == [core; 4] => {
                Some((Topology::fat_tree(4, host, core), 15))
            }
            _ => None,
        };
        match small {
            Some((topology, dst)) => {
                (Network { topology, ..self.network.clone() }, Message { src: 0, dst, ..*message })
            }
            None => {
                let topology = self.network.topology.clone().without_faults();
                (Network { topology, ..self.network.clone() }, *message)
            }
        }
    }

    pub(super) fn params(&self) -> &Params {
        &self.params
    }

    /// Returns the number of lines after which credits, window, runs and flits repeat their state, once a long message is in progress. If
    /// these four have no common multiple that is short enough, the result is the longest period, and times are exact within a thousandth.
    pub(super) fn period(&self, run: u32) -> u32 {
        let multiple = |a: u32, b: u32| a / greatest_common_divisor(a, b) * b;
        [self.params.outstanding, run]
            .into_iter()
            .try_fold(
                multiple(WHOLE_FLITS, self.params.fewest_buffers().min(LONGEST_PERIOD)),
                |period, part| {
                    (part <= LONGEST_PERIOD && period <= LONGEST_PERIOD).then(|| multiple(period, part))
                },
            )
            .filter(|period| *period <= LONGEST_PERIOD)
            .unwrap_or(LONGEST_PERIOD)
    }

    /// Returns by how many periods of `period` lines a message exceeds the length up to which it has to be simulated.
    pub(super) fn periods_beyond(lines: u32, period: u32) -> u32 {
        lines.saturating_sub(STEADY) / period
    }

    /// Returns the completion time, or `None` if some lines of the message may have to wait for credits, or for room in the window of their
    /// node, that earlier lines of the message use.
    pub(super) fn completion(&self, message: &Message, lines: u32) -> Option<Time> {
        if lines > self.params.fewest_buffers() || lines > self.params.outstanding {
            return None;
        }
        let kind = message.kind;
        let (there, back, lines) = (message.endpoints(), message.endpoints().reversed(), u64::from(lines));
        // Data follows the first request as fast as the link can take it, because requests come faster or, if they carry data, equally
        // fast.
        Some(match kind {
            Kind::Read => {
                self.cross(MessageClass::Req, 1, there) + self.cross(MessageClass::Drs, lines, back)
            }
            Kind::Rmw => self.cross(MessageClass::RwD, 1, there) + self.cross(MessageClass::Drs, lines, back),
            Kind::Write | Kind::Flow => self.cross(MessageClass::RwD, lines, there),
        })
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
