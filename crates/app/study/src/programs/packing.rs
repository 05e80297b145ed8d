//! Servers that hold programs, and pools that do: utilisation by bin packing (DDC, section 2 and section 5.2).
//!
//! DDC expects "more efficient statistical multiplexing" of a pool and leaves it to future work; this is the arithmetic, with the demands
//! of the programs of the study: cores that they keep busy, and memory. A fleet of instances, drawn from the programs, is packed by first
//! fit, largest first, onto servers whose cores and memory are in the proportion of the whole fleet's demands: the best case for servers.
//! With partial disaggregation, compute blades keep a share of each program's memory, and the rest is in pools; with full
//! disaggregation all of it is.

use super::map::MappedProgram;
use super::program::{Measurement, ProgramFound, StudyProgram, other};
use crate::computed::Computed;

/// Instances of a fleet.
const INSTANCES: usize = 1000;
/// Programs of mean demand that a server has cores for, by the fleets that are packed.
const SERVERS: [(&str, f64); 3] = [("2", 2.0), ("4", 4.0), ("8", 8.0)];
/// Local share with partial disaggregation: the paper's.
const LOCAL: f64 = 0.25;

/// ProgramDemand of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProgramDemand {
    /// Cores that it keeps busy.
    cores: f64,
    /// Memory, in bytes.
    memory: f64,
}

/// Returns the demands of the programs of which both measurements exist.
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

/// Returns the utilisation of memory and cores together: by size of servers, and by how far they are disaggregated.
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

/// Returns the part of all memory that is used, where compute blades keep the share `local` of it.
fn utilisation(fleet: &[ProgramDemand], size: f64, local: f64) -> f64 {
    let count = fleet.len() as f64;
    let mean = |of: fn(&ProgramDemand) -> f64| fleet.iter().map(of).sum::<f64>() / count;
    let (cores, memory) = (mean(|d| d.cores), mean(|d| d.memory));
    // In units of a server's cores and of its local memory.
    let items: Vec<[f64; 2]> = fleet
        .iter()
        .map(|demand| {
            [demand.cores / (size * cores), if local > 0.0 { demand.memory / (size * memory) } else { 0.0 }]
        })
        .collect();
    let servers = first_fit(items) as f64;
    let pool = (1.0 - local) * memory * count;
    // A pool is bought as blades of as much memory as a server has.
    let blade = size * memory;
    let bought = servers * local * size * memory + (pool / blade).ceil() * blade;
    memory * count / bought
}

/// Returns how many bins of 1 in each direction hold items by first fit, largest first. An item that fits none has bins of its own, as
/// many as it fills.
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
