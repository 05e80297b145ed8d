//! Broadcasts: told by a source, passed on along a tree, reported and repeated if a copy is lost (§3.2).

use super::{Around, Node, Packet, Timer};
use unrack_protocol::r2c2::packet::{BROADCAST, Broadcast, DATA_HEADER, Event as Told, Kind};
use unrack_units::Time;

/// As in the simulator.
const REPEAT_AFTER: Time = Time::from_us(10);
/// How far numbers of a source's flows are apart that are open at the same time, at the most.
const HALF: u16 = 1 << 15;

impl Node {
    pub(super) fn announce(&mut self, now: Time, told: Broadcast, around: &mut impl Around) {
        self.view.hear(now, &told);
        self.spread(now, &told, around);
    }

    /// Another node's broadcast, or what claims to be one.
    pub(super) fn hear(&mut self, now: Time, packet: Packet, around: &mut impl Around) {
        let nodes = self.plan.nodes();
        let is_ours = |told: &Broadcast| {
            let (src, dst) = (u32::from(told.src), u32::from(told.dst));
            src < nodes && dst < nodes && src != dst && told.src != self.me && self.plan.allows(told.routing)
        };
        let Some(told) = Broadcast::decode(&packet).ok().filter(is_ours) else {
            return self.refuse(packet, around);
        };
        around.spare(packet);
        if told.event == Told::Start {
            self.arriving.forget((told.src, told.flow.wrapping_add(HALF)));
        }
        self.view.hear(now, &told);
        self.spread(now, &told, around);
    }

    /// Passes a broadcast on.
    fn spread(&mut self, now: Time, told: &Broadcast, around: &mut impl Around) {
        let mut mask = around.maps().trees.ports(self.me.into(), told.src.into(), told.tree);
        while mask != 0 {
            let port = mask.trailing_zeros();
            mask &= mask - 1;
            let mut copy = around.empty();
            copy.extend_from_slice(&told.encode());
            self.counters.packet_hops += 1;
            if let Err(copy) = around.put(now, port, copy) {
                around.spare(copy);
                self.counters.lost_broadcasts += 1;
                self.report(now, told, around);
            }
        }
    }

    /// Had to drop a broadcast, and tells its source.
    fn report(&mut self, now: Time, told: &Broadcast, around: &mut impl Around) {
        if told.src == self.me {
            return self.repeat_later(now, *told);
        }
        self.put_control(now, (Kind::Lost, told.flow, 0), told.src, &told.encode(), around);
    }

    pub(super) fn take_report(&mut self, now: Time, packet: Packet, around: &mut impl Around) {
        match Broadcast::decode(&packet[DATA_HEADER..]) {
            Ok(told) if told.src == self.me && u32::from(told.dst) < self.plan.nodes() => {
                self.repeat_later(now, told);
                around.spare(packet);
            }
            _ => self.refuse(packet, around),
        }
    }

    /// Other losses of the same are no reason to tell it twice.
    fn repeat_later(&mut self, now: Time, told: Broadcast) {
        let is_same = |repeat: &Broadcast| (repeat.flow, repeat.event) == (told.flow, told.event);
        if self.repeats.iter().any(is_same) {
            return;
        }
        let tree = ((u16::from(told.tree) + 1) % u16::from(self.plan.params.trees)) as u8;
        self.repeats.push_back(Broadcast { tree, ..told });
        self.at(now + REPEAT_AFTER, Timer::Repeat);
    }

    /// What is no longer so is not told again.
    pub(super) fn repeat(&mut self, now: Time, around: &mut impl Around) {
        let Some(told) = self.repeats.pop_front() else { return };
        if told.event == Told::End || self.is_open(told.flow) {
            self.spread(now, &told, around);
        }
    }
}

const _: () = assert!(BROADCAST < DATA_HEADER);
