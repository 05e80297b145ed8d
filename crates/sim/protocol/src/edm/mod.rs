//! EDM: access to remote memory in the Ethernet PHY; the switch schedules all data ("EDM: An Ultra-Low Latency Ethernet
//! Fabric for Memory Disaggregation", ASPLOS 2025).
//!
//! | module | holds |
//! |---|---|
//! | [`scheduler`] | the scheduler in the switch (§3.1): nodes report demands to it, and it returns grants |
//! | [`steps`] | number of clock cycles of each step in a host and in the switch (§3.2, figure 5, table 1) |

mod bits;
mod demands;
pub mod scheduler;
pub mod steps;

pub use scheduler::{Demand, Grant, GrantPolicy, Scheduler, SchedulerConfig};
pub use steps::EdmLatencies;
