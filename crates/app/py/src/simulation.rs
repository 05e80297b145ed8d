//! Results of one simulation.

use crate::errors::{ErrorClass, json, of_folder, of_record, raised};
use crate::table::Table;
use pyo3::prelude::*;
use std::path::PathBuf;
use unrack_grid::simulation::{FinishedSimulation, save};
use unrack_grid::tables::{message_meta, message_rows};
use unrack_record::{RunFolder, RunPurpose, ports, to_batches};

/// Results of one simulation.
#[pyclass(frozen, name = "Simulation", module = "unrack._native")]
pub(crate) struct SimulationResults {
    pub simulated: FinishedSimulation,
    /// Links over time, if the caller requested them.
    pub links: Option<(ports::Meta, Vec<ports::Row>)>,
    /// Name of the scenario, and its settings.
    pub name: String,
    pub set: Vec<String>,
    pub transfers: u64,
}

#[pymethods]
impl SimulationResults {
    /// Returns the figures of the run as JSON: the object that `unrack sim --json` prints.
    fn summary(&self) -> PyResult<String> {
        json(&self.simulated.figures)
    }

    /// Returns the complete scenario, as TOML.
    fn scenario(&self) -> String {
        self.simulated.scenario.explain()
    }

    /// Returns a table of all messages, with one row for each.
    fn messages(&self, py: Python<'_>) -> Table {
        let (done, network) = (&self.simulated.done, &self.simulated.setup.network);
        let (schema, batches) = py.detach(|| to_batches(message_rows(done, network), &message_meta(done)));
        Table::new(schema, batches)
    }

    /// Returns the table of links over time; `None` if the caller did not request it.
    fn ports(&self) -> Option<Table> {
        let (meta, rows) = self.links.as_ref()?;
        let (schema, batches) = to_batches::<ports::Row>(rows.iter().copied(), meta);
        Some(Table::new(schema, batches))
    }

    /// Writes the same run folder as `unrack sim --out`.
    #[pyo3(signature = (folder, replace = false))]
    fn save(&self, py: Python<'_>, folder: PathBuf, replace: bool) -> PyResult<()> {
        let FinishedSimulation { scenario, .. } = &self.simulated;
        py.detach(|| {
            let set: String = self.set.iter().map(|set| format!(" --set {set}")).collect();
            let hash =
                scenario.hash_with_files().map_err(|why| raised(ErrorClass::Refused, &why.to_string()))?;
            let purpose = RunPurpose::new("sim", format!("{}{set}", self.name), hash);
            let folder = RunFolder::create(&folder, &purpose, replace).map_err(|why| of_folder(&why))?;
            let links = |folder: &RunFolder| self.save_ports(folder);
            save(&self.simulated, &folder, &self.name, &self.set, self.transfers, links)
                .map_err(|why| of_record(&why))
        })
    }
}

impl SimulationResults {
    fn save_ports(&self, folder: &RunFolder) -> Result<(), unrack_record::RecordError> {
        let Some((meta, rows)) = &self.links else { return Ok(()) };
        let mut table = ports::Writer::create(folder.path("ports.parquet"))?;
        rows.iter().try_for_each(|row| table.push(*row))?;
        table.finish(meta)
    }
}
