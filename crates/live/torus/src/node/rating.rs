//! Times at which the node computes rates, and at which rules become effective.

use super::{Node, NodeServices, Timer};
use unrack_units::Time;

impl Node {
    /// Starts a run. Rules become effective at their times after `began`.
    pub(crate) fn begin(&mut self, began: Time) {
        self.core.begin(began);
        self.own.began = began;
        self.own.timers.retain(|timer| !matches!(timer.0.2, Timer::Rule(_)));
        let plan = self.own.plan.clone();
        let rules = plan.setup.params.rules.iter().enumerate();
        for (n, rule) in rules.filter(|(_, rule)| rule.at > Time::ZERO) {
            self.own.at(began + rule.at, Timer::Rule(n as u32));
        }
    }

    /// Computes rates, and applies them to streams and flows.
    pub(super) fn tick(&mut self, now: Time, around: &mut impl NodeServices) {
        let keeps = !self.own.bridge.streams.is_empty();
        let (core, mut driven) = self.at(now, around);
        if core.settle(&mut driven, keeps) {
            self.tick_streams(now, around);
            let (core, mut driven) = self.at(now, around);
            core.pace(&mut driven);
        }
    }
}
