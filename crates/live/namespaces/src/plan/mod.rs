//! Plan of a rack of namespaces: the names of the namespaces, and the lines for `ip` and `tc` in each. This module executes no commands.

mod drack;
mod torack;

use std::net::Ipv4Addr;
use unrack_live::Error;
use unrack_rack::{LinkSpec, NetworkSpec, TopologySpec};
use unrack_units::Time;

/// Namespaces of one or several racks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespacePlan {
    pub(crate) spaces: Vec<PlannedNamespace>,
    pub hosts: Vec<NamespaceHost>,
    /// Number of NICs through which a host can be reached. The third byte of an address is the NIC's number.
    pub nics: u32,
}

/// A host, on which programs run. Its index in the plan is the number of its node.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NamespaceHost {
    /// Name of the host's namespace.
    pub namespace: String,
    /// Address of the host's first NIC. MPTCP announces the addresses of the other NICs to peers.
    pub address: Ipv4Addr,
    /// Addresses of all NICs of the host.
    #[serde(default)]
    pub addresses: Vec<Ipv4Addr>,
    /// Number of the rack with whose hosts this host shares memory, if it shares memory at all.
    #[serde(default)]
    pub memory: Option<u32>,
}

/// A namespace and its configuration, in steps. Each step is done in all namespaces before the next step begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PlannedNamespace {
    pub name: String,
    /// Lines for `ip`: links to other namespaces.
    pub links: Vec<String>,
    /// Kernel settings, by path under `/proc/sys/net`.
    pub settings: Vec<(&'static str, &'static str)>,
    /// Lines for `ip`: addresses and routes.
    pub routes: Vec<String>,
    /// Lines for `tc`.
    pub shapes: Vec<String>,
}

/// Maximum number of racks. Addresses are 10.rack.NIC.host, and the last host number of each NIC is that of its router.
const MOST_RACKS: u32 = 250;
/// Maximum number of hosts. Each of them runs programs, and 64 namespaces can be created within seconds.
const MOST_HOSTS: u32 = 64;
/// Most NICs of a rack: the number of addresses of a host that the kernel's MPTCP uses (`MPTCP_PM_ADDR_MAX`).
const MOST_NICS: u32 = 8;
/// Longest propagation delay in a scenario. It is not emulated, because packets take as long as the kernel takes.
const LONGEST_DELAY: Time = Time::from_us(100);
const ROUTER: u32 = 254;
/// MTU of Ethernet, the kernel's default.
const USUAL_MTU: u64 = 1500;
const LEAST_MTU: u64 = 576;

impl NamespacePlan {
    /// Plans a network; `prefix` begins the names of its namespaces.
    ///
    /// # Errors
    /// [`Error::Usage`] if the network cannot be emulated.
    pub fn new(network: &NetworkSpec, prefix: &str) -> Result<NamespacePlan, Error> {
        let mut plan = match (&network.topology, network.topology.wiring()) {
            (&TopologySpec::Torack { racks, hosts_per_rack, uplinks }, _) => {
                check(network, racks, uplinks)?;
                torack::plan(network, prefix, (racks, hosts_per_rack, uplinks))
            }
            (_, Some(wiring)) => {
                check(network, wiring.racks, wiring.hosts_per_rack)?;
                drack::plan(network, prefix, wiring)
            }
            (other, None) => {
                let kind = other.kind();
                return Err(Error::Usage(format!("a `{kind}` is not emulated: use `drack` or `torack`")));
            }
        };
        let mtu = network.mtu.get();
        for space in &mut plan.spaces {
            space.routes.insert(0, "link set lo up".into());
            if mtu != USUAL_MTU {
                // Set the MTU at both ends of the link.
                let with = format!(" mtu {mtu}");
                space.links.iter_mut().for_each(|line| {
                    *line = line.replacen(" type ", &format!("{with} type "), 1).replacen(
                        " netns ",
                        &format!("{with} netns "),
                        1,
                    );
                });
            }
        }
        Ok(plan)
    }

    /// Returns the lines of a hosts file, in which node k has the name `hostk`.
    pub fn names(&self) -> String {
        let lines = self.hosts.iter().enumerate();
        let lines: String = lines.map(|(n, host)| format!("{} host{n}\n", host.address)).collect();
        format!("127.0.0.1 localhost\n{lines}")
    }
}

