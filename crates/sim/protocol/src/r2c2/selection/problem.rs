//! Selection problem of one node: to find better routings for the flows that the node knows.

use super::{Candidate, Search, Selection, Utility, worth};
use crate::r2c2::Routing;
use crate::r2c2::map::RackMap;
use crate::r2c2::packet::{Assignment, Broadcast};
use crate::r2c2::rates::Rates;

/// Complete input of a search for routings. Therefore the search can run later and on another thread than the node.
#[derive(Debug, Clone)]
pub struct SelectionProblem {
    selection: Selection,
    /// Rates of the links, without flows.
    links: Rates,
    told: Vec<Broadcast>,
    flows: Vec<Candidate>,
    /// Routings among which each flow may choose.
    choices: Vec<Vec<Routing>>,
}

impl SelectionProblem {
    /// Creates the problem of finding routings for the flows `told`, on the links of the rack that have not failed. Returns `None` if there
    /// are no flows.
    pub fn new(
        selection: &Selection,
        map: &mut RackMap,
        links: Rates,
        told: Vec<Broadcast>,
    ) -> Option<SelectionProblem> {
        let routings = selection.routings.iter().copied().filter(|of| map.usable(*of) == *of);
        let routings: Vec<Routing> = routings.collect();
        // A flow may always keep its current routing, even if the selection's settings do not include this routing.
        let choices = |told: &Broadcast| -> Vec<Routing> {
            let other = (!routings.contains(&told.routing)).then_some(told.routing);
            routings.iter().copied().chain(other).collect()
        };
        let choices: Vec<Vec<Routing>> = told.iter().map(choices).collect();
        let candidate = |(told, choices): (&Broadcast, &Vec<Routing>)| {
            Candidate::new(told.asked, choices, told.ways(), &mut map.weights)
        };
        let flows: Vec<Candidate> = told.iter().zip(&choices).map(candidate).collect();
        (!flows.is_empty()).then(|| SelectionProblem {
            selection: selection.clone(),
            links,
            told,
            flows,
            choices,
        })
    }

    /// Searches, and returns the flows whose routing should change, with their new routings. The list is empty if the search finds no
    /// improvement.
    pub fn solve(&self, random: &mut impl FnMut() -> u64) -> Vec<Assignment> {
        let both = || self.told.iter().zip(&self.choices);
        let gene = |(told, choices): (&Broadcast, &Vec<Routing>)| {
            let at = choices.iter().position(|routing| *routing == told.routing);
            at.expect("what a flow has is one of its choices") as u8
        };
        let current: Vec<u8> = both().map(gene).collect();
        let value = |rates: &[u32]| self.selection.utility.evaluate(rates);
        let before = worth(self.links.clone(), &self.flows, &current, &value);
        let with = (self.selection.search.clone(), &value as Utility);
        let found = Search::new(&self.links, &self.flows, current, with, random).run(random);
        if found.utility <= before {
            return Vec::new();
        }
        let chosen = |((told, choices), gene): ((&Broadcast, &Vec<Routing>), u8)| {
            let routing = choices[usize::from(gene)];
            (routing != told.routing).then_some(Assignment { src: told.src, flow: told.flow, routing })
        };
        both().zip(found.genes).filter_map(chosen).collect()
    }
}
