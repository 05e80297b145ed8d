//! Flows that a node sends.

use super::arriving::WINDOW;
use super::{Around, Event, MOST_SILENCE, Node, Packet, SLACK, Timer};
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::bucket::TokenBucket;
use unrack_protocol::r2c2::demand::Demand;
use unrack_protocol::r2c2::host::Host;
use unrack_protocol::r2c2::packet::{Broadcast, DATA_HEADER, Data, Event as Told, Kind, MASK};
use unrack_protocol::r2c2::transfer::{Patience, Sender};
use unrack_protocol::r2c2::weights::Ways;
use unrack_units::Time;

pub(super) struct Sending {
    message: u32,
    pub bytes: u64,
    /// The flow's broadcast, with its present terms.
    pub told: Broadcast,
    /// Requested routing; the one in `told` is what the links that are up allow.
    pub routing: Routing,
    pub host: Host,
    pub demand: Demand,
    /// Bytes sent since the node last computed rates, headers included.
    pub sent: u64,
    pub transfer: Sender,
    pub bucket: TokenBucket,
    /// Identifies the one timer that sends its next packet, and below, the one of its retransmission timeout; 0 if
    /// there is none.
    pub turn: u32,
    alarm: u32,
    patience: Patience,
    /// Timeouts in a row without a new acknowledgement.
    silence: u32,
    retransmissions: u32,
}

impl Node {
    /// Sends `bytes` bytes to node `dst`. `message` is the number in its [`Event`]s.
    pub fn submit(&mut self, now: Time, message: u32, dst: u32, bytes: u64, around: &mut impl Around) {
        let Some(number) = self.next_number() else {
            return around.happened(now, Event::GivenUp { message, retransmissions: 0 });
        };
        let terms = self.terms(now, dst);
        let (plan, params) = (&self.plan, &self.plan.params);
        let told = Broadcast {
            event: Told::Start,
            src: self.me,
            dst: dst as u16,
            flow: number,
            asked: terms.asked,
            routing: around.map().usable(terms.routing),
            tree: (number % u16::from(params.trees)) as u8,
        };
        let ways = Ways { routing: told.routing, src: self.me.into(), dst, flow: number.into() };
        let first_kbps = self.first_kbps(ways, around);
        let sending = Sending {
            message,
            bytes,
            told,
            routing: terms.routing,
            host: Host::new(terms.demand, now),
            demand: Demand::new(params.demand_gain.get()),
            sent: 0,
            transfer: Sender::new(plan.segments(bytes)).within(WINDOW),
            bucket: TokenBucket::new(first_kbps, self.depth(first_kbps)),
            turn: 0,
            alarm: 0,
            patience: Patience::new(params.timeout, u32::from(self.me) << 16 | u32::from(number)),
            silence: 0,
            retransmissions: 0,
        };
        self.sending.insert(number, sending);
        around.happened(now, Event::Opened { message, flow: (self.me, number) });
        self.start_ticking(now);
        self.go_on(now, number, around);
    }

    /// Returns the depth of a flow's bucket in bytes: a full packet, and what the flow may send in [`SLACK`].
    pub(super) fn depth(&self, kbps: u32) -> u32 {
        DATA_HEADER as u32 + self.plan.most as u32 + (u64::from(kbps) * SLACK.as_ns() / 8_000_000) as u32
    }

    /// Tries again to send a packet of a flow that waits.
    pub(super) fn resume(&mut self, now: Time, flow: u16, around: &mut impl Around) {
        if self.sending.get(&flow).is_some_and(|sending| sending.turn != 0) {
            self.go_on(now, flow, around);
        }
    }

    pub(super) fn go_on(&mut self, now: Time, flow: u16, around: &mut impl Around) {
        let turn = self.turn();
        if let Some(sending) = self.sending.get_mut(&flow) {
            sending.turn = turn;
            self.send(now, flow, turn, around);
        }
    }

    /// Sends packets of a flow as its bucket, its host and the queue allow.
    pub(super) fn send(&mut self, now: Time, flow: u16, turn: u32, around: &mut impl Around) {
        // A flow that just sent queues behind flows that have not.
        let mut after = Time::ZERO;
        loop {
            let Some(sending) = self.sending.get_mut(&flow).filter(|sending| sending.turn == turn) else {
                return;
            };
            let Some((segment, is_again)) = sending.transfer.next() else {
                sending.turn = 0;
                if sending.transfer.rest() {
                    self.set_alarm(now, flow);
                }
                return;
            };
            let (told, bytes) = (sending.told, sending.bytes);
            let payload = self.plan.payload(bytes, segment);
            let wire = DATA_HEADER as u32 + payload as u32;
            let wait = Timer::Send { flow, turn };
            match sending.bucket.ready_at(wire) {
                // The flow waits until it has a rate.
                None => return,
                Some(at) if at > now => return self.at(at, wait),
                Some(_) => {}
            }
            let offset = self.plan.offset(segment);
            match sending.host.has(offset + payload) {
                Some(at) if at > now => return self.at(at, wait),
                _ => {}
            }
            let ways =
                Ways { routing: told.routing, src: told.src.into(), dst: told.dst.into(), flow: flow.into() };
            let Some(route) = self.draw(ways, around) else { return self.wait_for_way(now, flow) };
            let port = route.port(0).expect("another node is a hop away at least");
            // A source does not drop its own packets: it waits for room in the queue.
            let room = around.room_at(now, port, wire.into());
            if room > now {
                return self.at(room + after, wait);
            }
            let is_last = segment + 1 == self.plan.segments(bytes);
            let header = Data {
                kind: if is_last { Kind::Last } else { Kind::Data },
                flow,
                src: told.src,
                dst: told.dst,
                seq: segment,
                plen: payload as u16,
                route,
                ridx: 1,
            };
            let mut packet = around.empty();
            packet.resize(wire as usize, 0);
            around.fill((self.me, flow), offset, &mut packet[DATA_HEADER..]);
            header.seal(&mut packet);
            self.counters.sent_bytes += payload;
            self.put(now, port, packet, around);
            self.was_sent(now, flow, (segment, is_again), wire, around);
            after = Time::from_ps(1);
        }
    }