/// Checks that a network can be emulated. `nics` is the number of NICs or uplinks of a rack.
fn check(network: &NetworkSpec, racks: u32, nics: u32) -> Result<(), Error> {
    let refuse = |text: String| Err(Error::Usage(text));
    let nodes = network.topology.nodes();
    if nodes > MOST_HOSTS || racks > MOST_RACKS {
        return refuse(format!("{nodes} hosts do not fit on one machine: at most {MOST_HOSTS}"));
    }
    if nics > MOST_NICS {
        return refuse(format!(
            "{nics} NICs or uplinks of a rack are more than the {MOST_NICS} that a connection can use"
        ));
    }
    let slow = [network.link, network.core_link].into_iter().find(|link| link.propagation > LONGEST_DELAY);
    if let Some(link) = slow {
        return refuse(format!(
            "only rates are emulated, and packets take as long as the kernel does: {} of propagation is above \
             {LONGEST_DELAY}; --set network.link.propagation=0ns goes without",
            link.propagation
        ));
    }
    if network.mtu.get() < LEAST_MTU {
        return refuse(format!(
            "the kernel's TCP takes packets from {LEAST_MTU} B on, not of {}",
            network.mtu
        ));
    }
    Ok(())
}

impl PlannedNamespace {
    fn new(name: String) -> PlannedNamespace {
        PlannedNamespace { name, ..PlannedNamespace::default() }
    }

    fn router(name: String) -> PlannedNamespace {
        // Distribute flows, not packets, over paths: by addresses and ports.
        let settings = vec![("ipv4/ip_forward", "1"), ("ipv4/fib_multipath_hash_policy", "1")];
        PlannedNamespace { settings, ..PlannedNamespace::new(name) }
    }

    fn host(name: String) -> PlannedNamespace {
        // Use the congestion control of the simulator's `tcp`, whatever the default of this machine is. A namespace may choose only among
        // those that the machine allows (net.ipv4.tcp_allowed_congestion_control), and Reno is allowed everywhere.
        let settings = vec![("mptcp/enabled", "1"), ("ipv4/tcp_congestion_control", "cubic reno")];
        PlannedNamespace { settings, ..PlannedNamespace::new(name) }
    }

    /// Adds a cable to another namespace.
    fn link(&mut self, name: &str, to: &str, peer: &str) {
        self.links.push(format!("link add {name} type veth peer name {peer} netns {to}"));
    }

    fn up(&mut self, name: &str) {
        self.routes.push(format!("link set {name} up"));
    }

    fn address(&mut self, address: &str, name: &str) {
        self.routes.push(format!("address add {address} dev {name}"));
        self.up(name);
    }

    /// Adds a bridge between links of this namespace.
    fn bridge(&mut self, name: &str) {
        self.links.push(format!("link add {name} type bridge"));
        self.up(name);
    }

    fn join(&mut self, name: &str, bridge: &str) {
        self.routes.push(format!("link set {name} master {bridge}"));
        self.up(name);
    }

    /// Limits the rate and the buffer of a link in the outgoing direction.
    fn shape(&mut self, name: &str, link: &LinkSpec, buffer: u64, mtu: u64) {
        let rate = link.rate.as_bps();
        // The bytes of one millisecond, because timers are not finer, and at least two packets.
        let burst = (rate / 8 / 1_000).max(2 * (mtu + 18));
        let limit = buffer.min(MOST_BUFFER).max(burst);
        self.shapes.push(format!("qdisc add dev {name} root tbf rate {rate}bit burst {burst} limit {limit}"));
    }
}

/// Largest buffer in bytes. It is practically unlimited, and `tc` accepts this number.
const MOST_BUFFER: u64 = 1 << 30;

fn buffer_of(network: &NetworkSpec) -> u64 {
    network.switch.buffer.limit().map_or(MOST_BUFFER, |bytes| bytes.get())
}

/// Returns the line for a route to a subnet over several next hops.
fn ways(to: &str, by: impl Iterator<Item = (String, String)>) -> String {
    let hops: String = by.map(|(via, dev)| format!(" nexthop via {via} dev {dev}")).collect();
    format!("route add {to}{hops}")
}

#[cfg(test)]
mod tests;
