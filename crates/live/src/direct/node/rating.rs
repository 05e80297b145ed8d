//! Terms and demands of flows, and the rates that the node computes.

use super::sending::Sending;
use super::{Around, Node, Timer};
use unrack_protocol::r2c2::packet::{Broadcast, DATA_HEADER, Event as Told};
use unrack_protocol::r2c2::rates::Asked;
use unrack_protocol::r2c2::terms::Terms;
use unrack_units::{Bytes, Time};

impl Node {
    /// Starts a run: rules take effect at their times after `began`.
    pub fn begin(&mut self, began: Time) {
        self.began = began;
        self.timers.retain(|timer| !matches!(timer.0.2, Timer::Rule(_)));
        let plan = self.plan.clone();
        for (n, rule) in plan.params.rules.iter().enumerate().filter(|(_, rule)| rule.at > Time::ZERO) {
            self.at(began + rule.at, Timer::Rule(n as u32));
        }
    }

    pub(super) fn terms(&self, now: Time, dst: u32) -> Terms {
        let params = &self.plan.params;
        let since = now.saturating_sub(self.began);
        Terms::of(&params.rules, params.routing, (self.me.into(), dst), since)
    }

    /// Applies a rule to the flows under way that it matches.
    pub(super) fn rule(&mut self, now: Time, rule: u32, around: &mut impl Around) {
        let plan = self.plan.clone();
        let rule = &plan.params.rules[rule as usize];
        let matches = |sending: &&Sending| rule.matches(self.me.into(), sending.told.dst.into());
        let flows = self.sending.values().filter(matches).map(|sending| sending.told.flow);
        for flow in flows.collect::<Vec<u16>>() {
            let Some(dst) = self.sending.get(&flow).map(|sending| sending.told.dst) else { continue };
            let terms = self.terms(now, dst.into());
            let Some(sending) = self.sending.get_mut(&flow) else { continue };
            if terms.demand != sending.host.rate() {
                sending.host = sending.host.at(terms.demand, now);
            }
            let asked = Asked { demand_kbps: sending.told.asked.demand_kbps, ..terms.asked };
            if rule.routing.is_some() {
                sending.routing = terms.routing;
            }
            let told = Broadcast { asked, routing: around.map().usable(sending.routing), ..sending.told };
            if told != std::mem::replace(&mut sending.told, told) && self.is_open(flow) {
                self.announce(now, Broadcast { event: Told::Demand, ..told }, around);
            }
            // The host may now give the flow more than it waited for.
            self.resume(now, flow, around);
        }
    }

    /// Starts the computation of rates, once an interval and at an offset of the node's own, unless it runs already.
    pub(super) fn start_ticking(&mut self, now: Time) {
        if !std::mem::replace(&mut self.ticks, true) {
            let interval = self.plan.params.interval.as_ps();
            let phase = interval / u64::from(self.plan.nodes()) * u64::from(self.me);
            let since = (now.as_ps() + interval - phase) % interval;
            self.at(now + Time::from_ps(interval - since), Timer::Tick);
        }
    }

    pub(super) fn tick(&mut self, now: Time, around: &mut impl Around) {
        if self.sending.is_empty() && self.bridge.streams.is_empty() {
            self.ticks = false;
            return;
        }
        let interval = self.plan.params.interval;
        self.view.settle(now, interval, &mut around.map().weights);
        self.at(now + interval, Timer::Tick);
        self.tick_streams(now, around);
        let rates = |flow: &u16| Some((*flow, self.view.kbps((self.me, *flow))?));
        for (flow, kbps) in self.sending.keys().filter_map(rates).collect::<Vec<(u16, u32)>>() {
            self.observe(now, flow, kbps, around);
            let depth = self.depth(kbps);
            let Some(sending) = self.sending.get_mut(&flow) else { continue };
            if kbps != sending.bucket.kbps() {
                sending.bucket.set_rate(now, kbps);
                sending.bucket.set_depth(depth);
                self.resume(now, flow, around);
            }
        }
    }

    /// Estimates a flow's demand from what its host has given (§3.3.2), and broadcasts it if it is less than the
    /// flow's rate.
    fn observe(&mut self, now: Time, flow: u16, kbps: u32, around: &mut impl Around) {
        let (plan, Some(sending)) = (self.plan.clone(), self.sending.get_mut(&flow)) else { return };
        let sent = std::mem::take(&mut sending.sent);
        let Some((segment, false)) = sending.transfer.next() else { return };
        let given = sending.host.given(sending.bytes, now);
        let waiting = given.saturating_sub(plan.offset(segment));
        let waiting = waiting + waiting.div_ceil(plan.most) * DATA_HEADER as u64;
        let interval = plan.params.interval;
        let told = sending.demand.observe(Bytes::new(sent), Bytes::new(waiting), interval, kbps);
        if let Some(demand_kbps) = told {
            sending.told.asked.demand_kbps = demand_kbps;
            let told = Broadcast { event: Told::Demand, ..sending.told };
            self.announce(now, told, around);
        }
    }
}