    fn was_sent(&mut self, now: Time, flow: u16, part: (u32, bool), wire: u32, around: &mut impl Around) {
        let ((segment, is_again), Some(sending)) = (part, self.sending.get_mut(&flow)) else { return };
        sending.bucket.take(now, wire);
        sending.sent += u64::from(wire);
        sending.patience.sent(now, part, self.plan.params.ack_every);
        sending.retransmissions += u32::from(is_again);
        let was_through = sending.transfer.is_through();
        let is_last_for_now = sending.transfer.sent(segment);
        let start = (segment == 0 && !is_again).then_some(sending.told);
        let end = (sending.transfer.is_through() && !was_through)
            .then_some(Broadcast { event: Told::End, ..sending.told });
        if is_last_for_now {
            sending.turn = 0;
        }
        start.into_iter().chain(end).for_each(|told| self.announce(now, told, around));
        if is_last_for_now {
            self.set_alarm(now, flow);
        }
    }

    /// Has a flow without a path wait for it, with the same timeout as for an acknowledgement.
    fn wait_for_way(&mut self, now: Time, flow: u16) {
        let Some(sending) = self.sending.get_mut(&flow) else { return };
        sending.turn = 0;
        if sending.alarm == 0 {
            self.set_alarm(now, flow);
        }
    }

    fn set_alarm(&mut self, now: Time, flow: u16) {
        if let Some(sending) = self.sending.get_mut(&flow) {
            sending.patience.begin(now);
            self.schedule_alarm(flow);
        }
    }

    fn schedule_alarm(&mut self, flow: u16) {
        let turn = self.turn();
        let Some(sending) = self.sending.get_mut(&flow) else { return };
        sending.alarm = turn;
        let at = sending.patience.until();
        self.at(at, Timer::Alarm { flow, turn });
    }

    pub(super) fn alarm(&mut self, now: Time, flow: u16, turn: u32, around: &mut impl Around) {
        let Some(sending) = self.sending.get_mut(&flow).filter(|sending| sending.alarm == turn) else {
            return;
        };
        // An acknowledgement came meanwhile and moved the timeout.
        if sending.patience.until() > now {
            return self.schedule_alarm(flow);
        }
        sending.alarm = 0;
        sending.silence += 1;
        if !sending.patience.run_out() || sending.silence > MOST_SILENCE {
            return self.give_up(now, flow, around);
        }
        // Otherwise the flow waited for a path, and has packets to send.
        if sending.transfer.next().is_none() {
            sending.transfer.send_again();
        }
        self.go_on(now, flow, around);
    }

    /// Abandons a flow, and broadcasts its end.
    fn give_up(&mut self, now: Time, flow: u16, around: &mut impl Around) {
        let Some(Sending { message, retransmissions, transfer, told, .. }) = self.sending.remove(&flow)
        else {
            return;
        };
        if !transfer.is_through() {
            self.announce(now, Broadcast { event: Told::End, ..told }, around);
        }
        around.happened(now, Event::GivenUp { message, retransmissions });
    }

    /// Takes an acknowledgement.
    pub(super) fn take_ack(&mut self, now: Time, data: Data, packet: Packet, around: &mut impl Around) {
        let mask = <[u8; MASK]>::try_from(&packet[DATA_HEADER..]).map(u64::from_be_bytes);
        let Ok(mask) = mask else { return self.refuse(packet, around) };
        around.spare(packet);
        // It may be of another node, or of a flow that is over: the last packets of a flow may be acknowledged twice.
        let of_it = |sending: &&mut Sending| sending.told.dst == data.src;
        let Some(sending) = self.sending.get_mut(&data.flow).filter(of_it) else { return };
        let before = sending.transfer.acknowledged();
        sending.transfer.acknowledge(data.seq, mask);
        if sending.transfer.acknowledged() > before {
            sending.silence = 0;
            sending.patience.heard(now, &sending.transfer);
        }
        if sending.transfer.is_done() {
            let Sending { message, retransmissions, .. } = *sending;
            self.sending.remove(&data.flow);
            return around.happened(now, Event::Acknowledged { message, retransmissions });
        }
        // The destination's window has room again.
        if sending.turn == 0 && sending.transfer.next().is_some() {
            self.go_on(now, data.flow, around);
        }
    }

    /// Stops the node and abandons its flows.
    pub fn die(&mut self, now: Time, around: &mut impl Around) {
        for Sending { message, retransmissions, .. } in std::mem::take(&mut self.sending).into_values() {
            around.happened(now, Event::GivenUp { message, retransmissions });
        }
        self.bridge.streams.clear();
        self.timers.clear();
    }

    /// Returns whether a flow of this node has segments that it never sent.
    pub(super) fn is_open(&self, flow: u16) -> bool {
        self.sending.get(&flow).is_some_and(|sending| !sending.transfer.is_through())
    }
}
