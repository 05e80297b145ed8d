//! One node's view of the rack: the flows that the node knows from broadcasts, and the rates that it computes for them.
//!
//! A broadcast arrives at a node every few hundred ns, but the node computes rates thousands of times less often. Therefore the node only
//! stores a broadcast on arrival, and processes the stored broadcasts when a result depends on them.

use super::Routing;
use super::packet::{Broadcast, Event};
use super::shared_rates::SharedRates;
use super::weights::{LinkShare, Weights};
use rapidhash::fast::SeedableState;
use std::collections::{HashMap, VecDeque};
use unrack_units::Time;

/// Identifier of a flow in the rack: its source node, and its number at that node.
pub type FlowKey = (u16, u16);

/// Flows and rates that one node knows.
#[derive(Debug, Clone)]
pub struct RackView {
    /// Broadcasts that have arrived but are not processed yet.
    unread: Vec<(Time, Broadcast)>,
    /// Index in `flows` of each flow.
    places: HashMap<FlowKey, u32, SeedableState<'static>>,
    flows: Vec<KnownFlow>,
    free: Vec<u32>,
    /// Flows that are too young for a rate, ordered by the time when they became known. The next field has the ended flows, ordered by the
    /// time when they ended. Some entries of both queues are outdated.
    young: VecDeque<(Time, u32)>,
    over: VecDeque<(Time, u32)>,
    /// The node can forget flows that ended at this time or earlier.
    forgets: Option<Time>,
    /// Flows that already took part in the rates when their routing changed.
    rerouted: Vec<u32>,
    /// Time of the last new discovery of the topology. `None` once all sources have had time to announce their flows again.
    discovered: Option<Time>,
    rates: SharedRates,
    /// Number of this node's last computation of rates in `rates`.
    turn: u64,
}

/// State of a known flow.
#[derive(Debug, Clone)]
struct KnownFlow {
    since: Time,
    /// Time of the last broadcast about the flow.
    heard: Time,
    told: Broadcast,
    /// Whether the flow is old enough to have a rate.
    counts: bool,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The flow has ended, perhaps before the announcement of its start arrived. The node keeps the entry for an interval, so that it does
    /// not mistake a resent announcement of the start for a new flow.
    Over,
    /// Unused entry.
    Free,
}

impl RackView {
    /// Creates a view without flows. The view shares the table `rates` with the views of other nodes, which use the table in turn.
    pub fn new(rates: SharedRates) -> RackView {
        RackView {
            unread: Vec::new(),
            places: HashMap::with_hasher(SeedableState::fixed()),
            flows: Vec::new(),
            free: Vec::new(),
            young: VecDeque::new(),
            over: VecDeque::new(),
            forgets: None,
            rerouted: Vec::new(),
            discovered: None,
            rates,
            turn: 0,
        }
    }

    /// Stores a broadcast that has arrived.
    pub fn hear(&mut self, now: Time, told: &Broadcast) {
        // A node that sends nothing never settles rates, so its store would grow without bound.
        if self.unread.len() == MOST_UNREAD {
            self.read();
        }
        self.unread.push((now, *told));
    }

    /// Processes the stored broadcasts. Every method whose result depends on them does this too; an explicit call only leaves less work for
    /// the next [`RackView::settle`].
    pub fn read(&mut self) {
        while let Some(&(since, at)) = self.over.front().filter(|(since, _)| Some(*since) <= self.forgets) {
            self.over.pop_front();
            let known = &self.flows[at as usize];
            if known.state == State::Over && known.since == since {
                self.forget(at);
            }
        }
        if self.unread.is_empty() {
            return;
        }
        let mut unread = std::mem::take(&mut self.unread);
        unread.drain(..).for_each(|(then, told)| self.take(then, told));
        self.unread = unread;
        // This drops the entries of flows that ended before they were old enough for a rate, as most flows do.
        self.young.retain(|(_, at)| self.flows[*at as usize].state == State::Open);
    }

