//! Flows: opened, taken in at their ends, and kept as long as packets of theirs are under way.

use super::flow::{Flow, Receiver, Role};
use super::wire::Packet;
use super::{Event, R2c2, Rack};
use unrack_engine::events::{Core, Observer};
use unrack_workload::{Endpoints, MessageId};

impl R2c2 {
    pub(super) fn open<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        message: MessageId,
        Endpoints { src, dst }: Endpoints,
        bytes: u64,
        role: Role,
    ) {
        self.start_discovering(core);
        let number = self.numbers[src as usize].wrapping_add(1);
        self.numbers[src as usize] = number;
        let (node, mut around) = self.at(core, src);
        let sending = node.open(&mut around, number, dst, bytes);
        let receiver = Receiver::new(around.rack.setup.segments(bytes));
        let (references, is_given_up) = (0, false);
        let flow = Flow { message, role, sending, receiver, references, is_given_up };
        let flow = around.rack.flows.insert(flow);
        node.start(&mut around, flow);
    }

    pub(super) fn take_data<O: Observer>(&mut self, core: &mut Core<Event, O>, packet: Packet, segment: u32) {
        core.arrived(u64::from(packet.payload));
        let ack_every = self.rack.setup.params.ack_every;
        let place = &mut self.rack.flows[packet.flow];
        if place.is_given_up {
            return;
        }
        let (is_new, is_due) = place.receiver.take(segment, ack_every);
        let is_complete = is_new && place.receiver.is_complete();
        let (message, role, src, dst) = (place.message, place.role, place.src(), place.dst());
        match (is_complete, role) {
            (true, Role::Data) => core.complete(message),
            (true, Role::Request) => {
                let bytes = core.message(message).bytes;
                self.open(core, message, Endpoints { src: dst, dst: src }, bytes, Role::Data);
            }
            (false, _) => {}
        }
        if is_due {
            let told = self.rack.flows[packet.flow].receiver.acknowledgement();
            let (node, mut around) = self.at(core, dst);
            node.acknowledge(&mut around, packet.flow, src, told);
        }
    }

    pub(super) fn take_ack<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        flow: u32,
        acknowledged: (u32, u64),
    ) {
        let place = &self.rack.flows[flow];
        if !place.is_given_up {
            let (node, mut around) = self.at(core, place.src());
            node.take_ack(&mut around, flow, acknowledged);
        }
    }
}

impl Rack {
    /// Notes that a flow is no longer its source's: if it is not done, it was given up.
    pub(super) fn close(&mut self, flow: u32) {
        let place = &mut self.flows[flow];
        place.is_given_up = !place.sending.transfer.is_done();
        if place.is_given_up && place.references == 0 {
            self.flows.release(flow);
        }
    }

    /// Notes that a packet of a flow is no longer under way.
    pub(super) fn drop_reference(&mut self, flow: u32) {
        let place = &mut self.flows[flow];
        place.references -= 1;
        if place.references == 0 && (place.sending.transfer.is_done() || place.is_given_up) {
            self.flows.release(flow);
        }
    }
}
