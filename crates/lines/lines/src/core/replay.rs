//! Execution of recorded windows in several lanes (memory configurations) simultaneously.

use super::LANES;
use super::account::{Accountant, CycleAccount};
use super::machine::CoreModel;
use super::memory::LaneMemory;
use super::parameters::{CoreError, CoreParameters, MemoryLane, check_lanes};
use super::program::Program;
use super::time::LaneTimes;
use crate::instruction::CodeBlock;
use crate::window::RecordedWindow;

/// Result of the execution of one recorded window: the cycles that it takes in each lane (memory configuration).
#[derive(Clone, Debug, PartialEq)]
pub struct WindowCycles {
    /// Number of the window's thread.
    pub thread: u32,
    /// Number of instructions that the thread had executed before the window.
    pub start: u64,
    /// Number of instructions of the window after its lead.
    pub instructions: u64,
    /// Cycles that the instructions after the lead take, by lane.
    pub cycles: Vec<f64>,
}

/// Core model that executes the windows of one recording, one after another, in up to 16 lanes (memory configurations).
pub struct CoreReplay {
    machine: CoreModel<LaneTimes<LANES>, LaneMemory<LANES>, Accountant>,
    parameters: CoreParameters,
    program: Program,
    lanes: usize,
}

impl CoreReplay {
    /// Creates a core that executes windows in the given lanes (memory configurations). It keeps the cycle account
    /// (cycles by cause) of the lane with the index `accounted`.
    ///
    /// # Errors
    /// If there is no lane or there are more than 16, if no lane has the index `accounted`, or if a parameter is out
    /// of its range.
    pub fn new(
        parameters: &CoreParameters,
        lanes: &[MemoryLane],
        accounted: usize,
    ) -> Result<CoreReplay, CoreError> {
        parameters.check()?;
        check_lanes(lanes)?;
        if accounted >= lanes.len() {
            return Err(CoreError::Account { lane: accounted, lanes: lanes.len() });
        }
        let machine = CoreModel::new(parameters, LaneMemory::new(lanes), Accountant::new(accounted));
        let (parameters, program) = (parameters.clone(), Program::default());
        Ok(CoreReplay { machine, parameters, program, lanes: lanes.len() })
    }

    /// Executes a window. `blocks` are the code blocks of the recording, up to the point to which it has been read.
    /// Each call must pass the same blocks as the previous call, possibly followed by more blocks.
    ///
    /// # Panics
    /// If the window is inconsistent with its blocks. Windows that a [`Reader`](crate::recording::Reader) returns are
    /// always consistent with their blocks.
    pub fn run(&mut self, window: &RecordedWindow, blocks: &[CodeBlock]) -> WindowCycles {
        self.program.prepare(blocks, &self.parameters);
        let mut cycles = vec![0.0; self.lanes];
        self.machine.run(&self.program, window, &mut cycles);
        self.machine.watch.end();
        WindowCycles {
            thread: window.thread,
            start: window.start,
            instructions: window.instructions() - u64::from(window.lead),
            cycles,
        }
    }

    /// Returns the cycle account (cycles by cause) of all executed windows, without the cycles of their leads.
    pub fn account(&self) -> CycleAccount {
        self.machine.watch.account()
    }
}

impl RecordedWindow {
    /// Returns the number of instructions of the window, including its lead.
    pub(super) fn instructions(&self) -> u64 {
        self.steps.iter().map(|step| u64::from(step.instructions)).sum()
    }
}
