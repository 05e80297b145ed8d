//! Broadcasts: sent by a source, forwarded along a tree, reported and repeated if a copy is lost (§3.2).

use super::{Around, Node, Packet, Timer};
use unrack_protocol::r2c2::news::News;
use unrack_protocol::r2c2::packet::{Announcement, BROADCAST, Broadcast, DATA_HEADER, Event as Told, Kind};
use unrack_units::Time;

/// Delay before a broadcast is repeated, as in the simulator.
const REPEAT_AFTER: Time = Time::from_us(10);
/// Half the range of flow numbers: the numbers of a source's open flows are at most this far apart.
const HALF: u16 = 1 << 15;

impl Node {
    pub(super) fn announce(&mut self, now: Time, told: Broadcast, around: &mut impl Around) {
        self.view.hear(now, &told);
        self.start_selecting(now);
        self.spread(now, News::Flow(told), &told.encode(), around);
    }

    /// Takes a broadcast of another node, or bytes that claim to be one.
    pub(super) fn hear(&mut self, now: Time, packet: Packet, around: &mut impl Around) {
        let nodes = self.plan.nodes();
        let is_ours = |told: &Broadcast| {
            let (src, dst) = (u32::from(told.src), u32::from(told.dst));
            src < nodes && dst < nodes && src != dst && told.src != self.me && self.plan.allows(told.routing)
        };
        let Some(told) = Broadcast::decode(&packet).ok().filter(is_ours) else {
            return self.refuse(packet, around);
        };
        if told.event == Told::Start {
            self.arriving.forget((told.src, told.flow.wrapping_add(HALF)));
            self.start_selecting(now);
        }
        self.reports.heard(News::Flow(told));
        // A broadcast sent before a failure was detected may name a routing that is no longer usable.
        let routing = around.map().usable(told.routing);
        self.view.hear(now, &Broadcast { routing, ..told });
        self.spread(now, News::Flow(told), &packet, around);
        around.spare(packet);
    }

    /// Forwards a broadcast along its tree, and reports copies that are dropped.
    pub(super) fn spread(&mut self, now: Time, news: News, packet: &[u8], around: &mut impl Around) {
        let first = self.plan.graph.links_of(self.me.into()).start;
        for link in around.map().onward(self.me.into(), news.src(), news.tree()) {
            let mut copy = around.empty();
            copy.extend_from_slice(packet);
            self.counters.packet_hops += 1;
            if let Err(copy) = around.put(now, link - first, copy) {
                around.spare(copy);
                self.counters.lost_broadcasts += 1;
                self.report(now, news, around);
            }
        }
    }

    /// Reports a dropped broadcast to its source.
    fn report(&mut self, now: Time, news: News, around: &mut impl Around) {
        if news.src() == u32::from(self.me) {
            return self.repeat_later(now, news);
        }
        let timeout = self.plan.params.timeout;
        if self.reports.dropped(now, timeout, news) {
            self.at(now + timeout, Timer::Report);
            self.send_report(now, news, around);
        }
    }

    /// Repeats reports that brought no repetition within the timeout.
    pub(super) fn report_again(&mut self, now: Time, around: &mut impl Around) {
        while let Some((news, next)) = self.reports.poll(now, self.plan.params.timeout) {
            self.at(next, Timer::Report);
            self.send_report(now, news, around);
        }
    }

    /// Sends a report: the lost broadcast, but of an announcement of routings only the header, without the pairs.
    fn send_report(&mut self, now: Time, news: News, around: &mut impl Around) {
        let lost = match news {
            News::Flow(told) => told.encode(),
            News::Routings { src, tree, number } => {
                let mut header = [0; BROADCAST];
                Announcement { tree, src, number: number as u16 }.seal(&mut header);
                header
            }
        };
        self.put_control(now, (Kind::Lost, 0, 0), news.src() as u16, &lost, around);
    }

    pub(super) fn take_report(&mut self, now: Time, packet: Packet, around: &mut impl Around) {
        let body = &packet[DATA_HEADER..];
        let own = |number| self.announced.iter().find(|(known, _)| *known == number);
        let told = match Broadcast::decode(body) {
            Ok(told) if told.src == self.me && u32::from(told.dst) < self.plan.nodes() => {
                Some(News::Flow(told))
            }
            Ok(_) => None,
            // Without its pairs the checksum does not match: the number is compared with what was announced.
            Err(_) if Announcement::is(body) && body.len() == BROADCAST => {
                let number = u16::from_be_bytes([body[4], body[5]]);
                own(number).map(|_| News::Routings { src: self.me, tree: body[1], number: number.into() })
            }
            Err(_) => None,
        };
        match told {
            Some(news) => {
                self.repeat_later(now, news);
                around.spare(packet);
            }
            None => self.refuse(packet, around),
        }
    }

    /// Schedules the repetition of a broadcast along another tree, unless one is scheduled already.
    fn repeat_later(&mut self, now: Time, news: News) {
        if self.repeats.iter().any(|repeat| repeat.is_like(news)) {
            return;
        }
        let tree = ((u16::from(news.tree()) + 1) % u16::from(self.plan.params.trees)) as u8;
        self.repeats.push_back(news.along(tree));
        self.at(now + REPEAT_AFTER, Timer::Repeat);
    }

    /// Repeats the next broadcast scheduled, unless it is out of date.
    pub(super) fn repeat(&mut self, now: Time, around: &mut impl Around) {
        match self.repeats.pop_front() {
            Some(News::Flow(told)) => {
                let open = self.sending.get(&told.flow).filter(|flow| !flow.transfer.is_through());
                let open = open.map(|flow| flow.told).or_else(|| self.stream_of(told.flow));
                // With the flow's present terms, which may have changed meanwhile.
                let now_told = open.map(|open| Broadcast { event: told.event, tree: told.tree, ..open });
                let told = if told.event == Told::End { Some(told) } else { now_told };
                if let Some(told) = told {
                    self.spread(now, News::Flow(told), &told.encode(), around);
                }
            }
            Some(news @ News::Routings { src, tree, number }) => {
                let number = number as u16;
                let known = self.announced.iter().find(|(known, _)| *known == number);
                if let Some(mut packet) = known.map(|(_, packet)| packet.clone()) {
                    Announcement { tree, src, number }.seal(&mut packet);
                    self.spread(now, news, &packet, around);
                }
            }
            None => {}
        }
    }
}

const _: () = assert!(BROADCAST < DATA_HEADER);
