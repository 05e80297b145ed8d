//! TCP connections. A [`Sender`] handles selective acknowledgements and has a retransmission timer. A [`Receiver`] reassembles and
//! acknowledges the segments. An implementation of the [`CongestionControl`] trait decides how many segments may be in flight; the other
//! parts are the same for every congestion control.
//!
//! Sequence numbers and windows count segments instead of bytes; Linux counts its congestion window in segments too. A stream is a sequence
//! of segments numbered from 0. It carries one or several messages; the caller divides their bytes into segments ([`Framing`]). Connections
//! are established when they are created: there is no SYN and no FIN. A reused connection carries one stream after the other ([`Resting`]),
//! each numbered from 0.
//!
//! A driver is the code that connects these state machines to a network. After every event, it makes the following calls in this order:
//! 1. `handle_*`, with the current time;
//! 2. [`Sender::poll_transmit`] or [`Receiver::poll_ack`] until it returns `None`;
//! 3. `poll_timeout`, for which the driver arms one timer.

mod control;
mod ends;
mod framing;
mod loss_based;
#[cfg(test)]
pub(crate) mod pair;
mod params;
mod ranges;
mod reassembly;
mod receiver;
mod resting;
mod rto;
mod scoreboard;
mod sender;
#[cfg(test)]
mod tail_loss;

pub use crate::silence::MOST_TIMEOUTS;
pub use control::{Acked, CongestionControl, IdlePeriod, Outstanding};
pub use ends::{OneSubflow, ReceivingEnd, SendingEnd, StreamSignal, SubflowSet};
pub use framing::Framing;
pub use loss_based::LossBased;
pub use params::{Congestion, ConnectionLifetime, Params};
pub(crate) use reassembly::Reassembly;
pub use receiver::Receiver;
pub use resting::Resting;
pub use sender::{Sender, Timeouts};

use std::ops::Range;
use unrack_units::Time;

/// Header of a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub number: u32,
    /// Time when this copy was sent (RFC 7323: TSval).
    pub sent: Time,
}

/// Header of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Number of the next segment that the receiver expects. All segments with lower numbers have arrived.
    pub next: u32,
    /// Echo of [`Segment::sent`] of the acknowledged segment (RFC 7323: TSecr).
    pub echo: Time,
    /// ECN echo: whether the network marked the segments that this packet acknowledges (RFC 8257 §3.2).
    pub marked: bool,
    pub sack: Sack,
}

/// Selective acknowledgement: up to three ranges of segments above [`Ack::next`] that have arrived. TCP's option field has no room for more
/// than three ranges and a timestamp (RFC 2018 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sack {
    /// Ranges as (start, end); an empty pair ends the list.
    blocks: [(u32, u32); 3],
}

impl Sack {
    /// No ranges.
    pub const NONE: Sack = Sack { blocks: [(0, 0); 3] };

    /// Returns whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.blocks[0].0 == self.blocks[0].1
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        if self.is_empty() { 0 } else { self.blocks().count() }
    }

    /// Returns the ranges.
    pub fn blocks(&self) -> impl Iterator<Item = Range<u32>> {
        self.blocks.iter().take_while(|(start, end)| start < end).map(|&(start, end)| start..end)
    }

    fn from_ranges<'a>(ranges: impl Iterator<Item = &'a Range<u32>>) -> Sack {
        let mut sack = Sack::NONE;
        for (block, range) in sack.blocks.iter_mut().zip(ranges) {
            *block = (range.start, range.end);
        }
        sack
    }
}
