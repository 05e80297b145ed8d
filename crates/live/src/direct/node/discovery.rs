//! Detected failures (§3.2): paths and rates are recomputed from the links that are up, and the node announces its
//! flows again.

use super::sending::Sending;
use super::{Around, Node};
use unrack_protocol::r2c2::packet::{Broadcast, Event as Told};
use unrack_units::Time;

impl Node {
    /// Adopts the links that are now known to be up, as in the map of `around`.
    pub fn discover(&mut self, now: Time, around: &mut impl Around) {
        self.reports.clear();
        let map = around.map();
        self.view.discover(now, self.plan.rates(map), |routing| map.usable(routing));
        self.discover_streams(now, around);
        let mut flows: Vec<u16> = self.sending.keys().copied().collect();
        flows.sort_unstable();
        for flow in flows {
            let Some(sending) = self.sending.get_mut(&flow) else { continue };
            sending.told.routing = around.map().usable(sending.routing);
            let (told, transfer) = (sending.told, &sending.transfer);
            let has_begun = !matches!(transfer.next(), Some((0, false)));
            if has_begun && !transfer.is_through() {
                self.announce(now, Broadcast { event: Told::Start, ..told }, around);
            }
            let waits = |sending: &Sending| sending.turn == 0 && sending.transfer.next().is_some();
            if self.sending.get(&flow).is_some_and(waits) {
                self.go_on(now, flow, around);
            }
        }
    }
}
