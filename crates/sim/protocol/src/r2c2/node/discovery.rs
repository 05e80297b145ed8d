//! Reaction to failed or repaired links (§3.2). Every node adopts the new topology, computes paths and rates for the links that are up, and
//! announces its flows again.

use super::{Node, World};
use crate::r2c2::news::BroadcastContent;
use crate::r2c2::packet::{Broadcast, Event as Told};
use crate::r2c2::shared_rates::SharedRates;

impl<F: Copy + PartialEq> Node<F> {
    /// Adopts the topology in the map of the node's world, which contains the links that are now known to be up. `rates` must be a table of
    /// these links without flows; this node shares it with the other nodes of its process. The caller must then call [`Node::tell_again`].
    pub fn discover<W: World<Flow = F>>(&mut self, world: &mut W, rates: SharedRates) {
        let now = world.now();
        let map = world.map();
        self.reports.clear();
        self.view.discover(now, rates, |routing| map.usable(routing));
    }

    /// Announces this node's running flows again, and resumes the flows that had no path to their destination.
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
