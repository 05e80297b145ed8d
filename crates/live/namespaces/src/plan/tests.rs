//! Plans of namespaces: refused networks, the smallest rack, and consistency of names and addresses.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use unrack_rack::{Overrides, Scenario};

fn network(kind: &str, sets: &[&str]) -> NetworkSpec {
    let text = format!(
        "network.topology = {{ kind = \"{kind}\", racks = 2, hosts_per_rack = 2 }}\nfabric.protocol = \"tcp\"\n\
         workload = {{ kind = \"flows\", size = \"1kB\", load = 0.5, messages = 1 }}"
    );
    let overrides: Overrides = sets.iter().copied().collect();
    Scenario::parse("rack.toml", &text, &overrides).and_then(unrack_sim::check).unwrap().network
}

fn refusal(kind: &str, sets: &[&str]) -> String {
    NamespacePlan::new(&network(kind, sets), "t").unwrap_err().to_string()
}

#[test]
fn what_cannot_be_emulated_is_refused() {
    let far = ["network.link.propagation=1ms"];
    assert!(refusal("drack", &far).contains("1ms of propagation is above 100us"));
    let many = ["network.topology.hosts_per_rack=9"];
    assert!(refusal("drack", &many).contains("9 NICs"));
    assert!(refusal("torack", &["network.topology.racks=33"]).contains("66 hosts"));
    let star = ["network.topology={kind=\"star\", nodes=4}"];
    assert!(refusal("drack", &star).contains("use `drack` or `torack`"));
    assert!(refusal("drack", &["network.mtu=100B"]).contains("from 576 B on"));
}

#[test]
fn the_smallest_drack() {
    let plan = NamespacePlan::new(&network("drack", &["network.link.rate=100Mbps"]), "t").unwrap();
    // 4 hosts, 2 racks, 2 switches.
    assert_eq!((plan.spaces.len(), plan.hosts.len()), (8, 4));
    assert_eq!(plan.names().lines().last(), Some("10.1.0.2 host3"));
    let host = &plan.hosts[3];
    assert_eq!(host.addresses, [Ipv4Addr::new(10, 1, 0, 2), Ipv4Addr::new(10, 1, 1, 2)]);
    assert_eq!(
        plan.hosts.iter().map(|host| host.memory).collect::<Vec<_>>(),
        [Some(0), Some(0), Some(1), Some(1)]
    );
    let host = &plan.spaces[1];
    assert_eq!(host.links[1], "link add nic1 type veth peer name h1n1 netns t-rack0");
    assert!(host.routes.contains(&"route add 10.1.1.0/24 via 10.0.1.254 dev nic1 src 10.0.1.2".into()));
    assert!(host.routes.contains(&"mptcp endpoint add 10.0.1.2 dev nic1 signal".into()));
    assert_eq!(
        plan.spaces[4].shapes,
        ["nic0", "nic1"]
            .map(|nic| format!("qdisc add dev {nic} root tbf rate 100000000bit burst 12500 limit 36864"))
    );
}

/// Returns the ends of all cables: (namespace, name).
fn ends(plan: &NamespacePlan) -> Vec<(String, String)> {
    let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
    let mut ends = Vec::new();
    for space in &plan.spaces {
        for line in space.links.iter().map(|line| words(line)) {
            let after = |word: &str| line.iter().position(|other| other == word).map(|n| line[n + 1].clone());
            ends.push((space.name.clone(), line[2].clone()));
            if let Some(other) = after("netns") {
                ends.push((other, after("name").unwrap()));
            }
        }
    }
    ends
}

proptest! {
    /// Every device, address and name that a plan mentions exists, once.
    #[test]
    fn a_plan_holds_together(drack: bool, racks in 1u32..9, hosts in 1u32..8, mtu in 1400u32..1600) {
        prop_assume!(racks * hosts > 1);
        let sets = [
            format!("network.topology.racks={racks}"),
            format!("network.topology.hosts_per_rack={hosts}"),
            format!("network.mtu={mtu}B"),
        ];
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let plan = NamespacePlan::new(&network(if drack { "drack" } else { "torack" }, &sets), "t").unwrap();
        let ends = ends(&plan);
        let known: BTreeSet<_> = ends.iter().cloned().collect();
        prop_assert_eq!(known.len(), ends.len(), "no name twice");
        prop_assert!(ends.iter().all(|(_, name)| name.len() <= 15), "as long as Linux takes");
        let names: BTreeSet<_> = plan.spaces.iter().map(|space| &space.name).collect();
        prop_assert!(ends.iter().all(|(space, _)| names.contains(space)));
        let mut addresses = BTreeMap::new();
        for space in &plan.spaces {
            for line in space.routes.iter().chain(&space.shapes) {
                let words: Vec<&str> = line.split(' ').collect();
                for pair in words.windows(2).filter(|pair| ["dev", "set", "master"].contains(&pair[0])) {
                    let is_there = pair[1] == "lo" || words[0] == "mptcp" && pair[1] == "subflow"
                        || known.contains(&(space.name.clone(), pair[1].to_string()));
                    prop_assert!(is_there, "{}: {line}", space.name);
                }
                if words[0] == "address" {
                    prop_assert!(addresses.insert(words[2].to_string(), &space.name).is_none(), "{line}");
                }
            }
        }
        let said = plan.spaces.iter().flat_map(|space| &space.links).filter(|line| line.contains("veth"));
        let mtus = said.map(|line| line.matches(&format!(" mtu {mtu} ")).count()).collect::<BTreeSet<_>>();
        prop_assert_eq!(mtus, BTreeSet::from([if mtu == 1500 { 0 } else { 2 }]));
        prop_assert_eq!(plan.hosts.len() as u32, racks * hosts);
        for host in &plan.hosts {
            prop_assert_eq!(addresses.get(&format!("{}/24", host.address)), Some(&&host.namespace));
        }
    }
}
