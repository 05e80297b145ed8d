//! What one node knows of the rack's flows, and the rates that it computes from it.

use super::Routing;
use super::packet::{Broadcast, Event};
use super::rates::{Rates, Slot};
use super::weights::{Ways, Weights};
use std::collections::{HashMap, VecDeque};
use unrack_units::Time;

/// A flow, by its source and the number that it has there.
pub type Key = (u16, u16);

/// Of one node.
#[derive(Debug, Clone)]
pub struct View {
    flows: HashMap<Key, Known>,
    /// Flows by when they became known: those before the first are old enough for a rate.
    young: VecDeque<(Time, Key)>,
    /// Those that counted, and take other ways from now on.
    rerouted: Vec<Key>,
    /// When the topology was discovered anew, until those who have flows have said so again.
    discovered: Option<Time>,
    rates: Rates,
}

/// What is known of a flow.
#[derive(Debug, Clone)]
struct Known {
    since: Time,
    /// When something was last heard of it.
    heard: Time,
    told: Broadcast,
    /// Old enough to count.
    slot: Option<Slot>,
    /// Its end came, perhaps before its start. Kept for an interval: a start that is told again is no news.
    over: bool,
}

impl View {
    /// That knows of none yet; `rates` of the links, without flows.
    pub fn new(rates: Rates) -> View {
        View { flows: HashMap::new(), young: VecDeque::new(), rerouted: Vec::new(), discovered: None, rates }
    }

    /// A broadcast has come.
    pub fn hear(&mut self, now: Time, told: &Broadcast) {
        let key = (told.src, told.flow);
        if let Some(known) = self.flows.get_mut(&key) {
            known.heard = now;
        }
        match (told.event, self.flows.get_mut(&key)) {
            (Event::Start, None) => {
                self.flows
                    .insert(key, Known { since: now, heard: now, told: *told, slot: None, over: false });
                self.young.push_back((now, key));
            }
            (Event::End, known) => {
                if let Some(slot) = known.and_then(|known| known.slot.take()) {
                    self.rates.remove(slot);
                }
                self.flows.insert(key, Known { since: now, heard: now, told: *told, slot: None, over: true });
                self.young.push_back((now, key));
            }
            // Told again, perhaps with something else.
            (Event::Start | Event::Demand, Some(known)) => {
                if let Some(slot) = known.slot.filter(|_| known.told.asked != told.asked) {
                    known.slot = Some(self.rates.ask(slot, told.asked));
                }
                known.told.asked = told.asked;
                self.reroute(key, told.routing);
            }
            (Event::Demand, None) => {}
        }
    }

    /// A flow takes other ways from now on (§3.4); after the next [`View::settle`] its rate is of these.
    pub fn reroute(&mut self, key: Key, routing: Routing) {
        let Some(known) = self.flows.get_mut(&key).filter(|known| known.told.routing != routing) else {
            return;
        };
        known.told.routing = routing;
        if let Some(slot) = known.slot.take() {
            self.rates.remove(slot);
            self.rerouted.push(key);
        }
    }

    /// The topology is another: these are its links, without flows. All flows are announced again (§3.2), and those that
    /// are not for two intervals are forgotten. `usable` says which routing takes the place of one.
    pub fn discover(&mut self, now: Time, rates: Rates, usable: impl Fn(Routing) -> Routing) {
        self.rates = rates;
        self.discovered = Some(now);
        let counted = self.flows.iter_mut().filter_map(|(key, known)| {
            known.told.routing = usable(known.told.routing);
            known.slot.take().map(|_| *key)
        });
        self.rerouted.extend(counted);
        self.rerouted.sort_unstable();
    }

    /// Knows of no flow.
    pub fn is_idle(&self) -> bool {
        self.flows.values().all(|known| known.over)
    }

    /// The flows that have a rate, in the order of their keys.
    pub fn counting(&self) -> Vec<Broadcast> {
        let counting = self.flows.values().filter(|known| known.slot.is_some());
        let mut told: Vec<Broadcast> = counting.map(|known| known.told).collect();
        told.sort_unstable_by_key(|told| (told.src, told.flow));
        told
    }

    /// Counts the flows that have been known for an interval (§3.3.2), and settles all rates.
    pub fn settle(&mut self, now: Time, interval: Time, weights: &mut Weights) {
        if let Some(at) = self.discovered.filter(|at| *at + interval * 2 <= now) {
            self.discovered = None;
            let is_silent = |(_, known): &(&Key, &Known)| !known.over && known.heard < at;
            let mut silent: Vec<Key> = self.flows.iter().filter(is_silent).map(|(key, _)| *key).collect();
            silent.sort_unstable();
            for key in silent {
                if let Some(slot) = self.flows.remove(&key).and_then(|known| known.slot) {
                    self.rates.remove(slot);
                }
            }
        }
        for key in std::mem::take(&mut self.rerouted) {
            self.count(key, weights);
        }
        while let Some(&(since, key)) = self.young.front() {
            if since + interval > now {
                break;
            }
            self.young.pop_front();
            let Some(known) = self.flows.get(&key).filter(|known| known.since == since) else { continue };
            match known.over {
                true => drop(self.flows.remove(&key)),
                false => self.count(key, weights),
            }
        }
        self.rates.settle();
    }

