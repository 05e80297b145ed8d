//! One table of flow rates, which all R2C2 nodes in a process share.
//!
//! A node reads rates only right after it has computed them, and the rates of a set of flows do not depend on the node that computes them.
//! Therefore the nodes of one process take turns with a single table. When a node takes its turn, it removes the flows from the table that
//! it does not know and adds those that only it knows. With one table for each node, memory would grow with the number of nodes times the
//! number of links. A node that is alone in its process has its own table.

use super::packet::Broadcast;
use super::rates::{Rates, Slot};
use super::view::FlowKey;
use super::weights::{FlowPaths, LinkShare, Weights};
use rapidhash::fast::SeedableState;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Table of rates. Its clones share the same table.
#[derive(Debug, Clone)]
pub struct SharedRates(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    rates: Rates,
    /// Flows in `rates`.
    entries: HashMap<FlowKey, Entry, SeedableState<'static>>,
    /// Number of times that a node has computed the rates of the table so far.
    turn: u64,
    /// Flows that the node now using the table knows, but that the table does not contain yet.
    absent: Vec<Broadcast>,
}

#[derive(Debug)]
struct Entry {
    slot: Slot,
    ways: FlowPaths,
    /// Number of the last computation that included the flow.
    turn: u64,
}

impl SharedRates {
    /// Creates a table that contains no flows. `rates` must describe the links of the rack and must not contain any flow.
    pub fn new(rates: Rates) -> SharedRates {
        debug_assert!(rates.is_empty());
        let (entries, absent) = (HashMap::with_hasher(SeedableState::fixed()), Vec::new());
        SharedRates(Arc::new(Mutex::new(Table { rates, entries, turn: 0, absent })))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Computes the rates of exactly these flows. Returns the number of this computation, which is needed to read the rates.
    pub(super) fn settle<'a>(
        &self,
        flows: impl Iterator<Item = &'a Broadcast>,
        weights: &mut Weights,
    ) -> u64 {
        let table = &mut *self.table();
        let Table { rates, entries, turn, absent } = table;
        *turn += 1;
        let mut counted = 0;
        for told in flows {
            match entries.get_mut(&(told.src, told.flow)) {
                Some(entry) if entry.ways == told.ways() => {
                    if rates.asked(entry.slot) != told.asked {
                        rates.ask(entry.slot, told.asked);
                    }
                    entry.turn = *turn;
                    counted += 1;
                }
                _ => absent.push(*told),
            }
        }
        if counted < entries.len() {
            entries.retain(|_, entry| {
                let stays = entry.turn == *turn;
                if !stays {
                    rates.remove(entry.slot);
                }
                stays
            });
        }
        for told in absent.drain(..) {
            let (ways, key) = (told.ways(), (told.src, told.flow));
            let slot = rates.add(told.asked, weights.shares(ways));
            entries.insert(key, Entry { slot, ways, turn: *turn });
        }
        rates.settle();
        *turn
    }

    /// Returns the rate in Kb/s of a flow that the last computation included. `turn` must be the number that [`SharedRates::settle`]
    /// returned for that computation.
    pub(super) fn kbps(&self, key: FlowKey, turn: u64) -> Option<u32> {
        let table = self.table();
        assert_eq!(table.turn, turn, "a node reads its rates before another computes its own");
        table.entries.get(&key).map(|entry| table.rates.kbps(entry.slot))
    }

    /// Returns the rate in Kb/s that a flow with these shares of links would get if it were the only flow in the rack.
    pub fn alone_kbps(&self, shares: &[LinkShare]) -> u32 {
        self.table().rates.alone_kbps(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::r2c2::Routing;
    use crate::r2c2::packet::Event;
    use crate::r2c2::rates::Requirements;
    use crate::r2c2::view::RackView;
    use proptest::prelude::*;
    use std::array::from_fn;
    use unrack_rack::graph::{Graph, Sides};
    use unrack_units::{Rate, Time};

    const NODES: usize = 3;
    const INTERVAL: Time = Time::from_us(10);

    fn told(event: Event, flow: u16, (demand, routing): (u32, bool)) -> Broadcast {
        let asked = Requirements { demand_kbps: demand * 1_000_000, ..Requirements::default() };
        let routing = if routing { Routing::Vlb } else { Routing::Spraying };
        Broadcast { event, src: flow % 9, dst: (flow + 4) % 9, flow, asked, routing, tree: 0 }
    }

    proptest! {
        /// Nodes that share a table get the same rates as nodes with separate tables, whatever broadcasts each node has received.
        #[test]
        fn a_shared_table_gives_what_tables_of_their_own_give(
            steps in prop::collection::vec((0..NODES, 0u8..4, 0u16..8, (1u32..20, any::<bool>())), 1..120),
        ) {
            let graph = Arc::new(Graph::cube(Sides::new(&[3, 3]).unwrap(), true).unwrap());
            let links = || SharedRates::new(Rates::new((0..graph.links()).map(|_| Rate::from_gbps(10)), 0.05));
            let table = links();
            let mut shared: [RackView; NODES] = from_fn(|_| RackView::new(table.clone()));
            let mut own: [RackView; NODES] = from_fn(|_| RackView::new(links()));
            let mut weights = Weights::new(graph.clone());
            for (n, (node, what, flow, how)) in steps.into_iter().enumerate() {
                let now = Time::from_us(3 * n as u64);
                let event = match what {
                    0 => Event::Start,
                    1 => Event::Demand,
                    2 => Event::End,
                    _ => {
                        shared[node].settle(now, INTERVAL, &mut weights);
                        own[node].settle(now, INTERVAL, &mut weights);
                        for key in (0..8).map(|flow| (flow % 9, flow)) {
                            prop_assert_eq!(shared[node].kbps(key), own[node].kbps(key));
                        }
                        continue;
                    }
                };
                for views in [&mut shared, &mut own] {
                    views[node].hear(now, &told(event, flow, how));
                }
            }
        }
    }
}
