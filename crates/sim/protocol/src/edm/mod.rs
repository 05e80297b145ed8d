//! EDM: remote memory in the Ethernet PHY, scheduled by the switch ("EDM: An Ultra-Low Latency
//! Ethernet Fabric for Memory Disaggregation", ASPLOS 2025).
//!
//! | module | holds |
//! |---|---|
//! | [`scheduler`] | the in-network scheduler (§3.1): takes demands and returns grants |
//! | [`steps`] | the clock cycles of every host and switch step (§3.2, figure 5, table 1) |

mod bits;
mod demands;
pub mod scheduler;
pub mod steps;

pub use scheduler::{Demand, Grant, GrantPolicy, Scheduler, SchedulerConfig};
pub use steps::EdmLatencies;
