//! Memory utilisation of servers and of pools that hold programs, computed by bin packing (DDC, section 2 and section 5.2).
//!
//! DDC expects "more efficient statistical multiplexing" of a pool, and leaves the evaluation to future work. This module computes it from
//! the demands of the study's programs: the cores that they keep busy, and their memory. A fleet of instances of the programs is packed by
//! first fit, largest first. The servers have cores and memory in the proportion of the whole fleet's demands, which is the best case for
//! servers. With partial disaggregation, compute blades keep a share of each program's memory, and the rest is in pools. With full
//! disaggregation, all memory is in pools.

use super::map::MappedProgram;
use super::program::{Measurement, ProgramFound, StudyProgram, other};
use crate::computed::Computed;

/// Number of program instances in a fleet.
const INSTANCES: usize = 1000;
/// Sizes of servers, with their names: the number of programs of mean demand for which a server has cores.
const SERVERS: [(&str, f64); 3] = [("2", 2.0), ("4", 4.0), ("8", 8.0)];
/// Local share with partial disaggregation: the paper's.
const LOCAL: f64 = 0.25;

/// Demand of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProgramDemand {
    /// Number of cores that the program keeps busy.
    cores: f64,
    /// Memory of the program in bytes.
    memory: f64,
}

/// Returns the demands of the programs for which both a map and native runs exist.
pub fn demands(
    mapped: &[MappedProgram],
    programs: &[StudyProgram],
    found: &[ProgramFound],
) -> Vec<ProgramDemand> {
    let one = |mapped: &MappedProgram| {
        let native = other(&mapped.program.name, Measurement::Native, programs)?;
        let native = found.iter().find(|found| found.program == native.name)?;
        let cores = native.number("/native/processor_s")? / native.number("/native/median_s")?;
        Some(ProgramDemand { cores, memory: mapped.map.footprint_bytes as f64 })
    };
    mapped.iter().filter_map(one).collect()
}

/// Returns the utilisation of memory in percent, by the size of servers and the degree of disaggregation. Also returns the spread of the
/// programs' memory per core.
pub fn values(demands: &[ProgramDemand]) -> Computed {
    let mut values = Computed::new();
    if demands.len() < 2 {
        return values;
    }
    let fleet: Vec<ProgramDemand> = (0..INSTANCES).map(|n| demands[n % demands.len()]).collect();
    let ratios = || demands.iter().map(|demand| demand.memory / demand.cores);
    let spread = ratios().fold(f64::NEG_INFINITY, f64::max) / ratios().fold(f64::INFINITY, f64::min);
    values.insert("memory-per-core-spread".into(), spread);
    for (name, size) in SERVERS {
        for (kind, local) in [("servers", 1.0), ("partial", LOCAL), ("full", 0.0)] {
            values.insert(format!("{kind}-{name}-memory"), utilisation(&fleet, size, local) * 100.0);
        }
    }
    values
}

/// Returns the share of the installed memory that is used, if compute blades keep the share `local` of each program's memory.
fn utilisation(fleet: &[ProgramDemand], size: f64, local: f64) -> f64 {
    let count = fleet.len() as f64;
    let mean = |of: fn(&ProgramDemand) -> f64| fleet.iter().map(of).sum::<f64>() / count;
    let (cores, memory) = (mean(|d| d.cores), mean(|d| d.memory));
    // Demands in units of a server's cores and of its local memory.
    let items: Vec<[f64; 2]> = fleet
        .iter()
        .map(|demand| {
            [demand.cores / (size * cores), if local > 0.0 { demand.memory / (size * memory) } else { 0.0 }]
        })
        .collect();
    let servers = first_fit(items) as f64;
    let pool = (1.0 - local) * memory * count;
    // A pool consists of blades, each with as much memory as a server has.
    let blade = size * memory;
    let bought = servers * local * size * memory + (pool / blade).ceil() * blade;
    memory * count / bought
}

/// Returns the number of bins that hold the items by first fit, largest first; a bin has the size 1 in each dimension. An item that is
/// larger than a bin gets separate bins, as many as it fills.
fn first_fit(mut items: Vec<[f64; 2]>) -> usize {
    let larger = |item: &[f64; 2]| item[0].max(item[1]);
    items.sort_by(|a, b| larger(b).total_cmp(&larger(a)));
    let mut bins: Vec<[f64; 2]> = Vec::new();
    let mut own = 0;
    for item in items {
        if larger(&item) > 1.0 {
            own += larger(&item).ceil() as usize;
            continue;
        }
        let fits = |bin: &&mut [f64; 2]| bin[0] + item[0] <= 1.0 + 1e-9 && bin[1] + item[1] <= 1.0 + 1e-9;
        match bins.iter_mut().find(fits) {
            Some(bin) => *bin = [bin[0] + item[0], bin[1] + item[1]],
            None => bins.push(item),
        }
    }
    bins.len() + own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_fill_bins_exactly_take_as_many() {
        assert_eq!(first_fit(vec![[0.5, 0.25]; 8]), 4);
        assert_eq!(first_fit(vec![[0.25, 0.5], [0.75, 0.5], [0.75, 0.5], [0.25, 0.5]]), 2);
        assert_eq!(first_fit(vec![[2.5, 0.1], [0.1, 0.1]]), 4);
    }

    #[test]
    fn a_pool_has_what_servers_strand() {
        let alike = [ProgramDemand { cores: 1.0, memory: 4e9 }; 3];
        let all = values(&alike);
        assert!(
            (all["servers-4-memory"] - 100.0).abs() < 1e-6 && (all["full-4-memory"] - 100.0).abs() < 1e-6
        );
        let unlike = [
            ProgramDemand { cores: 0.5, memory: 8e9 },
            ProgramDemand { cores: 2.0, memory: 1e9 },
            ProgramDemand { cores: 1.0, memory: 2e9 },
        ];
        let all = values(&unlike);
        for size in ["2", "4", "8"] {
            let of = |kind: &str| all[&format!("{kind}-{size}-memory")];
            assert!(of("servers") <= of("partial") + 1e-9 && of("partial") <= of("full") + 1e-9, "{all:?}");
            assert!(of("full") > 99.0 && of("full") <= 100.0, "{all:?}");
        }
        assert_eq!(all["memory-per-core-spread"], 32.0);
    }
}
