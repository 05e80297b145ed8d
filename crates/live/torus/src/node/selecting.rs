//! Better routings for active flows (§3.4). Once per period, one node, each in turn, searches for the best routings for all flows that it
//! knows, and announces them.

use super::{LiveState, Node, NodeServices, Packet, Timer};
use unrack_protocol::r2c2::news::BroadcastContent;
use unrack_protocol::r2c2::packet::{Announcement, Assignment, BROADCAST, MOST_ASSIGNMENTS};
use unrack_protocol::r2c2::selection::SelectionProblem;
use unrack_units::Time;

/// Maximum number of announcements that a node can repeat. This is enough because a node learns of a loss within a round trip.
const MOST_ANNOUNCED: usize = 64;

impl Node {
    pub(super) fn select(&mut self, now: Time, around: &mut impl NodeServices) {
        self.own.selects = false;
        let params = &self.own.plan.setup.params;
        let Some(selection) = &params.selection else { return };
        // A node that sends no flows has not updated its view in this interval.
        self.core.view.settle(now, params.interval, &mut around.map().weights);
        let told = self.core.view.counting();
        let problem = SelectionProblem::new(selection, around.map(), self.own.empty.clone(), told);
        if !self.core.view.is_idle() {
            self.own.start_selecting(now);
        }
        problem.into_iter().for_each(|problem| around.seek(problem));
    }

    /// Announces routings that a search has found, and applies them.
    pub(crate) fn choose(&mut self, now: Time, chosen: &[Assignment], around: &mut impl NodeServices) {
        let most = self.own.plan.setup.most as usize;
        let fit = (most.saturating_sub(BROADCAST) / Assignment::BYTES).max(1);
        for pairs in chosen.chunks(fit.min(MOST_ASSIGNMENTS)) {
            let number = self.own.announced.back().map_or(0, |(number, _)| number.wrapping_add(1));
            let (src, tree) = (self.own.me, self.own.plan.setup.tree(number.into()));
            let mut packet = vec![0; BROADCAST + pairs.len() * Assignment::BYTES];
            Assignment::encode(pairs, &mut packet[BROADCAST..]);
            Announcement { tree, src, number }.seal(&mut packet);
            self.own.announced.push_back((number, packet));
            if self.own.announced.len() > MOST_ANNOUNCED {
                self.own.announced.pop_front();
            }
            let news = BroadcastContent::Routings { src, tree, number: number.into() };
            let (core, mut driven) = self.at(now, around);
            core.announce_routings(&mut driven, news, pairs);
        }
    }

    /// Handles another node's announcement of routings, or bytes that claim to be one.
    pub(super) fn hear_routings(&mut self, now: Time, packet: Packet, around: &mut impl NodeServices) {
        let plan = self.own.plan.clone();
        let allowed = |pair: &Assignment| plan.allows(pair.routing);
        let decoded = Announcement::decode(&packet)
            .map(|(header, pairs)| (header, pairs.filter(allowed).collect::<Vec<_>>()));
        match decoded {
            Ok((Announcement { tree, src, number }, pairs))
                if src != self.own.me && u32::from(src) < plan.nodes() =>
            {
                let news = BroadcastContent::Routings { src, tree, number: number.into() };
                let (core, mut driven) = self.at(now, around);
                core.hear(&mut driven, news, &pairs, &packet);
                around.spare(packet);
            }
            _ => self.own.refuse(packet, around),
        }
    }
}

impl LiveState {
    /// Schedules a search at the node's next turn. Searches continue for as long as the node knows of flows.
    pub(super) fn start_selecting(&mut self, now: Time) {
        let Some(selection) = &self.plan.setup.params.selection else { return };
        if !std::mem::replace(&mut self.selects, true) {
            let period = selection.period.as_ps();
            let (nodes, me) = (u64::from(self.plan.nodes()), u64::from(self.me));
            let past = now.saturating_sub(self.began).as_ps() / period;
            // Turns rotate among the nodes; this is the next turn of this node.
            let turn = past + 1 + (me + nodes - (past + 1) % nodes) % nodes;
            self.at(self.began + Time::from_ps(turn * period), Timer::Select);
        }
    }
}
