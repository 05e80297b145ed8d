//! The path of packets inside hosts, if hosts take time.
//!
//! In that case, a message is complete when the program has read its last byte.

use super::drive::Drive;
use super::packet::Body;
use super::{Event, StreamRole, Streams};
use unrack_engine::events::{Core, Observer};
use unrack_engine::topology::LinkEnd;
use unrack_hosts::{self as hosts, HostOutput};
use unrack_protocol::tcp::{ReceivingEnd, StreamSignal};
use unrack_units::Time;
use unrack_workload::{Computing, Endpoints};

impl<K: Drive> Streams<K> {
    /// Passes a packet that a node sends to its host. The packet leaves by NIC `nic`, if it leaves by a NIC.
    pub(super) fn enter_host(&mut self, now: Time, ends: Endpoints, nic: u32, index: u32) {
        let Some(hosts) = &mut self.hosts else { return };
        let packet = self.wires.packet(index);
        let bytes = self.plan.in_memory(packet.payload);
        let hash = self.open[packet.stream].hash_unsprayed(packet.signal.subflow());
        let way = hosts.way(ends.src, ends.dst, nic);
        hosts.send(now, index, hosts::HostPacket::new(ends, hash, way, bytes, packet.payload));
    }

    /// Passes a packet that has arrived at its last NIC to the host.
    pub(super) fn reach_host(&mut self, now: Time, index: u32) {
        let LinkEnd::Node(nic) = self.wires.end_of(index) else { return };
        self.hosts.as_mut().expect("asked for with hosts only").arrive(now, index, nic);
    }

    /// Starts a computation of a program. If hosts take no time, the loads of the program take none either.
    pub(in crate::fabric) fn compute<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        computing: Computing,
    ) {
        match &mut self.hosts {
            Some(hosts) => hosts.compute(core.now(), computing),
            None => core.wake_at(core.now() + computing.time, computing.actor),
        }
        self.settle_hosts(core);
    }

    pub(super) fn handle_host(&mut self, now: Time, event: hosts::Event) {
        self.hosts.as_mut().expect("asked for with hosts only").handle(now, event);
    }

    /// Carries out the pending outputs of hosts.
    pub(super) fn settle_hosts<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        while let Some(output) = self.hosts.as_mut().and_then(|hosts| hosts.poll()) {
            match output {
                HostOutput::At(at, event) => core.schedule(at, Event::Host(event)),
                HostOutput::Wire(packet, nic) => {
                    let departure = self.launch(core, nic, packet);
                    self.hosts.iter_mut().for_each(|hosts| hosts.leaves(packet, departure.last));
                }
                HostOutput::Stack(packet) => self.reach_stack(core, packet),
                HostOutput::Read(packet) => self.have_read(core, packet),
                HostOutput::Lost(packet) => self.lose(core, packet),
                HostOutput::Room(queue) => self.use_room(core, queue),
                HostOutput::Computed(actor) => core.wake_at(core.now(), actor),
            }
        }
    }

    fn reach_stack<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        let packet = *self.wires.packet(index);
        let segment = match packet.body {
            Body::Data(segment) => segment,
            Body::Ack(ack) => {
                self.take_ack(core, &packet, &ack);
                return self.forget_packet(index);
            }
        };
        let number = packet.signal.in_stream(segment.number);
        let stream = &self.open[packet.stream];
        let is_useless = stream.reading.is_useless(number, stream.receiver.next());
        self.take_data(core, packet, segment);
        let stream = &mut self.open[packet.stream];
        if !is_useless {
            stream.reading.keep(number, index);
        }
        let Some(hosts) = &mut self.hosts else { return };
        // A duplicate segment may fill a gap in its subflow, so that later segments are in order now.
        for packet in stream.reading.take(stream.receiver.next()) {
            hosts.read(core.now(), packet);
        }
        if is_useless {
            self.forget_packet(index);
        }
    }

    fn have_read<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        let number = self.wires.packet(index).stream;
        let stream = &mut self.open[number];
        let all = stream.reading.read() && stream.receiver.next() == stream.segments;
        let (id, role) = (stream.id, stream.role);
        match (all, role) {
            (true, StreamRole::Request) => self.answer(core, number),
            (true, _) => core.complete(id),
            (false, _) => {}
        }
        self.finish_packet(index);
    }

    /// Ends a stream whose sender has given up, and drops the packets that either host still keeps of it.
    pub(super) fn give_up<O: Observer>(&mut self, core: &mut Core<Event, O>, stream: u32) {
        let place = &mut self.open[stream];
        core.give_up(place.id);
        place.references += 1;
        for (_, packet) in place.reading.give_up() {
            self.forget_packet(packet);
        }
        self.open.drop_reference(stream);
    }

    /// Drops a packet that no program will read.
    fn forget_packet(&mut self, index: u32) {
        self.hosts.iter_mut().for_each(|hosts| hosts.release(index));
        self.finish_packet(index);
    }
}

