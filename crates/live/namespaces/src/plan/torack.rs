//! Racks of hosts with one NIC each, around a ToR switch (DRack §7.1).

use super::{NamespaceHost, NamespacePlan, PlannedNamespace, ROUTER, buffer_of, ways};
use std::net::Ipv4Addr;
use unrack_rack::NetworkSpec;

pub(super) fn plan(
    network: &NetworkSpec,
    prefix: &str,
    (racks, hosts, uplinks): (u32, u32, u32),
) -> NamespacePlan {
    let (buffer, mtu) = (buffer_of(network), network.mtu.get());
    let tor = |rack| format!("{prefix}-tor{rack}");
    let switch = |n| format!("{prefix}-switch{n}");
    let mut plan = NamespacePlan { spaces: Vec::new(), hosts: Vec::new(), nics: 1 };
    for rack in 0..racks {
        let router = Ipv4Addr::new(10, rack as u8, 0, ROUTER as u8);
        let mut top = PlannedNamespace::router(tor(rack));
        top.bridge("br0");
        for place in 0..hosts {
            let address = Ipv4Addr::new(10, rack as u8, 0, place as u8 + 1);
            let namespace = format!("{prefix}-host{}", rack * hosts + place);
            let mut space = PlannedNamespace::host(namespace.clone());
            let port = format!("h{place}");
            space.link("nic0", &top.name, &port);
            space.address(&format!("{address}/24"), "nic0");
            space.routes.push(format!("route add 10.0.0.0/8 via {router} dev nic0"));
            space.shape("nic0", &network.link, buffer, mtu);
            top.join(&port, "br0");
            top.shape(&port, &network.link, buffer, mtu);
            plan.spaces.push(space);
            plan.hosts.push(NamespaceHost { namespace, address, addresses: vec![address], memory: None });
        }
        top.address(&format!("{router}/24"), "br0");
        for uplink in 0..uplinks {
            let name = format!("up{uplink}");
            top.link(&name, &switch(uplink), &format!("tor{rack}"));
            top.address(&format!("192.168.{rack}.{}/31", 2 * uplink), &name);
            top.shape(&name, &network.core_link, buffer, mtu);
        }
        let by = (0..uplinks).map(|up| (format!("192.168.{rack}.{}", 2 * up + 1), format!("up{up}")));
        top.routes.push(ways("10.0.0.0/8", by));
        plan.spaces.push(top);
    }
    for uplink in 0..uplinks {
        let mut space = PlannedNamespace::router(switch(uplink));
        for rack in 0..racks {
            let name = format!("tor{rack}");
            space.address(&format!("192.168.{rack}.{}/31", 2 * uplink + 1), &name);
            let via = format!("192.168.{rack}.{}", 2 * uplink);
            space.routes.push(format!("route add 10.{rack}.0.0/24 via {via} dev {name}"));
            space.shape(&name, &network.core_link, buffer, mtu);
        }
        plan.spaces.push(space);
    }
    plan
}
