//! Links that fail: which flits are retransmitted, and which are lost.
//!
//! The sender of CXL's link layer (CXL 3.x §4.2.8) keeps each flit until it is acknowledged. A receiver that finds a wrong CRC requests the
//! flit again and drops all flits after it, which are retransmitted too. Therefore the link loses the time until the request has come back.
//! A link that is down for a while keeps the flits that it has to send. After [`MAX_RETRIES`] the sender gives up, as its retry state
//! machine does when its counters reach their maxima: without a maximum, a link on which no flit arrives would be tried for ever.

use super::{Cxl, Event, Freed, Link, is_data, looks, payload};
use std::ops::Range;
use unrack_engine::events::{Core, Observer};
use unrack_engine::network::Departure;
use unrack_protocol::cxl::MessageClass;
use unrack_units::Time;
use unrack_workload::MessageId;

/// Retransmissions of one flit: ten, and ten more after each of ten times that the link is trained again (CXL 3.x §4.2.8.5, the least
/// values of `MAX_NUM_RETRY` and `MAX_NUM_PHY_REINIT`).
// The two values are from memory; we could not check them in the text of the specification.
// Departure: no time passes while the link is trained, and a flit that is given up does not take the link down with it.
const MAX_RETRIES: u32 = 110;

impl Cxl {
    /// Returns when the flits from `start` to `end` have arrived without error, or `None` if the link stays down permanently or the
    /// sender gives up. If the network has faults, these are a single flit.
    pub(super) fn through(&self, link: u32, start: Time, end: Time) -> Option<Time> {
        let Link { id, flit, propagation, port, .. } = self.links[link as usize];
        let Some(faults) = self.topology.faults() else { return Some(end) };
        // The flit has to arrive, and the request to repeat it has to come back.
        let again = flit + (propagation + port) * 2 + flit;
        let mut first = start;
        for _ in 0..=MAX_RETRIES {
            let crossing = Departure { first, last: first + flit };
            if !self.topology.loses(id, crossing) {
                return Some(crossing.last);
            }
            first = faults.up_again(id, first + again)?;
        }
        None
    }

    /// Drops the last lines of `link`. The requesting node gets an error instead, at once.
    // Departure: CXL reports this error after a timeout of some milliseconds (CXL 3.x §12.3, isolation).
    pub(super) fn lose<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32, lost: Range<usize>) {
        for _ in lost {
            let wire = &mut self.links[link as usize].wire;
            let (_, line) = wire.pop_back().expect("the last lines are lost");
            self.freed.push(Freed::arrived(link, &line, core.now()));
            let id = MessageId(line.message);
            let message = *core.message(id);
            let progress = &mut self.progress[id.index()];
            if is_data(&line) {
                core.dropped(id, payload(&message, progress.arrived + progress.dropped, &line), || {
                    looks(&line)
                });
                progress.dropped += 1;
            } else if line.class != MessageClass::Ndr && !std::mem::replace(&mut progress.asked, true) {
                core.dropped(id, u64::from(message.request), || looks(&line));
            }
            let asker =
                if matches!(line.class, MessageClass::Req | MessageClass::RwD) { line.src } else { line.dst };
            self.nodes[usize::from(asker)].handle_loss();
            if line.class != MessageClass::Ndr {
                core.give_up(id);
            }
            if !self.waiting(u32::from(asker)).is_empty() {
                self.wake(core, u32::from(asker), core.now().max(self.links[usize::from(asker)].free_at));
            }
        }
    }
}
