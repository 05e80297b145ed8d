//! Interface between a measurement and the process that makes its runs.

use super::task::{KnownResults, MeasurementTask, PAGE, PagerCost, TaskResult};
use crate::error::Error;
use crate::load::HostLoad;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;
use unrack_paging::FetchDelay;
use unrack_record::Warning;
use unrack_units::{Rate, Time};

/// Makes runs of one program, and observes the machine on which it makes them.
pub(crate) trait RunMaker {
    /// Returns the words of the command, for messages.
    fn words(&self) -> Vec<String>;

    /// Returns a text by which a later command recognizes the same program; it changes if the program visibly changes. `None` if it cannot
    /// be determined.
    fn identity(&self) -> Option<String>;

    /// Returns whether a later command would read the same input.
    fn is_repeatable(&self) -> bool;

    /// Returns the load of the machine while no run is in progress.
    fn look(&self) -> Result<HostLoad, Error>;

    /// Measures the pager's cost. `None` if the measurement has not ended at `until`.
    fn measure_cost(&self, until: Option<Instant>) -> Result<Option<MeasuredCost>, Error>;

    /// Makes a run. `None` if the run has not ended at `until`.
    fn make(&self, order: &RunOrder, until: Option<Instant>) -> Result<Option<Made>, Error>;
}

/// One run to be made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunOrder {
    pub task: MeasurementTask,
    pub known: KnownResults,
    /// Run folder.
    pub folder: PathBuf,
    /// Rate of the link to remote memory.
    pub rate: Rate,
    pub seed: u64,
}

/// A finished run, and the load of the machine during it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Made {
    pub done: TaskResult,
    pub load: HostLoad,
    pub warnings: Vec<Warning>,
}

/// Cost of the pager, as measured.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct MeasuredCost {
    pub cost: PagerCost,
    /// Whether other work disturbed the measurement.
    pub is_disturbed: bool,
}

/// Output files of runs, in the run folder.
const NATIVE_OUTPUT: &str = "native.out";
const REMOTE_OUTPUT: &str = "remote.out";

impl RunOrder {
    /// Returns the file for the output of a native run.
    pub(super) fn native_output(&self) -> PathBuf {
        self.folder.join(NATIVE_OUTPUT)
    }

    /// Returns the file for the output of a run with remote memory.
    pub(super) fn remote_output(&self) -> PathBuf {
        self.folder.join(REMOTE_OUTPUT)
    }

    /// Returns a delay of `whole_ns` in total, including transmission.
    pub(super) fn delay(&self, whole_ns: f64) -> FetchDelay {
        delay(whole_ns, self.rate)
    }
}

/// Returns a delay of `whole_ns` in total, which includes the transmission of a page at this rate.
pub(super) fn delay(whole_ns: f64, rate: Rate) -> FetchDelay {
    let transmission = rate.transmit(PAGE);
    let whole = Time::from_secs_f64(whole_ns.max(0.0) / 1e9);
    FetchDelay::constant(whole.saturating_sub(transmission), rate)
}
