//! Times at which nodes compute rates, and rules begin to hold.

use super::{Event, R2c2, Rack};
use unrack_engine::events::{Core, Observer};

impl R2c2 {
    pub(super) fn tick<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32) {
        let (place, mut around) = self.at(core, node);
        if !place.settle(&mut around, false) {
            return;
        }
        if self.controller.is_some() && node == self.rack.setup.params.controller {
            self.give_rates(core);
        }
        let (place, mut around) = self.at(core, node);
        place.pace(&mut around);
    }

    pub(super) fn rule<O: Observer>(&mut self, core: &mut Core<Event, O>, rule: u32) {
        for node in 0..self.nodes.len() as u32 {
            let (node, mut around) = self.at(core, node);
            node.apply_rule(&mut around, rule);
        }
    }
}

impl Rack {
    /// Schedules the rules that hold from a later time on.
    pub(super) fn schedule_rules<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        if std::mem::replace(&mut self.rules_told, true) {
            return;
        }
        let now = core.now();
        let rules = self.setup.params.rules.iter().enumerate();
        for (n, rule) in rules.filter(|(_, rule)| rule.at > now) {
            core.schedule(rule.at, Event::Rule(n as u32));
        }
    }
}
