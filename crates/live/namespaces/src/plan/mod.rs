//! NamespacePlan of a rack of namespaces: their names, and the lines for `ip` and `tc` in each. Nothing is executed here.

mod drack;
mod torack;

use std::net::Ipv4Addr;
use unrack_live::Error;
use unrack_rack::{LinkSpec, NetworkSpec, TopologySpec};
use unrack_units::Time;

/// One rack or several, as namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespacePlan {
    pub(crate) spaces: Vec<Space>,
    pub hosts: Vec<NamespaceHost>,
    /// Number of NICs by which a host can be reached; the third byte of an address is the NIC's number.
    pub nics: u32,
}

/// A host, on which programs run; its index is the number of its node.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NamespaceHost {
    /// Name of its namespace.
    pub namespace: String,
    /// Address by its first NIC; MPTCP announces the others to peers.
    pub address: Ipv4Addr,
    /// Addresses by all its NICs.
    #[serde(default)]
    pub addresses: Vec<Ipv4Addr>,
    /// Rack with whose hosts it shares memory, if they share any.
    #[serde(default)]
    pub memory: Option<u32>,
}

/// A namespace, and its configuration in steps: each step is done in all namespaces before the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Space {
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

/// Most racks: addresses are 10.rack.NIC.host, and the last of each NIC is its router's.
const MOST_RACKS: u32 = 250;
/// Most hosts: each runs programs of its own, and 64 namespaces are made in seconds.
const MOST_HOSTS: u32 = 64;
/// Most NICs of a rack: the most addresses of a host that the kernel's MPTCP uses (`MPTCP_PM_ADDR_MAX`).
const MOST_NICS: u32 = 8;
/// Longest propagation delay: it is not emulated, since packets take as long as the kernel does.
const LONGEST_DELAY: Time = Time::from_us(100);
const ROUTER: u32 = 254;
/// MTU of Ethernet, which needs no setting.
const USUAL_MTU: u64 = 1500;
const LEAST_MTU: u64 = 576;

impl NamespacePlan {
    /// Plans a network; `prefix` begins the names of its namespaces.
    ///
    /// # Errors
    /// [`Error::Usage`] if it cannot be emulated.
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
                // At both ends.
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

    /// Returns the lines of a hosts file: node k is `host` and its number.
    pub fn names(&self) -> String {
        let lines = self.hosts.iter().enumerate();
        let lines: String = lines.map(|(n, host)| format!("{} host{n}\n", host.address)).collect();
        format!("127.0.0.1 localhost\n{lines}")
    }
}

/// Verifies that a network can be emulated. `nics` is the number of NICs of a rack, or of its uplinks.
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

impl Space {
    fn new(name: String) -> Space {
        Space { name, ..Space::default() }
    }

    fn router(name: String) -> Space {
        // Flows, not packets, are spread over paths: by addresses and ports.
        let settings = vec![("ipv4/ip_forward", "1"), ("ipv4/fib_multipath_hash_policy", "1")];
        Space { settings, ..Space::new(name) }
    }

    fn host(name: String) -> Space {
        // As in the simulator's `tcp`, whatever the machine's default. A namespace may choose only what the machine
        // allows (net.ipv4.tcp_allowed_congestion_control), and Reno is allowed everywhere.
        let settings = vec![("mptcp/enabled", "1"), ("ipv4/tcp_congestion_control", "cubic reno")];
        Space { settings, ..Space::new(name) }
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

    /// Limits the rate and buffer of a link in the outgoing direction.
    fn shape(&mut self, name: &str, link: &LinkSpec, buffer: u64, mtu: u64) {
        let rate = link.rate.as_bps();
        // A millisecond's worth, since timers are not finer; never less than two packets.
        let burst = (rate / 8 / 1_000).max(2 * (mtu + 18));
        let limit = buffer.min(MOST_BUFFER).max(burst);
        self.shapes.push(format!("qdisc add dev {name} root tbf rate {rate}bit burst {burst} limit {limit}"));
    }
}

/// Largest buffer in bytes: as good as unlimited, and a number that `tc` accepts.
const MOST_BUFFER: u64 = 1 << 30;

fn buffer_of(network: &NetworkSpec) -> u64 {
    network.switch.buffer.limit().map_or(MOST_BUFFER, |bytes| bytes.get())
}

/// Returns the route to a subnet over several next hops.
fn ways(to: &str, by: impl Iterator<Item = (String, String)>) -> String {
    let hops: String = by.map(|(via, dev)| format!(" nexthop via {via} dev {dev}")).collect();
    format!("route add {to}{hops}")
}

#[cfg(test)]
mod tests;
