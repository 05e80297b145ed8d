//! `unrack swap`: a check of `compare` by something that is not ours, the kernel's swap.
//!
//! ```text
//! runs at injected delays -> line --+
//! touches under swap -> cost of a fault -> predicted run time <-> measured run time <- runs under swap
//! ```
//! The runs at injected delays are those of `compare`: see [`crate::runs`].

mod answer;
mod cost;
mod under_swap;

use crate::failure::Failure;
use crate::folder;
use crate::runs::Runner;
use crate::runs::budget::{self, Budget};
use crate::runs::kept::{Identity, Kept};
use crate::runs::progress::Steps;
use crate::runs::survey::{Survey, undelayed};
use crate::stdout::{print, print_answer};
use answer::Answer;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use under_swap::UnderSwap;
use unrack_build::build;
use unrack_paging::{CheckedProgram, Input, local_bytes};
use unrack_record::{Purpose, RunFolder, Started};
use unrack_swap::{KernelSwap, SwapDevice, SwapError, Undo};
use unrack_units::{Bytes, Rate, Share, Time};

pub(crate) use cost::TouchArgs;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sudo unrack swap -- python3 job.py                   a quarter local, swapping to zram
  sudo unrack swap --local 10% --repeat 5 -- ./program
  sudo unrack swap --device /var/tmp -- ./program      to a file there, on a real disk
  sudo unrack swap --json -- ./program | jq .error

The program runs about 17 times: natively, at five injected delays, and under the kernel's swap. A line goes through the \
runs at injected delays, as in `unrack compare`; at the kernel's own cost of a fault, it predicts the run time under swap. \
That is measured, too: in a memory cgroup with as much anonymous memory. The cost of a fault is measured by touching \
pages in such a group, with the contents of the program's own.

Swap, cgroup and settings are removed at the end, also if this command is killed. The run folder gets swap.json; the same \
command with the same --out keeps the native runs and those at injected delays.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Memory that stays local: a share of the program's footprint, or a size
    #[arg(long, value_name = "SHARE", default_value = "25%")]
    local: Share,
    /// Device to swap to: zram, or a folder for a file to swap to
    #[arg(long, value_name = "zram|FOLDER", default_value = "zram")]
    device: SwapDevice,
    /// Rounds of runs: as many under swap, and one more; of the others as in `unrack compare`
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    #[arg(long, value_name = "TIME", value_parser = budget::parse, help = budget::HELP)]
    budget: Option<Time>,
    /// Run folder: made, or continued if it is of the same command
    #[arg(long, value_name = "DIR", default_value = "unrack-swap")]
    out: PathBuf,
    /// Replace the run in that folder even if it is of another command
    #[arg(long)]
    replace: bool,
    /// Print swap.json instead of text
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Seed of the pager's choices.
const SEED: u64 = 1;
/// Link rate of the runs, so high that injected delays need not include transmission.
const FREE_LINK: Rate = Rate::from_gbps(10_000);

/// Lower bound of the largest delay, in multiples of the pager's cost: twice that of `compare`, since the slope is to be judged
/// here.
const REACH: f64 = 8.0;

/// Runs `unrack swap`.
pub(crate) fn main(args: Args, undo: Undo) -> Result<ExitCode, Failure> {
    let budget = Budget::new(args.budget);
    let mut job = CheckedProgram::prepare(&args.command)?;
    job.input = Input::repeatable()?;
    let started = Started::now(build());
    let question = serde_json::json!({ "command": job.words(), "folder": std::env::current_dir().ok() });
    let purpose = Purpose::new("swap", job.words().join(" "), question.to_string());
    let folder = folder::create(&args.out, &purpose, args.replace)?;
    let answer = args.measure(&job, &folder, &budget, undo)?;
    let answer = Answer { machine: Some(started.machine()), ..answer };
    folder.write_json("swap.json", &answer)?;
    let settings = serde_json::json!({ "repeat": args.repeat, "device": args.device.to_string() });
    folder.write_json("manifest.json", &started.manifest(SEED, None, settings))?;
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&answer);
            print(&(text.map_err(|why| Failure::Failed(why.to_string()))? + "\n"))?;
        }
        false => print_answer(&answer.text())?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn measure(
        &self,
        job: &CheckedProgram,
        folder: &RunFolder,
        budget: &Budget,
        undo: Undo,
    ) -> Result<Answer, Failure> {
        let of =
            Identity { sources: build().sources, program: job.identity().unwrap_or_default(), seed: SEED };
        let kept = Kept::open(folder, of, matches!(job.input, Input::Empty));
        let steps = Steps::until(budget.until());
        let runner = Runner { job, folder, rate: FREE_LINK, seed: SEED };
        // What this machine lacks is said before anything runs for long.
        let swap = KernelSwap::open(&self.device, self.room(), undo)?;
        let mut survey = Survey::begin(&runner, &kept, budget, &steps, self.repeat)?;
        survey.reach = REACH;
        let local = local_bytes(self.local, survey.footprint())?;
        survey.undelayed(local)?;
        survey.inject(&[local], &[])?;
        let under_swap = UnderSwap::measure(&swap, &survey, local, self.repeat + 1)?;
        // More threads than cores never run at the same time.
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let threads = kept.get(undelayed(local)).map_or(1, |done| done.threads).clamp(1, cores);
        let cost = cost::measure(&swap, &self.device, &survey, &under_swap.pages, threads)?;
        steps.finish();
        Ok(Answer::conclude(self, &survey, local, under_swap, cost))
    }

    /// Returns the size of the device: the machine's memory, of which a disk may have less.
    fn room(&self) -> Bytes {
        match self.device {
            SwapDevice::Zram => unrack_swap::memory_of_machine(),
            SwapDevice::FileIn(_) => Bytes::new(4 << 30),
        }
    }
}

impl From<SwapError> for Failure {
    fn from(error: SwapError) -> Failure {
        match error {
            SwapError::Lacking(text) => Failure::Lacking(text),
            SwapError::Failed(text) => Failure::Failed(text),
        }
    }
}
