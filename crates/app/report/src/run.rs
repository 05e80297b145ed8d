//! Runs of a report, read from their folders.

use std::path::{Path, PathBuf};

use unrack_record::{
    Comparison, LinesSummary, Manifest, SlowdownMap, Sweep, completions, line_heat, messages, ports,
    read_json, trace,
};

use crate::{
    Cdf, ExplainedMessage, FetchRate, LinksOverTime, MessageSlowdowns, ReportError, SimulationSummary,
};

/// A run, read from its folder.
#[derive(Debug, Clone)]
pub struct RecordedRun {
    /// Name of the run on the page.
    pub name: String,
    pub manifest: Option<Manifest>,
    pub result: RunResult,
}

#[derive(Debug, Clone)]
pub enum RunResult {
    Comparison(Box<ComparedRun>),
    Lines(Box<LinesRun>),
    Simulation(Box<SimulatedRun>),
    Map(Box<SlowdownMap>),
    Sweep(Box<Sweep>),
}

/// A run that measured loads and stores, with the tables in its folder.
#[derive(Debug, Clone)]
pub struct LinesRun {
    pub summary: LinesSummary,
    pub heat: Option<(line_heat::Meta, Vec<line_heat::Row>)>,
    /// Comparison of the same program by page faults, if that was requested, too.
    pub pages: Option<ComparedRun>,
}

/// A simulation with the tables in its folder.
#[derive(Debug, Clone)]
pub struct SimulatedRun {
    pub summary: SimulationSummary,
    pub messages: Option<MessageSlowdowns>,
    pub links: Option<LinksOverTime>,
    pub explained: Option<ExplainedMessage>,
}

/// A comparison with the tables in its folder.
#[derive(Debug, Clone)]
pub struct ComparedRun {
    pub comparison: Comparison,
    /// Completion times of page fetches in microseconds, by fabric.
    pub completions: Vec<(String, Cdf)>,
    pub fetch_rate: Option<FetchRate>,
}

impl RecordedRun {
    /// Reads a run folder. The files in the folder determine the kind of the run.
    ///
    /// # Errors
    /// [`ReportError`] if `folder` is not a run folder, or a file cannot be read.
    pub fn read(folder: impl AsRef<Path>) -> Result<RecordedRun, ReportError> {
        let folder = folder.as_ref();
        let manifest = folder.join("manifest.json");
        let manifest = manifest.is_file().then(|| read_json(manifest)).transpose()?;
        Ok(RecordedRun { name: name_of(folder), manifest, result: read_result(folder)? })
    }
}

fn read_result(folder: &Path) -> Result<RunResult, ReportError> {
    let [summary, map, sweep] = ["summary.json", "map.json", "sweep.json"].map(|name| folder.join(name));
    if sweep.is_file() {
        let result: Sweep = read_json(&sweep)?;
        return match result.points.iter().all(|point| point.values.len() == result.keys.len()) {
            true => Ok(RunResult::Sweep(Box::new(result))),
            false => {
                let reason = format!("a point has not a value for each of {} keys", result.keys.len());
                Err(ReportError::Unexpected { file: sweep, reason })
            }
        };
    }
    if map.is_file() {
        let result: SlowdownMap = read_json(&map)?;
        return match misfit(&result) {
            Some(reason) => Err(ReportError::Unexpected { file: map, reason }),
            None => Ok(RunResult::Map(Box::new(result))),
        };
    }
    if !summary.is_file() {
        return Err(ReportError::NotARun { folder: folder.into() });
    }
    let value: serde_json::Value = read_json(&summary)?;
    if value.get("injection").is_some() {
        return Ok(RunResult::Comparison(Box::new(read_compared(folder, read_json(&summary)?)?)));
    }
    if value.get("lines").is_some() {
        return Ok(RunResult::Lines(Box::new(read_lines(folder, read_json(&summary)?)?)));
    }
    if value.get("fabric").is_some() {
        return Ok(RunResult::Simulation(Box::new(read_simulated(folder, read_json(&summary)?)?)));
    }
    let reason =
        "no summary of a comparison (no `injection`), of loads and stores (no `lines`) or of a simulation (no `fabric`)".into();
    Err(ReportError::Unexpected { file: summary, reason })
}

