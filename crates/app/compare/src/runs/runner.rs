//! Parameters of the runs of a measurement, and the comparison of their outputs.

use super::maker::{self, Made, RunMaker, RunOrder};
use super::task::{KnownResults, MeasurementTask};
use crate::error::Error;
use std::time::Instant;
use unrack_paging::FetchDelay;
use unrack_record::{RunFolder, Warning};
use unrack_units::Rate;

/// Parameters of all runs of the program.
pub(crate) struct Runner<'a> {
    pub maker: &'a dyn RunMaker,
    pub folder: &'a RunFolder,
    /// Rate of the link to remote memory.
    pub rate: Rate,
    pub seed: u64,
}

impl Runner<'_> {
    /// Makes a run. `None` if the run has not ended at `until`.
    pub(crate) fn make(
        &self,
        task: MeasurementTask,
        known: KnownResults,
        until: Option<Instant>,
    ) -> Result<Option<Made>, Error> {
        self.maker.make(&self.order(task, known), until)
    }

    /// Returns a delay of `whole_ns` in total, including transmission.
    pub(crate) fn delay(&self, whole_ns: f64) -> FetchDelay {
        maker::delay(whole_ns, self.rate)
    }

    fn order(&self, task: MeasurementTask, known: KnownResults) -> RunOrder {
        RunOrder { task, known, folder: self.folder.path(""), rate: self.rate, seed: self.seed }
    }

    /// Returns false if the output of the last run with remote memory differs from that of the last native run.
    pub(super) fn same_output(&self) -> bool {
        let order = self.order(MeasurementTask::Native { nth: 1 }, KnownResults::default());
        match (std::fs::read(order.native_output()), std::fs::read(order.remote_output())) {
            (Ok(one), Ok(other)) => one == other,
            _ => true,
        }
    }

    /// Returns the warning about different output.
    pub(super) fn output_differs(&self) -> Warning {
        let name = self.maker.words().first().cloned().unwrap_or_default();
        let text = format!(
            "the output with remote memory differs from the native output: expected if {name} prints times or \
             anything else that changes from run to run, otherwise please report it"
        );
        Warning::new("output-differs", text)
    }
}
