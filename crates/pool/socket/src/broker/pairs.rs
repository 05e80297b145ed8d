//! Pairing of the two ends of a connection by their names. It is a plain state machine without sockets.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Longest time for which an end is remembered while its peer does not ask.
const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum number of connections that are remembered while only one end has asked.
const MOST_WAITING: usize = 1 << 16;

/// Name of an end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndName {
    /// IPv6 address (or mapped IPv4 address), and port.
    Internet([u8; 16], u16),
    /// Inode number of a Unix socket.
    Inode(u64),
}

/// Scope in which names identify ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameScope {
    /// Network namespace, by the kernel's number; 0 for names that are valid in all namespaces.
    Namespace(u64),
    /// Rack whose hosts are network namespaces that share memory.
    Rack(u32),
}

/// Names of a connection's two ends, as one of the ends sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenName {
    pub(crate) network: NameScope,
    pub(crate) own: EndName,
    pub(crate) peer: EndName,
    /// Number that the kernel gives to this socket only, and never reuses (`SO_COOKIE`).
    pub(crate) cookie: u64,
    /// Process that asks.
    pub(crate) process: u32,
}

/// Name of a connection, identical for its two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key(NameScope, EndName, EndName);

/// An end that has asked.
#[derive(Debug, Clone, Copy)]
struct RequestingEnd {
    cookie: u64,
    process: u32,
    asked: Instant,
}

/// A connection whose two ends have asked.
struct PairedConnection<A> {
    askers: [RequestingEnd; 2],
    area: A,
}

/// Connections that the broker knows. `A` is the area of a connection.
pub(crate) struct ConnectionPairs<A> {
    waiting: BTreeMap<Key, [Option<RequestingEnd>; 2]>,
    made: BTreeMap<Key, PairedConnection<A>>,
}

/// Answer to an end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BrokerAnswer<'a, A> {
    /// The area, and the number of this end in it.
    Area(&'a A, usize),
    /// The other end has not asked yet.
    NotYet,
    /// No area is available, or the connection is from a socket to itself.
    Never,
}

impl<A> ConnectionPairs<A> {
    pub(crate) fn new() -> ConnectionPairs<A> {
        ConnectionPairs { waiting: BTreeMap::new(), made: BTreeMap::new() }
    }

