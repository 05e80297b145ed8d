//! Broadcasts, and reports of lost broadcasts, as bytes.

use super::{Node, NodeServices, Packet};
use unrack_protocol::r2c2::news::BroadcastContent;
use unrack_protocol::r2c2::packet::{Announcement, BROADCAST, Broadcast, DATA_HEADER, Event as Told};
use unrack_units::Time;

/// Half the range of flow numbers. The numbers of a source's open flows are at most this far apart.
const HALF: u16 = 1 << 15;

impl Node {
    /// Handles a broadcast of another node, or bytes that claim to be a broadcast.
    pub(super) fn hear(&mut self, now: Time, packet: Packet, around: &mut impl NodeServices) {
        let (nodes, me) = (self.own.plan.nodes(), self.own.me);
        let is_ours = |told: &Broadcast| {
            let (src, dst) = (u32::from(told.src), u32::from(told.dst));
            src < nodes && dst < nodes && src != dst && told.src != me && self.own.plan.allows(told.routing)
        };
        let Some(told) = Broadcast::decode(&packet).ok().filter(is_ours) else {
            return self.own.refuse(packet, around);
        };
        if told.event == Told::Start {
            self.own.arriving.forget((told.src, told.flow.wrapping_add(HALF)));
            self.own.start_selecting(now);
        }
        let (core, mut driven) = self.at(now, around);
        core.hear(&mut driven, BroadcastContent::Flow(told), &[], &packet);
        around.spare(packet);
    }

    pub(super) fn take_report(&mut self, now: Time, packet: Packet, around: &mut impl NodeServices) {
        let body = &packet[DATA_HEADER..];
        let me = self.own.me;
        let own = |number| self.own.announced.iter().find(|(known, _)| *known == number);
        let told = match Broadcast::decode(body) {
            Ok(told) if told.src == me && u32::from(told.dst) < self.own.plan.nodes() => {
                Some(BroadcastContent::Flow(told))
            }
            Ok(_) => None,
            // A report has the announcement without its pairs, so the checksum does not match. Compare its number with those announced.
            Err(_) if Announcement::is(body) && body.len() == BROADCAST => {
                let number = u16::from_be_bytes([body[4], body[5]]);
                own(number).map(|_| BroadcastContent::Routings {
                    src: me,
                    tree: body[1],
                    number: number.into(),
                })
            }
            Err(_) => None,
        };
        match told {
            Some(news) => {
                let (core, mut driven) = self.at(now, around);
                core.repeat_later(&mut driven, news);
                around.spare(packet);
            }
            None => self.own.refuse(packet, around),
        }
    }
}

const _: () = assert!(BROADCAST < DATA_HEADER);
