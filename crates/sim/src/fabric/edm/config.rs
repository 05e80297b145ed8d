//! EDM's parameters, and which of them make sense.

use crate::error::SetupError;
use crate::network::Star;
use unrack_protocol::edm::scheduler::ITERATION_CYCLES;
use unrack_protocol::edm::{Policy, SchedulerConfig, Steps, steps};
use unrack_units::{Bytes, Time};

/// Parameters of EDM; the defaults are the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdmConfig {
    /// The most that one grant allows. §4.3: 256 B.
    pub chunk: Bytes,
    /// X: active notifications per sender and destination. §3.1.2, §4.3: 3.
    pub max_active: u32,
    pub policy: Policy,
    /// Clock of the scheduler, in hertz. §3.1.3, §4.1: 3 GHz in an ASIC.
    pub scheduler_hz: u64,
    pub steps: Steps,
}

impl Default for EdmConfig {
    fn default() -> Self {
        EdmConfig {
            chunk: Bytes::new(256),
            max_active: 3,
            policy: Policy::default(),
            scheduler_hz: 3_000_000_000,
            steps: Steps::default(),
        }
    }
}

/// DDR4's burst (§3.1.4): what a memory access moves at a time.
pub const BURST_BYTES: u64 = 64;

/// Bytes that one 66-bit block carries.
pub const BLOCK_BYTES: u64 = 8;

/// State per pair of ports is kept for all pairs; beyond this it would not fit in memory. The
/// paper's block formats end at 512 (§3.1.4: nine bits of destination).
const MAX_NODES: u32 = 2048;

/// Cycles of the PCS clock that table 1 leaves for one matching iteration ([`steps::SCHEDULE`]
/// less the access to the ordered list).
const ITERATION_PCS_CYCLES: u64 = steps::SCHEDULE - 1;

impl EdmConfig {
    /// Length of a matching iteration.
    pub fn iteration(&self) -> Time {
        let ps = ITERATION_CYCLES * 1_000_000_000_000;
        Time::from_ps(ps.div_ceil(self.scheduler_hz))
    }

    pub(super) fn check(&self, star: &Star) -> Result<(), SetupError> {
        let chunk = self.chunk.get();
        if chunk == 0 || !chunk.is_multiple_of(BURST_BYTES) || chunk > u64::from(u16::MAX) {
            return Err(SetupError::new("fabric.chunk", "is a multiple of 64B, at most 64KiB", self.chunk));
        }
        if self.max_active == 0 {
            return Err(SetupError::new("fabric.max_active", "is at least 1", 0));
        }
        let slowest = self.steps.cycles(ITERATION_PCS_CYCLES);
        if self.scheduler_hz == 0 || self.iteration() > slowest {
            let rule = "is fast enough that three cycles fit in the three PCS cycles of table 1";
            return Err(SetupError::new("fabric.scheduler_clock", rule, format!("{} Hz", self.scheduler_hz)));
        }
        if star.nodes > MAX_NODES {
            return Err(SetupError::new("network.topology.nodes", "is at most 2048 for edm", star.nodes));
        }
        Ok(())
    }

    pub(super) fn scheduler(&self, star: &Star, block: Time) -> SchedulerConfig {
        SchedulerConfig {
            ports: star.nodes,
            chunk: self.chunk.get() as u32,
            policy: self.policy,
            iteration: self.iteration(),
            block,
        }
    }
}
