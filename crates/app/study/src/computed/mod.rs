//! Figures that need no simulation: they are computed from the parameters and protocol cores that simulations also use.

mod broken;
mod ddc_table4;
mod drack_prototype;
mod drack_wiring;
mod edm_artifact;
mod edm_failures;
mod edm_fig5;
mod edm_kv;
mod edm_mac_limits;
mod edm_scheduler;
mod edm_table1;
mod r2c2;
mod values;

pub use broken::broken;
pub use values::Computed;

use crate::file::StudyScale;

/// Returns the computed values of a study. Most studies have none.
pub fn figures(study: &str, scale: StudyScale) -> Computed {
    match study {
        "edm/scheduler" => edm_scheduler::values(),
        "edm/mac-limits" => edm_mac_limits::values(),
        "edm/fig6" => edm_kv::throughput(scale),
        "edm/fig8-artifact" => edm_artifact::values(scale),
        "edm/fig7" => edm_kv::latency(scale),
        "edm/failures" => edm_failures::values(),
        "edm/fig5-cycles" => edm_fig5::values(),
        "edm/table1" => edm_table1::values(),
        "ddc/table4" => ddc_table4::values(),
        "drack/prototype" => drack_prototype::values(),
        "drack/wiring" => drack_wiring::values(),
        "r2c2/fig2" => r2c2::throughput(),
        "r2c2/arithmetic" => r2c2::arithmetic(),
        "r2c2/fig7" => r2c2::emulation(scale),
        "r2c2/fig8" => r2c2::recomputation(scale),
        "r2c2/fig15" => r2c2::intervals(scale),
        "r2c2/fig18" => r2c2::selection(scale),
        "r2c2/fig19" => r2c2::control(scale),
        _ => Computed::new(),
    }
}
