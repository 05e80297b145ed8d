//! Racks of a comparison: the network between the nodes.

use crate::error::Error;
use unrack_rack::Protocol;
use unrack_units::Rate;

/// Network between the nodes of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ComparedRack {
    /// Nodes around one switch.
    #[default]
    Star,
    /// Racks of 4 hosts that pool their NICs over CXL, as in DRack.
    Drack,
    /// Racks of 16 hosts below 16 spines, with DDC's delays and buffers of 36 KiB (section 4.2).
    LeafSpine,
}

/// Hosts of a rack that pools its NICs.
const POOLED_HOSTS: u32 = 4;
/// Number of hosts of each rack of a leaf-spine network. The network has the same number of spines, so its bisection bandwidth is full.
const HOSTS: u32 = 16;

impl ComparedRack {
    /// Returns the section `[network]` of a scenario with this number of nodes. A store-and-forward switch takes 400 ns for a layer-2
    /// lookup (EDM table 1); DDC's cut-through switches take 240 ns, links within racks 20 ns, and between racks 200 ns (table 4). A fabric
    /// that defines its switch replaces this latency by the latency of that switch.
    ///
    /// # Errors
    /// If racks of this kind cannot have this number of nodes.
    pub(super) fn network(self, nodes: u32, rate: Rate) -> Result<String, Error> {
        let racks_of = |hosts: u32, least: u32, name: &str| match nodes.is_multiple_of(hosts * least) {
            true => Ok(nodes / hosts),
            false => Err(Error::Usage(format!(
                "--rack {name} has racks of {hosts} hosts, half of all of them compute blades: --nodes has to be a multiple of {}, not {nodes}",
                hosts * least
            ))),
        };
        let near = |topology: String| {
            format!(
                "topology = {topology}\n\
                 link = {{ rate = \"{rate}\", propagation = \"10ns\" }}\n\
                 switch = {{ latency = \"400ns\" }}\n"
            )
        };
        match self {
            ComparedRack::Star => Ok(near(format!("{{ kind = \"star\", nodes = {nodes} }}"))),
            ComparedRack::Drack => {
                let racks = racks_of(POOLED_HOSTS, 2, "drack")?;
                Ok(near(format!("{{ kind = \"drack\", racks = {racks}, hosts_per_rack = {POOLED_HOSTS} }}")))
            }
            ComparedRack::LeafSpine => {
                let racks = racks_of(HOSTS, 1, "leaf-spine")?;
                Ok(format!(
                    "topology = {{ kind = \"leaf-spine\", racks = {racks}, hosts_per_rack = {HOSTS}, spines = {HOSTS} }}\n\
                     link = {{ rate = \"{rate}\", propagation = \"20ns\" }}\n\
                     core_link = {{ rate = \"{rate}\", propagation = \"200ns\" }}\n\
                     switch = {{ latency = \"240ns\", buffer = \"36KiB\" }}\n"
                ))
            }
        }
    }
}

/// Returns the rack as a scenario file, for the manifest and for `unrack sim`.
///
/// # Errors
/// If the rack cannot have this number of nodes.
pub(super) fn scenario(
    fabrics: &[Protocol],
    rack: ComparedRack,
    nodes: u32,
    rate: Rate,
    seed: u64,
) -> Result<String, Error> {
    let first = fabrics.first().map_or("ideal", |protocol| protocol.name());
    Ok(format!(
        "# Each fabric of the comparison in turn; this is the first.\n\
         seed = {seed}\n\n\
         [network]\n\
         {}\n\
         [fabric]\n\
         protocol = \"{first}\"\n\n\
         [workload]\n\
         kind = \"trace\"\n\
         file = \"trace.parquet\"\n\
         replay = \"closed-loop\"\n",
        rack.network(nodes, rate)?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_rack::{Overrides, Scenario};

    #[test]
    fn each_rack_is_a_network_that_can_be_simulated() {
        for (rack, sizes) in [
            (ComparedRack::Star, [8, 16, 64]),
            (ComparedRack::Drack, [8, 16, 64]),
            (ComparedRack::LeafSpine, [16, 32, 144]),
        ] {
            for nodes in sizes {
                let dctcp = [unrack_sim::known().protocol("dctcp").unwrap()];
                let text = scenario(&dctcp, rack, nodes, Rate::from_gbps(100), 1).unwrap();
                let parsed = Scenario::parse("compare.toml", &text, &Overrides::none());
                parsed.and_then(unrack_sim::check).unwrap_or_else(|why| panic!("{rack:?} {nodes}: {why}"));
            }
        }
        assert!(ComparedRack::Drack.network(12, Rate::from_gbps(100)).is_err(), "half of three racks");
        assert!(ComparedRack::LeafSpine.network(24, Rate::from_gbps(100)).is_err(), "a rack and a half");
    }

    #[test]
    fn the_scenario_of_a_comparison_is_valid() {
        let all = &unrack_sim::known().protocols;
        let text = scenario(all, ComparedRack::Star, 16, Rate::from_gbps(100), 1).unwrap();
        unrack_sim::check(Scenario::parse("compare.toml", &text, &Overrides::none()).unwrap()).unwrap();
    }
}
