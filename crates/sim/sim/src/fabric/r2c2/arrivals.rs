//! The actions of nodes on arrivals: packets, broadcasts, and messages to send.

use super::R2c2;
use super::event::Event;
use super::flow::{Flow, FlowRole, Receiver};
use super::wire::{Body, NONE, Packet};
use unrack_engine::events::{Core, Observer};
use unrack_protocol::r2c2::news::BroadcastContent;
use unrack_workload::{Endpoints, MessageId};

impl R2c2 {
    pub(super) fn open<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        message: MessageId,
        Endpoints { src, dst }: Endpoints,
        bytes: u64,
        role: FlowRole,
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
            (true, FlowRole::Data) => core.complete(message),
            (true, FlowRole::Request) => {
                let bytes = core.message(message).bytes;
                self.open(core, message, Endpoints { src: dst, dst: src }, bytes, FlowRole::Data);
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

    pub(super) fn arrive<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32, link: u32) {
        let packet = self.rack.wires.packet(index);
        if packet.done < packet.route.hops() {
            let node = self.rack.wires.link(link).to;
            if !self.rack.forward(core, node, index) {
                self.rack.drop(core, node, index);
                self.report_loss(core, node, packet.body);
            }
            return;
        }
        self.rack.wires.release(index);
        match packet.body {
            Body::Data(segment) => self.take_data(core, packet, segment),
            Body::Ack { next, mask } => self.take_ack(core, packet.flow, (next, mask)),
            Body::Lost(news) => {
                let (node, mut around) = self.at(core, news.src());
                node.repeat_later(&mut around, news);
            }
            Body::Told(news) => {
                let (node, mut around) = self.at(core, self.rack.setup.params.controller);
                node.hear_as_controller(&mut around, news);
            }
            Body::Rates { list, .. } => self.take_rates(core, list),
            Body::LostRates(list) => self.give_again(list),
        }
        if packet.flow != NONE {
            self.rack.flows.drop_reference(packet.flow);
        }
    }

    /// Lets the node at the end of a link handle a broadcast.
    pub(super) fn heard<O: Observer>(&mut self, core: &mut Core<Event, O>, spread: u32, link: u32) {
        let news = self.rack.news(spread);
        let (node, mut around) = self.at(core, self.rack.wires.link(link).to);
        match news {
            BroadcastContent::Flow(_) => node.hear(&mut around, news, &[], &spread),
            BroadcastContent::Routings { number, .. } => {
                let pairs = around.rack.chosen[number as usize].clone();
                node.hear(&mut around, news, &pairs, &spread);
            }
        }
        self.rack.drop_copy(spread);
    }
}
