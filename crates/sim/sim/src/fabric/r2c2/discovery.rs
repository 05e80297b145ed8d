//! Discovery of failures (§3.2). All nodes learn of a failure at the same time, which is when the scenario lets it be detected.

use super::event::Event;
use super::rack::Rack;
use unrack_engine::events::{Core, Observer};
use unrack_protocol::r2c2::rates::Rates;

/// Failures that nodes know of.
#[derive(Default)]
pub(super) struct Discovery {
    /// Links that are known to be down, sorted.
    down: Vec<u32>,
    /// Whether discovery has begun.
    has_begun: bool,
}

impl Discovery {
    /// Returns whether discovery begins now, which is true for the first call only.
    pub(super) fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.has_begun, true)
    }

    /// Updates the map and the rates of a rack to the failures that are known now. Returns whether anything has changed.
    pub(super) fn update<O: Observer>(&mut self, core: &mut Core<Event, O>, rack: &mut Rack) -> bool {
        let now = core.now();
        let Some(faults) = rack.network.topology.faults().cloned() else { return false };
        if let Some(next) = faults.next_known(now) {
            core.schedule(next, Event::Discover);
        }
        let links = 0..rack.setup.graph.links();
        let down: Vec<u32> = links.filter(|link| faults.known_down(*link, now)).collect();
        if down == self.down {
            return false;
        }
        rack.map = rack.map.without(|link| down.binary_search(&link).is_ok());
        self.down = down;
        let rate = |link: u32| rack.wires.link(link).pace.rate();
        rack.empty = Rates::new(rack.map.links().map(rate), rack.setup.params.headroom.get());
        true
    }
}
