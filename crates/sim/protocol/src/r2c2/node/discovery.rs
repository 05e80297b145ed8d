//! Discovery of failures (§3.2). The topology is discovered anew, paths and rates are those of the remaining links,
//! and every node announces its flows again.

use super::{Node, World};
use crate::r2c2::news::BroadcastContent;
use crate::r2c2::packet::{Broadcast, Event as Told};
use crate::r2c2::shared_rates::SharedRates;

impl<F: Copy + PartialEq> Node<F> {
    /// Adopts the links that are now known to be up, as in the map of its world. `rates` are those of these links, for
    /// this node and those with which it takes turns. The caller must then call [`Node::tell_again`].
    pub fn discover<W: World<Flow = F>>(&mut self, world: &mut W, rates: SharedRates) {
        let now = world.now();
        let map = world.map();
        self.reports.clear();
        self.view.discover(now, rates, |routing| map.usable(routing));
    }

    /// Announces the running flows again, and resumes those that had no path.
    pub fn tell_again<W: World<Flow = F>>(&mut self, world: &mut W) {
        for n in 0..self.own.len() {
            let flow = self.own[n];
            let Some(wanted) = world.flow(flow).map(|place| place.routing) else { continue };
            let routing = world.map().usable(wanted);
            let Some(place) = world.flow(flow) else { continue };
            place.told.routing = routing;
            let has_begun = !matches!(place.transfer.next(), Some((0, false)));
            if has_begun && !place.transfer.is_through() {
                let told = Broadcast { event: Told::Start, ..place.told };
                self.announce(world, BroadcastContent::Flow(told));
            }
            let waits =
                world.flow(flow).is_some_and(|place| place.turn == 0 && place.transfer.next().is_some());
            if waits {
                self.go_on(world, flow);
            }
        }
    }
}
