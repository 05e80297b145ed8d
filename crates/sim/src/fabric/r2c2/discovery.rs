//! Discovery of failures (§3.2): the topology is discovered anew, paths and rates are of the links that are left, and
//! every node announces its flows again. All nodes know at the same time: when the scenario says that a failure is
//! detected.

use super::{Event, R2c2};
use crate::engine::{Core, Observer};
use unrack_protocol::r2c2::news::News;
use unrack_protocol::r2c2::packet::{Broadcast, Event as Told};
use unrack_protocol::r2c2::rates::Rates;

impl R2c2 {
    pub(super) fn start_discovering<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        if !std::mem::replace(&mut self.discovers, true) {
            self.discover(core);
        }
    }

    pub(super) fn discover<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        let now = core.now();
        let Some(faults) = self.network.topology.faults().cloned() else { return };
        if let Some(next) = faults.next_known(now) {
            core.schedule(next, Event::Discover);
        }
        let down: Vec<u32> = (0..self.graph.links()).filter(|link| faults.known_down(*link, now)).collect();
        if down == self.down {
            return;
        }
        self.map = self.map.without(|link| down.binary_search(&link).is_ok());
        self.down = down;
        let rate = |link: u32| self.links[link as usize].pace.rate();
        self.empty = Rates::new(self.map.links().map(rate), self.params.headroom.get());
        for node in &mut self.nodes {
            node.reports.clear();
            node.view.discover(now, self.empty.clone(), |routing| self.map.usable(routing));
        }
        let own: Vec<u32> = self.nodes.iter().flat_map(|node| &node.own).copied().collect();
        for flow in own {
            self.tell_again(core, flow);
        }
    }

    /// Announces a flow again that is under way, and lets it go on if it had no path.
    fn tell_again<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32) {
        let place = &mut self.flows[flow];
        place.told.routing = self.map.usable(place.routing);
        let (told, transfer) = (place.told, &place.sender.transfer);
        let has_begun = !matches!(transfer.next(), Some((0, false)));
        if has_begun && !transfer.is_through() {
            self.announce(core, News::Flow(Broadcast { event: Told::Start, ..told }));
        }
        let sender = &self.flows[flow].sender;
        if sender.turn == 0 && sender.transfer.next().is_some() {
            self.go_on(core, flow);
        }
    }
}
