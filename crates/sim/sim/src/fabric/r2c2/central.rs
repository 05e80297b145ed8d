//! Central control: one node computes the rates of all flows (§5.2, fig. 19). Nodes inform this controller of each flow, and once per
//! interval it sends to every node the new rates of the node's flows. These packets use the same links as all others.

use crate::fabric::slab::Slab;
use std::collections::BTreeMap;
use unrack_protocol::r2c2::view::FlowKey;
use unrack_protocol::r2c2::{Params, RateControl};

/// State that the controller has in addition to a node's view.
pub(super) struct Controller {
    /// Latest rates given to flows, in Kb/s, except the rates that are known to be lost.
    given: BTreeMap<FlowKey, u32>,
    /// Lists of rates in flight.
    lists: Slab<RateList>,
}

/// New rates of a node's flows, by their numbers at that node.
struct RateList {
    node: u32,
    rates: Vec<(u16, u32)>,
}

/// Bytes of a flow's number and its rate in Kb/s.
pub(super) const RATE: u64 = 6;

impl Controller {
    /// Returns a controller if the parameters ask for central control.
    pub(super) fn from_params(params: &Params) -> Option<Controller> {
        let controller = || Controller { given: BTreeMap::new(), lists: Slab::new() };
        (params.control == RateControl::Central).then(controller)
    }

    /// Stores the rates of all flows, and returns the rates that have changed, by source.
    pub(super) fn changed(&mut self, rates: BTreeMap<FlowKey, u32>) -> BTreeMap<u16, Vec<(u16, u32)>> {
        let mut new: BTreeMap<u16, Vec<(u16, u32)>> = BTreeMap::new();
        for ((src, flow), kbps) in rates.iter().filter(|(key, kbps)| self.given.get(key) != Some(kbps)) {
            new.entry(*src).or_default().push((*flow, *kbps));
        }
        self.given = rates;
        new
    }

    /// Creates a list of new rates for a node, and returns its index.
    pub(super) fn list(&mut self, node: u32, rates: &[(u16, u32)]) -> u32 {
        self.lists.insert(RateList { node, rates: rates.into() })
    }

    /// Returns the node and the rates of a list that has arrived.
    pub(super) fn arrived(&mut self, list: u32) -> (u32, Vec<(u16, u32)>) {
        let RateList { node, ref mut rates } = self.lists[list];
        let rates = std::mem::take(rates);
        self.lists.release(list);
        (node, rates)
    }

    /// Marks lost rates as not given, so that the controller sends the then current rates at the end of the interval.
    pub(super) fn give_again(&mut self, list: u32) {
        let RateList { node, rates } = &self.lists[list];
        for (flow, _) in rates {
            self.given.remove(&(*node as u16, *flow));
        }
        self.lists.release(list);
    }

    /// Forgets lost rates without informing the controller. The flows keep their present rates.
    pub(super) fn forget(&mut self, list: u32) {
        self.lists.release(list);
    }
}
