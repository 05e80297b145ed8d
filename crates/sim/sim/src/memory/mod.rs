//! Estimate of the memory that a scenario will need. It is computed before anything is built.
//!
//! The estimate has a certain part: a row for every message, tables for every pair of nodes, and the data from which
//! jobs are computed. The uncertain part depends on the course of the run: messages that wait for each other in an
//! overloaded network.
//!
//! The constants were measured as the peak resident memory of `unrack sim`, minus that of an empty run, divided by the
//! number of objects of each kind. The networks were stars of 64 to 65,536 nodes, leaf-spines of 16,384 nodes with up
//! to 81,920 ports, fat trees and tori. The work was one message (for nodes and ports), one message of a single packet
//! for each node (for messages), and one message of 45 packets for each node (for packets).
//!
//! Tests of the command (`estimates_are_what_runs_take`, `estimates_of_large_networks_are_close`) measure again, over a
//! grid. They check that the estimate is accurate to [`FACTOR`], and to [`CLOSE`] on networks of thousands of nodes.
//! The estimate is too low if packets are retransmitted many times, for example by TCP on a torus that drops most of
//! them, because then more messages are in flight than estimated.

mod jobs;

use crate::registry::cost;
use crate::scenario::mean_size;
use unrack_rack::{Memory, TopologySpec, ValidScenario, Workload};

/// Accuracy of the estimate: the estimate is between the used memory divided by this factor and the used memory
/// multiplied by it.
pub const FACTOR: f64 = 3.0;
/// Accuracy for networks of thousands of nodes, not counting the memory of an empty run.
pub const CLOSE: f64 = 1.5;

/// Memory that a scenario will need, by cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// Parts of the memory, the largest first.
    pub parts: Vec<NeedPart>,
}

/// One part of a [`Need`].
#[derive(Debug, Clone, PartialEq)]
pub struct NeedPart {
    /// Key of the scenario with which the part grows; empty for the program itself.
    pub key: &'static str,
    pub what: &'static str,
    /// Number of bytes. It is a float, because for absurd scenarios it exceeds any integer type.
    pub bytes: f64,
    /// Whether the part is certain; false if it depends on the course of the run.
    pub is_sure: bool,
}

/// Bytes of an empty run: the program, its libraries, and their data.
const PROGRAM: f64 = 14e6;
/// Bytes per node in all runs: the state from which its traffic is drawn, and the busy times of its link.
const NODE: f64 = 100.0;
/// Bytes per known message, from its submission to the summary: 72 in the tables of the run, and the rest for its
/// figures.
const MESSAGE: f64 = 80.0;

/// Lower bound on the share of capacity that a load leaves free, for the estimate of how long messages wait for each
/// other.
const LEAST_LEFT: f64 = 0.1;
/// Bytes for the routes from one switch to one rack, and for their distance.
const ROUTE: f64 = 8.0 + 4.0;
/// Bytes per port for its cable and the possible failures of the cable.
const FAULTY_PORT: f64 = 40.0;

impl Need {
    /// Computes the memory of a checked scenario. The files that the scenario names are not read.
    pub fn from_scenario(scenario: &ValidScenario) -> Need {
        let mut need = Need { parts: Vec::new() };
        need.sure("", "the program itself", PROGRAM);
        need.network(scenario);
        match &scenario.workload {
            Workload::Memory(memory) => {
                need.messages(scenario, memory.messages, Offered::from_memory(memory))
            }
            Workload::Flows(flows) => {
                let offered = Offered { load: flows.load.get(), data: mean_size(&flows.size), request: 0.0 };
                need.messages(scenario, flows.messages, offered);
            }
            Workload::Jobs(jobs) => need.jobs(jobs, scenario.network.topology.nodes()),
            Workload::Collective(collective) => {
                need.collective(collective, scenario.network.topology.nodes());
            }
            // The number of messages is unknown until the file is read.
            Workload::Trace(_) => {}
        }
        need.sorted()
    }

    /// Adds the rows of a captured trace or of a list. Each row is replayed `copies` times.
    pub fn with_rows(mut self, rows: u64, copies: u32) -> Need {
        self.sure("workload.file", "its rows", rows as f64 * ROW);
        self.sure("workload.blades", "messages of all copies", rows as f64 * f64::from(copies) * MESSAGE);
        self.sorted()
    }

    /// Adds samples of links. Each link has `intervals` intervals.
    pub fn with_samples(mut self, scenario: &ValidScenario, intervals: f64) -> Need {
        let ports = scenario.network.topology.ports() as f64 + f64::from(scenario.network.topology.nodes());
        self.sure("--every", "samples of links", ports * intervals * SAMPLE);
        self.sorted()
    }

    /// Returns the bytes that the run needs whatever its course is.
    pub fn sure_bytes(&self) -> f64 {
        self.parts.iter().filter(|part| part.is_sure).map(|part| part.bytes).sum()
    }

    /// Returns the bytes that the run is expected to need.
    pub fn bytes(&self) -> f64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Returns the largest part that is certain and that a key of the scenario causes.
    pub fn driver(&self) -> Option<&NeedPart> {
        self.parts.iter().find(|part| part.is_sure && !part.key.is_empty())
    }

    fn sorted(mut self) -> Need {
        self.parts.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
        self
    }

    fn sure(&mut self, key: &'static str, what: &'static str, bytes: f64) {
        self.parts.push(NeedPart { key, what, bytes, is_sure: true });
    }

