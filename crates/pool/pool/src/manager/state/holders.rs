//! Holders of parts of the pool, and how much each of them holds, for quotas and limits.

use crate::wire::{Denied, Limited, PeerProcess, QuotaHolder};
use std::collections::BTreeMap;

/// Limits on the objects of one [`Holder`], so that it cannot lock the other holders out.
#[derive(Debug, Clone, Copy)]
pub struct HolderLimits {
    /// Maximum number of connections of all holders together.
    pub clients: u32,
    pub channels: u32,
    pub services: u32,
    pub segments: u32,
    /// Maximum number of segments that one side of a channel may be granted.
    pub grants: u32,
    /// Messages that may wait for a process that does not read. While this many wait, requests that would send the
    /// process an offer, a grant or a wakeup are refused.
    pub waiting: usize,
}

impl Default for HolderLimits {
    fn default() -> HolderLimits {
        HolderLimits {
            clients: 4096,
            channels: 1024,
            services: 64,
            segments: 4096,
            grants: 256,
            waiting: 256,
        }
    }
}

/// Process or user that objects are counted for.
///
/// All connections of one process count together. All processes of a user other than the manager's user also count
/// together, because otherwise each further process of such a user would get a separate quota. Processes of the
/// manager's user are counted separately, because any of them can kill the others and the manager anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    Process { pid: u32, started: u64 },
    User(u32),
}

/// Kind of object that a holder can have. Each kind except a queue area has a record in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    Connection,
    /// A channel that the holder opened.
    Channel,
    /// A channel that another client opened to the holder's service.
    Served,
    Service,
    Grant,
    Segment {
        bytes: u64,
    },
    Queues {
        bytes: u64,
    },
}

/// Numbers of objects that one holder has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Holdings {
    connections: u32,
    channels: u32,
    served: u32,
    services: u32,
    grants: u32,
    segments: u32,
    bytes: u64,
}

/// All holders, with the objects that each has and the limits that apply to each.
pub(crate) struct Holders {
    limits: HolderLimits,
    quota_bytes: u64,
    /// Size of the whole pool in bytes. If the quota is as large as the pool, the quota is not checked, so that a
    /// request beyond it is reported as a full pool.
    capacity: u64,
    /// Maximum number of connections that one holder may have.
    connections: u32,
    /// Maximum number of channels that one holder may open. It is the holder's share of the channels that one service may have,
    /// because otherwise one client could lock all others out of a service.
    channels: u32,
    /// Maximum number of records in the ledger that one holder may have.
    records: u32,
    /// User of the manager.
    user: u32,
    of: BTreeMap<Holder, Holdings>,
}

impl Holders {
    /// Makes limits by which each holder may have `quota_bytes` of the `capacity`, and the same share of all
    /// connections, of the channels of a service and of the ledger's `slots`.
    pub(crate) fn new(limits: HolderLimits, quota_bytes: u64, capacity: u64, slots: usize) -> Holders {
        let share = |whole: u64| {
            let part = u128::from(whole) * u128::from(quota_bytes) / u128::from(capacity.max(1));
            u32::try_from(part.max(1)).unwrap_or(u32::MAX)
        };
        Holders {
            limits,
            quota_bytes,
            capacity,
            connections: share(limits.clients.into()),
            channels: share(limits.channels.into()),
            records: share(slots as u64),
            user: rustix::process::geteuid().as_raw(),
            of: BTreeMap::new(),
        }
    }

    /// Returns the configured limits.
    pub(crate) fn limits(&self) -> &HolderLimits {
        &self.limits
    }

    /// Returns the most bytes that one holder may have.
    pub(crate) fn quota_bytes(&self) -> u64 {
        self.quota_bytes
    }

    /// Returns the holder that a process's connection counts for.
    pub(crate) fn holder_of(&self, peer: &PeerProcess, started: u64) -> Holder {
        match peer.uid == self.user {
            true => Holder::Process { pid: peer.pid, started },
            false => Holder::User(peer.uid),
        }
    }

