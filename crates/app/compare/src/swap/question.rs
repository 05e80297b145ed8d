//! Question that checks a predicted run time against runs under the kernel's swap.
//!
//! ```text
//! runs at injected delays -> line --+
//! touches under swap -> cost of a fault -> predicted run time <-> measured run time <- runs under swap
//! ```
//! The runs at injected delays are made like those of a comparison.

use super::answer::SwapAnswer;
use super::cost;
use super::under_swap::UnderSwap;
use crate::asking::QuestionCaller;
use crate::error::Error;
use crate::runs::here::OwnRuns;
use crate::runs::program::{FREE_LINK, MeasuredProgram, SEED, check_repeat, folder_of, kept_of};
use crate::runs::runner::Runner;
use crate::runs::survey::{Survey, undelayed};
use crate::steps::QuestionSteps;
use std::ffi::OsString;
use std::path::PathBuf;
use unrack_paging::local_bytes;
use unrack_record::RunFolder;
use unrack_swap::{KernelSwap, SwapDevice, Undo};
use unrack_units::{Bytes, Share, Time};

/// Question how far the predicted run time is from the run time that is measured under the kernel's swap.
#[derive(Debug, Clone)]
pub struct SwapQuestion {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Memory that stays local.
    pub local: Share,
    /// Device to swap to.
    pub device: SwapDevice,
    /// Rounds of runs, 1 to 100. Under swap the program runs once more than that.
    pub repeat: u32,
    /// Time budget of the whole answer. Without a budget, only the planned runs are made.
    pub budget: Option<Time>,
    /// Run folder. It is created, or continued if it belongs to the same program.
    pub out: PathBuf,
    /// Whether an existing run in that folder is replaced, even if it belongs to another program.
    pub replace: bool,
}

/// Lower bound of the largest delay, in multiples of the pager's cost. It is twice that of a comparison, because the slope of the fitted
/// line is what this question checks.
const REACH: f64 = 8.0;

impl SwapQuestion {
    /// Runs the program natively, at injected delays and under swap, and writes the run folder. `undo` reverts the changes that this
    /// function makes to the machine, even if this process is killed.
    ///
    /// # Errors
    /// If the question cannot be answered on this machine, a run fails, or the question is canceled.
    pub fn ask(&self, asking: QuestionCaller, undo: Undo) -> Result<SwapAnswer, Error> {
        check_repeat(self.repeat)?;
        let program = MeasuredProgram::here(&self.command, self.budget)?;
        let folder = folder_of(&program.maker, "swap", &self.out, self.replace)?;
        let steps = QuestionSteps::until(asking, program.budget.until());
        let found = self.measure(&program, &folder, &steps, undo)?;
        let answer = SwapAnswer { machine: Some(program.started.machine()), ..found };
        folder.write_json("swap.json", &answer)?;
        let settings = serde_json::json!({ "repeat": self.repeat, "device": self.device.to_string() });
        folder.write_json("manifest.json", &program.started.manifest(SEED, None, settings))?;
        Ok(answer)
    }

    fn measure(
        &self,
        program: &MeasuredProgram<OwnRuns>,
        folder: &RunFolder,
        steps: &QuestionSteps,
        undo: Undo,
    ) -> Result<SwapAnswer, Error> {
        let kept = kept_of(&program.maker, folder, steps);
        let runner = Runner { maker: &program.maker, folder, rate: FREE_LINK, seed: SEED };
        // If the machine lacks something, that is reported before any long run.
        let swap = KernelSwap::open(&self.device, self.room(), undo)?;
        let mut survey = Survey::begin(&runner, &kept, &program.budget, steps, self.repeat)?;
        survey.reach = REACH;
        let local = local_bytes(self.local, survey.footprint())?;
        survey.undelayed(local)?;
        survey.inject(&[local], &[])?;
        let under_swap = UnderSwap::measure(&swap, &survey, &program.maker.job, (local, self.repeat + 1))?;
        // More threads than cores cannot run at the same time.
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let threads = kept.get(undelayed(local)).map_or(1, |done| done.threads).clamp(1, cores);
        let cost = cost::measure(&swap, &self.device, &survey, &under_swap.pages, threads)?;
        steps.finish();
        Ok(SwapAnswer::conclude(self, &survey, local, under_swap, cost))
    }

    /// Returns the size of the swap device: the size of the machine's memory, or less on a disk, which may not have that much space.
    fn room(&self) -> Bytes {
        match self.device {
            SwapDevice::Zram => unrack_swap::memory_of_machine(),
            SwapDevice::FileIn(_) => Bytes::new(4 << 30),
        }
    }
}
