//! Discovery of failures (§3.2). All nodes know at the same time: when the scenario says that a failure is detected.

use super::{Event, R2c2};
use unrack_engine::events::{Core, Observer};
use unrack_protocol::r2c2::rates::Rates;
use unrack_protocol::r2c2::shared_rates::SharedRates;

impl R2c2 {
    pub(super) fn start_discovering<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        if !std::mem::replace(&mut self.discovers, true) {
            self.discover(core);
        }
    }

    pub(super) fn discover<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        let now = core.now();
        let rack = &mut self.rack;
        let Some(faults) = rack.network.topology.faults().cloned() else { return };
        if let Some(next) = faults.next_known(now) {
            core.schedule(next, Event::Discover);
        }
        let links = 0..rack.setup.graph.links();
        let down: Vec<u32> = links.filter(|link| faults.known_down(*link, now)).collect();
        if down == self.down {
            return;
        }
        rack.map = rack.map.without(|link| down.binary_search(&link).is_ok());
        self.down = down;
        let rate = |link: u32| rack.links[link as usize].pace.rate();
        rack.empty = Rates::new(rack.map.links().map(rate), rack.setup.params.headroom.get());
        let shared = SharedRates::new(rack.empty.clone());
        for node in 0..self.nodes.len() as u32 {
            let (node, mut around) = self.at(core, node);
            node.discover(&mut around, shared.clone());
        }
        for node in 0..self.nodes.len() as u32 {
            let (node, mut around) = self.at(core, node);
            node.tell_again(&mut around);
        }
    }
}
