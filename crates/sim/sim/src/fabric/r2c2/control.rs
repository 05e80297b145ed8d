//! Periodic decisions of nodes: rates, routings, and reactions to failures.

use super::R2c2;
use super::central::RATE;
use super::event::Event;
use super::wire::{Body, NONE, Packet};
use std::collections::BTreeMap;
use unrack_engine::events::{Core, Observer};
use unrack_protocol::r2c2::news::BroadcastContent;
use unrack_protocol::r2c2::node::CONTROL;
use unrack_protocol::r2c2::packet::{BROADCAST, MOST_ASSIGNMENTS};
use unrack_protocol::r2c2::shared_rates::SharedRates;
use unrack_protocol::r2c2::view::FlowKey;
use unrack_protocol::r2c2::weights::FlowPaths;

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

    pub(super) fn start_discovering<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        if self.discovery.begins() {
            self.discover(core);
        }
    }

    pub(super) fn discover<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        if !self.discovery.update(core, &mut self.rack) {
            return;
        }
        let shared = SharedRates::new(self.rack.empty.clone());
        for node in 0..self.nodes.len() as u32 {
            let (node, mut around) = self.at(core, node);
            node.discover(&mut around, shared.clone());
        }
        for node in 0..self.nodes.len() as u32 {
            let (node, mut around) = self.at(core, node);
            node.tell_again(&mut around);
        }
    }

    pub(super) fn select<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        self.rack.selected();
        if self.nodes.iter().all(|node| node.own().is_empty()) {
            return;
        }
        self.rack.start_selecting(core);
        let node = self.searches.next_of(self.nodes.len() as u32);
        let told = self.nodes[node as usize].view.counting();
        let chosen = self.searches.better(&mut self.rack, told);
        for pairs in chosen.chunks(MOST_ASSIGNMENTS) {
            let number = self.rack.chosen.len() as u32;
            self.rack.chosen.push(pairs.into());
            let news =
                BroadcastContent::Routings { src: node as u16, tree: self.rack.setup.tree(number), number };
            let (node, mut around) = self.at(core, node);
            node.announce_routings(&mut around, news, pairs);
        }
    }

    /// Sends to each node the changed rates of its flows.
    fn give_rates<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        let node = self.rack.setup.params.controller;
        let Some(controller) = &mut self.controller else { return };
        let view = &mut self.nodes[node as usize].view;
        let counting = view.counting().into_iter().map(|told| (told.src, told.flow));
        let rates: BTreeMap<FlowKey, u32> = counting.filter_map(|key| Some((key, view.kbps(key)?))).collect();
        let most = (self.rack.setup.most / RATE).max(1) as usize;
        for (src, rates) in controller.changed(rates) {
            for rates in rates.chunks(most) {
                let (dst, bytes) = (u32::from(src), rates.len() as u64 * RATE);
                let Some(controller) = &mut self.controller else { return };
                let list = controller.list(dst, rates);
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
        let (node, rates) = controller.arrived(list);
        let (node, mut around) = self.at(core, node);
        node.take_rates(&mut around, &rates);
    }

    /// Marks lost rates as not given.
    pub(super) fn give_again(&mut self, list: u32) {
        if let Some(controller) = &mut self.controller {
            controller.give_again(list);
        }
    }

    /// Lets a node that dropped a packet report the loss to the node that has to know of it.
    pub(super) fn report_loss<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, body: Body) {
        match body {
            Body::Told(news) => {
                let (node, mut around) = self.at(core, node);
                node.report(&mut around, news);
            }
            Body::Rates { list, .. } => match self.rack.setup.params.controller {
                controller if controller == node => self.give_again(list),
                controller => self.unicast(core, node, controller, Body::LostRates(list), BROADCAST as u64),
            },
            Body::LostRates(list) => {
                if let Some(controller) = &mut self.controller {
                    controller.forget(list);
                }
            }
            Body::Data(_) | Body::Ack { .. } | Body::Lost(_) => {}
        }
    }

    /// Sends a packet of no flow by a sprayed route. If there is no path, the packet is lost; when there is a path again, sources announce
    /// their flows again.
    fn unicast<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        src: u32,
        dst: u32,
        body: Body,
        bytes: u64,
    ) {
        let Some(route) = self.rack.draw(FlowPaths { src, dst, ..CONTROL }) else {
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