    /// Returns the number of connections that have an area.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.made.len()
    }

    /// Answers an end. When its other end has asked too, `make` makes the area.
    pub(crate) fn ask(
        &mut self,
        seen: &SeenName,
        now: Instant,
        make: impl FnOnce() -> Option<A>,
    ) -> BrokerAnswer<'_, A> {
        if seen.own == seen.peer {
            return BrokerAnswer::Never;
        }
        let end = usize::from(seen.own > seen.peer);
        let key = Key(seen.network, seen.own.min(seen.peer), seen.own.max(seen.peer));
        let asker = RequestingEnd { cookie: seen.cookie, process: seen.process, asked: now };
        match self.made.get_mut(&key) {
            Some(pair) if pair.askers[end].cookie == seen.cookie => {
                // The asking process is a child of the process that asked first, or another program in the same process.
                pair.askers[end].process = seen.process;
            }
            // A later connection has the same names.
            Some(_) => drop(self.made.remove(&key)),
            None => {}
        }
        if !self.made.contains_key(&key) {
            if self.waiting.len() >= MOST_WAITING && !self.waiting.contains_key(&key) {
                return BrokerAnswer::Never;
            }
            let both = self.waiting.entry(key).or_default();
            both[end] = Some(asker);
            let [Some(first), Some(second)] = *both else { return BrokerAnswer::NotYet };
            self.waiting.remove(&key);
            let Some(area) = make() else { return BrokerAnswer::Never };
            self.made.insert(key, PairedConnection { askers: [first, second], area });
        }
        match self.made.get(&key) {
            Some(pair) => BrokerAnswer::Area(&pair.area, end),
            None => BrokerAnswer::Never,
        }
    }

    /// Answers an end whose area was handed out before. The end is found by its socket's cookie alone, because the kernel no longer knows
    /// the peer's address once a connection is over.
    pub(crate) fn ask_again(&mut self, cookie: u64, process: u32) -> BrokerAnswer<'_, A> {
        for pair in self.made.values_mut() {
            if let Some(end) = pair.askers.iter().position(|asker| asker.cookie == cookie) {
                pair.askers[end].process = process;
                return BrokerAnswer::Area(&pair.area, end);
            }
        }
        BrokerAnswer::Never
    }

    /// Forgets ends that have waited for too long, and connections that are over: their area is closed, or none of the processes that asked
    /// is still alive. `ends` is called with the area of each such connection.
    pub(crate) fn sweep(
        &mut self,
        now: Instant,
        mut lives: impl FnMut(u32) -> bool,
        mut is_closed: impl FnMut(&A) -> bool,
        mut ends: impl FnMut(&A),
    ) {
        self.waiting.retain(|_, askers| {
            askers.iter().flatten().any(|asker| now.saturating_duration_since(asker.asked) < PATIENCE)
        });
        self.made.retain(|_, pair| {
            let keeps = !is_closed(&pair.area) && pair.askers.iter().any(|asker| lives(asker.process));
            if !keeps {
                ends(&pair.area);
            }
            keeps
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: EndName = EndName::Inode(1);
    const B: EndName = EndName::Inode(2);

    fn seen(own: EndName, peer: EndName, cookie: u64) -> SeenName {
        SeenName { network: NameScope::Namespace(0), own, peer, cookie, process: cookie as u32 }
    }

    #[test]
    fn the_second_to_ask_has_the_area_and_the_first_when_it_asks_again() {
        let (mut pairs, now) = (ConnectionPairs::new(), Instant::now());
        assert_eq!(pairs.ask(&seen(A, B, 1), now, || Some(7)), BrokerAnswer::NotYet);
        assert_eq!(pairs.ask(&seen(B, A, 2), now, || Some(7)), BrokerAnswer::Area(&7, 1));
        assert_eq!(pairs.ask(&seen(A, B, 1), now, || Some(8)), BrokerAnswer::Area(&7, 0));
    }

    #[test]
    fn ends_that_do_not_name_each_other_are_not_paired() {
        let (mut pairs, now) = (ConnectionPairs::new(), Instant::now());
        let third = EndName::Inode(3);
        assert_eq!(pairs.ask(&seen(A, B, 1), now, || Some(7)), BrokerAnswer::NotYet);
        assert_eq!(pairs.ask(&seen(third, A, 3), now, || Some(7)), BrokerAnswer::NotYet);
        assert_eq!(pairs.ask(&seen(B, third, 2), now, || Some(7)), BrokerAnswer::NotYet);
        let other = SeenName { network: NameScope::Namespace(1), ..seen(B, A, 2) };
        assert_eq!(pairs.ask(&other, now, || Some(7)), BrokerAnswer::NotYet, "names of another network");
    }

    #[test]
    fn who_asks_again_has_what_was_handed_out_and_nothing_new() {
        let (mut pairs, now) = (ConnectionPairs::new(), Instant::now());
        assert_eq!(pairs.ask_again(1, 9), BrokerAnswer::Never);
        pairs.ask(&seen(A, B, 1), now, || Some(7));
        assert_eq!(pairs.ask_again(1, 9), BrokerAnswer::Never, "its peer has not asked");
        pairs.ask(&seen(B, A, 2), now, || Some(7));
        assert_eq!(pairs.ask_again(1, 9), BrokerAnswer::Area(&7, 0));
        assert_eq!(pairs.ask_again(2, 9), BrokerAnswer::Area(&7, 1));
        assert_eq!(pairs.ask_again(5, 9), BrokerAnswer::Never, "a later connection");
        pairs.sweep(now, |process| process == 9, |_| false, |_| panic!("one of them lives"));
    }

    #[test]
    fn a_later_connection_with_the_same_names_has_an_area_of_its_own() {
        let (mut pairs, now) = (ConnectionPairs::new(), Instant::now());
        pairs.ask(&seen(A, B, 1), now, || Some(7));
        pairs.ask(&seen(B, A, 2), now, || Some(7));
        assert_eq!(pairs.ask(&seen(A, B, 3), now, || Some(8)), BrokerAnswer::NotYet);
        assert_eq!(pairs.ask(&seen(B, A, 4), now, || Some(8)), BrokerAnswer::Area(&8, 1));
    }

    #[test]
    fn a_connection_to_itself_stays_with_the_kernel() {
        assert_eq!(ConnectionPairs::new().ask(&seen(A, A, 1), Instant::now(), || Some(7)), BrokerAnswer::Never);
    }

    #[test]
    fn what_nobody_has_any_more_is_forgotten() {
        let (mut pairs, now) = (ConnectionPairs::new(), Instant::now());
        pairs.ask(&seen(A, B, 1), now, || Some(7));
        pairs.ask(&seen(B, A, 2), now, || Some(7));
        pairs.sweep(now, |process| process == 1, |_| false, |_| panic!("one of them lives"));
        assert_eq!(pairs.len(), 1);
        let mut ended = Vec::new();
        pairs.sweep(now, |_| false, |_| false, |area| ended.push(*area));
        assert_eq!((pairs.len(), ended), (0, vec![7]));
    }

    #[test]
    fn an_end_whose_peer_never_asks_is_forgotten() {
        let (mut pairs, now) = (ConnectionPairs::new(), Instant::now());
        pairs.ask(&seen(A, B, 1), now, || Some(7));
        pairs.sweep(now + PATIENCE, |_| true, |_| false, |_| {});
        assert_eq!(pairs.ask(&seen(B, A, 2), now + PATIENCE, || Some(7)), BrokerAnswer::NotYet);
    }
}
