//! One direction of a link.

use std::collections::VecDeque;
use unrack_engine::events::LinkId;
use unrack_protocol::cxl::{FlitTransmitter, Line, Params};
use unrack_units::Time;

pub(super) struct Link {
    pub id: LinkId,
    pub sender: Sender,
    pub receiver: Receiver,
    /// Transmission time of one flit.
    pub flit: Time,
    pub propagation: Time,
    /// Latency of the node's port at one end; zero between switches.
    pub port: Time,
    /// Time from the end of a flit until its content can be used at the other end.
    pub latency: Time,
    pub transmitter: FlitTransmitter,
    /// Messages that were sent and have not arrived, with their times of arrival. The time of a run is that of its first line.
    pub wire: VecDeque<(Time, Line)>,
    /// End of the flit in transmission.
    pub free_at: Time,
    /// Time of the next scheduled flit; `MAX` if none is scheduled.
    pub wake_at: Time,
    /// Start of the flit that carries the first slot of the line in transmission.
    pub began: Time,
    /// Time spent on retransmissions since `began`.
    pub repeated: Time,
}

/// Device that sends on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    Node(u16),
    Output { switch: u32, port: u16 },
}

/// Device that receives from a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    Node(u16),
    Input { switch: u32, port: u16 },
}

impl Link {
    /// Creates a link on which a flit takes `flit`.
    pub(super) fn new(
        id: LinkId,
        (sender, receiver): (Sender, Receiver),
        (flit, propagation): (Time, Time),
        params: &Params,
        (run, slowest): (u32, Time),
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
            transmitter: FlitTransmitter::new((params.flit.slots(), flit, slowest), params.buffers(), run),
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