/// Returns the reason why the grid of a map does not match its axes; `None` if it matches.
fn misfit(map: &SlowdownMap) -> Option<String> {
    let (rows, columns) = (map.latencies_ns.len(), map.bandwidths_bps.len());
    if rows == 0 || columns == 0 || map.locals.is_empty() {
        return Some("the map is empty: it needs a latency, a bandwidth and a local share".into());
    }
    let fits = |cells: &Vec<Vec<f64>>| cells.len() == rows && cells.iter().all(|row| row.len() == columns);
    let local = map.locals.iter().find(|local| !local.slowdown.as_ref().is_none_or(fits))?;
    Some(format!("`slowdown` of `{}` is not {rows} latencies by {columns} bandwidths", local.local))
}

fn read_compared(folder: &Path, comparison: Comparison) -> Result<ComparedRun, ReportError> {
    let completions = read_completions(folder, &comparison)?;
    let trace = folder.join("trace.parquet");
    let fetch_rate = if trace.is_file() { read_fetch_rate(&trace)? } else { None };
    Ok(ComparedRun { comparison, completions, fetch_rate })
}

fn read_simulated(folder: &Path, summary: SimulationSummary) -> Result<SimulatedRun, ReportError> {
    let table = folder.join("messages.parquet");
    let messages = match table.is_file() {
        true => MessageSlowdowns::from_rows(summary.excluded.counted(&messages::read(&table)?.1)),
        false => None,
    };
    let explained = folder.join("explain.json");
    let explained = explained.is_file().then(|| read_json(&explained)).transpose()?;
    Ok(SimulatedRun { summary, messages, links: read_links(folder)?, explained })
}

/// Reads the table of links. Its file may have any name that begins with `ports`.
fn read_links(folder: &Path) -> Result<Option<LinksOverTime>, ReportError> {
    let mut tables = entries(folder)?;
    tables.retain(|path| is_table(path, "ports"));
    tables.sort();
    let Some(table) = tables.first() else { return Ok(None) };
    let (meta, rows) = ports::read(table)?;
    Ok(LinksOverTime::from_rows(&meta, &rows))
}

fn read_lines(folder: &Path, summary: LinesSummary) -> Result<LinesRun, ReportError> {
    let heat = folder.join("heat.parquet");
    let heat = heat.is_file().then(|| line_heat::read(&heat)).transpose()?;
    let pages = summary.pages.clone().map(|pages| read_compared(folder, pages)).transpose()?;
    Ok(LinesRun { summary, heat, pages })
}

fn read_fetch_rate(path: &Path) -> Result<Option<FetchRate>, ReportError> {
    let (meta, rows) = trace::read(path)?;
    Ok(FetchRate::from_moves(meta.run_ns, rows.iter().map(|row| (row.t_ns, row.kind == trace::Kind::Fetch))))
}

/// Reads the tables of completion times. Each table states its fabric, so its file may have any name that begins with `completions`. The
/// file is in the run folder, or in the folder of the fabric.
fn read_completions(folder: &Path, comparison: &Comparison) -> Result<Vec<(String, Cdf)>, ReportError> {
    let mut found = Vec::new();
    for path in tables(folder)? {
        let (meta, rows) = completions::read(&path)?;
        let fetches = rows.iter().filter(|row| row.kind == completions::Kind::Fetch);
        let cdf = Cdf::from_values(fetches.map(|row| row.completion_ps as f64 / 1e6).collect());
        found.extend(cdf.map(|cdf| (meta.fabric, cdf)));
    }
    let stated = comparison.fabrics.iter().filter(|fabric| fabric.fetch_us.is_some());
    let order = stated.map(|fabric| &fabric.fabric);
    Ok(order.filter_map(|name| found.iter().find(|(fabric, _)| fabric == name).cloned()).collect())
}

fn tables(folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let mut paths = Vec::new();
    for entry in entries(folder)? {
        if entry.is_dir() {
            paths.extend(entries(&entry)?.into_iter().filter(|path| is_table(path, COMPLETIONS)));
        } else if is_table(&entry, COMPLETIONS) {
            paths.push(entry);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Prefix of the file names of tables of completion times.
const COMPLETIONS: &str = "completions";

fn is_table(path: &Path, beginning: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(beginning) && name.ends_with(".parquet")
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let failed = |why| ReportError::Folder { action: "list", path: folder.into(), why };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}

fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.into());
    whole.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned())
}
