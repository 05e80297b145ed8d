//! Demands of flows, and the rates that each node computes.

use super::{Node, NodeTimer, World};
use crate::r2c2::RateControl;
use crate::r2c2::news::BroadcastContent;
use crate::r2c2::packet::{Broadcast, Event as Told};
use crate::r2c2::rates::Requirements;
use unrack_units::{Bytes, Time};

impl<F: Copy + PartialEq> Node<F> {
    /// Starts a run. The times of rules count from `began`.
    pub fn begin(&mut self, began: Time) {
        self.began = began;
    }

    /// Starts the periodic computations of a sending node: once per interval, each node at a different phase.
    pub fn start_ticking<W: World<Flow = F>>(&mut self, world: &mut W) {
        if !std::mem::replace(&mut self.ticks, true) {
            let (now, setup) = (world.now(), world.setup());
            let interval = u128::from(setup.params.interval.as_ps());
            let phase = interval * u128::from(self.me) / u128::from(setup.graph.nodes());
            let since = (u128::from(now.as_ps()) + interval - phase) % interval;
            world.wake_at(now + Time::from_ps((interval - since) as u64), NodeTimer::Tick);
        }
    }

    /// Computes all rates at a [`NodeTimer::Tick`]. Returns whether the node continues to do so, which it does if it
    /// sends flows or if it `keeps` other announcements.
    pub fn settle<W: World<Flow = F>>(&mut self, world: &mut W, keeps: bool) -> bool {
        let (now, params) = (world.now(), &world.setup().params);
        let (interval, is_central) = (params.interval, params.control == RateControl::Central);
        // With a controller, the other nodes know no flows.
        if !keeps && self.own.is_empty() && (!is_central || self.view.is_idle()) {
            self.ticks = false;
            return false;
        }
        self.view.settle(now, interval, &mut world.map().weights);
        world.wake_at(now + interval, NodeTimer::Tick);
        true
    }

    /// Sends the node's flows at the rates that it computed or got from a controller.
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

    /// Applies rates in Kb/s that the controller assigns to flows of the node, by flow number.
    pub fn take_rates<W: World<Flow = F>>(&mut self, world: &mut W, rates: &[(u16, u32)]) {
        for (number, kbps) in rates.iter().copied() {
            let Some(flow) = self.own_of(world, number) else { continue };
            if let Some(place) = world.flow(flow) {
                place.given_kbps = Some(kbps);
            }
            self.set_rate(world, flow, kbps);
        }
    }

    /// Sets the rate of a flow from now on, in Kb/s.
    fn set_rate<W: World<Flow = F>>(&mut self, world: &mut W, flow: F, kbps: u32) {
        let (now, depth) = (world.now(), world.setup().depth(kbps));
        let Some(place) = world.flow(flow).filter(|place| place.bucket.kbps() != kbps) else { return };
        place.bucket.set_rate(now, kbps);
        place.bucket.set_depth(depth);
        self.go_on(world, flow);
    }

    /// Estimates the demand of a flow from the bytes that its host has supplied (§3.3.2), and announces the demand if
    /// it is less than the flow's rate.
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

    /// Applies a rule that holds from now on to the running flows that it matches, and announces the change.
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

    /// Changes the requirements of a flow, and announces them if the flow has something left to send.
    fn ask<W: World<Flow = F>>(&mut self, world: &mut W, flow: F, told: Broadcast) {
        let Some(place) = world.flow(flow) else { return };
        if std::mem::replace(&mut place.told, told) != told && !place.transfer.is_through() {
            self.announce(world, BroadcastContent::Flow(Broadcast { event: Told::Demand, ..told }));
        }
    }
}
