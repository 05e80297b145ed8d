//! Periodic work of a node: it estimates the demands of its flows, and computes and applies their rates.

use super::{Node, NodeTimer, World};
use crate::r2c2::RateControl;
use crate::r2c2::news::BroadcastContent;
use crate::r2c2::packet::{Broadcast, Event as Told};
use crate::r2c2::rates::Requirements;
use unrack_units::{Bytes, Time};

impl<F: Copy + PartialEq> Node<F> {
    /// Starts a run at time `began`, to which the times in the operator's rules are relative.
    pub fn begin(&mut self, began: Time) {
        self.began = began;
    }

    /// Starts the node's periodic computation of rates, once per interval. Nodes have different phases, so that they do not all compute at
    /// the same time.
    pub fn start_ticking<W: World<Flow = F>>(&mut self, world: &mut W) {
        if !std::mem::replace(&mut self.ticks, true) {
            let (now, setup) = (world.now(), world.setup());
            let interval = u128::from(setup.params.interval.as_ps());
            let phase = interval * u128::from(self.me) / u128::from(setup.graph.nodes());
            let since = (u128::from(now.as_ps()) + interval - phase) % interval;
            world.wake_at(now + Time::from_ps((interval - since) as u64), NodeTimer::Tick);
        }
    }

    /// Computes the rates of all flows at a [`NodeTimer::Tick`], and sets the timer for the next tick. If the node sends no flows and
    /// `keeps` (whether it has other announcements in force) is false, it stops ticking instead, and the result is `false`.
    pub fn settle<W: World<Flow = F>>(&mut self, world: &mut W, keeps: bool) -> bool {
        let (now, params) = (world.now(), &world.setup().params);
        let (interval, is_central) = (params.interval, params.control == RateControl::Central);
        // Under central control, only the controller knows flows. It continues as long as any flow is running.
        if !keeps && self.own.is_empty() && (!is_central || self.view.is_idle()) {
            self.ticks = false;
            return false;
        }
        self.view.settle(now, interval, &mut world.map().weights);
        world.wake_at(now + interval, NodeTimer::Tick);
        true
    }

    /// Applies the new rates to the flows that this node sends: the rates that the node has computed or that the controller has assigned.
    pub fn pace<W: World<Flow = F>>(&mut self, world: &mut W) {
        let is_central = world.setup().params.control == RateControl::Central;
        for n in 0..self.own.len() {
            let flow = self.own[n];
            let Some(place) = world.flow(flow) else { continue };
            let sent = std::mem::take(&mut place.sent);
            let kbps = match is_central {
                true => place.given_kbps,
                false => self.view.kbps((place.told.src, place.told.flow)),
            };
            let Some(kbps) = kbps else { continue };
            self.observe(world, flow, sent, kbps);
            self.set_rate(world, flow, kbps);
        }
    }

    /// Applies the rates that the controller has assigned to flows of this node. Each pair is a flow number and a rate in Kb/s.
    pub fn take_rates<W: World<Flow = F>>(&mut self, world: &mut W, rates: &[(u16, u32)]) {
        for (number, kbps) in rates.iter().copied() {
            let Some(flow) = self.own_of(world, number) else { continue };
            if let Some(place) = world.flow(flow) {
                place.given_kbps = Some(kbps);
            }
            self.set_rate(world, flow, kbps);
        }
    }

    /// Sets the rate at which a flow sends from now on, in Kb/s.
    fn set_rate<W: World<Flow = F>>(&mut self, world: &mut W, flow: F, kbps: u32) {
        let (now, depth) = (world.now(), world.setup().depth(kbps));
        let Some(place) = world.flow(flow).filter(|place| place.bucket.kbps() != kbps) else { return };
        place.bucket.set_rate(now, kbps);
        place.bucket.set_depth(depth);
        self.go_on(world, flow);
    }

    /// Estimates the demand of a flow from the bytes that the program at the source has supplied (§3.3.2), and announces the demand to
    /// other nodes if [`Demand::observe`](crate::r2c2::demand::Demand::observe) finds it worth announcing.
    fn observe<W: World<Flow = F>>(&mut self, world: &mut W, flow: F, sent: u64, kbps: u32) {
        let (now, setup) = (world.now(), world.setup());
        let (most, header, interval) = (setup.most, setup.header, setup.params.interval);
        let Some(place) = world.flow(flow) else { return };
        let Some((segment, false)) = place.transfer.next() else { return };
        let waiting = place.host.given(place.bytes, now).saturating_sub(u64::from(segment) * most);
        let waiting = waiting + waiting.div_ceil(most) * header;
        let demand = place.demand.observe(Bytes::new(sent), Bytes::new(waiting), interval, kbps);
        if let Some(demand_kbps) = demand {
            place.told.asked.demand_kbps = demand_kbps;
            let told = Broadcast { event: Told::Demand, ..place.told };
            self.announce(world, BroadcastContent::Flow(told));
        }
    }

    /// Applies an operator's rule, which holds from now on, to those running flows of this node that the rule matches, and announces their
    /// new requirements.
    pub fn apply_rule<W: World<Flow = F>>(&mut self, world: &mut W, rule: u32) {
        for n in 0..self.own.len() {
            let flow = self.own[n];
            let Some(told) = world.flow(flow).map(|place| place.told) else { continue };
            let (now, setup) = (world.now(), world.setup());
            let (ends, rule) = ((told.src.into(), told.dst.into()), &setup.params.rules[rule as usize]);
            if !rule.matches(ends.0, ends.1) {
                continue;
            }
            let (terms, reroutes) =
                (setup.terms(ends.0, ends.1, now.saturating_sub(self.began)), rule.routing.is_some());
            let Some(place) = world.flow(flow) else { continue };
            if terms.demand != place.host.rate() {
                place.host = place.host.at(terms.demand, now);
            }
            if reroutes {
                place.routing = terms.routing;
            }
            let wanted = place.routing;
            let routing = world.map().usable(wanted);
            let asked = Requirements { demand_kbps: told.asked.demand_kbps, ..terms.asked };
            self.ask(world, flow, Broadcast { asked, routing, ..told });
        }
    }

    /// Changes the requirements of a flow, and announces them to other nodes if the flow has segments left to send.
    fn ask<W: World<Flow = F>>(&mut self, world: &mut W, flow: F, told: Broadcast) {
        let Some(place) = world.flow(flow) else { return };
        if std::mem::replace(&mut place.told, told) != told && !place.transfer.is_through() {
            self.announce(world, BroadcastContent::Flow(Broadcast { event: Told::Demand, ..told }));
        }
    }
}
