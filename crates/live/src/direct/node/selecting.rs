//! Better routings for flows under way (§3.4): once a period one node, each in turn, searches for the best for all
//! flows that it knows, and announces them.

use super::{Around, Node, Packet, Timer};
use unrack_protocol::r2c2::news::News;
use unrack_protocol::r2c2::packet::{Announcement, Assignment, BROADCAST, MOST_ASSIGNMENTS};
use unrack_protocol::r2c2::selection::Problem;
use unrack_units::Time;

/// Most announcements that a node can repeat: it learns of a loss within a round trip.
const MOST_ANNOUNCED: usize = 64;

impl Node {
    /// Schedules a search at the node's next turn. It goes on as long as the node knows of flows.
    pub(super) fn start_selecting(&mut self, now: Time) {
        let Some(selection) = &self.plan.params.selection else { return };
        if !std::mem::replace(&mut self.selects, true) {
            let period = selection.period.as_ps();
            let (nodes, me) = (u64::from(self.plan.nodes()), u64::from(self.me));
            let past = now.saturating_sub(self.began).as_ps() / period;
            // The next turn that is this node's.
            let turn = past + 1 + (me + nodes - (past + 1) % nodes) % nodes;
            self.at(self.began + Time::from_ps(turn * period), Timer::Select);
        }
    }

    pub(super) fn select(&mut self, now: Time, around: &mut impl Around) {
        self.selects = false;
        let Some(selection) = self.plan.params.selection.clone() else { return };
        // A node without flows of its own has not settled its view in this interval.
        self.view.settle(now, self.plan.params.interval, &mut around.map().weights);
        if !self.view.is_idle() {
            self.start_selecting(now);
        }
        let links = self.plan.rates(around.map());
        let problem = Problem::new(&selection, around.map(), links, self.view.counting());
        problem.into_iter().for_each(|problem| around.seek(problem));
    }

    /// Announces routings that a search has found, and applies them.
    pub fn choose(&mut self, now: Time, chosen: &[Assignment], around: &mut impl Around) {
        let fit = ((self.plan.most as usize).saturating_sub(BROADCAST) / Assignment::BYTES).max(1);
        for pairs in chosen.chunks(fit.min(MOST_ASSIGNMENTS)) {
            let number = self.announced.back().map_or(0, |(number, _)| number.wrapping_add(1));
            let tree = (number % u16::from(self.plan.params.trees)) as u8;
            let mut packet = vec![0; BROADCAST + pairs.len() * Assignment::BYTES];
            Assignment::encode(pairs, &mut packet[BROADCAST..]);
            Announcement { tree, src: self.me, number }.seal(&mut packet);
            self.announced.push_back((number, packet.clone()));
            if self.announced.len() > MOST_ANNOUNCED {
                self.announced.pop_front();
            }
            self.learn(pairs.iter().copied(), around);
            let news = News::Routings { src: self.me, tree, number: number.into() };
            self.spread(now, news, &packet, around);
        }
    }

    fn learn(&mut self, pairs: impl Iterator<Item = Assignment>, around: &mut impl Around) {
        for Assignment { src, flow, routing } in pairs.filter(|pair| self.plan.clone().allows(pair.routing)) {
            let usable = around.map().usable(routing);
            self.view.reroute((src, flow), usable);
            if let Some(own) = self.sending.get_mut(&flow).filter(|_| src == self.me) {
                (own.routing, own.told.routing) = (routing, usable);
            }
        }
    }

    /// Takes another node's announcement of routings, or bytes that claim to be one.
    pub(super) fn hear_routings(&mut self, now: Time, packet: Packet, around: &mut impl Around) {
        let decoded =
            Announcement::decode(&packet).map(|(header, pairs)| (header, pairs.collect::<Vec<_>>()));
        match decoded {
            Ok((Announcement { tree, src, number }, pairs))
                if src != self.me && u32::from(src) < self.plan.nodes() =>
            {
                let news = News::Routings { src, tree, number: number.into() };
                self.reports.heard(news);
                self.learn(pairs.into_iter(), around);
                self.spread(now, news, &packet, around);
                around.spare(packet);
            }
            _ => self.refuse(packet, around),
        }
    }
}
