//! Racks that pool their NICs (DRack §4.1).

use super::{NamespaceHost, NamespacePlan, PlannedNamespace, ROUTER, buffer_of, ways};
use std::net::Ipv4Addr;
use unrack_rack::{NetworkSpec, Wiring};

pub(super) fn plan(network: &NetworkSpec, prefix: &str, wiring: Wiring) -> NamespacePlan {
    let names = Names { prefix, wiring };
    let hosts = (0..wiring.nics()).map(|node| {
        let (n, rack) = (wiring.hosts_per_rack, wiring.rack_of(node));
        let addresses: Vec<Ipv4Addr> = (0..n).map(|j| names.address(rack, j, node % n + 1)).collect();
        NamespaceHost { namespace: names.host(node), address: addresses[0], addresses, memory: Some(rack) }
    });
    let mut spaces: Vec<PlannedNamespace> = (0..wiring.nics()).map(|node| names.host_space(node)).collect();
    spaces.extend((0..wiring.racks).map(|rack| names.rack_space(network, rack)));
    spaces.extend((0..wiring.racks).map(|switch| names.switch_space(network, switch)));
    spaces.extend((0..wiring.cores).map(|core| names.core_space(network, core)));
    NamespacePlan { hosts: hosts.collect(), spaces, nics: wiring.hosts_per_rack }
}

struct Names<'a> {
    prefix: &'a str,
    wiring: Wiring,
}

impl Names<'_> {
    fn host(&self, node: u32) -> String {
        format!("{}-host{node}", self.prefix)
    }
    fn rack(&self, rack: u32) -> String {
        format!("{}-rack{rack}", self.prefix)
    }
    fn switch(&self, switch: u32) -> String {
        format!("{}-switch{switch}", self.prefix)
    }
    fn core(&self, core: u32) -> String {
        format!("{}-core{core}", self.prefix)
    }

    /// Returns the address of host `n` in the network of NIC `j` of a rack. Hosts are numbered from 1, and [`ROUTER`] is the router.
    fn address(&self, rack: u32, j: u32, n: u32) -> Ipv4Addr {
        Ipv4Addr::new(10, rack as u8, j as u8, n as u8)
    }
    fn subnet(&self, nic: u32) -> String {
        let (rack, j) = (self.wiring.rack_of(nic), nic % self.wiring.hosts_per_rack);
        format!("10.{rack}.{j}.0/24")
    }

    /// Returns the NIC, by its place in the rack, through which a host reaches NIC `to` of another rack. It is a NIC at the same switch as
    /// `to` if the rack has one; otherwise it is the NIC at the same place.
    fn way(&self, rack: u32, to: u32) -> u32 {
        let (n, switch) = (self.wiring.hosts_per_rack, self.wiring.switch_of(to));
        let direct: Vec<u32> =
            self.wiring.places(switch, rack).map(|place| self.wiring.nic_at(switch, place)).collect();
        let rank = self
            .wiring
            .places(switch, self.wiring.rack_of(to))
            .position(|place| self.wiring.nic_at(switch, place) == to);
        match direct.len() {
            0 => to % n,
            several => direct[rank.unwrap_or(0) % several] % n,
        }
    }

    fn host_space(&self, node: u32) -> PlannedNamespace {
        let n = self.wiring.hosts_per_rack;
        let (rack, place) = (self.wiring.rack_of(node), node % n);
        let mut space = PlannedNamespace::host(self.host(node));
        for j in 0..n {
            let (name, peer) = (format!("nic{j}"), format!("h{place}n{j}"));
            space.link(&name, &self.rack(rack), &peer);
            space.address(&format!("{}/24", self.address(rack, j, place + 1)), &name);
        }
        for to in (0..self.wiring.nics()).filter(|to| self.wiring.rack_of(*to) != rack) {
            let j = self.way(rack, to);
            let (via, own) = (self.address(rack, j, ROUTER), self.address(rack, j, place + 1));
            space.routes.push(format!("route add {} via {via} dev nic{j} src {own}", self.subnet(to)));
        }
        space.routes.push("mptcp limits set subflow 8 add_addr_accepted 8".into());
        for j in 0..n {
            let own = self.address(rack, j, place + 1);
            space.routes.push(format!("mptcp endpoint add {own} dev nic{j} signal"));
        }
        space
    }

    /// Returns the namespace of a rack's NICs. Each NIC has a bridge with one port per host.
    fn rack_space(&self, network: &NetworkSpec, rack: u32) -> PlannedNamespace {
        let n = self.wiring.hosts_per_rack;
        let mut space = PlannedNamespace::new(self.rack(rack));
        for j in 0..n {
            let nic = rack * n + j;
            let (name, bridge) = (format!("nic{j}"), format!("br{j}"));
            space.link(&name, &self.switch(self.wiring.switch_of(nic)), &format!("nic{nic}"));
            space.bridge(&bridge);
            space.join(&name, &bridge);
            (0..n).for_each(|place| space.join(&format!("h{place}n{j}"), &bridge));
            space.shape(&name, &network.link, buffer_of(network), network.mtu.get());
        }
        space
    }

    fn switch_space(&self, network: &NetworkSpec, switch: u32) -> PlannedNamespace {
        let (n, cores) = (self.wiring.hosts_per_rack, self.wiring.cores);
        let mut space = PlannedNamespace::router(self.switch(switch));
        let nics: Vec<u32> = (0..n).map(|place| self.wiring.nic_at(switch, place)).collect();
        for nic in &nics {
            let name = format!("nic{nic}");
            let router = self.address(self.wiring.rack_of(*nic), nic % n, ROUTER);
            space.address(&format!("{router}/24"), &name);
            space.shape(&name, &network.link, buffer_of(network), network.mtu.get());
        }
        for core in 0..cores {
            let name = format!("core{core}");
            space.link(&name, &self.core(core), &format!("sw{switch}"));
            space.address(&format!("{}/31", between(switch, core, 0)), &name);
            space.shape(&name, &network.core_link, buffer_of(network), network.mtu.get());
        }
        if cores > 0 {
            let by = (0..cores).map(|core| (between(switch, core, 1), format!("core{core}")));
            space.routes.push(ways("10.0.0.0/8", by));
        }
        space
    }

    fn core_space(&self, network: &NetworkSpec, core: u32) -> PlannedNamespace {
        let mut space = PlannedNamespace::router(self.core(core));
        for switch in 0..self.wiring.racks {
            let name = format!("sw{switch}");
            space.address(&format!("{}/31", between(switch, core, 1)), &name);
            space.shape(&name, &network.core_link, buffer_of(network), network.mtu.get());
        }
        for nic in 0..self.wiring.nics() {
            let switch = self.wiring.switch_of(nic);
            let via = between(switch, core, 0);
            space.routes.push(format!("route add {} via {via} dev sw{switch}", self.subnet(nic)));
        }
        space
    }
}

/// Returns the address of one end of the link between a switch and a core switch.
fn between(below: u32, above: u32, end: u32) -> String {
    format!("192.168.{below}.{}", 2 * above + end)
}
