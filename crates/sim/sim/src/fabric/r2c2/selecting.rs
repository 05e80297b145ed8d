//! Selection of other routings for flows under way (§3.4): once a period one node, each in turn, searches for the
//! best routings that it can find, and announces them. The search takes no simulated time.

use super::{Event, R2c2, Rack};
use unrack_engine::events::{Core, Observer};
use unrack_protocol::r2c2::news::News;
use unrack_protocol::r2c2::packet::{Assignment, MOST_ASSIGNMENTS};
use unrack_protocol::r2c2::selection::{Problem, Selection};
use unrack_units::Time;

impl R2c2 {
    pub(super) fn select<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        self.rack.selects = false;
        if self.nodes.iter().all(|node| node.own().is_empty()) {
            return;
        }
        self.rack.start_selecting(core);
        let node = self.selections % self.nodes.len() as u32;
        self.selections += 1;
        let chosen = self.better(node);
        for pairs in chosen.chunks(MOST_ASSIGNMENTS) {
            let number = self.rack.chosen.len() as u32;
            self.rack.chosen.push(pairs.into());
            let news = News::Routings { src: node as u16, tree: self.rack.setup.tree(number), number };
            let (node, mut around) = self.at(core, node);
            node.announce_routings(&mut around, news, pairs);
        }
    }

    /// Returns the flows that should take other paths, from the view of a node; none if the search finds nothing
    /// better.
    fn better(&mut self, node: u32) -> Vec<Assignment> {
        let Rack { setup, map, empty, .. } = &mut self.rack;
        let Some(selection) = &setup.params.selection else { return Vec::new() };
        let told = self.nodes[node as usize].view.counting();
        let problem = Problem::new(selection, map, empty.clone(), told);
        problem.map_or(Vec::new(), |problem| problem.solve(&mut || self.search_random.next_u64()))
    }
}

impl Rack {
    /// Schedules a choice of routings at the next multiple of the period. Choices go on while there are flows.
    pub(super) fn start_selecting<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        let Some(Selection { period, .. }) = &self.setup.params.selection else { return };
        if !std::mem::replace(&mut self.selects, true) {
            let since = core.now().as_ps() % period.as_ps();
            core.schedule(core.now() + Time::from_ps(period.as_ps() - since), Event::Select);
        }
    }
}