    fn take(&mut self, now: Time, told: Broadcast) {
        let place = self.places.get(&(told.src, told.flow)).copied();
        let known = place.map(|at| &mut self.flows[at as usize]);
        match (told.event, known) {
            (Event::Start, None) => {
                let at =
                    self.keep(KnownFlow { since: now, heard: now, told, counts: false, state: State::Open });
                self.young.push_back((now, at));
            }
            (Event::End, known) => {
                let over = KnownFlow { since: now, heard: now, told, counts: false, state: State::Over };
                known.into_iter().for_each(|known| *known = over.clone());
                let at = place.unwrap_or_else(|| self.keep(over));
                self.over.push_back((now, at));
            }
            // A repeated start, perhaps with different requirements.
            (Event::Start | Event::Demand, Some(known)) => {
                known.heard = now;
                known.told.asked = told.asked;
                place.into_iter().for_each(|at| self.route(at, told.routing));
            }
            (Event::Demand, None) => {}
        }
    }

    fn keep(&mut self, known: KnownFlow) -> u32 {
        let key = (known.told.src, known.told.flow);
        let at = match self.free.pop() {
            Some(at) => {
                self.flows[at as usize] = known;
                at
            }
            None => {
                self.flows.push(known);
                self.flows.len() as u32 - 1
            }
        };
        self.places.insert(key, at);
        at
    }

    fn forget(&mut self, at: u32) {
        let KnownFlow { told, counts, state, .. } = &mut self.flows[at as usize];
        (*state, *counts) = (State::Free, false);
        self.places.remove(&(told.src, told.flow));
        self.free.push(at);
    }

    /// Changes the routing of a flow (§3.4). Its rate changes at the next [`RackView::settle`].
    pub fn reroute(&mut self, key: FlowKey, routing: Routing) {
        self.read();
        if let Some(at) = self.places.get(&key) {
            self.route(*at, routing);
        }
    }

    fn route(&mut self, at: u32, routing: Routing) {
        let known = &mut self.flows[at as usize];
        if std::mem::replace(&mut known.told.routing, routing) == routing {
            return;
        }
        if std::mem::take(&mut known.counts) {
            self.rerouted.push(at);
        }
    }

    /// Replaces the topology. `rates` must describe the links of the new topology and contain no flow. All sources announce their flows
    /// again (§3.2); the view forgets a flow that is not announced within two intervals. `usable` maps the routing of a flow to a routing
    /// that the new topology allows.
    pub fn discover(&mut self, now: Time, rates: SharedRates, usable: impl Fn(Routing) -> Routing) {
        self.read();
        self.rates = rates;
        self.discovered = Some(now);
        for (at, known) in self.flows.iter_mut().enumerate() {
            known.told.routing = usable(known.told.routing);
            if std::mem::take(&mut known.counts) {
                self.rerouted.push(at as u32);
            }
        }
    }

    /// Returns whether the node knows of no flow that is still running.
    pub fn is_idle(&mut self) -> bool {
        self.read();
        self.flows.iter().all(|known| known.state != State::Open)
    }

    /// Returns, for each flow that this node includes in its computation of rates, the last announcement of that flow, ordered by
    /// [`FlowKey`].
    pub fn counting(&mut self) -> Vec<Broadcast> {
        self.read();
        let counting = self.flows.iter().filter(|known| known.counts);
        let mut told: Vec<Broadcast> = counting.map(|known| known.told).collect();
        told.sort_unstable_by_key(|told| (told.src, told.flow));
        told
    }

    /// Includes the flows that the node has known for an interval in its computation of rates (§3.3.2), and computes the rates of all
    /// included flows.
    pub fn settle(&mut self, now: Time, interval: Time, weights: &mut Weights) {
        self.read();
        if let Some(at) = self.discovered.filter(|at| *at + interval * 2 <= now) {
            self.discovered = None;
            for place in 0..self.flows.len() as u32 {
                let known = &self.flows[place as usize];
                if known.state == State::Open && known.heard < at {
                    self.forget(place);
                }
            }
        }
        for at in std::mem::take(&mut self.rerouted) {
            self.count(at);
        }
        self.forgets = (now >= interval).then(|| now - interval);
        while let Some(&(since, at)) = self.young.front().filter(|(since, _)| Some(*since) <= self.forgets) {
            self.young.pop_front();
            if self.flows[at as usize].since == since {
                self.count(at);
            }
        }
        let counting = self.flows.iter().filter(|known| known.counts);
        self.turn = self.rates.settle(counting.map(|known| &known.told), weights);
    }

