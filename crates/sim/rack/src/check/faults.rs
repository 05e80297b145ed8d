//! Checks the faults of a scenario.

use super::Checker;
use crate::faults::{BitErrors, Faults, ScheduledFailure};
use crate::network::NetworkSpec;
use crate::problem::ScenarioProblem;
use crate::tree::{Node, Value};
use crate::{Protocol, decode::decode};
use unrack_units::Time;

impl Checker<'_> {
    pub(super) fn faults(
        &mut self,
        network: Option<&NetworkSpec>,
        protocol: Option<Protocol>,
    ) -> Option<Faults> {
        let bit_errors = match self.root.get("bit_errors") {
            Some(node) => self.decode::<BitErrors>(node, "bit_errors")?,
            None => BitErrors::default(),
        };
        for (key, rate) in [("link", bit_errors.link), ("core_link", bit_errors.core_link)] {
            if !(0.0..1.0).contains(&rate) {
                let message = format!("{rate} is not a probability below 1");
                self.complain(&format!("bit_errors.{key}"), message);
            }
        }
        let failures = self.failures(network)?;
        let faults = Faults { failures, bit_errors };
        if let Some(why) = protocol.and_then(|it| it.profile().no_faults)
            && !faults.is_empty()
        {
            let key = if faults.failures.is_empty() { "bit_errors" } else { "failures" };
            self.complain(key, format!("{why}; use another fabric, or leave this out"));
        }
        Some(faults)
    }

    fn failures(&mut self, network: Option<&NetworkSpec>) -> Option<Vec<ScheduledFailure>> {
        let Some(list) = self.root.get("failures") else { return Some(Vec::new()) };
        let Value::List(nodes) = &list.value else {
            self.complain(
                "failures",
                format!("expected a list of tables, [[failures]], found {}", list.describe()),
            );
            return None;
        };
        nodes.iter().map(|node| self.failure(node, network)).collect()
    }

    /// Decodes and checks a failure. Each problem is reported at the key that causes it.
    fn failure(&mut self, node: &Node, network: Option<&NetworkSpec>) -> Option<ScheduledFailure> {
        let failure = decode::<ScheduledFailure>(node, "failures", &mut self.problems)?;
        let mut refuse = |key: &str, message: String| {
            let place = node.get(key).unwrap_or(node).place;
            self.problems.push(ScenarioProblem::at(place, format!("failures: {message}")));
        };
        let named = [failure.node.is_some(), failure.switch.is_some(), failure.between.is_some()];
        if named.iter().filter(|named| **named).count() != 1 {
            refuse("", "expected one of `node`, `switch` and `between`, for what fails".into());
        }
        let times = [
            ("from", Some(failure.from)),
            ("until", failure.until),
            ("every", failure.every),
            ("detected_after", failure.detected_after),
        ];
        for (key, time) in times {
            if let Some(time) = time.filter(|time| *time > LATEST) {
                refuse(key, format!("{time} is after the end of simulated time"));
            }
        }
        if let Some(until) = failure.until
            && until <= failure.from
        {
            refuse("until", format!("`until` ({until}) is not after `from` ({})", failure.from));
        }
        match (failure.every, failure.until) {
            (Some(_), None) => refuse("every", "`every` needs `until`, the end of the first failure".into()),
            (Some(every), Some(until)) if until > failure.from && every <= until - failure.from => {
                let length = until - failure.from;
                let message = format!(
                    "it is down for {length}, so it cannot fail every {every}: give a longer `every`"
                );
                refuse("every", message);
            }
            _ => {}
        }
        if let Some(network) = network {
            let (nodes, switches) = (network.topology.nodes(), network.topology.switches());
            if let Some(node) = failure.node.filter(|node| *node >= nodes) {
                refuse("node", format!("there is no node {node}: the network has {nodes}, numbered from 0"));
            }
            let (a, b) = failure.between.unwrap_or_default();
            let switch = failure.switch.unwrap_or(0);
            for (key, switch) in [("switch", switch), ("between", a), ("between", b)] {
                if switch >= switches {
                    let message =
                        format!("there is no switch {switch}: the network has {switches}, numbered from 0");
                    refuse(key, message);
                }
            }
        }
        Some(failure)
    }
}

/// Latest time in a failure. Times are picoseconds in 64 bits, and events after an outage need some of that range.
const LATEST: Time = Time::from_us(1_000_000_000_000);
