//! Limit of the bytes that a switch may hold of one link before it asks the sender at the far end of the link to pause.
//!
//! Each link of a switch has *headroom* for the packets that still arrive after this request. If each port has a separate buffer, the link
//! may use the rest of that buffer. If the switch has a shared buffer, the headroom of all links is set aside, the links share the rest,
//! and each link may hold alpha times the free part of the rest. This is DCQCN §4, whose dynamic threshold is
//! `beta (B - 8 n t_flight - s) / 8` with beta = 8, hence alpha = 1. (The 8 is the number of priorities; here only one is paused.) The
//! sender of a paused link resumes when the switch holds no bytes of the link, or when these bytes are more than two full packets below the
//! threshold.
//!
//! Therefore no packet is dropped. When a packet comes by a link whose sender has not been asked to pause, the bytes that the switch holds
//! of that link are at most alpha times the free bytes, so that the free bytes are not below 0. Later packets fit in the headroom of the
//! link.

use crate::fabric::stream::StreamPlan;
use crate::site::SwitchBuffer;
use unrack_engine::error::SetupError;
use unrack_engine::topology::Link;
use unrack_units::Bytes;

/// Bytes of a pause frame on the wire: the shortest Ethernet frame, with preamble and gap.
pub(super) const FRAME: u64 = 64 + 8 + 12;

pub(super) struct PfcHeadroom {
    buffer: SwitchBuffer,
    /// Headroom of each link, in bytes.
    bytes: u64,
    /// Bytes of two full packets.
    step: u64,
    /// For each switch, the bytes that its links share, and the bytes that they hold together. Empty if each port has a separate buffer.
    shared: Vec<(u64, u64)>,
}

impl PfcHeadroom {
    /// Computes the headroom of the links of a network.
    ///
    /// # Errors
    /// If the buffer has no room for the headroom and two packets.
    pub(super) fn new(plan: &StreamPlan) -> Result<PfcHeadroom, SetupError> {
        let (topology, full) = (&plan.network.topology, plan.full_packet().get());
        // The pause frame waits for the packet that is being sent on the link back, crosses the link, and takes effect after the packet
        // that its receiver is sending. By then, all packets on the link and in the switch's pipeline still arrive, and so does a packet
        // that is stored completely at the end of the link.
        let headroom = |link: Link| {
            let time = link.propagation * 2 + plan.network.switch_latency;
            link.pace.bytes_in(time) + 1 + 3 * full + FRAME
        };
        let bytes = headroom(topology.host_link()).max(headroom(topology.core_link()));
        let step = 2 * full;
        let refuse = |size: Bytes, links: u64| {
            let rule = "has room for two packets and the headroom of pauses";
            let is = format!("{size}, and {} is needed", Bytes::new(bytes * links + step));
            SetupError::new("network.switch.buffer", rule, is)
        };
        let rest = |size: Bytes, links: u64| match size.get().checked_sub(bytes * links) {
            Some(rest) if rest >= step => Ok((rest, 0)),
            _ => Err(refuse(size, links)),
        };
        let shared = match plan.buffer {
            SwitchBuffer::Private(size) => rest(size, 1).map(|_| Vec::new())?,
            SwitchBuffer::Shared { size, .. } => {
                let mut links = vec![0; topology.switches() as usize];
                (0..topology.ports()).for_each(|port| links[topology.owner(port) as usize] += 1);
                links.into_iter().map(|links| rest(size, links)).collect::<Result<_, _>>()?
            }
        };
        Ok(PfcHeadroom { buffer: plan.buffer, bytes, step, shared })
    }

    /// Returns whether the sender of a link of this switch must pause now. `held`: the bytes that the switch holds of the link. `asked`:
    /// whether the sender has already been asked to pause.
    pub(super) fn asks(&self, switch: u32, held: u64, asked: bool) -> bool {
        let above = match self.buffer {
            SwitchBuffer::Private(size) => size.get() - self.bytes,
            SwitchBuffer::Shared { alpha, .. } => {
                let (size, used) = self.shared[switch as usize];
                (alpha * size.saturating_sub(used) as f64) as u64
            }
        };
        if asked { held > 0 && held + self.step >= above } else { held > above }
    }

    /// Returns whether this switch has room for a packet of `wire` bytes from a link of which it holds `held` bytes.
    pub(super) fn takes(&self, switch: u32, held: u64, wire: u64) -> bool {
        match self.buffer {
            SwitchBuffer::Private(size) => held + wire <= size.get(),
            SwitchBuffer::Shared { size, .. } => self.shared[switch as usize].1 + wire <= size.get(),
        }
    }

    /// Counts bytes that start to wait at a switch.
    pub(super) fn came(&mut self, switch: u32, wire: u64) {
        if let Some((_, used)) = self.shared.get_mut(switch as usize) {
            *used += wire;
        }
    }

    pub(super) fn left(&mut self, switch: u32, wire: u64) {
        if let Some((_, used)) = self.shared.get_mut(switch as usize) {
            *used -= wire;
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.shared.iter().all(|(_, used)| *used == 0)
    }
}
