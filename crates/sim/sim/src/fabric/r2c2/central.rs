//! Central control: one node computes the rates of all flows (§5.2, fig. 19). It is told of each flow, and once an
//! interval it sends to every node the new rates of its flows. These packets use the same links as everything else.

use super::wire::{Body, Packet};
use super::{Event, NONE, R2c2, Slab};
use std::collections::BTreeMap;
use unrack_engine::events::{Core, Observer};
use unrack_protocol::r2c2::node::CONTROL;
use unrack_protocol::r2c2::packet::BROADCAST;
use unrack_protocol::r2c2::view::FlowKey;
use unrack_protocol::r2c2::weights::Ways;
use unrack_protocol::r2c2::{Params, RateControl};

/// State that the controller has besides a node's view.
pub(super) struct Controller {
    /// Rates that flows were given last, in Kb/s, except those known to be lost.
    given: BTreeMap<FlowKey, u32>,
    /// Lists of rates on their way.
    lists: Slab<List>,
}

/// New rates of a node's flows, by their numbers there.
struct List {
    node: u32,
    rates: Vec<(u16, u32)>,
}

/// Bytes of the number of a flow and its rate in Kb/s.
const RATE: u64 = 6;

impl Controller {
    /// Returns a controller if the parameters ask for central control.
    pub(super) fn from_params(params: &Params) -> Option<Controller> {
        let controller = || Controller { given: BTreeMap::new(), lists: Slab::new() };
        (params.control == RateControl::Central).then(controller)
    }
}

impl R2c2 {
    /// Sends to each node the rates of its flows that have changed.
    pub(super) fn give_rates<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        let node = self.rack.setup.params.controller;
        let Some(controller) = &mut self.controller else { return };
        let view = &mut self.nodes[node as usize].view;
        let counting = view.counting().into_iter().map(|told| (told.src, told.flow));
        let rates: BTreeMap<FlowKey, u32> = counting.filter_map(|key| Some((key, view.kbps(key)?))).collect();
        let mut new: BTreeMap<u16, Vec<(u16, u32)>> = BTreeMap::new();
        for ((src, flow), kbps) in rates.iter().filter(|(key, kbps)| controller.given.get(key) != Some(kbps))
        {
            new.entry(*src).or_default().push((*flow, *kbps));
        }
        controller.given = rates;
        let most = (self.rack.setup.most / RATE).max(1) as usize;
        for (src, rates) in new {
            for rates in rates.chunks(most) {
                let (dst, bytes) = (u32::from(src), rates.len() as u64 * RATE);
                let Some(controller) = &mut self.controller else { return };
                let list = controller.lists.insert(List { node: dst, rates: rates.into() });
                match dst == node {
                    true => self.take_rates(core, list),
                    false => self.unicast(core, node, dst, Body::Rates { node: dst, list }, bytes),
                }
            }
        }
    }

    /// Sets the new rates of the flows of a node.
    pub(super) fn take_rates<O: Observer>(&mut self, core: &mut Core<Event, O>, list: u32) {
        let Some(controller) = &mut self.controller else { return };
        let node = controller.lists[list].node;
        let rates = std::mem::take(&mut controller.lists[list].rates);
        controller.lists.release(list);
        let (node, mut around) = self.at(core, node);
        node.take_rates(&mut around, &rates);
    }

    /// Tells the controller which new rates a node had to drop.
    pub(super) fn report_rates<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, list: u32) {
        match self.rack.setup.params.controller {
            controller if controller == node => self.give_again(list),
            controller => self.unicast(core, node, controller, Body::LostRates(list), BROADCAST as u64),
        }
    }

    /// Takes lost rates as not given: they are sent at the end of the interval, as they are then.
    pub(super) fn give_again(&mut self, list: u32) {
        let Some(controller) = &mut self.controller else { return };
        let List { node, rates } = &controller.lists[list];
        let keys: Vec<FlowKey> = rates.iter().map(|(flow, _)| (*node as u16, *flow)).collect();
        for key in keys {
            controller.given.remove(&key);
        }
        controller.lists.release(list);
    }

    /// Forgets lost rates without telling the controller: the flows keep their present rates.
    pub(super) fn forget_rates(&mut self, list: u32) {
        if let Some(controller) = &mut self.controller {
            controller.lists.release(list);
        }
    }

    /// Sends a packet of no flow by a sprayed route. Without a path it is lost: once there is one, sources announce
    /// their flows again.
    fn unicast<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        src: u32,
        dst: u32,
        body: Body,
        bytes: u64,
    ) {
        let Some(route) = self.rack.draw(Ways { src, dst, ..CONTROL }) else {
            return match body {
                Body::Rates { list, .. } => self.give_again(list),
                _ => self.report_loss(core, src, body),
            };
        };
        let wire = self.rack.setup.wire(bytes);
        let packet = Packet { flow: NONE, body, route, done: 0, wire, payload: 0 };
        if !self.rack.put(core, src, packet) {
            self.report_loss(core, src, body);
        }
    }
}