    /// A flow is given a rate, if it is not over meanwhile.
    fn count(&mut self, key: Key, weights: &mut Weights) {
        let Some(known) = self.flows.get_mut(&key).filter(|known| !known.over && known.slot.is_none()) else {
            return;
        };
        let Broadcast { src, dst, routing, asked, flow, .. } = known.told;
        let ways = Ways { routing, src: src.into(), dst: dst.into(), flow: u32::from(flow) };
        known.slot = Some(self.rates.add(asked, weights.shares(ways)));
    }

    /// The rate of a flow that is old enough to have one.
    pub fn kbps(&self, key: Key) -> Option<u32> {
        self.flows.get(&key).and_then(|known| known.slot).map(|slot| self.rates.kbps(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::r2c2::rates::Asked;
    use std::sync::Arc;
    use unrack_rack::graph::Graph;
    use unrack_units::Rate;

    const INTERVAL: Time = Time::from_us(500);

    fn told(event: Event, flow: u16) -> Broadcast {
        let (routing, asked) = (Routing::Spraying, Asked::default());
        Broadcast { event, src: 0, dst: 1, flow, asked, routing, tree: 0 }
    }

    #[test]
    fn flows_count_when_they_are_old_enough_and_until_they_end() {
        let graph = Arc::new(Graph::of_cables(2, &[(0, 1)]).unwrap());
        let mut weights = Weights::new(graph);
        let mut view = View::new(Rates::new([Rate::from_gbps(10); 2], 0.0));
        let us = Time::from_us;
        view.hear(us(0), &told(Event::Start, 1));
        view.hear(us(100), &told(Event::Start, 2));
        view.settle(us(499), INTERVAL, &mut weights);
        assert_eq!(view.kbps((0, 1)), None);
        view.settle(us(500), INTERVAL, &mut weights);
        assert_eq!((view.kbps((0, 1)), view.kbps((0, 2))), (Some(10_000_000), None));
        view.settle(us(600), INTERVAL, &mut weights);
        assert_eq!((view.kbps((0, 1)), view.kbps((0, 2))), (Some(5_000_000), Some(5_000_000)));
        let demand = Asked { demand_kbps: 2_000_000, ..Asked::default() };
        view.hear(us(610), &Broadcast { asked: demand, ..told(Event::Demand, 1) });
        view.settle(us(620), INTERVAL, &mut weights);
        assert_eq!((view.kbps((0, 1)), view.kbps((0, 2))), (Some(2_000_000), Some(8_000_000)));
        let rerouted = Broadcast { asked: demand, routing: Routing::Vlb, ..told(Event::Demand, 1) };
        view.hear(us(621), &rerouted);
        assert_eq!(view.kbps((0, 1)), None);
        view.settle(us(625), INTERVAL, &mut weights);
        assert_eq!((view.kbps((0, 1)), view.kbps((0, 2))), (Some(2_000_000), Some(8_000_000)));
        view.hear(us(630), &told(Event::End, 1));
        view.settle(us(640), INTERVAL, &mut weights);
        assert_eq!((view.kbps((0, 1)), view.kbps((0, 2))), (None, Some(10_000_000)));
    }

    #[test]
    fn flows_that_are_not_announced_again_are_forgotten() {
        let graph = Arc::new(Graph::of_cables(2, &[(0, 1)]).unwrap());
        let mut weights = Weights::new(graph);
        let rates = || Rates::new([Rate::from_gbps(10); 2], 0.0);
        let mut view = View::new(rates());
        let us = Time::from_us;
        view.hear(us(0), &told(Event::Start, 1));
        view.hear(us(0), &told(Event::Start, 2));
        view.settle(us(500), INTERVAL, &mut weights);
        assert_eq!(view.kbps((0, 1)), Some(5_000_000));
        view.discover(us(600), rates(), |routing| routing);
        view.hear(us(610), &told(Event::Start, 2));
        view.settle(us(1_000), INTERVAL, &mut weights);
        assert_eq!((view.kbps((0, 1)), view.kbps((0, 2))), (Some(5_000_000), Some(5_000_000)));
        view.settle(us(1_600), INTERVAL, &mut weights);
        assert_eq!((view.kbps((0, 1)), view.kbps((0, 2))), (None, Some(10_000_000)));
    }

    #[test]
    fn an_end_before_its_start_is_an_end() {
        let graph = Arc::new(Graph::of_cables(2, &[(0, 1)]).unwrap());
        let mut weights = Weights::new(graph);
        let mut view = View::new(Rates::new([Rate::from_gbps(10); 2], 0.0));
        view.hear(Time::ZERO, &told(Event::End, 1));
        view.hear(Time::from_us(1), &told(Event::Start, 1));
        view.settle(Time::from_us(600), INTERVAL, &mut weights);
        assert_eq!(view.kbps((0, 1)), None);
        assert!(view.flows.is_empty() && view.young.is_empty());
    }
}
