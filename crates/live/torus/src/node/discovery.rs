//! Detected failures (§3.2): the node learns which links are up, and announces its flows again.

use super::{Node, NodeServices};
use unrack_protocol::r2c2::shared_rates::SharedRates;
use unrack_units::Time;

impl Node {
    /// Adopts the links that are now known to be up, according to the map of `around`.
    pub(crate) fn discover(&mut self, now: Time, around: &mut impl NodeServices) {
        let rates = self.own.plan.rates(around.map());
        self.own.empty = rates.clone();
        let (core, mut driven) = self.at(now, around);
        core.discover(&mut driven, SharedRates::new(rates));
        self.discover_streams(now, around);
        let (core, mut driven) = self.at(now, around);
        core.tell_again(&mut driven);
    }
}
