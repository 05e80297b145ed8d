//! Central control: one node computes the rates of all flows (§5.2, fig. 19). It is told of each flow, and once an
//! interval it sends to every node the new rates of its flows. These packets use the same links as everything else.

use super::wire::{Body, Packet};
use super::{Event, NONE, R2c2, Slab};
use crate::engine::{Core, Observer};
use std::collections::BTreeMap;
use unrack_protocol::r2c2::news::News;
use unrack_protocol::r2c2::packet::BROADCAST;
use unrack_protocol::r2c2::view::Key;
use unrack_protocol::r2c2::weights::Ways;
use unrack_protocol::r2c2::{Control, Params, Routing};

/// State that the controller has besides a node's view.
pub(super) struct Controller {
    /// Rates that flows were given last, in Kb/s, except those known to be lost.
    given: BTreeMap<Key, u32>,
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
    pub fn of(params: &Params) -> Option<Controller> {
        let controller = || Controller { given: BTreeMap::new(), lists: Slab::new() };
        (params.control == Control::Central).then(controller)
    }
}

impl R2c2 {
    /// Tells news to the controller alone.
    pub(super) fn tell_controller<O: Observer>(&mut self, core: &mut Core<Event, O>, news: News) {
        let (src, dst) = (news.src(), self.params.controller);
        match src == dst {
            true => self.hear_as_controller(core, news),
            false => self.unicast(core, src, dst, Body::Told(news), BROADCAST as u64),
        }
    }

    pub(super) fn hear_as_controller<O: Observer>(&mut self, core: &mut Core<Event, O>, news: News) {
        self.learn(core.now(), self.params.controller, news);
        self.start_ticking(core, self.params.controller);
    }

    /// Sends to each node the rates of its flows that have changed.
    pub(super) fn give_rates<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        let node = self.params.controller;
        let Some(controller) = &mut self.controller else { return };
        let view = &mut self.nodes[node as usize].view;
        let counting = view.counting().into_iter().map(|told| (told.src, told.flow));
        let rates: BTreeMap<Key, u32> = counting.filter_map(|key| Some((key, view.kbps(key)?))).collect();
        let mut new: BTreeMap<u16, Vec<(u16, u32)>> = BTreeMap::new();
        for ((src, flow), kbps) in rates.iter().filter(|(key, kbps)| controller.given.get(key) != Some(kbps))
        {
            new.entry(*src).or_default().push((*flow, *kbps));
        }
        controller.given = rates;
        let most = (self.most / RATE).max(1) as usize;
        for (src, rates) in new {
            for rates in rates.chunks(most) {
                let (dst, bytes) = (u32::from(src), rates.len() as u64 * RATE);
                let Some(controller) = &mut self.controller else { return };
                let list = controller.lists.insert(List { node: dst, rates: rates.into() });
                match dst == node {
                    true => self.take_rates(core, list),
                    false => self.unicast(core, node, dst, Body::Rates(list), bytes),
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
        for (number, kbps) in rates {
            let is_it = |flow: &&u32| self.flows[**flow].told.flow == number;
            if let Some(flow) = self.nodes[node as usize].own.iter().find(is_it).copied() {
                self.flows[flow].sender.given_kbps = Some(kbps);
                self.pace(core, flow, kbps);
            }
        }
    }

    /// Tells the controller which new rates a node had to drop.
    pub(super) fn report_rates<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, list: u32) {
        match node == self.params.controller {
            true => self.give_again(list),
            false => {
                self.unicast(core, node, self.params.controller, Body::LostRates(list), BROADCAST as u64);
            }
        }
    }

    /// Takes lost rates as not given: they are sent at the end of the interval, as they are then.
    pub(super) fn give_again(&mut self, list: u32) {
        let Some(controller) = &mut self.controller else { return };
        let List { node, rates } = &controller.lists[list];
        let keys: Vec<Key> = rates.iter().map(|(flow, _)| (*node as u16, *flow)).collect();
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

    /// Returns the node that a list is sent to.
    pub(super) fn destination(&self, list: u32) -> u32 {
        self.controller.as_ref().map_or(NONE, |controller| controller.lists[list].node)
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
        match self.draw(Ways { routing: Routing::Spraying, src, dst, flow: 0 }) {
            Some(route) => {
                let wire = self.wire(bytes);
                self.put(core, src, Packet { flow: NONE, body, route, done: 0, wire, payload: 0 });
            }
            None => match body {
                Body::Rates(list) => self.give_again(list),
                Body::LostRates(list) => self.forget_rates(list),
                _ => {}
            },
        }
    }
}