    fn network(&mut self, scenario: &ValidScenario) {
        let topology = &scenario.network.topology;
        let cost = cost(scenario.protocol);
        let (nodes, ports) = (f64::from(topology.nodes()), topology.ports() as f64);
        let key = match topology {
            TopologySpec::Star { .. } => "network.topology.nodes",
            TopologySpec::Torus { .. } | TopologySpec::Mesh { .. } => "network.topology.shape",
            _ => "network.topology",
        };
        let faults = if scenario.faults.is_empty() { 0.0 } else { FAULTY_PORT };
        self.sure(key, "nodes", nodes * (NODE + cost.node));
        self.sure(key, "ports", ports * (cost.port + faults));
        self.sure(key, "pairs of nodes", nodes * nodes * cost.pair);
        if let TopologySpec::Built(built) = topology {
            let pairs = f64::from(built.switches.switches) * f64::from(built.switches.racks);
            self.sure(key, "routes from every switch to every rack", pairs * ROUTE);
        }
        if let Some(host) = &scenario.host {
            let queued = f64::from(host.nic.receive_queue) + f64::from(host.nic.transmit_queue);
            self.sure("host.nic", "queues inside hosts", nodes * queued * jobs::QUEUED);
        }
    }

    /// Adds messages that are submitted at given times, whatever the network does.
    fn messages(&mut self, scenario: &ValidScenario, messages: u64, offered: Offered) {
        let messages = messages as f64;
        self.sure("workload.messages", "messages", messages * MESSAGE);
        let (nodes, cost) = (f64::from(scenario.network.topology.nodes()), cost(scenario.protocol));
        let way = LongestPath::longest(scenario);
        let open = messages * share_open(scenario, offered);
        let open = open.max(messages.min(nodes * way.messages(offered)));
        let segments = packets(scenario, offered) * cost.segment;
        let bytes = open * (cost.open + segments + nodes * cost.open_at_node);
        let what = "messages that are under way at the same time";
        self.parts.push(NeedPart { key: "workload.load", what, bytes, is_sure: false });
        let packets = packets(scenario, offered);
        // The factor is 2 because each packet may be answered by another one.
        let flying = (2.0 * open * packets).min(nodes * way.packets(offered, packets));
        let (bytes, what) = (flying * cost.packet, "packets that are on their way at the same time");
        self.parts.push(NeedPart { key: "workload.load", what, bytes, is_sure: false });
    }
}

/// Bytes of a row of a trace: as it is read, and as the step that it becomes.
const ROW: f64 = 56.0 + 48.0 + 8.0 + 40.0;
/// Bytes of the sample of one link in one interval.
const SAMPLE: f64 = 64.0;

/// Load that a workload offers.
#[derive(Clone, Copy)]
struct Offered {
    /// Share of the capacity of the links of nodes.
    load: f64,
    /// Mean size of the data of a message in bytes; `request` is the mean size of its request.
    data: f64,
    request: f64,
}

impl Offered {
    fn from_memory(memory: &Memory) -> Offered {
        let (data, request) = (mean_size(&memory.size), memory.request_size.get() as f64);
        Offered { load: memory.load.get(), data, request }
    }
}

/// Longest path between two nodes.
struct LongestPath {
    /// Time from one end to the other and back.
    round_trip_s: f64,
    /// Bytes that the link of a node carries in a second.
    bytes_per_s: f64,
}

impl LongestPath {
    fn longest(scenario: &ValidScenario) -> LongestPath {
        let network = &scenario.network;
        let (host, core) = (network.link, network.core_link);
        let (host_links, core_links) = match &network.topology {
            TopologySpec::Star { .. } => (2, 0),
            TopologySpec::FatTree { .. } => (2, 4),
            TopologySpec::Torus { sides } | TopologySpec::Mesh { sides } => {
                (sides.as_slice().iter().map(|side| side / 2).sum::<u32>().max(1), 0)
            }
            _ => (2, 2),
        };
        let links = f64::from(host_links + core_links);
        let propagation = f64::from(host_links) * host.propagation.as_ps() as f64
            + f64::from(core_links) * core.propagation.as_ps() as f64;
        let latency = network.switch.latency.as_ps() as f64 * (links - 1.0);
        let bytes_per_s = host.rate.as_bps() as f64 / 8.0;
        let stored = if network.switch.cut_through { 1.0 } else { links };
        let transmit = stored * network.mtu.get() as f64 / bytes_per_s;
        LongestPath { round_trip_s: 2.0 * ((propagation + latency) / 1e12 + transmit), bytes_per_s }
    }

    /// Returns the number of messages of a node that are in flight at the same time (Little's law), if the network is
    /// not overloaded.
    fn messages(&self, Offered { load, data, request }: Offered) -> f64 {
        let bytes = data + request;
        let time = self.round_trip_s + bytes / self.bytes_per_s;
        let waits = 1.0 / (1.0 - load).max(LEAST_LEFT);
        (load * self.bytes_per_s / bytes.max(1.0) * time * waits).max(1.0)
    }

    /// Returns the number of packets in flight for the messages of a node, including the answers on their way back.
    fn packets(&self, Offered { load, data, request }: Offered, of_message: f64) -> f64 {
        load * self.bytes_per_s * self.round_trip_s / ((data + request) / of_message).max(1.0)
    }
}

/// Returns the number of packets of a message of mean size.
fn packets(scenario: &ValidScenario, offered: Offered) -> f64 {
    (offered.data / scenario.network.mtu.get() as f64).ceil().max(1.0)
}

/// Returns the share of the messages that are in flight when the last message is submitted. It is above zero if headers
/// and answers raise the load beyond the capacity of links.
fn share_open(scenario: &ValidScenario, offered: Offered) -> f64 {
    let Offered { load, data, request } = offered;
    let cost = cost(scenario.protocol);
    let broadcasts = cost.broadcast * f64::from(scenario.network.topology.nodes()) / 3.0;
    let wire = data + request + packets(scenario, offered) * cost.overhead + broadcasts;
    (1.0 - (data + request) / (load * wire)).max(0.0)
}
