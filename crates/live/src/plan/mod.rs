//! What to make: namespaces, and what to say to `ip` and `tc` in each. Nothing is done here.

mod drack;
mod torack;

use crate::error::Error;
use std::net::Ipv4Addr;
use unrack_rack::{Link, Network, Topology};
use unrack_units::Time;

/// A rack, or several, as namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub(crate) spaces: Vec<Space>,
    pub hosts: Vec<Host>,
    /// By so many NICs a host can be reached: their numbers are the third of the four in its address.
    pub nics: u32,
}

/// Where programs run: the node of its number.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Host {
    /// The name of its namespace.
    pub namespace: String,
    /// By its first NIC; others are announced to those who connect.
    pub address: Ipv4Addr,
}

/// A namespace, and what is said in it, in this order; one step in all of them before the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Space {
    pub name: String,
    /// To `ip`: links to other namespaces.
    pub links: Vec<String>,
    /// Under `/proc/sys/net`.
    pub settings: Vec<(&'static str, &'static str)>,
    /// To `ip`: addresses, routes.
    pub routes: Vec<String>,
    /// To `tc`.
    pub shapes: Vec<String>,
}

/// Addresses are 10.rack.NIC.host, and the last of each NIC is its router's.
const MOST_RACKS: u32 = 250;
/// A program of each has a few; so many namespaces are made in seconds.
const MOST_HOSTS: u32 = 64;
/// The kernel's MPTCP has so many addresses of a host (`MPTCP_PM_ADDR_MAX`).
const MOST_NICS: u32 = 8;
/// Packets take as long as the kernel does: what is slower would have to be added.
const LONGEST_DELAY: Time = Time::from_us(100);
const ROUTER: u32 = 254;
/// Ethernet's, which needs no word.
const USUAL_MTU: u64 = 1500;
const LEAST_MTU: u64 = 576;

impl Plan {
    /// # Errors
    /// [`Error::Usage`], if it cannot be emulated.
    pub fn new(network: &Network, prefix: &str) -> Result<Plan, Error> {
        let mut plan = match (&network.topology, network.topology.wiring()) {
            (&Topology::Torack { racks, hosts_per_rack, uplinks }, _) => {
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
                // Of both ends.
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

    /// The lines of a hosts file: node k is `host` and its number.
    pub fn names(&self) -> String {
        let lines = self.hosts.iter().enumerate();
        let lines: String = lines.map(|(n, host)| format!("{} host{n}\n", host.address)).collect();
        format!("127.0.0.1 localhost\n{lines}")
    }
}

/// `nics`: of a rack, or its uplinks.
fn check(network: &Network, racks: u32, nics: u32) -> Result<(), Error> {
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
        // Flows, and not packets, are dealt to ways: by addresses and ports.
        let settings = vec![("ipv4/ip_forward", "1"), ("ipv4/fib_multipath_hash_policy", "1")];
        Space { settings, ..Space::new(name) }
    }

    fn host(name: String) -> Space {
        // As in the simulator's `tcp`, whatever the machine prefers. A namespace may choose only what is
        // allowed on the machine (net.ipv4.tcp_allowed_congestion_control), as Reno is everywhere.
        let settings = vec![("mptcp/enabled", "1"), ("ipv4/tcp_congestion_control", "cubic reno")];
        Space { settings, ..Space::new(name) }
    }

    /// A cable from here to another namespace.
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

    /// A bridge between links that are here.
    fn bridge(&mut self, name: &str) {
        self.links.push(format!("link add {name} type bridge"));
        self.up(name);
    }

    fn join(&mut self, name: &str, bridge: &str) {
        self.routes.push(format!("link set {name} master {bridge}"));
        self.up(name);
    }

    /// What leaves by a link leaves at its rate, and waits in its buffer.
    fn shape(&mut self, name: &str, link: &Link, buffer: u64, mtu: u64) {
        let rate = link.rate.as_bps();
        // A millisecond's worth: timers are not finer. Never less than two packets.
        let burst = (rate / 8 / 1_000).max(2 * (mtu + 18));
        let limit = buffer.min(MOST_BUFFER).max(burst);
        self.shapes.push(format!("qdisc add dev {name} root tbf rate {rate}bit burst {burst} limit {limit}"));
    }
}

/// As good as unlimited, and a number that `tc` takes.
const MOST_BUFFER: u64 = 1 << 30;

fn buffer_of(network: &Network) -> u64 {
    network.switch.buffer.limit().map_or(MOST_BUFFER, |bytes| bytes.get())
}

/// Several ways to one place.
fn ways(to: &str, by: impl Iterator<Item = (String, String)>) -> String {
    let hops: String = by.map(|(via, dev)| format!(" nexthop via {via} dev {dev}")).collect();
    format!("route add {to}{hops}")
}

#[cfg(test)]
mod tests;
