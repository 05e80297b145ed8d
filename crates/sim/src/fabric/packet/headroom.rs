//! How much of what came by one link a switch holds before it asks the sender at its other end to pause.
//!
//! Each link of a switch has *headroom* for what still comes after that. With a buffer for each port the rest of it is the
//! link's. With a shared one, the headroom of all links is set aside, the links share the rest, and a link may hold
//! alpha times what of that is free: DCQCN §4, whose dynamic threshold is beta (B - 8 n t_flight - s) / 8 with beta = 8,
//! hence alpha = 1. (Its 8 are priorities; here one is paused.) What was asked to pause goes on when two full packets
//! less than the threshold wait, or nothing.
//!
//! So nothing is dropped: whoever is not asked to pause when a packet comes holds at most alpha times what is free, which
//! is not below 0 then; what comes after is in the headroom of its link.

use crate::error::SetupError;
use crate::fabric::buffer::Buffer;
use crate::fabric::stream::Plan;
use crate::topology::Link;
use unrack_units::Bytes;

/// A pause frame on the wire: the shortest there is, with preamble and gap.
pub(super) const FRAME: u64 = 64 + 8 + 12;

pub(super) struct Headroom {
    buffer: Buffer,
    /// Of a link.
    bytes: u64,
    /// Two full packets.
    step: u64,
    /// By switch: what its links share, and what all hold, if they share a buffer.
    shared: Vec<(u64, u64)>,
}

impl Headroom {
    /// # Errors
    /// If there is no room for the headroom and two packets.
    pub(super) fn new(plan: &Plan) -> Result<Headroom, SetupError> {
        let (topology, full) = (&plan.network.topology, plan.full_packet().get());
        // A frame waits for a packet under way, crosses the link, and finds a packet under way there; what is
        // on the link and in the switch's pipeline by then comes, and a packet at its end that stores first.
        let headroom = |link: Link| {
            let time = link.propagation * 2 + plan.network.switch_latency;
            link.pace.bytes_in(time) + 1 + 3 * full + FRAME
        };
        let bytes = headroom(topology.host_link()).max(headroom(topology.core_link()));
        let step = 2 * full;
        let refuse = |size: Bytes, links: u64| {
            let rule = "has room for two packets and the headroom of pauses";
            let is = format!("{size}, and {} is needed", Bytes::new(bytes * links + step));
            SetupError::new("switch.buffer", rule, is)
        };
        let rest = |size: Bytes, links: u64| match size.get().checked_sub(bytes * links) {
            Some(rest) if rest >= step => Ok((rest, 0)),
            _ => Err(refuse(size, links)),
        };
        let shared = match plan.buffer {
            Buffer::Private(size) => rest(size, 1).map(|_| Vec::new())?,
            Buffer::Shared { size, .. } => {
                let mut links = vec![0; topology.switches() as usize];
                (0..topology.ports()).for_each(|port| links[topology.owner(port) as usize] += 1);
                links.into_iter().map(|links| rest(size, links)).collect::<Result<_, _>>()?
            }
        };
        Ok(Headroom { buffer: plan.buffer, bytes, step, shared })
    }

    /// Whether a link of this switch that holds so much, and may have been asked to pause, is to pause now.
    pub(super) fn asks(&self, switch: u32, held: u64, asked: bool) -> bool {
        let above = match self.buffer {
            Buffer::Private(size) => size.get() - self.bytes,
            Buffer::Shared { alpha, .. } => {
                let (size, used) = self.shared[switch as usize];
                (alpha * size.saturating_sub(used) as f64) as u64
            }
        };
        if asked { held > 0 && held + self.step >= above } else { held > above }
    }

    /// Whether there is room at this switch, by one of whose links, that holds so much, a packet has come.
    pub(super) fn takes(&self, switch: u32, held: u64, wire: u64) -> bool {
        match self.buffer {
            Buffer::Private(size) => held + wire <= size.get(),
            Buffer::Shared { size, .. } => self.shared[switch as usize].1 + wire <= size.get(),
        }
    }

    /// What waits at a switch has grown.
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
