//! Failure detection by keep-alives (§3.2 does not specify how failures are discovered).
//!
//! Neighbours send keep-alives to each other ([`Hello`](super::packet::Hello)). The node at the receiving end of a
//! link reports whether anything arrives over it, with a version that counts the changes. Neighbours pass on the
//! states that are new to them. The newest state therefore reaches all nodes even if packets are lost, and the failure
//! of a node is reported by its neighbours.

use std::collections::{BTreeMap, BTreeSet};
use unrack_rack::graph::Graph;
use unrack_units::Time;

/// State of a link, as reported by the node at its receiving end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    pub link: u32,
    /// Number of changes of state. An odd number means that the link is down; 0, that it has always been up.
    pub version: u32,
}

/// Known states of links.
#[derive(Debug, Clone, Default)]
pub struct LinkStates {
    /// Versions of links that failed at least once.
    versions: BTreeMap<u32, u32>,
    has_news: bool,
}

impl LinkStates {
    /// Handles a state that a neighbour passes on.
    pub fn hear(&mut self, LinkState { link, version }: LinkState) {
        // The largest version that is accepted is even, so that a link counts as up if its version is so large that no
        // node could have reached it by counting.
        if version > self.version(link) && version < u32::MAX {
            self.versions.insert(link, version);
            self.has_news = true;
        }
    }

    /// Records the state of a link, as reported by this node at its receiving end.
    pub fn say(&mut self, link: u32, is_down: bool) {
        if self.is_down(link) != is_down {
            self.hear(LinkState { link, version: self.version(link).saturating_add(1) });
        }
    }

    fn version(&self, link: u32) -> u32 {
        self.versions.get(&link).copied().unwrap_or(0)
    }

    /// Returns whether a link is known to be down.
    pub fn is_down(&self, link: u32) -> bool {
        self.version(link) % 2 == 1
    }

    /// Returns whether any state has changed since the last call.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Returns all states to pass on.
    pub fn all(&self) -> Vec<LinkState> {
        self.versions.iter().map(|(link, version)| LinkState { link: *link, version: *version }).collect()
    }

    /// Returns the links of all cables that are down in either direction, because a failed node cannot report its own
    /// direction.
    pub fn down<'a>(&'a self, graph: &'a Graph) -> BTreeSet<u32> {
        let down = self.versions.keys().filter(|link| self.is_down(**link));
        down.flat_map(|link| [*link, graph.reverse(*link)]).collect()
    }
}

/// Number of missing keep-alives after which a link is reported down.
const MOST_MISSED: u64 = 10;

/// Times at which a node last received anything from its neighbours, by port.
#[derive(Debug, Clone)]
pub struct Neighbours {
    interval: Time,
    heard: Vec<Time>,
    looked: Time,
}

impl Neighbours {
    /// Creates the record as if all neighbours had just sent something. `interval` is the time between keep-alives.
    pub fn new(now: Time, ports: usize, interval: Time) -> Neighbours {
        Neighbours { interval, heard: vec![now; ports], looked: now }
    }

    /// Records that something arrived at a port.
    pub fn heard(&mut self, now: Time, port: usize) {
        self.heard[port] = now;
    }

    /// Checks whether this node itself polls late; to be called once per interval. A late node has not yet processed
    /// packets that arrived in time, so it must not report its neighbours.
    pub fn look(&mut self, now: Time) {
        if now > self.looked + self.interval * 2 {
            self.heard.fill(now);
        }
        self.looked = now;
    }

    /// Returns whether a neighbour has been silent for too long.
    pub fn is_silent(&self, now: Time, port: usize) -> bool {
        now >= self.heard[port] + self.interval * MOST_MISSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// All nodes that heard the same states know the same, in whatever order they heard them. The node at the
        /// receiving end of a link has the last word, whatever others reported.
        #[test]
        fn what_is_newest_is_known(
            said in prop::collection::vec((0u32..4, any::<u32>()), 0..20), swapped in any::<prop::sample::Index>(), is_down: bool,
        ) {
            let near = said.iter().map(|(link, version)| LinkState { link: *link, version: version % 1_000 });
            let mut order: Vec<LinkState> = near.clone().collect();
            if !order.is_empty() {
                let at = swapped.index(order.len());
                order.rotate_left(at);
            }
            let heard = |order: &mut dyn Iterator<Item = LinkState>| {
                let mut states = LinkStates::default();
                order.for_each(|state| states.hear(state));
                states.all()
            };
            prop_assert_eq!(heard(&mut near.clone()), heard(&mut order.into_iter()));
            let mut states = LinkStates::default();
            said.iter().for_each(|(link, version)| states.hear(LinkState { link: *link, version: *version }));
            let mut others = states.clone();
            states.say(2, is_down);
            states.all().into_iter().for_each(|state| others.hear(state));
            prop_assert_eq!((states.is_down(2), others.is_down(2)), (is_down, is_down));
        }
    }

    #[test]
    fn silence_is_told_from_being_late() {
        let ms = |ms: u64| Time::from_us(1_000 * ms);
        let mut neighbours = Neighbours::new(ms(5), 2, ms(20));
        for at in (25..200).step_by(20) {
            neighbours.look(ms(at));
            neighbours.heard(ms(at), 1);
            assert!(!neighbours.is_silent(ms(at), 0) && !neighbours.is_silent(ms(at), 1));
        }
        neighbours.look(ms(205));
        assert!(neighbours.is_silent(ms(205), 0) && !neighbours.is_silent(ms(205), 1));
        neighbours.look(ms(500));
        assert!(!neighbours.is_silent(ms(500), 0) && !neighbours.is_silent(ms(500), 1));
    }
}
