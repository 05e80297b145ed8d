//! Keep-alives. If a neighbour falls silent, its link is reported as down.

use super::{Node, NodeServices, Packet, Timer};
use unrack_protocol::r2c2::links::{LinkState, Neighbours};
use unrack_protocol::r2c2::packet::{DATA_HEADER, Hello};
use unrack_units::Time;

impl Node {
    /// Starts to send keep-alives, and to expect those of neighbours.
    pub(crate) fn start(&mut self, now: Time) {
        let ports = self.own.plan.degree(self.own.me.into()) as usize;
        self.own.neighbours = Some(Neighbours::new(now, ports, self.own.plan.setup.params.keep_alive()));
        self.own.at(self.next_hello(now), Timer::Hello);
    }

    /// Returns the next keep-alive time. It is the same for all nodes, so that their thread wakes up only once.
    fn next_hello(&self, now: Time) -> Time {
        let interval = self.own.plan.setup.params.keep_alive().as_ps();
        Time::from_ps((now.as_ps() / interval + 1) * interval)
    }

    /// Returns the link that leads here from the neighbour at a port.
    fn inward(&self, port: usize) -> u32 {
        let graph = &self.own.plan.setup.graph;
        graph.reverse(graph.links_of(self.own.me.into()).start + port as u32)
    }

    pub(super) fn say_hello(&mut self, now: Time, around: &mut impl NodeServices) {
        let Some(neighbours) = &mut self.own.neighbours else { return };
        neighbours.look(now);
        for port in 0..self.own.plan.degree(self.own.me.into()) as usize {
            if self.own.neighbours.as_ref().is_some_and(|neighbours| neighbours.is_silent(now, port)) {
                around.links().say(self.inward(port), true);
            }
        }
        self.tell_links(now, around);
        self.own.at(self.next_hello(now), Timer::Hello);
    }

    /// Sends the known states of links to all neighbours.
    pub(crate) fn tell_links(&mut self, now: Time, around: &mut impl NodeServices) {
        let states = around.links().all();
        let fit = Hello::fit(self.own.plan.setup.most as usize + DATA_HEADER);
        // If there are no states, send one keep-alive without any.
        for states in states.chunks(fit).chain(states.is_empty().then_some(&states[..])) {
            for port in 0..self.own.plan.degree(self.own.me.into()) {
                let mut packet = around.empty();
                Hello::encode(states, &mut packet);
                if let Err(packet) = around.put(now, port, packet) {
                    around.spare(packet);
                }
            }
        }
    }

    /// Notes that a packet arrived over the link that leads to this port.
    pub(crate) fn heard(&mut self, now: Time, port: usize, around: &mut impl NodeServices) {
        let Some(neighbours) = &mut self.own.neighbours else { return };
        neighbours.heard(now, port);
        around.links().say(self.inward(port), false);
    }

    pub(super) fn take_hello(&mut self, now: Time, packet: Packet, around: &mut impl NodeServices) {
        let graph = &self.own.plan.setup.graph;
        let states = Hello::decode(&packet).map(|states| states.collect::<Vec<LinkState>>());
        let is_of_here = |states: &Vec<LinkState>| states.iter().all(|state| state.link < graph.links());
        let Some(states) = states.ok().filter(is_of_here) else { return self.own.refuse(packet, around) };
        around.spare(packet);
        let here = graph.links_of(self.own.me.into()).start;
        for state in states {
            around.links().hear(state);
            // A node knows the state of its own links better than its neighbours do.
            if let Some(neighbours) = &self.own.neighbours
                && graph.to(state.link) == u32::from(self.own.me)
            {
                let port = (graph.reverse(state.link) - here) as usize;
                around.links().say(state.link, neighbours.is_silent(now, port));
            }
        }
    }
}