    /// Returns the bytes that count against a holder's quota.
    pub(crate) fn bytes_of(&self, holder: Holder) -> u64 {
        self.of.get(&holder).map_or(0, |holdings| holdings.bytes)
    }

    /// Counts one more object for a holder, or returns a denial if that exceeds the quota or a limit.
    pub(crate) fn take(&mut self, holder: Holder, thing: Holding) -> Result<(), Denied> {
        let mut then = self.of.get(&holder).copied().unwrap_or_default();
        let held_bytes = then.bytes;
        then.add(thing);
        if thing.bytes() > 0 && self.quota_bytes < self.capacity && then.bytes > self.quota_bytes {
            let (asked_bytes, quota_bytes) = (thing.bytes(), self.quota_bytes);
            return Err(Denied::Quota { whose: holder.whose(), asked_bytes, held_bytes, quota_bytes });
        }
        match self.limit_of(thing, &then) {
            Some((what, most)) => Err(Denied::Limit { what, most }),
            None => {
                self.of.insert(holder, then);
                Ok(())
            }
        }
    }

    /// Counts all of these objects, or none of them if one is denied.
    pub(crate) fn take_all(&mut self, things: &[(Holder, Holding)]) -> Result<(), Denied> {
        for (at, &(holder, thing)) in things.iter().enumerate() {
            if let Err(denied) = self.take(holder, thing) {
                things[..at].iter().for_each(|&(holder, thing)| self.give(holder, thing));
                return Err(denied);
            }
        }
        Ok(())
    }

    /// Returns the limit that the new holdings would exceed, or `None`.
    fn limit_of(&self, thing: Holding, then: &Holdings) -> Option<(Limited, u32)> {
        let (count, what, most) = match thing {
            Holding::Connection => (then.connections, Limited::Connections, self.connections),
            Holding::Channel => (then.channels, Limited::Channels, self.channels),
            Holding::Served => (then.served, Limited::Served, self.limits.channels),
            Holding::Service => (then.services, Limited::Services, self.limits.services),
            Holding::Segment { .. } => (then.segments, Limited::Segments, self.limits.segments),
            // Grants are limited per channel, in `State::grant`.
            Holding::Grant => (0, Limited::Grants, self.limits.grants),
            Holding::Queues { .. } => return None,
        };
        match count > most {
            true => Some((what, most)),
            false => (then.records() > self.records).then_some((Limited::Records, self.records)),
        }
    }

    /// Counts an existing object, regardless of limits.
    pub(crate) fn note(&mut self, holder: Holder, thing: Holding) {
        self.of.entry(holder).or_default().add(thing);
    }

    /// Removes one object from the count of a holder.
    pub(crate) fn give(&mut self, holder: Holder, thing: Holding) {
        let holdings = self.of.get_mut(&holder).expect("who gives something back has it");
        holdings.remove(thing);
        if *holdings == Holdings::default() {
            self.of.remove(&holder);
        }
    }
}

impl Holder {
    fn whose(self) -> QuotaHolder {
        match self {
            Holder::Process { .. } => QuotaHolder::Process,
            Holder::User(user) => QuotaHolder::User(user),
        }
    }
}

impl Holding {
    fn bytes(self) -> u64 {
        match self {
            Holding::Segment { bytes } | Holding::Queues { bytes } => bytes,
            _ => 0,
        }
    }
}

impl Holdings {
    fn count(&mut self, thing: Holding) -> Option<&mut u32> {
        match thing {
            Holding::Connection => Some(&mut self.connections),
            Holding::Channel => Some(&mut self.channels),
            Holding::Served => Some(&mut self.served),
            Holding::Service => Some(&mut self.services),
            Holding::Grant => Some(&mut self.grants),
            Holding::Segment { .. } => Some(&mut self.segments),
            Holding::Queues { .. } => None,
        }
    }

