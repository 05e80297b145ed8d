//! Failures of links and switches, and bit errors. All faults are known before the run, so that the loss of a packet on
//! a link depends only on the link and on the times at which the packet crosses it. Faults need no events, and a run
//! without faults does not check for them.
//!
//! A cable carries both directions of a link, and a failure breaks both. A failed switch is modelled as the failure of
//! all its cables. A lost packet still occupies the link for its transmission time, because the sender does not notice
//! the loss.

use crate::error::SetupError;
use crate::events::LinkId;
use crate::link::{Departure, LinkEnd, Pace};
use crate::topology::Topology;
use std::collections::BTreeMap;
use unrack_basis::mix;
use unrack_rack::Outage;
use unrack_units::Time;
use unrack_workload::NodeId;

/// A failure: a part of the network that is down for a while, once or repeatedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Downtime {
    pub what: BrokenPart,
    pub from: Time,
    /// End of the outage; `MAX` if the outage never ends.
    pub until: Time,
    /// Time from the start of one outage to the start of the next; `None` if there is only one outage.
    pub every: Option<Time>,
    /// Time that the network needs to detect that a part failed or recovered; packets avoid the failed part only after
    /// that. `None` if the network never detects it.
    pub detected_after: Option<Time>,
}

/// Part of the network that a failure breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenPart {
    /// The cable of a node, or all of its cables in a network without switches.
    Node(NodeId),
    /// The cable between two switches.
    Between(u32, u32),
    /// All cables of a switch.
    Switch(u32),
}

/// Probability of a bit error on the way, by class of link.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ErrorRates {
    pub host: f64,
    pub core: f64,
}

/// All faults of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSchedule {
    /// Number of the cable of each switch port. The cable of a node has the number of the node's link; the cables
    /// between switches have higher numbers.
    cable_of_port: Vec<u32>,
    outages: Vec<Vec<Outage>>,
    /// Time at which the first outage is detected.
    first_detected: Time,
    host: Option<Errors>,
    core: Option<Errors>,
    seed: u64,
}

impl FaultSchedule {
    /// Creates the fault schedule of a network.
    ///
    /// # Errors
    /// If a failure names a part that the network does not have, or if its times are invalid.
    pub fn new(
        topology: &Topology,
        failures: &[Downtime],
        errors: ErrorRates,
        seed: u64,
    ) -> Result<FaultSchedule, SetupError> {
        let cables = Cables::from_topology(topology);
        let mut outages = vec![Vec::new(); cables.count as usize];
        for (n, failure) in failures.iter().enumerate() {
            let refused =
                |(rule, value): (&'static str, String)| SetupError::new(format!("failures.{n}"), rule, value);
            let Downtime { from, until, every, detected_after, .. } = *failure;
            let outage = Outage::new(from, until, every, detected_after);
            let outage = outage.map_err(refused)?;
            for cable in cables.broken(failure.what).map_err(refused)? {
                outages[cable as usize].push(outage);
            }
        }
        let detected = outages.iter().flatten().map(Outage::first_known);
        let of = |rate, pace| (rate > 0.0).then(|| Errors::new(rate, pace));
        Ok(FaultSchedule {
            first_detected: detected.min().unwrap_or(Time::MAX),
            cable_of_port: cables.of_port,
            outages,
            host: of(errors.host, topology.host_link().pace),
            core: of(errors.core, topology.core_link().pace),
            seed,
        })
    }

    /// Returns whether a packet is lost on a link, because the link is down while the packet crosses it or because of a
    /// bit error.
    pub fn loses(&self, topology: &Topology, link: LinkId, crossing: Departure) -> bool {
        self.is_down(topology, link, crossing) || self.corrupts(topology, link, crossing)
    }

    /// Returns whether the link is down while a packet crosses it.
    pub fn is_down(&self, topology: &Topology, link: LinkId, Departure { first, last }: Departure) -> bool {
        let arrived = last + topology.propagation(link);
        self.outages[self.cable(link)].iter().any(|outage| outage.meets(first, arrived))
    }

    /// Returns whether a packet that crosses a link has a bit error. The result is a hash of the seed, the link and the
    /// time, so that it does not depend on the order of calls.
    pub fn corrupts(&self, topology: &Topology, link: LinkId, Departure { first, last }: Departure) -> bool {
        let (number, is_host) = match link {
            LinkId::Host(node) => (u64::from(node) << 1, true),
            LinkId::Port(port) => (u64::from(port) << 1 | 1, matches!(topology.end(port), LinkEnd::Node(_))),
        };
        let Some(errors) = (if is_host { &self.host } else { &self.core }) else { return false };
        let crossing = match link {
            // Survival is computed for the pace of the core link. Where links differ, the crossing is converted to the
            // time that the same bits take at that pace.
            LinkId::Port(port) if topology.nearest(0, 1).is_some() && !is_host => {
                topology.core_link().pace.transmit(topology.link(port).pace.bytes_in(last - first))
            }
            _ => last - first,
        };
        mix(mix(self.seed ^ mix(number)) ^ first.as_ps()) > errors.survival(crossing)
    }

    /// Returns the first time from `at` on at which the link is up; `None` if the link stays down.
    pub fn up_again(&self, link: LinkId, mut at: Time) -> Option<Time> {
        let outages = &self.outages[self.cable(link)];
        // Repeated outages can follow each other without a gap for ever; therefore the search is bounded.
        for _ in 0..MOST_TURNS {
            match outages.iter().find(|outage| outage.covers(at)) {
                Some(outage) => at = outage.end_after(at)?,
                None => return Some(at),
            }
        }
        None
    }

    /// Returns whether any failure has been detected by `now`. Before that, packets use all paths.
    pub fn any_known(&self, now: Time) -> bool {
        now >= self.first_detected
    }

    /// Returns the next time at which the network detects that a part is down, or up again.
    pub fn next_known(&self, now: Time) -> Option<Time> {
        self.outages.iter().flatten().filter_map(|outage| outage.next_known(now)).min()
    }

    /// Returns whether the cable of a switch port is known to be down.
    pub fn known_down(&self, port: u32, now: Time) -> bool {
        self.known(self.cable_of_port[port as usize], now)
    }

    /// Returns whether the cable of a link by which nodes send is known to be down.
    pub fn known_down_host(&self, attachment: u32, now: Time) -> bool {
        self.known(attachment, now)
    }

    fn known(&self, cable: u32, now: Time) -> bool {
        self.outages[cable as usize].iter().any(|outage| outage.is_known(now))
    }

    fn cable(&self, link: LinkId) -> usize {
        match link {
            LinkId::Host(link) => link as usize,
            LinkId::Port(port) => self.cable_of_port[port as usize] as usize,
        }
    }
}

/// Bound on the outages of one link that follow each other without a gap. It is higher than any scenario needs.
const MOST_TURNS: u32 = 1_000;

/// Cables of a network. Each failure is resolved to the cables that it breaks.
struct Cables<'a> {
    topology: &'a Topology,
    count: u32,
    of_port: Vec<u32>,
    /// Number of each cable between two switches. The key is the pair of switches, with the lower number first.
    between: BTreeMap<(u32, u32), u32>,
}

