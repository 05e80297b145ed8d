//! Bounds of values that are narrower than their types. Other crates rely on these bounds.

use std::fmt::Display;

use unrack_units::{Bytes, Fraction, Time};

use super::Checker;
use crate::Protocol;
use crate::graph::Graph;
use crate::link::LinkSpec;
use crate::network::{BufferSize, NetworkSpec, SwitchSpec};
use crate::topology::{MOST_NODES, MOST_PORTS, TopologySpec};
use crate::workload::{BUILT_IN_CDFS, Blades, Collective, Margin, Operation, Size, Workload};
use unrack_units::nearest::hint;

/// Number of ports per switch of the largest fat tree that has at most `MOST_NODES` nodes.
const MOST_FAT_TREE_PORTS: u32 = 64;
/// Largest number of messages of a run, because messages are numbered in 32 bits.
const MOST_MESSAGES: u64 = u32::MAX as u64;
const SMALLEST_MTU: Bytes = Bytes::new(64);
const LARGEST_MTU: Bytes = Bytes::new(64 << 10);
/// Largest message, 1 TiB, so that 2^31 packets of at most 512 B can carry it. A fabric may carry less.
pub const LARGEST_MESSAGE: Bytes = Bytes::new(1 << 40);
/// Smallest `alpha`. Real switches offer powers of two from 1/128 to 8, and no limit.
const LEAST_ALPHA: f64 = 1.0 / 1024.0;
const MOST_ALPHA: f64 = 1024.0;
/// Longest delay, because a longer one is probably a mistaken unit.
const LONGEST_DELAY: Time = LinkSpec::LONGEST;