    fn add(&mut self, thing: Holding) {
        self.bytes = self.bytes.saturating_add(thing.bytes());
        if let Some(count) = self.count(thing) {
            *count += 1;
        }
    }

    fn remove(&mut self, thing: Holding) {
        self.bytes -= thing.bytes();
        if let Some(count) = self.count(thing) {
            *count -= 1;
        }
    }

    fn records(&self) -> u32 {
        self.connections + self.channels + self.served + self.services + self.grants + self.segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECTION;
    use crate::wire::ClientId;
    use proptest::prelude::*;

    fn holders() -> Holders {
        Holders::new(HolderLimits { clients: 8, ..HolderLimits::default() }, 4 * SECTION, 8 * SECTION, 40)
    }

    fn peer(pid: u32, uid: u32) -> PeerProcess {
        PeerProcess { id: ClientId(1), pid, uid, gid: 0, name: "x".into() }
    }

    #[test]
    fn connections_of_a_process_count_together_and_processes_of_another_user_too() {
        let holders = holders();
        let own = holders.user;
        let other = own.wrapping_add(1);
        assert_eq!(holders.holder_of(&peer(7, own), 1), holders.holder_of(&peer(7, own), 1));
        assert_ne!(holders.holder_of(&peer(7, own), 1), holders.holder_of(&peer(8, own), 1));
        assert_ne!(holders.holder_of(&peer(7, own), 1), holders.holder_of(&peer(7, own), 2));
        assert_eq!(holders.holder_of(&peer(7, other), 1), holders.holder_of(&peer(8, other), 2));
    }

    #[test]
    fn shares_of_connections_and_of_the_ledger_are_those_of_memory() {
        let mut holders = holders();
        let (one, other) = (Holder::User(1), Holder::User(2));
        (0..4).for_each(|_| holders.take(one, Holding::Connection).unwrap());
        let denied = holders.take(one, Holding::Connection);
        assert_eq!(denied, Err(Denied::Limit { what: Limited::Connections, most: 4 }));
        (0..16).for_each(|_| holders.take(one, Holding::Channel).unwrap());
        let denied = holders.take(one, Holding::Grant);
        assert_eq!(denied, Err(Denied::Limit { what: Limited::Records, most: 20 }));
        assert_eq!(holders.take(other, Holding::Connection), Ok(()));
    }

    fn thing() -> impl Strategy<Value = Holding> {
        prop_oneof![
            Just(Holding::Connection),
            Just(Holding::Channel),
            Just(Holding::Served),
            Just(Holding::Service),
            Just(Holding::Grant),
            (0u64..4).prop_map(|sections| Holding::Segment { bytes: sections * SECTION }),
            Just(Holding::Queues { bytes: 65536 }),
        ]
    }

    proptest! {
        /// Checks for any order of taking and giving that no holder exceeds its quota, and that no holder has any
        /// object left at the end.
        #[test]
        fn nobody_has_more_than_the_quota(steps in prop::collection::vec((0u32..3, thing(), any::<bool>()), 0..200)) {
            let mut holders = holders();
            let mut held: Vec<(Holder, Holding)> = Vec::new();
            for (user, thing, give) in steps {
                let holder = Holder::User(user);
                match held.pop() {
                    Some((holder, thing)) if give => holders.give(holder, thing),
                    last => held.extend(last),
                }
                let before = holders.bytes_of(holder);
                match holders.take(holder, thing) {
                    Ok(()) => held.push((holder, thing)),
                    Err(Denied::Quota { held_bytes, asked_bytes, quota_bytes, .. }) => {
                        prop_assert_eq!((held_bytes, quota_bytes), (before, 4 * SECTION));
                        prop_assert!(before + asked_bytes > quota_bytes);
                    }
                    Err(_) => prop_assert_eq!(holders.bytes_of(holder), before),
                }
                prop_assert!(holders.bytes_of(holder) <= 4 * SECTION);
            }
            for (holder, thing) in held {
                holders.give(holder, thing);
            }
            prop_assert!(holders.of.is_empty());
        }
    }
}
