//! Switch buffers for waiting packets: one for each port, or one that all ports of a switch share. A shared buffer has the dynamic
//! threshold of Choudhury and Hahne (Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, IEEE/ACM Transactions on Networking
//! 6(2), 1998): a queue may grow while it is shorter than alpha times the free space.

use crate::site::SwitchBuffer;

/// Space that a queue may use at this moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueRoom {
    /// Limit of the queue, in bytes.
    Own(u64),
    /// Free bytes of the buffer that the whole switch shares.
    Shared { free: u64, alpha: f64 },
}

impl QueueRoom {
    /// Returns whether a queue of `waiting` bytes may grow by a packet of `wire` bytes.
    pub fn takes(self, waiting: u64, wire: u32) -> bool {
        let wire = u64::from(wire);
        match self {
            QueueRoom::Own(limit) => waiting + wire <= limit,
            // §II: "A queue whose length equals or exceeds the current threshold value may accept no more".
            QueueRoom::Shared { free, alpha } => wire <= free && (waiting as f64) < alpha * free as f64,
        }
    }

    /// Returns the queue length, in bytes, from which on the queue accepts no packet.
    pub fn limit(self) -> u64 {
        match self {
            QueueRoom::Own(limit) => limit,
            QueueRoom::Shared { free, alpha } => (alpha * free as f64) as u64,
        }
    }

    /// Adds the bytes of a packet that has left the queue to the free space.
    pub fn freed(&mut self, bytes: u64) {
        if let QueueRoom::Shared { free, .. } = self {
            *free += bytes;
        }
    }
}

/// Bytes that wait at each switch, for switches whose ports share a buffer.
pub(super) struct Pools {
    size: u64,
    alpha: f64,
    /// Waiting bytes, by switch.
    used: Vec<u64>,
}

impl Pools {
    /// Creates the state, or returns `None` if each port has a separate buffer.
    pub(super) fn new(buffer: SwitchBuffer, switches: u32) -> Option<Pools> {
        let SwitchBuffer::Shared { size, alpha } = buffer else { return None };
        Some(Pools { size: size.get(), alpha, used: vec![0; switches as usize] })
    }

    pub(super) fn room(&self, switch: u32) -> QueueRoom {
        QueueRoom::Shared { free: self.size - self.used[switch as usize], alpha: self.alpha }
    }

    /// Records that the bytes waiting at a port of this switch changed from `before` to `now`.
    pub(super) fn changed(&mut self, switch: u32, before: u64, now: u64) {
        let used = &mut self.used[switch as usize];
        *used = *used + now - before;
        debug_assert!(*used <= self.size, "more waits than there is room for");
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.used.iter().all(|used| *used == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unrack_units::Bytes;

    #[test]
    fn a_lone_queue_grows_to_its_share() {
        for alpha in [0.25, 1.0, 8.0] {
            let buffer = SwitchBuffer::Shared { size: Bytes::new(1_000_000), alpha };
            let mut pools = Pools::new(buffer, 1).unwrap();
            let mut waiting = 0;
            while pools.room(0).takes(waiting, 100) {
                pools.changed(0, waiting, waiting + 100);
                waiting += 100;
            }
            let share = buffer.of_port().get();
            assert!((share..share + 200).contains(&waiting), "{alpha}: {waiting} of {share}");
        }
    }

    proptest! {
        /// N queues that are always offered more packets end up with alpha / (1 + N alpha) of the buffer each (§III, eq. 3).
        #[test]
        fn greedy_queues_share_alike(queues in 1usize..20, alpha in 0.1f64..4.0) {
            let mut pools = Pools::new(SwitchBuffer::Shared { size: Bytes::new(1_000_000), alpha }, 1).unwrap();
            let mut waiting = vec![0u64; queues];
            let mut grown = true;
            while std::mem::take(&mut grown) {
                for bytes in &mut waiting {
                    if pools.room(0).takes(*bytes, 10) {
                        pools.changed(0, *bytes, *bytes + 10);
                        (*bytes, grown) = (*bytes + 10, true);
                    }
                }
            }
            let share = 1e6 * alpha / (1.0 + queues as f64 * alpha);
            for bytes in waiting {
                prop_assert!((bytes as f64 - share).abs() < 20.0 + 10.0 * queues as f64, "{bytes} of {share}");
            }
        }
    }
}