impl Checker<'_> {
    pub(super) fn check_network(&mut self, network: &NetworkSpec) {
        self.within("network.mtu", network.mtu, SMALLEST_MTU, LARGEST_MTU);
        self.check_topology(network);
        self.check_link("network.link", &network.link);
        self.check_link("network.core_link", &network.core_link);
        self.check_link("network.cxl_link", &network.cxl_link);
        self.check_switch(&network.switch, network.mtu);
    }

    fn check_topology(&mut self, network: &NetworkSpec) {
        let within = |checker: &mut Self, key: &str, value, least| {
            checker.within(&format!("network.topology.{key}"), value, least, MOST_NODES);
        };
        match network.topology {
            TopologySpec::Star { nodes } => within(self, "nodes", nodes, 2),
            TopologySpec::LeafSpine { racks, hosts_per_rack, spines } => {
                within(self, "racks", racks, 1);
                within(self, "hosts_per_rack", hosts_per_rack, 1);
                within(self, "spines", spines, 1);
            }
            TopologySpec::FatTree { ports } => {
                self.within("network.topology.ports", ports, 2, MOST_FAT_TREE_PORTS);
                if !ports.is_multiple_of(2) {
                    self.complain(
                        "network.topology.ports",
                        format!(
                            "{ports} is odd: give an even number, since half of a switch's ports lead up"
                        ),
                    );
                }
            }
            TopologySpec::Drack { racks, hosts_per_rack, cores } => {
                within(self, "racks", racks, 1);
                within(self, "hosts_per_rack", hosts_per_rack, 1);
                self.check_cores(racks, hosts_per_rack, cores);
            }
            TopologySpec::Torack { racks, hosts_per_rack, uplinks } => {
                within(self, "racks", racks, 1);
                within(self, "hosts_per_rack", hosts_per_rack, 1);
                within(self, "uplinks", uplinks, 1);
            }
            TopologySpec::Torus { sides } | TopologySpec::Mesh { sides } => {
                let wraps = matches!(network.topology, TopologySpec::Torus { .. });
                if let Err(why) = Graph::cube(sides, wraps) {
                    self.complain("network.topology.shape", why);
                }
                return;
            }
            // The reader has already checked these topologies.
            TopologySpec::Graph(_) | TopologySpec::Built(_) => return,
        }
        let nodes = network.topology.nodes();
        let is_star = matches!(network.topology, TopologySpec::Star { .. });
        // If there are no nodes, a check above has already reported the zero.
        if !is_star && nodes > 0 && !(2..=MOST_NODES).contains(&nodes) {
            self.complain("network.topology", format!("{nodes} nodes is outside 2 to {MOST_NODES}"));
        } else if network.topology.ports() > MOST_PORTS {
            let ports = network.topology.ports();
            self.complain("network.topology", format!("{ports} switch ports are more than {MOST_PORTS}"));
        }
    }

    /// Checks that there are core switches if and only if racks could not all reach each other without them (DRack,
    /// appendix A.1).
    fn check_cores(&mut self, racks: u32, hosts: u32, cores: u32) {
        let path = "network.topology.cores";
        if racks == 0 || hosts == 0 {
            return;
        }
        match (racks > hosts, cores) {
            (false, 1..) => self.complain(
                path,
                format!("with {hosts} hosts to a rack, each of {racks} racks reaches every aggregation switch: leave this out"),
            ),
            (true, 0) => self.complain(
                path,
                format!("{racks} racks with {hosts} NICs each do not all reach the same switch: at least 1 core switch is needed"),
            ),
            _ => self.within(path, cores, 0, MOST_NODES),
        }
    }

    pub(super) fn check_link(&mut self, path: &str, link: &LinkSpec) {
        self.within(&format!("{path}.rate"), link.rate, LinkSpec::SLOWEST, LinkSpec::FASTEST);
        self.within(&format!("{path}.propagation"), link.propagation, Time::ZERO, LONGEST_DELAY);
    }

    /// Rejects shared buffers with protocols whose packets do not wait in switches.
    pub(super) fn check_sharing(&mut self, buffer: BufferSize, protocol: Protocol) {
        if let (BufferSize::Shared(_), Some(why)) = (buffer, protocol.profile().no_shared_buffer) {
            self.complain("network.switch.buffer", format!("{why}: leave out `shared`"));
        }
    }

    fn check_switch(&mut self, switch: &SwitchSpec, mtu: Bytes) {
        self.within("network.switch.latency", switch.latency, Time::ZERO, LONGEST_DELAY);
        if switch.buffer.limit().is_some_and(|limit| limit < mtu) {
            self.complain(
                "network.switch.buffer",
                format!("a buffer of {} cannot hold a packet of {mtu}, the mtu: give more", switch.buffer),
            );
        }
        if switch.alpha.is_some() && !matches!(switch.buffer, BufferSize::Shared(_)) {
            let message = format!("only a shared buffer has one: buffer = \"shared {}\"", switch.buffer);
            self.complain("network.switch.alpha", message);
        }
        if !(LEAST_ALPHA..=MOST_ALPHA).contains(&switch.alpha()) {
            let message = format!("{} is outside {LEAST_ALPHA} to {MOST_ALPHA}", switch.alpha());
            self.complain("network.switch.alpha", message);
        }
    }

    pub(super) fn check_workload(&mut self, workload: &Workload, network: &NetworkSpec) {
        let nodes = network.topology.nodes();
        match workload {
            Workload::Memory(memory) => {
                self.check_size("workload.size", &memory.size);
                self.check_amount(memory.load, memory.messages);
                self.within("workload.request_size", memory.request_size, Bytes::new(1), network.mtu);
                self.within("workload.rmw_request_size", memory.rmw_request_size, Bytes::new(1), network.mtu);
                self.within("workload.rmw_size", memory.rmw_size, Bytes::new(1), LARGEST_MESSAGE);
                memory.blades.iter().for_each(|blades| self.check_blades(blades, nodes));
                memory.disk.iter().for_each(|disk| self.check_size("workload.disk.size", &disk.size));
                self.check_margins(workload, memory.messages);
            }
            Workload::Flows(flows) => {
                self.check_size("workload.size", &flows.size);
                self.check_amount(flows.load, flows.messages);
                self.check_margins(workload, flows.messages);
            }
            Workload::Collective(collective) => self.check_collective("workload", collective),
            Workload::Jobs(jobs) => self.check_jobs(jobs, nodes),
            Workload::Trace(trace) => {
                trace.blades.iter().for_each(|blades| self.check_blades(blades, nodes));
                if trace.file.written.is_empty() {
                    self.complain("workload.file", "expected a file name");
                }
            }
        }
    }

    /// Checks a collective operation. Limits that depend on the number of nodes are checked where the messages are
    /// created.
    pub(super) fn check_collective(&mut self, path: &str, collective: &Collective) {
        self.within(&format!("{path}.compute"), collective.compute, Time::ZERO, LONGEST_DELAY);
        match (collective.operation, collective.servers) {
            (Operation::ParameterServer, None) => {
                self.complain(
                    path,
                    "a parameter server needs `servers`, the number of nodes that hold the \
                data",
                );
            }
            (Operation::ParameterServer, Some(_)) | (_, None) => {}
            (_, Some(_)) => self.complain(&format!("{path}.servers"), "only `parameter-server` has servers"),
        }
    }

    fn check_amount(&mut self, load: Fraction, messages: u64) {
        if load.get() == 0.0 {
            self.complain("workload.load", "a load of 0% offers no messages: give more");
        }
        self.within("workload.messages", messages, 1, MOST_MESSAGES);
    }

    /// Checks margins given in messages. Margins given in time are compared with the run later, when its traffic is
    /// known.
    fn check_margins(&mut self, workload: &Workload, messages: u64) {
        let count = |margin| match margin {
            Margin::Messages(count) => count,
            Margin::Time(_) => 0,
        };
        let (warm_up, cool_down) = workload.margins();
        let left_out = count(warm_up).saturating_add(count(cool_down));
        if left_out >= messages {
            let key = if count(warm_up) >= messages { "workload.warm_up" } else { "workload.cool_down" };
            self.complain(key, format!("all {messages} messages are excluded: {left_out} are not counted"));
        }
    }

    fn check_size(&mut self, path: &str, size: &Size) {
        match size {
            Size::Fixed(bytes) => self.within(path, *bytes, Bytes::new(1), LARGEST_MESSAGE),
            Size::BuiltIn(name) if !BUILT_IN_CDFS.contains(&name.as_str()) => {
                let shown = name.escape_debug();
                let hint = hint(name, BUILT_IN_CDFS);
                self.complain(&format!("{path}.cdf"), format!("no distribution is named `{shown}`{hint}"));
            }
            Size::File { file, .. } if file.written.is_empty() => {
                self.complain(&format!("{path}.cdf_file"), "expected a file name");
            }
            // The workload crate checks the parameters of a Pareto distribution.
            Size::BuiltIn(_) | Size::File { .. } | Size::Pareto { .. } => {}
        }
    }

    fn check_blades(&mut self, blades: &Blades, nodes: u32) {
        if blades.compute == 0 || blades.memory == 0 {
            self.complain("workload.blades", "at least one compute blade and one memory blade are needed");
        }
        let blades = u64::from(blades.compute) + u64::from(blades.memory) + u64::from(blades.disk);
        if blades > u64::from(nodes) {
            self.complain("workload.blades", format!("{blades} blades do not fit on {nodes} nodes"));
        }
    }

    pub(super) fn within<T: PartialOrd + Display>(&mut self, path: &str, value: T, least: T, most: T) {
        // Written this way so that NaN is rejected too.
        if !(value >= least && value <= most) {
            self.complain(path, format!("{value} is outside {least} to {most}"));
        }
    }
}
