//! One direction of a link.

use std::collections::VecDeque;
use unrack_protocol::cxl::{Line, Params, Transmitter};
use unrack_units::Time;

pub(super) struct Link {
    pub transmitter: Transmitter,
    /// Messages sent and not arrived, with their time of arrival.
    pub wire: VecDeque<(Time, Line)>,
    /// The flit in which the message that is midway began.
    pub began: Time,
    /// The flit under way ends.
    pub free_at: Time,
    /// When the next flit is due to be tried; `MAX`: when something comes.
    pub wake_at: Time,
}

impl Link {
    pub(super) fn new(params: &Params) -> Link {
        Link {
            transmitter: Transmitter::new(params.flit.slots(), params.credits),
            wire: VecDeque::new(),
            began: Time::ZERO,
            free_at: Time::ZERO,
            wake_at: Time::MAX,
        }
    }

    pub(super) fn pop_arrived(&mut self, now: Time) -> Option<Line> {
        let (at, line) = *self.wire.front()?;
        if at > now {
            return None;
        }
        self.wire.pop_front();
        Some(line)
    }
}
