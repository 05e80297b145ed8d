//! State that all nodes of a rack share, because one process simulates them.

use super::event::Event;
use super::flow::FlowTable;
use super::wire::{BroadcastCopies, NONE, Packet};
use super::wires::{Wires, looks};
use crate::fabric::slab::Slab;
use std::sync::Arc;
use unrack_basis::{SplitMix64, mix};
use unrack_engine::events::{Core, Observer};
use unrack_engine::network::Network;
use unrack_protocol::r2c2::map::RackMap;
use unrack_protocol::r2c2::news::BroadcastContent;
use unrack_protocol::r2c2::node::RackSetup;
use unrack_protocol::r2c2::packet::{Assignment, BROADCAST, Route};
use unrack_protocol::r2c2::rates::Rates;
use unrack_protocol::r2c2::selection::Selection;
use unrack_protocol::r2c2::weights::FlowPaths;
use unrack_units::Time;

/// State that all nodes share, because one process simulates them.
pub(super) struct Rack {
    pub(super) setup: RackSetup,
    pub(super) network: Network,
    pub(super) wires: Wires,
    pub(super) flows: FlowTable,
    /// Broadcasts in flight.
    spreads: Slab<BroadcastCopies>,
    /// Topology as nodes know it.
    pub(super) map: RackMap,
    /// Rates of the links that are not known to be down, without flows.
    pub(super) empty: Rates,
    /// Lists of chosen routings that were announced so far.
    pub(super) chosen: Vec<Arc<[Assignment]>>,
    /// Whether the next choice of routings is scheduled.
    selects: bool,
    /// Whether the rules that take effect later are scheduled.
    rules_told: bool,
    /// Number of events and timers that were given a number so far.
    turns: u32,
    random: SplitMix64,
}

impl Rack {
    /// Creates the shared state of nodes that know the whole graph. `rates`: the rates of its links, without flows.
    pub(super) fn new(setup: RackSetup, network: &Network, wires: Wires, rates: Rates, seed: u64) -> Rack {
        Rack {
            map: RackMap::whole(&setup.graph, setup.params.trees),
            setup,
            network: network.clone(),
            wires,
            flows: FlowTable::default(),
            spreads: Slab::new(),
            empty: rates,
            chosen: Vec::new(),
            selects: false,
            rules_told: false,
            turns: 0,
            random: SplitMix64::new(mix(seed)).after(1),
        }
    }

    /// Draws a route, or returns `None` if no path is known.
    #[inline]
    pub(super) fn draw(&mut self, ways: FlowPaths) -> Option<Route> {
        let random = &mut self.random;
        self.map.draw(ways, &mut || random.next_u64())
    }

    /// Returns the next number for an event or timer.
    #[inline]
    pub(super) fn turn(&mut self) -> u32 {
        self.turns = self.turns.wrapping_add(1).max(1);
        self.turns
    }

    /// Queues a packet at the first link of its route. Returns whether the packet left and was not lost on that link.
    pub(super) fn put<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, packet: Packet) -> bool {
        if packet.flow != NONE {
            self.flows[packet.flow].references += 1;
        }
        let packet = self.wires.insert(packet);
        let is_put = self.forward(core, node, packet);
        if !is_put {
            self.drop(core, node, packet);
        }
        is_put
    }

    /// Queues a packet at the next link of its route. Returns `false` if the packet is lost.
    pub(super) fn forward<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, index: u32) -> bool {
        self.wires.forward(core, (&self.setup, &self.network, &self.flows), node, index)
    }

    /// Drops a packet that a node could not forward, or that a link lost.
    pub(super) fn drop<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, index: u32) {
        let packet = self.wires.packet(index);
        self.wires.release(index);
        if packet.flow != NONE {
            let (message, payload) = (self.flows[packet.flow].message, u64::from(packet.payload));
            core.dropped(message, payload, || looks(&packet, &self.setup, &self.flows, node));
            self.flows.drop_reference(packet.flow);
        }
    }

    /// Creates a broadcast with one copy, and returns its index.
    pub(super) fn spread(&mut self, news: BroadcastContent) -> u32 {
        self.spreads.insert(BroadcastCopies { news, copies: 1 })
    }

    /// Returns the news that a broadcast carries.
    pub(super) fn news(&self, spread: u32) -> BroadcastContent {
        self.spreads[spread].news
    }

    /// Records that a copy of a broadcast is no longer in flight.
    pub(super) fn drop_copy(&mut self, spread: u32) {
        let place = &mut self.spreads[spread];
        place.copies -= 1;
        if place.copies == 0 {
            self.spreads.release(spread);
        }
    }

    /// Sends a copy of a broadcast over a link. Returns whether the link did not lose it.
    pub(super) fn cross<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        link: u32,
        news: BroadcastContent,
        spread: u32,
    ) -> bool {
        // A list follows its name and its tree, as in a broadcast of a flow.
        let (wire, about) = match news {
            BroadcastContent::Flow(told) => (BROADCAST as u64, u32::from(told.dst)),
            BroadcastContent::Routings { number, .. } => {
                let list = &self.chosen[number as usize];
                ((BROADCAST + list.len() * Assignment::BYTES) as u64, news.src())
            }
        };
        let topology = &self.network.topology;
        let Some(at) = self.wires.broadcast(core, topology, link, (news.src(), about), wire) else {
            return false;
        };
        self.spreads[spread].copies += 1;
        core.schedule(at, Event::Heard { spread, link });
        true
    }

    /// Schedules the rules that take effect later.
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

    /// Schedules a choice of routings at the next multiple of the period. Choices continue as long as there are flows.
    pub(super) fn start_selecting<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        let Some(Selection { period, .. }) = &self.setup.params.selection else { return };
        if !std::mem::replace(&mut self.selects, true) {
            let since = core.now().as_ps() % period.as_ps();
            core.schedule(core.now() + Time::from_ps(period.as_ps() - since), Event::Select);
        }
    }

    /// Records that the scheduled choice of routings has been made.
    pub(super) fn selected(&mut self) {
        self.selects = false;
    }
}