#[cfg(test)]
mod tests {
    use crate::fabric::mptcp::Mptcp;
    use crate::fabric::tcp::Tcp;
    use crate::site::{Ethernet, SwitchBuffer};
    use proptest::prelude::*;
    use std::sync::Arc;
    use unrack_engine::HostModel;
    use unrack_engine::events::Sim;
    use unrack_engine::network::{Network, Pace};
    use unrack_engine::run::Outcome;
    use unrack_engine::topology::{Link, Topology};
    use unrack_protocol::mptcp;
    use unrack_protocol::tcp::{ConnectionLifetime, MOST_TIMEOUTS, Params};
    use unrack_rack::{HostSpec, Wiring};
    use unrack_units::{Bytes, Rate, Time};
    use unrack_workload::{ListedMessages, Message};

    fn link(gbps: u64, ns: u64) -> Link {
        Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Hosts come to rest, whichever features are turned off and however little room there is: each message is read once, or given up
        /// after all its retransmissions were lost. After that, no packet, stream, buffer or queue entry is left.
        #[test]
        fn hosts_come_to_rest(
            (racks, hosts) in (1u32..4, 2u32..4),
            (pooled, spraying, multipath, keeps, tail_loss_probe) in any::<(bool, bool, bool, bool, bool)>(),
            (memory_pool, dram_cache, references, program_loads, polled) in any::<(bool, bool, bool, bool, bool)>(),
            (transmit_queue, receive_queue, headroom, batch) in (1u32..9, 1u32..9, 4_096u64..20_000, 1u32..9),
            drawn in prop::collection::vec((0u64..50, any::<u32>(), any::<u32>(), 1u64..60_000), 1..40),
        ) {
            let topology = match pooled {
                true => {
                    let wiring = Wiring { racks, hosts_per_rack: hosts, cores: Wiring::default_cores(racks, hosts) };
                    Topology::drack(wiring, link(100, 200), link(100, 350), link(500, 55))
                }
                false => Topology::leaf_spine(racks, hosts, hosts, link(100, 200), link(100, 350)),
            };
            let mut spec = HostSpec { memory_pool, dram_cache, program_loads, ..HostSpec::default() };
            spec.references = Some(references && memory_pool);
            spec.cpu.reference_time = polled.then_some(Time::from_ns(100));
            (spec.nic.transmit_queue, spec.nic.receive_queue) = (transmit_queue, receive_queue);
            (spec.nic.headroom, spec.nic.interrupt_batch) = (Bytes::new(headroom), batch);
            // Room for two sections.
            spec.memory.size = Bytes::new(4 << 20);
            let topology = topology.with_hosts(HostModel { spec: Arc::new(spec), cxl: link(500, 55) });
            let nodes = topology.nodes();
            let network = Network { topology, switch_latency: Time::from_ns(300) };
            let buffer = SwitchBuffer::Private(Bytes::new(100_000));
            let ethernet = Ethernet { mtu: Bytes::new(4096), headers: true, buffer, cut_through: true };
            let mut messages: Vec<_> = drawn.into_iter().map(|(at, src, offset, bytes)| {
                let src = src % nodes;
                let dst = (src + 1 + offset % (nodes - 1)) % nodes;
                (Time::from_us(at), if bytes % 2 == 0 { Message::read(src, dst, bytes) } else { Message::write(src, dst, bytes) })
            }).collect();
            messages.sort_by_key(|(at, _)| *at);
            let listed = ListedMessages::new(messages.into(), nodes).unwrap();
            let connections = if keeps { ConnectionLifetime::Kept } else { ConnectionLifetime::Fresh };
            let (run, at_rest) = if multipath {
                let params = mptcp::Params { connections, tail_loss_probe, ..Default::default() };
                let mptcp = Mptcp::new(&network, &ethernet, &params).unwrap();
                let (mptcp, run) = Sim::new(mptcp, listed).run_dry();
                (run, mptcp.streams().is_at_rest())
            } else {
                let params = Params { spraying, connections, tail_loss_probe, ..Params::default() };
                let (tcp, run) = Sim::new(Tcp::new(&network, &ethernet, &params).unwrap(), listed).run_dry();
                (run, tcp.streams().is_at_rest())
            };
            let given_up = |outcome: &Outcome| outcome.is_given_up() && outcome.drops >= MOST_TIMEOUTS;
            prop_assert!(run.outcomes.iter().all(|outcome| outcome.completed().is_some() || given_up(outcome)));
            prop_assert_eq!(run.counters.sent_bytes, run.counters.arrived_bytes + run.counters.dropped_bytes);
            prop_assert!(at_rest);
        }
    }
}