impl Cables<'_> {
    fn from_topology(topology: &Topology) -> Cables<'_> {
        let (mut count, mut between) = (topology.attachments(), BTreeMap::new());
        let mut cable = |port| match (topology.attachment_of(port), topology.end(port)) {
            (Some(attachment), _) => attachment,
            (None, LinkEnd::Node(_)) => unreachable!("what leads to a node is its cable"),
            (None, LinkEnd::Switch(to)) => {
                let from = topology.owner(port);
                *between.entry((from.min(to), from.max(to))).or_insert_with(|| {
                    count += 1;
                    count - 1
                })
            }
        };
        let of_port = (0..topology.ports()).map(&mut cable).collect();
        Cables { topology, count, of_port, between }
    }

    /// Returns the cables that this failure breaks. If the failure names a part that does not exist, it returns the
    /// rule and the offending value.
    fn broken(&self, what: BrokenPart) -> Result<Vec<u32>, (&'static str, String)> {
        let refuse = |rule, value: String| Err((rule, value));
        let (nodes, switches) = (self.topology.nodes(), self.topology.switches());
        match what {
            // Without switches, other nodes send through this node; therefore all its cables break.
            BrokenPart::Node(node) if node < nodes && self.topology.graph().is_some() => {
                Ok(self.at_switch(node))
            }
            BrokenPart::Node(node) if node < nodes => Ok(vec![node]),
            BrokenPart::Node(node) => refuse("names nodes of the network", format!("node {node} of {nodes}")),
            BrokenPart::Between(a, b) => match self.between.get(&(a.min(b), a.max(b))) {
                Some(cable) => Ok(vec![*cable]),
                None => refuse("names switches that are linked", format!("switches {a} and {b}")),
            },
            BrokenPart::Switch(switch) if switch < switches => Ok(self.at_switch(switch)),
            BrokenPart::Switch(switch) => {
                refuse("names switches of the network", format!("switch {switch} of {switches}"))
            }
        }
    }

    fn at_switch(&self, switch: u32) -> Vec<u32> {
        let topology = self.topology;
        let ends_here =
            |port: &u32| topology.owner(*port) == switch || topology.end(*port) == LinkEnd::Switch(switch);
        let mut cables: Vec<u32> = (0..topology.ports()).filter(ends_here).collect();
        cables.iter_mut().for_each(|port| *port = self.of_port[*port as usize]);
        cables.sort_unstable();
        cables.dedup();
        cables
    }
}

