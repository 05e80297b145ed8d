//! Computed values without the mechanism that a study is about, for `unrack study check`.

use super::{
    Computed, drack_prototype, drack_wiring, edm_failures, edm_fig5, edm_kv, edm_mac_limits, edm_scheduler,
    edm_table1, r2c2,
};
use crate::file::StudyScale;
use unrack_sim::fabric::edm::EdmConfig;

/// Bytes of a request that fills the shortest Ethernet frame, so that nothing is padded.
const UNPADDED: usize = 46;
/// Cycles of a longer line.
const LINE: usize = 4;
/// Share of a link that stays free by default.
const HEADROOM: f64 = 0.05;

/// Returns the computation of a study's values with a mechanism broken, by its name; `None` if there is none of this name.
pub fn broken(study: &str, name: &str) -> Option<fn(StudyScale) -> Computed> {
    let compute: fn(StudyScale) -> Computed = match (study, name) {
        ("edm/scheduler", "slow-clock") => {
            |_| edm_scheduler::values_of(&EdmConfig { scheduler_ghz: 1.0, ..EdmConfig::default() })
        }
        ("edm/table1", "through-the-mac") => |_| instead(edm_table1::values(), "edm", "raw_ethernet"),
        ("edm/fig5-cycles", "longer-lines") => |_| edm_fig5::values_over(LINE),
        ("edm/mac-limits", "no-padding") => |_| edm_mac_limits::values_of(UNPADDED),
        ("edm/failures", "one-switch") => |_| edm_failures::one_switch(),
        ("edm/fig6", "frames") => |scale| instead(edm_kv::throughput(scale), "edm", "rdma"),
        ("edm/fig7", "frames") => |scale| instead(edm_kv::latency(scale), "edm", "rdma"),
        ("drack/prototype", "own-memory") => |_| drack_prototype::own_memory(),
        ("drack/wiring", "racks-apart") => |_| drack_wiring::racks_apart(),
        ("r2c2/fig2", "one-routing") => |_| r2c2::one_routing(),
        ("r2c2/arithmetic", "headroom") => |_| r2c2::arithmetic_of(HEADROOM),
        ("r2c2/fig15", "no-intervals") => r2c2::no_intervals,
        ("r2c2/fig18", "no-search") => r2c2::no_selection,
        ("r2c2/fig19", "no-controller") => r2c2::no_controller,
        _ => return None,
    };
    Some(compute)
}

/// Gives each value whose name has the word `of` the value of the same name with the word `instead`, if there is one.
fn instead(values: Computed, of: &str, instead: &str) -> Computed {
    let value = |(name, value): (&String, &f64)| {
        let other = name.contains(of).then(|| values.get(&name.replace(of, instead))).flatten();
        (name.clone(), *other.unwrap_or(value))
    };
    values.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_computation_that_a_file_names_exists() {
        for study in crate::all().unwrap() {
            for broken_mechanism in &study.breaks {
                let Some(name) = &broken_mechanism.computed else { continue };
                assert!(broken(&study.name, name).is_some(), "{}: no computation `{name}`", study.name);
            }
        }
    }
}
