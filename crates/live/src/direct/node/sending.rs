//! The flows that a node sends.

use super::{Around, Event, LONGEST_TIMEOUT, MOST_SILENCE, Node, Packet, SLACK, Timer, told};
use unrack_protocol::r2c2::bucket::TokenBucket;
use unrack_protocol::r2c2::packet::{Broadcast, DATA_HEADER, Data, Event as Told, Kind, MASK};
use unrack_protocol::r2c2::terms::Terms;
use unrack_protocol::r2c2::transfer::Sender;
use unrack_protocol::r2c2::weights::Ways;
use unrack_units::Time;

pub(super) struct Sending {
    message: u32,
    bytes: u64,
    /// What all nodes are told of it.
    pub told: Broadcast,
    transfer: Sender,
    pub bucket: TokenBucket,
    /// Names the one timer that sends its next packet, and the one that ends its patience. 0: there is none.
    pub turn: u32,
    alarm: u32,
    timeout: Time,
    /// Time-outs in a row without news of its destination.
    silence: u32,
    retransmissions: u32,
}

impl Node {
    /// Sends so many bytes to another node. `message` is what its [`Event`]s will say.
    pub fn submit(&mut self, now: Time, message: u32, dst: u32, bytes: u64, around: &mut impl Around) {
        let mut numbers = (1..=u16::MAX).map(|n| self.number.wrapping_add(n));
        let Some(number) = numbers.find(|number| !self.sending.contains_key(number)) else {
            return around.happened(now, Event::GivenUp { message, retransmissions: 0 });
        };
        self.number = number;
        let (plan, params) = (&self.plan, &self.plan.params);
        let terms = Terms::of(&params.rules, params.routing, (self.me.into(), dst), Time::ZERO);
        let first_kbps = plan.link_kbps();
        let told = Broadcast {
            event: Told::Start,
            src: self.me,
            dst: dst as u16,
            flow: number,
            asked: terms.asked,
            routing: terms.routing,
            tree: (number % u16::from(params.trees)) as u8,
        };
        let sending = Sending {
            message,
            bytes,
            told,
            transfer: Sender::new(plan.segments(bytes)),
            bucket: TokenBucket::new(first_kbps, self.depth(first_kbps)),
            turn: 0,
            alarm: 0,
            timeout: params.timeout,
            silence: 0,
            retransmissions: 0,
        };
        self.sending.insert(number, sending);
        around.happened(now, Event::Opened { message, flow: (self.me, number) });
        self.start_ticking(now);
        self.go_on(now, number, around);
    }

    /// What the bucket of a flow holds: a packet, and what it may send in [`SLACK`].
    pub(super) fn depth(&self, kbps: u32) -> u32 {
        DATA_HEADER as u32 + self.plan.most as u32 + (u64::from(kbps) * SLACK.as_ns() / 8_000_000) as u32
    }

    fn go_on(&mut self, now: Time, flow: u16, around: &mut impl Around) {
        let turn = self.turn();
        if let Some(sending) = self.sending.get_mut(&flow) {
            sending.turn = turn;
            self.send(now, flow, turn, around);
        }
    }

    /// Sends of a flow what its bucket and its queues allow now.
    pub(super) fn send(&mut self, now: Time, flow: u16, turn: u32, around: &mut impl Around) {
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
                // Until there is a rate.
                None => return,
                Some(at) if at > now => return self.at(at, wait),
                Some(_) => {}
            }
            let ways =
                Ways { routing: told.routing, src: told.src.into(), dst: told.dst.into(), flow: flow.into() };
            let route = self.draw(ways, around);
            let port = route.port(0).expect("another node is a hop away at least");
            // A node does not drop what it has not sent: it waits for room in its queue.
            let room = around.room_at(now, port, wire.into());
            if room > now {
                return self.at(room, wait);
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
            around.fill((self.me, flow), self.plan.offset(segment), &mut packet[DATA_HEADER..]);
            header.seal(&mut packet);
            self.counters.sent_bytes += payload;
            self.put(now, port, packet, around);
            self.was_sent(now, flow, (segment, is_again), wire, around);
        }
    }

    fn was_sent(&mut self, now: Time, flow: u16, part: (u32, bool), wire: u32, around: &mut impl Around) {
        let ((segment, is_again), Some(sending)) = (part, self.sending.get_mut(&flow)) else { return };
        sending.bucket.take(now, wire);
        sending.retransmissions += u32::from(is_again);
        let was_through = sending.transfer.is_through();
        let is_last_for_now = sending.transfer.sent(segment);
        let start = (segment == 0 && !is_again).then(|| told(Told::Start, sending));
        let end = (is_last_for_now && !was_through).then(|| told(Told::End, sending));
        if is_last_for_now {
            sending.turn = 0;
        }
        start.into_iter().chain(end).for_each(|told| self.announce(now, told, around));
        if is_last_for_now {
            self.set_alarm(now, flow);
        }
    }

    fn set_alarm(&mut self, now: Time, flow: u16) {
        let turn = self.turn();
        let Some(sending) = self.sending.get_mut(&flow) else { return };
        sending.alarm = turn;
        let at = now + sending.timeout;
        self.at(at, Timer::Alarm { flow, turn });
    }

    pub(super) fn alarm(&mut self, now: Time, flow: u16, turn: u32, around: &mut impl Around) {
        let Some(sending) = self.sending.get_mut(&flow).filter(|sending| sending.alarm == turn) else {
            return;
        };
        sending.alarm = 0;
        sending.silence += 1;
        if sending.silence > MOST_SILENCE {
            let event = Event::GivenUp { message: sending.message, retransmissions: sending.retransmissions };
            self.sending.remove(&flow);
            return around.happened(now, event);
        }
        sending.timeout = (sending.timeout + sending.timeout).min(LONGEST_TIMEOUT);
        sending.transfer.send_again();
        self.go_on(now, flow, around);
    }

    /// A flow's destination says what it has.
    pub(super) fn take_ack(&mut self, now: Time, data: Data, packet: Packet, around: &mut impl Around) {
        let mask = <[u8; MASK]>::try_from(&packet[DATA_HEADER..]).map(u64::from_be_bytes);
        let Ok(mask) = mask else { return self.refuse(packet, around) };
        around.spare(packet);
        // Another node's, or one that is over: its last packets were acknowledged twice.
        let of_it = |sending: &&mut Sending| sending.told.dst == data.src;
        let Some(sending) = self.sending.get_mut(&data.flow).filter(of_it) else { return };
        let before = sending.transfer.acknowledged();
        sending.transfer.acknowledge(data.seq, mask);
        if sending.transfer.acknowledged() > before {
            sending.silence = 0;
        }
        if sending.transfer.is_done() {
            let Sending { message, retransmissions, .. } = *sending;
            self.sending.remove(&data.flow);
            around.happened(now, Event::Acknowledged { message, retransmissions });
        }
    }

    /// The node stops: its flows are given up.
    pub fn die(&mut self, now: Time, around: &mut impl Around) {
        for Sending { message, retransmissions, .. } in std::mem::take(&mut self.sending).into_values() {
            around.happened(now, Event::GivenUp { message, retransmissions });
        }
        self.timers.clear();
    }

    /// Whether a flow of this node has parts that it never sent.
    pub(super) fn is_open(&self, flow: u16) -> bool {
        self.sending.get(&flow).is_some_and(|sending| !sending.transfer.is_through())
    }
}
