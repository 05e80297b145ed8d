//! Other routings for flows under way (§3.4): once a period one node, each in turn, searches for the best that it knows
//! of, and tells all. The search takes no time here.

use super::wire::News;
use super::{Event, R2c2};
use crate::engine::{Core, Observer};
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::packet::{Assignment, Broadcast, MOST_ASSIGNMENTS};
use unrack_protocol::r2c2::selection::{Candidate, Search, Selection, worth};
use unrack_protocol::r2c2::weights::Ways;
use unrack_units::Time;
use unrack_workload::random::mix;

impl R2c2 {
    /// While there are flows, at each multiple of the period.
    pub(super) fn start_selecting<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        let Some(Selection { period, .. }) = &self.params.selection else { return };
        if !std::mem::replace(&mut self.selects, true) {
            let since = core.now().as_ps() % period.as_ps();
            core.schedule(core.now() + Time::from_ps(period.as_ps() - since), Event::Select);
        }
    }

    pub(super) fn select<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        self.selects = false;
        if self.nodes.iter().all(|node| node.own.is_empty()) {
            return;
        }
        self.start_selecting(core);
        let node = self.selections % self.nodes.len() as u32;
        self.selections += 1;
        let chosen = self.better(node);
        for pairs in chosen.chunks(MOST_ASSIGNMENTS) {
            let list = self.chosen.len() as u32;
            self.chosen.push(pairs.into());
            let tree = (list % u32::from(self.params.trees)) as u8;
            self.announce(core, News::Routings { src: node as u16, tree, list });
        }
    }

    /// The flows that should take other ways, by what a node knows. None, if no search finds better.
    fn better(&mut self, node: u32) -> Vec<Assignment> {
        let Some(Selection { routings, utility, search, .. }) = self.params.selection.clone() else {
            return Vec::new();
        };
        let routings: Vec<Routing> = routings.into_iter().filter(|of| self.map.usable(*of) == *of).collect();
        let told = self.nodes[node as usize].view.counting();
        // A flow may keep what it has, whatever that is.
        let choices = |told: &Broadcast| -> Vec<Routing> {
            let other = (!routings.contains(&told.routing)).then_some(told.routing);
            routings.iter().copied().chain(other).collect()
        };
        let weights = &mut self.map.weights;
        let candidate = |told: &Broadcast| {
            let mut shares = |routing| {
                let mut shares = Vec::new();
                let (src, dst) = (u32::from(told.src), u32::from(told.dst));
                weights.append(Ways { routing, src, dst, flow: u32::from(told.flow) }, &mut shares);
                shares.into()
            };
            Candidate { asked: told.asked, choices: choices(told).into_iter().map(&mut shares).collect() }
        };
        let flows: Vec<Candidate> = told.iter().map(candidate).collect();
        if flows.is_empty() {
            return Vec::new();
        }
        let gene = |told: &Broadcast| {
            let at = choices(told).iter().position(|routing| *routing == told.routing);
            at.expect("what a flow has is one of its choices") as u8
        };
        let current: Vec<u8> = told.iter().map(gene).collect();
        let value = |rates: &[u32]| utility.of(rates);
        let before = worth(self.empty.clone(), &flows, &current, &value);
        let state = &mut self.search_random;
        let mut random = || {
            *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mix(*state)
        };
        let with = (search, &value as &dyn Fn(&[u32]) -> f64);
        let found =
            Search::new(self.empty.clone(), &flows, current.clone(), with, &mut random).run(&mut random);
        if found.utility <= before {
            return Vec::new();
        }
        let assignment = |(told, gene): (&Broadcast, u8)| Assignment {
            src: told.src,
            flow: told.flow,
            routing: choices(told)[usize::from(gene)],
        };
        let all = told.iter().zip(found.genes).map(assignment);
        all.zip(&told)
            .filter(|(chosen, told)| chosen.routing != told.routing)
            .map(|(chosen, _)| chosen)
            .collect()
    }
}
