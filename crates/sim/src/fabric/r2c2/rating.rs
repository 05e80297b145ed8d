//! Demands of flows, and the rates that each node computes.

use super::flow::Flow;
use super::{Event, R2c2};
use crate::engine::{Core, Observer};
use unrack_protocol::r2c2::news::News;
use unrack_protocol::r2c2::packet::{Broadcast, Event as Told};
use unrack_protocol::r2c2::rates::Asked;
use unrack_protocol::r2c2::terms::Terms;
use unrack_units::{Bytes, Time};

impl R2c2 {
    /// Starts the computations of a node that sends: once an interval, at a time of its own.
    pub(super) fn start_ticking<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32) {
        if !std::mem::replace(&mut self.nodes[node as usize].ticks, true) {
            let interval = u128::from(self.params.interval.as_ps());
            let phase = interval * u128::from(node) / self.nodes.len() as u128;
            let since = (u128::from(core.now().as_ps()) + interval - phase) % interval;
            core.schedule(core.now() + Time::from_ps((interval - since) as u64), Event::Tick(node));
        }
    }

    pub(super) fn tick<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32) {
        let (now, interval) = (core.now(), self.params.interval);
        let place = &mut self.nodes[node as usize];
        // With a controller, other nodes know of no flow.
        if place.own.is_empty() && (self.controller.is_none() || place.view.is_idle()) {
            place.ticks = false;
            return;
        }
        place.view.settle(now, interval, &mut self.map.weights);
        core.schedule(now + interval, Event::Tick(node));
        if self.controller.is_some() && node == self.params.controller {
            self.give_rates(core);
        }
        for n in 0..self.nodes[node as usize].own.len() {
            let flow = self.nodes[node as usize].own[n];
            let place = &mut self.flows[flow];
            let sent = std::mem::take(&mut place.sender.sent);
            let key = (place.told.src, place.told.flow);
            let kbps = match self.controller {
                Some(_) => place.sender.given_kbps,
                None => self.nodes[node as usize].view.kbps(key),
            };
            let Some(kbps) = kbps else { continue };
            self.observe(core, flow, sent, kbps);
            self.pace(core, flow, kbps);
        }
    }

    /// Sets the rate of a flow from now on, in Kb/s.
    pub(super) fn pace<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32, kbps: u32) {
        let bucket = &mut self.flows[flow].sender.bucket;
        if kbps != bucket.kbps() {
            bucket.set_rate(core.now(), kbps);
            self.go_on(core, flow);
        }
    }

    /// Estimates the demand of a flow from the bytes that its host has given (§3.3.2); announces it if it is less
    /// than the flow's rate.
    fn observe<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32, sent: u64, kbps: u32) {
        let (now, most, header, interval) = (core.now(), self.most, self.header, self.params.interval);
        let Flow { bytes, sender, told, .. } = &mut self.flows[flow];
        let Some((segment, false)) = sender.transfer.next() else { return };
        let waiting = sender.host.given(*bytes, now).saturating_sub(u64::from(segment) * most);
        let waiting = waiting + waiting.div_ceil(most) * header;
        let demand = sender.demand.observe(Bytes::new(sent), Bytes::new(waiting), interval, kbps);
        if let Some(demand_kbps) = demand {
            told.asked.demand_kbps = demand_kbps;
            let told = Broadcast { event: Told::Demand, ..*told };
            self.announce(core, News::Flow(told));
        }
    }

    pub(super) fn terms(&self, src: u32, dst: u32, now: Time) -> Terms {
        Terms::of(&self.params.rules, self.params.routing, (src, dst), now)
    }

    /// Schedules the rules that hold from a later time on.
    pub(super) fn schedule_rules<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        if std::mem::replace(&mut self.rules_told, true) {
            return;
        }
        let now = core.now();
        for (n, rule) in self.params.rules.iter().enumerate().filter(|(_, rule)| rule.at > now) {
            core.schedule(rule.at, Event::Rule(n as u32));
        }
    }

    /// Applies a rule to the flows under way that it matches; their sources announce the change.
    pub(super) fn rule<O: Observer>(&mut self, core: &mut Core<Event, O>, rule: u32) {
        let own = self.nodes.iter().flat_map(|node| &node.own).copied();
        let rule = &self.params.rules[rule as usize];
        let matches = |flow: &u32| rule.matches(self.flows[*flow].src, self.flows[*flow].dst);
        let reroutes = rule.routing.is_some();
        for flow in own.filter(matches).collect::<Vec<u32>>() {
            let Flow { src, dst, sender, told, .. } = &self.flows[flow];
            let terms = self.terms(*src, *dst, core.now());
            let (is_through, demand_kbps) = (sender.transfer.is_through(), told.asked.demand_kbps);
            let place = &mut self.flows[flow];
            if terms.demand != place.sender.host.rate() {
                place.sender.host = place.sender.host.at(terms.demand, core.now());
            }
            let asked = Asked { demand_kbps, ..terms.asked };
            if reroutes {
                place.routing = terms.routing;
            }
            let routing = self.map.usable(place.routing);
            if (place.told.asked, place.told.routing) != (asked, routing) {
                (place.told.asked, place.told.routing) = (asked, routing);
                let told = Broadcast { event: Told::Demand, ..place.told };
                if !is_through {
                    self.announce(core, News::Flow(told));
                }
            }
        }
    }
}
