//! Flows that a node sends.

use super::{Event, LiveState, Node, NodeServices, Packet, SourceFlow};
use unrack_protocol::r2c2::node;
use unrack_protocol::r2c2::packet::{DATA_HEADER, Data, MASK};
use unrack_units::Time;

pub(super) struct FlowSending {
    /// Number of the flow's message in its [`Event`]s.
    message: u32,
    pub retransmissions: u32,
    pub flow: node::Flow,
}

impl Node {
    /// Sends `bytes` bytes to node `dst`. `message` is the number of the message in its [`Event`]s.
    pub(crate) fn submit(
        &mut self,
        now: Time,
        message: u32,
        dst: u32,
        bytes: u64,
        around: &mut impl NodeServices,
    ) {
        let Some(number) = self.own.next_number() else {
            return around.happened(now, Event::GivenUp { message, retransmissions: 0 });
        };
        let me = self.own.me;
        let (core, mut driven) = self.at(now, around);
        let flow = core.open(&mut driven, number, dst, bytes);
        driven.own.sending.insert(number, FlowSending { message, retransmissions: 0, flow });
        core.start(&mut driven, (me, number));
    }

    /// Handles an acknowledgement.
    pub(super) fn take_ack(&mut self, now: Time, data: Data, packet: Packet, around: &mut impl NodeServices) {
        let mask = <[u8; MASK]>::try_from(&packet[DATA_HEADER..]).map(u64::from_be_bytes);
        let Ok(mask) = mask else { return self.own.refuse(packet, around) };
        around.spare(packet);
        // The acknowledgement may come from another node, or be for a flow that has ended, because a flow's last packets may be
        // acknowledged twice.
        let sending = self.own.sending.get(&data.flow);
        if sending.is_some_and(|sending| sending.flow.told.dst == data.src) {
            let flow = (self.own.me, data.flow);
            let (core, mut driven) = self.at(now, around);
            core.take_ack(&mut driven, flow, (data.seq, mask));
        }
    }

    /// Stops the node and abandons its flows.
    pub(crate) fn die(&mut self, now: Time, around: &mut impl NodeServices) {
        for FlowSending { message, retransmissions, .. } in
            std::mem::take(&mut self.own.sending).into_values()
        {
            around.happened(now, Event::GivenUp { message, retransmissions });
        }
        self.own.bridge.streams.clear();
        self.own.timers.clear();
    }
}

impl LiveState {
    /// Returns the event to report for a flow that was opened.
    pub(super) fn opened(&self, flow: SourceFlow) -> Option<Event> {
        let message = self.sending.get(&flow.1)?.message;
        Some(Event::Opened { message, flow })
    }

    /// Forgets a flow, and returns the event to report for it.
    pub(super) fn closed(&mut self, (_, number): SourceFlow) -> Option<Event> {
        let FlowSending { message, retransmissions, flow } = self.sending.remove(&number)?;
        Some(match flow.transfer.is_done() {
            true => Event::Acknowledged { message, retransmissions },
            false => Event::GivenUp { message, retransmissions },
        })
    }
}
