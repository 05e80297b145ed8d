//! One direction of a link.

use crate::engine::LinkId;
use std::collections::VecDeque;
use unrack_protocol::cxl::{Line, Params, Transmitter};
use unrack_units::Time;

pub(super) struct Link {
    pub id: LinkId,
    pub sender: Sender,
    pub receiver: Receiver,
    /// Time of one flit.
    pub flit: Time,
    pub propagation: Time,
    /// What the port of the node at its one end adds, if there is one.
    pub port: Time,
    /// From the end of a flit until what it carries can be used at the other end.
    pub latency: Time,
    pub transmitter: Transmitter,
    /// Messages sent and not arrived, with their time of arrival.
    pub wire: VecDeque<(Time, Line)>,
    /// The flit under way ends.
    pub free_at: Time,
    /// When the next flit is due to be tried; `MAX`: when something comes.
    pub wake_at: Time,
    /// The flit that carries the first slot of a line that is midway began.
    pub began: Time,
    /// Time of repetitions since then.
    pub repeated: Time,
}

/// Who sends on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    Node(u16),
    Output { switch: u32, port: u16 },
}

/// Whom a link leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    Node(u16),
    Input { switch: u32, port: u16 },
}

impl Link {
    /// A link that takes `flit` for a flit.
    pub(super) fn new(
        id: LinkId,
        (sender, receiver): (Sender, Receiver),
        (flit, propagation): (Time, Time),
        params: &Params,
    ) -> Link {
        let hop = match receiver {
            Receiver::Input { .. } => params.hop,
            Receiver::Node(_) => Time::ZERO,
        };
        let port = match (sender, receiver) {
            (Sender::Output { .. }, Receiver::Input { .. }) => Time::ZERO,
            _ => params.port,
        };
        Link {
            id,
            sender,
            receiver,
            flit,
            propagation,
            port,
            latency: propagation + port + hop,
            transmitter: Transmitter::new(params.flit.slots(), params.credits),
            wire: VecDeque::new(),
            free_at: Time::ZERO,
            wake_at: Time::MAX,
            began: Time::ZERO,
            repeated: Time::ZERO,
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
