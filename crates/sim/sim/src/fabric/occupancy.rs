//! Bytes that wait at all ports of a switch, for fabrics without an event for the departure of each packet.
//!
//! The bytes that wait at a port follow from the time until the port is free. For each switch, the sum over its busy ports is kept as the
//! sum of the times at which they will be free. Ports that have become idle are removed when the room of a port is requested, in order of
//! that time. Each busy port has one entry in that order. If the port is still busy when the time of its entry has come, the entry is
//! inserted again with the new time.

use super::buffer::QueueRoom;
use crate::site::SwitchBuffer;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use unrack_engine::network::Pace;
use unrack_engine::topology::Topology;
use unrack_units::Time;

pub(in crate::fabric) struct Occupancy {
    size: u64,
    alpha: f64,
    /// All distinct paces of ports.
    paces: Vec<Pace>,
    /// State of each port.
    ports: Vec<QueueSlot>,
    switches: Vec<Busy>,
}

struct QueueSlot {
    switch: u32,
    /// Index in `paces`.
    class: u8,
    free_at: Time,
}

struct Busy {
    /// Entries of busy ports, in order of the times at which the ports were expected to be free.
    ends: BinaryHeap<Reverse<(Time, u32)>>,
    /// For each pace: the number of busy ports, and the sum of the times at which they will be free, in ps.
    sums: Vec<(u64, u128)>,
}

impl Occupancy {
    /// Creates the state, or returns `None` if each port has a separate buffer.
    pub(in crate::fabric) fn new(buffer: SwitchBuffer, topology: &Topology) -> Option<Occupancy> {
        let SwitchBuffer::Shared { size, alpha } = buffer else { return None };
        let mut paces = Vec::new();
        let place = |port| {
            let pace = topology.link(port).pace;
            let known = paces.iter().position(|other| *other == pace);
            let class = known.unwrap_or_else(|| {
                paces.push(pace);
                paces.len() - 1
            });
            QueueSlot { switch: topology.owner(port), class: class as u8, free_at: Time::ZERO }
        };
        let ports = (0..topology.ports()).map(place).collect();
        let busy = |_| Busy { ends: BinaryHeap::new(), sums: vec![(0, 0); paces.len()] };
        Some(Occupancy {
            size: size.get(),
            alpha,
            ports,
            switches: (0..topology.switches()).map(busy).collect(),
            paces,
        })
    }

    /// Returns the room that a queue at this port has. `now` must not be earlier than in a previous call.
    pub(in crate::fabric) fn room(&mut self, port: u32, now: Time) -> QueueRoom {
        let used = self.used(port, now);
        QueueRoom::Shared { free: self.size.saturating_sub(used), alpha: self.alpha }
    }

    /// Returns the bytes that wait at the switch of this port, plus the unsent rest of the packets on its links.
    fn used(&mut self, port: u32, now: Time) -> u64 {
        let Busy { ends, sums } = &mut self.switches[self.ports[port as usize].switch as usize];
        while let Some(&Reverse((end, port))) = ends.peek()
            && end <= now
        {
            ends.pop();
            let QueueSlot { class, free_at, .. } = self.ports[port as usize];
            if free_at > now {
                ends.push(Reverse((free_at, port)));
            } else {
                let (busy, sum) = &mut sums[usize::from(class)];
                (*busy, *sum) = (*busy - 1, *sum - u128::from(free_at.as_ps()));
            }
        }
        let bytes = |(pace, (busy, sum)): (&Pace, &(u64, u128))| {
            let left = sum - u128::from(*busy) * u128::from(now.as_ps());
            pace.bytes_in(Time::from_ps(left as u64))
        };
        self.paces.iter().zip(sums.iter()).map(bytes).sum()
    }

    /// Records that a packet was queued at this port, so that the port will be free at `free_at`. The caller must have called
    /// [`Occupancy::room`] for the same time before.
    pub(in crate::fabric) fn queued(&mut self, port: u32, now: Time, free_at: Time) {
        let place = &mut self.ports[port as usize];
        let before = std::mem::replace(&mut place.free_at, free_at);
        let Busy { ends, sums } = &mut self.switches[place.switch as usize];
        let (busy, sum) = &mut sums[usize::from(place.class)];
        *sum += u128::from(free_at.as_ps());
        match before > now {
            true => *sum -= u128::from(before.as_ps()),
            false => {
                *busy += 1;
                ends.push(Reverse((free_at, port)));
            }
        }
        debug_assert!(self.used(port, now) <= self.size, "more waits than there is room for");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unrack_engine::topology::Link;
    use unrack_units::{Bytes, Rate};

    fn link(gbps: u64) -> Link {
        Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::ZERO }
    }

    proptest! {
        /// Checks against the sum over all ports, packet by packet.
        #[test]
        fn it_is_the_sum_of_what_waits(
            steps in prop::collection::vec((0u64..3_000, 0u32..12, 1u64..2_000), 1..300),
            fast in prop::sample::select(vec![100u64, 400]),
        ) {
            let topology = Topology::leaf_spine(2, 3, 2, link(100), link(fast));
            let mut occupancy =
                Occupancy::new(SwitchBuffer::Shared { size: Bytes::new(1 << 40), alpha: 1.0 }, &topology).unwrap();
            let ports = topology.ports();
            let (mut now, mut free_at) = (Time::ZERO, vec![Time::ZERO; ports as usize]);
            for (later, port, bytes) in steps {
                now += Time::from_ns(later / 10);
                let port = port % ports;
                let used = occupancy.used(port, now);
                let waiting: u64 = (0..ports)
                    .filter(|other| topology.owner(*other) == topology.owner(port))
                    .map(|other| free_at[other as usize].saturating_sub(now).as_ps().div_ceil(
                        8_000 / topology.link(other).pace.rate().as_bps().div_ceil(1_000_000_000)))
                    .sum();
                prop_assert!(used <= waiting && waiting <= used + u64::from(ports), "{used} of {waiting}");
                let at = &mut free_at[port as usize];
                *at = (*at).max(now) + topology.link(port).pace.transmit(bytes);
                occupancy.queued(port, now, *at);
            }
            let end = *free_at.iter().max().unwrap();
            for port in 0..ports {
                prop_assert_eq!(occupancy.used(port, end), 0);
            }
        }
    }
}