/// Bit errors of a class of links. Probabilities are integers, so that every machine draws the same errors.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Errors {
    pace: Pace,
    /// Probability that 2^n bits arrive without error, in units of 2^-64; n is the index.
    intact: [u64; 48],
}

impl Errors {
    fn new(rate: f64, pace: Pace) -> Errors {
        // Exact, because the factor is a power of two.
        let mut next = u64::MAX - (rate * 2f64.powi(64)) as u64;
        let intact = std::array::from_fn(|_| {
            let this = next;
            next = product(this, this);
            this
        });
        Errors { pace, intact }
    }

    /// Returns the probability that a transmission of this duration arrives without error, in units of 2^-64.
    fn survival(&self, length: Time) -> u64 {
        let bits = self.pace.bytes_in(length) * 8;
        let of_powers = self.intact.iter().enumerate().filter(|(power, _)| bits >> power & 1 == 1);
        of_powers.fold(u64::MAX, |all, (_, intact)| product(all, *intact))
    }
}

fn product(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b) + u128::from(u64::MAX)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Link;
    use unrack_units::Rate;

    fn link() -> Link {
        Link { pace: Pace::new(Rate::from_gbps(100)), propagation: Time::from_ps(10) }
    }

    fn failure(what: BrokenPart, from: u64, until: u64) -> Downtime {
        let time = Time::from_ps;
        Downtime { what, from: time(from), until: time(until), every: None, detected_after: None }
    }

    fn crossing(first: u64, last: u64) -> Departure {
        Departure { first: Time::from_ps(first), last: Time::from_ps(last) }
    }

    fn faults(topology: &Topology, failures: &[Downtime]) -> FaultSchedule {
        FaultSchedule::new(topology, failures, ErrorRates::default(), 1).unwrap()
    }

    #[test]
    fn a_packet_is_lost_if_any_of_it_is_on_a_link_that_is_down() {
        let star = Topology::star(3, link());
        let faults = faults(&star, &[failure(BrokenPart::Node(1), 100, 200)]);
        let lost = |link, first, last| faults.loses(&star, link, crossing(first, last));
        for link in [LinkId::Host(1), LinkId::Port(1)] {
            assert!(!lost(link, 0, 89) && lost(link, 0, 90), "it arrives 10 ps after it left");
            assert!(lost(link, 150, 160) && lost(link, 199, 300) && !lost(link, 200, 300));
        }
        assert!(!lost(LinkId::Host(0), 150, 160) && !lost(LinkId::Port(2), 150, 160));
        assert_eq!(faults.up_again(LinkId::Port(1), Time::from_ps(150)), Some(Time::from_ps(200)));
    }

    #[test]
    fn a_switch_takes_its_cables_along() {
        let tree = Topology::leaf_spine(2, 2, 2, link(), link());
        let faults = faults(&tree, &[failure(BrokenPart::Switch(2), 0, u64::MAX)]);
        // Ports: leaf 0: hosts 0, 1, spines 2, 3; leaf 1: 4, 5, 6, 7; spine 2: leaves 8, 9; spine 3: 10, 11.
        let down: Vec<u32> =
            (0..12).filter(|port| faults.is_down(&tree, LinkId::Port(*port), crossing(5, 6))).collect();
        assert_eq!(down, [2, 6, 8, 9]);
        assert_eq!(faults.up_again(LinkId::Port(2), Time::ZERO), None);
    }

    #[test]
    fn what_is_not_there_cannot_break() {
        let tree = Topology::leaf_spine(2, 2, 2, link(), link());
        let refused = |what, from, until| {
            let failures = [failure(what, from, until)];
            FaultSchedule::new(&tree, &failures, ErrorRates::default(), 1).unwrap_err().to_string()
        };
        assert!(refused(BrokenPart::Node(4), 0, 1).contains("node 4 of 4"));
        assert!(refused(BrokenPart::Between(0, 1), 0, 1).contains("switches 0 and 1"));
        assert!(refused(BrokenPart::Switch(4), 0, 1).contains("switch 4 of 4"));
        assert!(refused(BrokenPart::Node(0), 1, 1).contains("end after they begin"));
    }

    #[test]
    fn bits_flip_as_often_as_they_should() {
        let star = Topology::star(2, link());
        let errors = ErrorRates { host: 1e-4, core: 0.0 };
        let faults = FaultSchedule::new(&star, &[], errors, 7).unwrap();
        // Each packet has 1000 bits, which take 10 ns.
        let packet = |n: u64| crossing(n * 20_000, n * 20_000 + 10_000);
        let lost = (0..100_000).filter(|n| faults.loses(&star, LinkId::Host(0), packet(*n))).count();
        let expected = 100_000.0 * (1.0 - (1.0f64 - 1e-4).powi(1000));
        assert!((lost as f64 - expected).abs() < 4.0 * expected.sqrt(), "{lost} for {expected}");
    }
}
