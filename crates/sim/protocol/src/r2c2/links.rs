//! Failure detection by keep-alives (§3.2 does not specify how failures are discovered).
//!
//! Neighbours send keep-alives to each other ([`Hello`](super::packet::Hello)). The node at the receiving end of a link reports whether
//! packets arrive over the link. A report has a version, which counts the changes between up and down. Every node passes reports that are
//! new to it on to its neighbours. Therefore the newest state of each link reaches all nodes even if packets are lost, and the neighbours
//! of a failed node report its failure.

use std::collections::{BTreeMap, BTreeSet};
use unrack_rack::graph::Graph;
use unrack_units::Time;

/// State of a link, as the node at the receiving end of the link reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    pub link: u32,
    /// Number of times that the link has changed between up and down. An odd number means that the link is down; 0 means that it has always
    /// been up.
    pub version: u32,
}

/// States of the rack's links, as far as one node knows them.
#[derive(Debug, Clone, Default)]
pub struct LinkStates {
    /// Newest known version of each link that has failed at least once.
    versions: BTreeMap<u32, u32>,
    has_news: bool,
}

impl LinkStates {
    /// Handles a link's state that a neighbour has passed on.
    pub fn hear(&mut self, LinkState { link, version }: LinkState) {
        // The largest version that a node accepts is even. Therefore a forged or damaged version that no node could have reached by
        // counting leaves the link up.
        if version > self.version(link) && version < u32::MAX {
            self.versions.insert(link, version);
            self.has_news = true;
        }
    }

    /// Records the state of a link whose receiving end is this node, as this node has observed it.
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

    /// Returns whether the state of any link has changed since the last call.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Returns the link states that the node passes on to its neighbours.
    pub fn all(&self) -> Vec<LinkState> {
        self.versions.iter().map(|(link, version)| LinkState { link: *link, version: *version }).collect()
    }

    /// Returns the links to avoid. If one direction of a cable is down, the result contains the links of both directions, because a failed
    /// node cannot report the direction that it receives.
    pub fn down<'a>(&'a self, graph: &'a Graph) -> BTreeSet<u32> {
        let down = self.versions.keys().filter(|link| self.is_down(**link));
        down.flat_map(|link| [*link, graph.reverse(*link)]).collect()
    }
}

/// Number of missing keep-alives after which a node reports a link as down.
const MOST_MISSED: u64 = 10;

/// Time at which a node last received a packet from each neighbour, by the node's port.
#[derive(Debug, Clone)]
pub struct Neighbours {
    interval: Time,
    heard: Vec<Time>,
    looked: Time,
}

impl Neighbours {
    /// Creates the record of a node with `ports` ports, as if a packet had just arrived from every neighbour. `interval` is the time
    /// between keep-alives.
    pub fn new(now: Time, ports: usize, interval: Time) -> Neighbours {
        Neighbours { interval, heard: vec![now; ports], looked: now }
    }

    /// Records that a packet arrived at a port.
    pub fn heard(&mut self, now: Time, port: usize) {
        self.heard[port] = now;
    }

    /// Checks whether this node itself is running late; the caller must call this once per interval. A node that runs late has not yet
    /// processed packets that arrived in time, so it must not report its neighbours as silent.
    pub fn look(&mut self, now: Time) {
        if now > self.looked + self.interval * 2 {
            self.heard.fill(now);
        }
        self.looked = now;
    }

    /// Returns whether the neighbour at this port has been silent for so long that its link counts as down.
    pub fn is_silent(&self, now: Time, port: usize) -> bool {
        now >= self.heard[port] + self.interval * MOST_MISSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Nodes that have received the same link states agree on them, whatever the order in which the states arrived. The node at the
        /// receiving end of a link can always correct the state that other nodes have reported.
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
