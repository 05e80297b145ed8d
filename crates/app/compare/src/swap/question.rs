//! Question of the check by the kernel's own swap.
//!
//! ```text
//! runs at injected delays -> line --+
//! touches under swap -> cost of a fault -> predicted run time <-> measured run time <- runs under swap
//! ```
//! The runs at injected delays are those of a comparison.

use super::answer::SwapAnswer;
use super::cost;
use super::under_swap::UnderSwap;
use crate::asking::Asking;
use crate::error::Error;
use crate::runs::here::OwnRuns;
use crate::runs::program::{FREE_LINK, MeasuredProgram, SEED, check_repeat, folder_of, kept_of};
use crate::runs::runner::Runner;
use crate::runs::survey::{Survey, undelayed};
use crate::steps::Steps;
use std::ffi::OsString;
use std::path::PathBuf;
use unrack_paging::local_bytes;
use unrack_record::RunFolder;
use unrack_swap::{KernelSwap, SwapDevice, Undo};
use unrack_units::{Bytes, Share, Time};

/// How far the predicted run time is from the one that is measured under the kernel's swap.
#[derive(Debug, Clone)]
pub struct SwapQuestion {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Memory that stays local.
    pub local: Share,
    /// Device to swap to.
    pub device: SwapDevice,
    /// Rounds of runs, 1 to 100: as many under swap, and one more.
    pub repeat: u32,
    /// Time for the whole answer; without one, only the planned runs are made.
    pub budget: Option<Time>,
    /// Run folder: created, or continued if it is of the same program.
    pub out: PathBuf,
    /// Whether a run in that folder is replaced, whatever it is of.
    pub replace: bool,
}

/// Lower bound of the largest delay, in multiples of the pager's cost: twice that of a comparison, since the slope is to be judged
/// here.
const REACH: f64 = 8.0;

impl SwapQuestion {
    /// Runs the program natively, at injected delays and under swap, and writes the run folder. `undo` puts back what this
    /// changes of the machine, also if this process is killed.
    ///
    /// # Errors
    /// If the question cannot be answered on this machine, a run fails, or the question is canceled.
    pub fn ask(&self, asking: Asking, undo: Undo) -> Result<SwapAnswer, Error> {
        check_repeat(self.repeat)?;
        let program = MeasuredProgram::here(&self.command, self.budget)?;
        let folder = folder_of(&program.maker, "swap", &self.out, self.replace)?;
        let steps = Steps::until(asking, program.budget.until());
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
        steps: &Steps,
        undo: Undo,
    ) -> Result<SwapAnswer, Error> {
        let kept = kept_of(&program.maker, folder, steps);
        let runner = Runner { maker: &program.maker, folder, rate: FREE_LINK, seed: SEED };
        // What this machine lacks is said before anything runs for long.
        let swap = KernelSwap::open(&self.device, self.room(), undo)?;
        let mut survey = Survey::begin(&runner, &kept, &program.budget, steps, self.repeat)?;
        survey.reach = REACH;
        let local = local_bytes(self.local, survey.footprint())?;
        survey.undelayed(local)?;
        survey.inject(&[local], &[])?;
        let under_swap = UnderSwap::measure(&swap, &survey, &program.maker.job, (local, self.repeat + 1))?;
        // More threads than cores never run at the same time.
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let threads = kept.get(undelayed(local)).map_or(1, |done| done.threads).clamp(1, cores);
        let cost = cost::measure(&swap, &self.device, &survey, &under_swap.pages, threads)?;
        steps.finish();
        Ok(SwapAnswer::conclude(self, &survey, local, under_swap, cost))
    }

    /// Returns the size of the device: the machine's memory, of which a disk may have less.
    fn room(&self) -> Bytes {
        match self.device {
            SwapDevice::Zram => unrack_swap::memory_of_machine(),
            SwapDevice::FileIn(_) => Bytes::new(4 << 30),
        }
    }
}