    /// Lets a flow take part in the rates from now on, unless it has ended in the meantime.
    fn count(&mut self, at: u32) {
        let known = &mut self.flows[at as usize];
        known.counts = known.state == State::Open;
    }

    /// Returns the rate in Kb/s that a flow with these shares of links would get if it were the only flow in the rack.
    pub fn alone_kbps(&self, shares: &[LinkShare]) -> u32 {
        self.rates.alone_kbps(shares)
    }

    /// Returns the rate in Kb/s of a flow, or `None` if the flow is too young to have a rate. The caller must have called
    /// [`RackView::settle`] just before, because other nodes use the same table.
    pub fn kbps(&self, key: FlowKey) -> Option<u32> {
        self.places.get(&key).filter(|at| self.flows[**at as usize].counts)?;
        self.rates.kbps(key, self.turn)
    }
}

/// Maximum number of unprocessed broadcasts that a view stores. They take 128 KiB.
const MOST_UNREAD: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::r2c2::rates::{Rates, Requirements};
    use std::sync::Arc;
    use unrack_rack::graph::Graph;
    use unrack_units::Rate;

    const INTERVAL: Time = Time::from_us(500);

    fn links() -> SharedRates {
        SharedRates::new(Rates::new([Rate::from_gbps(10); 2], 0.0))
    }

    fn told(event: Event, flow: u16) -> Broadcast {
        let (routing, asked) = (Routing::Spraying, Requirements::default());
        Broadcast { event, src: 0, dst: 1, flow, asked, routing, tree: 0 }
    }

    #[test]
    fn flows_count_when_they_are_old_enough_and_until_they_end() {
        let graph = Arc::new(Graph::of_cables(2, &[(0, 1)]).unwrap());
        let mut weights = Weights::new(graph);
        let mut view = RackView::new(links());
        let us = Time::from_us;
        view.hear(us(0), &told(Event::Start, 1));
        view.hear(us(100), &told(Event::Start, 2));
        view.settle(us(499), INTERVAL, &mut weights);
        assert_eq!(view.kbps((0, 1)), None);
        view.settle(us(500), INTERVAL, &mut weights);
        assert_eq!((view.kbps((0, 1)), view.kbps((0, 2))), (Some(10_000_000), None));
        view.settle(us(600), INTERVAL, &mut weights);
        assert_eq!((view.kbps((0, 1)), view.kbps((0, 2))), (Some(5_000_000), Some(5_000_000)));
        let demand = Requirements { demand_kbps: 2_000_000, ..Requirements::default() };
        view.hear(us(610), &Broadcast { asked: demand, ..told(Event::Demand, 1) });
        view.settle(us(620), INTERVAL, &mut weights);
        assert_eq!((view.kbps((0, 1)), view.kbps((0, 2))), (Some(2_000_000), Some(8_000_000)));
        let rerouted = Broadcast { asked: demand, routing: Routing::Vlb, ..told(Event::Demand, 1) };
        view.hear(us(621), &rerouted);
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
        let mut view = RackView::new(links());
        let us = Time::from_us;
        view.hear(us(0), &told(Event::Start, 1));
        view.hear(us(0), &told(Event::Start, 2));
        view.settle(us(500), INTERVAL, &mut weights);
        assert_eq!(view.kbps((0, 1)), Some(5_000_000));
        view.discover(us(600), links(), |routing| routing);
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
        let mut view = RackView::new(links());
        view.hear(Time::ZERO, &told(Event::End, 1));
        view.hear(Time::from_us(1), &told(Event::Start, 1));
        view.settle(Time::from_us(499), INTERVAL, &mut weights);
        assert!(view.is_idle() && view.kbps((0, 1)).is_none());
        assert_eq!(view.places.len(), 1);
        view.settle(Time::from_us(600), INTERVAL, &mut weights);
        assert!(view.is_idle() && view.kbps((0, 1)).is_none());
        assert!(view.places.is_empty() && view.young.is_empty() && view.over.is_empty());
    }
}
