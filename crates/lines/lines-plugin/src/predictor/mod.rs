//! Simulated branch prediction: finds the branches that a contemporary processor would have mispredicted.
//!
//! | branch | predictor |
//! |---|---|
//! | conditional | TAGE: Seznec and Michaud, A case for (partially) tagged geometric history length branch prediction, JILP 2006 |
//! | indirect | a table of targets by address and history, as the paper's ITTAGE with one component |
//! | return | a stack of return addresses |
//!
//! The sizes of the tables are those of the paper's 64 Kbit predictor. Real processors have larger predictors, but
//! their vendors do not document how these work.

mod tage;

use crate::decode::Flow;
use tage::Tage;
use unrack_lines::instruction::BlockEnding;

/// Entries of the return address stack: 32 on Zen 2 (AMD, Software Optimization Guide for Family 17h Models 30h,
/// 2.7.1.3) and 16 on Skylake.
const RETURNS: usize = 32;
/// Entries of the table that predicts the targets of indirect branches: 1024 on Zen 2 (section 2.7.1.4 of the same
/// guide).
const TARGETS: usize = 1024;

/// Branch predictor of one thread.
pub(crate) struct Predictor {
    conditional: Tage,
    targets: Box<[u64; TARGETS]>,
    returns: [u64; RETURNS],
    depth: usize,
    /// Hash of the most recent targets of indirect branches.
    path: u64,
}

impl Predictor {
    pub(crate) fn new() -> Predictor {
        Predictor {
            conditional: Tage::new(),
            targets: Box::new([0; TARGETS]),
            returns: [0; RETURNS],
            depth: 0,
            path: 0,
        }
    }

    /// Predicts the branch at `address`, trains the predictor with `next`, the address at which execution actually
    /// continued, and returns whether the prediction was wrong. `behind` is the address of the next instruction in
    /// memory.
    pub(crate) fn is_mispredicted(&mut self, flow: &Flow, address: u64, behind: u64, next: u64) -> bool {
        if flow.is_call {
            self.returns[self.depth % RETURNS] = behind;
            self.depth = self.depth.wrapping_add(1);
        }
        match flow.ending {
            BlockEnding::Falls | BlockEnding::Jump => false,
            BlockEnding::Conditional => self.conditional.is_mispredicted(address, next != behind),
            BlockEnding::Indirect => self.is_target_mispredicted(address, next),
            BlockEnding::Return => {
                self.depth = self.depth.wrapping_sub(1);
                self.returns[self.depth % RETURNS] != next
            }
        }
    }

    fn is_target_mispredicted(&mut self, address: u64, next: u64) -> bool {
        let slot = ((address ^ address >> 10 ^ self.path) % TARGETS as u64) as usize;
        let predicted = std::mem::replace(&mut self.targets[slot], next);
        self.path = (self.path << 3) ^ next >> 2;
        predicted != next
    }
}

#[cfg(test)]
mod tests;
