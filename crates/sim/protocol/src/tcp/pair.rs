//! Test harness: a sender and a receiver in virtual time, connected by a configurable link that delays, drops, marks and reorders packets.

use super::{Ack, CongestionControl, Receiver, Segment, Sender};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use unrack_basis::SplitMix64;
use unrack_units::Time;

/// Behaviour of the link. Delays are one way.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub delay: Time,
    /// Maximum extra delay of a packet. The delay is random for each packet, which reorders packets.
    pub jitter: Time,
    /// Time that a data segment takes on the wire.
    pub slot: Time,
    /// Probabilities in thousandths.
    pub drop_data: u64,
    pub drop_ack: u64,
    pub mark: u64,
    /// Data packets to lose, by their count from 0.
    pub drop_nth: Vec<u64>,
}

impl Default for Link {
    fn default() -> Link {
        Link {
            delay: Time::from_us(1),
            jitter: Time::ZERO,
            slot: Time::from_ns(120),
            drop_data: 0,
            drop_ack: 0,
            mark: 0,
            drop_nth: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packet {
    Data(Segment, bool),
    Ack(Ack),
    SenderTimer,
    ReceiverTimer,
}

pub(crate) struct Pair<C> {
    pub sender: Sender<C>,
    pub receiver: Receiver,
    pub now: Time,
    /// Data packets put on the wire.
    pub sent: u64,
    /// Segments delivered in order, as counted by the driver.
    pub handed_on: u32,
    pub timeouts: u32,
    link: Link,
    random: SplitMix64,
    wire_free: Time,
    /// Expiry times of the timers that the sender and the receiver requested last. Timers that they requested earlier expire too, without
    /// effect.
    armed: [Option<Time>; 2],
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    packets: Vec<Packet>,
}

impl<C: CongestionControl> Pair<C> {
    pub(crate) fn new(sender: Sender<C>, receiver: Receiver, link: Link, seed: u64) -> Pair<C> {
        Pair {
            sender,
            receiver,
            now: Time::ZERO,
            sent: 0,
            handed_on: 0,
            timeouts: 0,
            link,
            random: SplitMix64::new(seed),
            wire_free: Time::ZERO,
            armed: [None; 2],
            queue: BinaryHeap::new(),
            packets: Vec::new(),
        }
    }

    /// Runs until the sender is done, and returns the time then. Returns `None` if the sender is not done when no event is left.
    pub(crate) fn run(&mut self) -> Option<Time> {
        self.run_until(|pair| pair.sender.is_done())
    }

    pub(crate) fn run_until(&mut self, stop: impl Fn(&Self) -> bool) -> Option<Time> {
        self.poll();
        while !stop(self) {
            let Reverse((at, index)) = self.queue.pop()?;
            assert!(at >= self.now, "time goes back");
            self.now = at;
            self.handle(self.packets[index as usize]);
            self.poll();
        }
        Some(self.now)
    }

    fn handle(&mut self, packet: Packet) {
        match packet {
            Packet::Data(segment, marked) => {
                let next = self.receiver.next();
                let handed_on = self.receiver.handle_segment(self.now, segment, marked);
                assert_eq!(self.receiver.next(), next + handed_on);
                self.handed_on += handed_on;
            }
            Packet::Ack(ack) => self.sender.handle_ack(self.now, &ack),
            Packet::SenderTimer => {
                self.timeouts += u32::from(self.sender.poll_timeout().is_some_and(|at| at <= self.now));
                self.sender.handle_timeout(self.now);
            }
            Packet::ReceiverTimer => self.receiver.handle_timeout(self.now),
        }
    }

    fn poll(&mut self) {
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            self.transmit(segment);
        }
        while let Some(ack) = self.receiver.poll_ack() {
            let at = self.now + self.delay();
            if !self.chance(self.link.drop_ack) {
                self.schedule(at, Packet::Ack(ack));
            }
        }
        let wanted = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
        for (side, timer) in [Packet::SenderTimer, Packet::ReceiverTimer].into_iter().enumerate() {
            if wanted[side] != self.armed[side] {
                self.armed[side] = wanted[side];
                wanted[side].into_iter().for_each(|at| self.schedule(at, timer));
            }
        }
    }

    fn transmit(&mut self, segment: Segment) {
        self.wire_free = self.wire_free.max(self.now) + self.link.slot;
        let at = self.wire_free + self.delay();
        let dropped = self.chance(self.link.drop_data) || self.link.drop_nth.contains(&self.sent);
        let marked = self.chance(self.link.mark);
        self.sent += 1;
        if !dropped {
            self.schedule(at, Packet::Data(segment, marked));
        }
    }

    fn schedule(&mut self, at: Time, packet: Packet) {
        self.packets.push(packet);
        self.queue.push(Reverse((at, self.packets.len() as u64 - 1)));
    }

    fn delay(&mut self) -> Time {
        let jitter = self.link.jitter.as_ps();
        self.link.delay + Time::from_ps(if jitter == 0 { 0 } else { self.random.next_u64() % jitter })
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.random.next_u64() % 1000 < per_mille
    }
}
