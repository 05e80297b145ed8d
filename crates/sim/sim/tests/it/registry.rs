//! Profiles of fabrics, compared with what the fabrics do.

use crate::common::{fabrics::*, setup_on};
use unrack_rack::graph::{Graph, Sides};
use unrack_rack::{Networks, Profile, Wiring, listed};
use unrack_sim::network::Pace;
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{SetupError, Work};
use unrack_units::{Rate, Time};
use unrack_workload::Message;

/// Buffer that holds what is under way when a link is paused.
const BUFFER: u64 = 1 << 20;

fn link() -> Link {
    Link { pace: Pace::new(Rate::from_gbps(100)), propagation: Time::from_ns(100) }
}

fn leaf_spine() -> Topology {
    Topology::leaf_spine(4, 2, 2, link(), link())
}

fn torus() -> Topology {
    let sides = Sides::new(&[3, 3]).unwrap();
    Topology::direct(Graph::cube(sides, true).unwrap().into(), link())
}

fn drack() -> Topology {
    let wiring = Wiring { racks: 2, hosts_per_rack: 2, cores: 0 };
    Topology::drack(wiring, link(), link(), link())
}

fn work() -> Work {
    let message = |n: u32| (Time::from_us(u64::from(n)), Message::write(n % 4, (n + 1) % 4, 4000));
    Work::listed((0..20).map(message).collect())
}

/// Runs a protocol with its defaults, and checks that all messages arrive.
fn run(protocol: unrack_rack::Protocol, topology: Topology) -> Result<(), SetupError> {
    let done = setup_on(topology, protocol, BUFFER).run(&work(), |_| {})?;
    assert_eq!(done.fabric, protocol.name());
    assert!(done.run.outcomes.iter().all(|outcome| outcome.completed().is_some()), "{protocol}");
    Ok(())
}

#[test]
fn profiles_say_on_what_networks_fabrics_run() {
    for protocol in known().protocols {
        let Profile { networks, several_links, .. } = *protocol.profile();
        let says = [
            (Topology::star(4, link()), networks.have_switches()),
            (leaf_spine(), matches!(networks, Networks::Switched | Networks::Any)),
            (torus(), networks.have_direct()),
            (drack(), matches!(networks, Networks::Switched | Networks::Any) && several_links),
        ];
        for (topology, runs) in says {
            let outcome = run(protocol, topology.clone());
            assert_eq!(outcome.is_ok(), runs, "{protocol} on {topology:?}: {outcome:?}");
        }
    }
}

#[test]
fn profiles_say_which_fabrics_are_split() {
    let whole = listed(&known().names(|it| !it.splits), "and");
    for protocol in known().protocols {
        if !matches!(protocol.profile().networks, Networks::Switched | Networks::Any) {
            continue;
        }
        let split = setup_on(leaf_spine(), protocol, BUFFER).split(&work(), 2, |_| {});
        assert_eq!(split.is_ok(), protocol.profile().splits, "{protocol}");
        if let Err(why) = split {
            assert!(why.to_string().contains(&whole), "{why}");
        }
    }
}

#[test]
fn every_fabric_has_a_name_and_a_description_of_its_own() {
    let profiles: Vec<_> = known().protocols.iter().map(|it| it.profile()).collect();
    for (n, profile) in profiles.iter().enumerate() {
        assert!(!profile.name.is_empty() && !profile.about.is_empty());
        let others = profiles.iter().skip(n + 1);
        assert!(others.clone().all(|other| other.name != profile.name && other.about != profile.about));
    }
}

/// Pages list fabrics and topologies in prose: all of them.
#[test]
fn pages_name_every_fabric_and_every_topology() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let (fabrics, network) = (page("docs/for-networks.md"), page("docs/network.md"));
    for protocol in known().protocols {
        assert!(
            fabrics.contains(&format!("`{protocol}`")),
            "docs/for-networks.md says nothing of `{protocol}`"
        );
    }
    for kind in known().all_topologies() {
        assert!(network.contains(kind.name), "docs/network.md says nothing of `{}`", kind.name);
    }
}
