//! Work of a scenario: drawn at random, or read from the file that the scenario names.

use crate::error::ScenarioRunError;
use crate::memory_left::MemoryLeft;
use std::io::Read;
use std::path::Path;
use unrack_rack::{ScenarioError, Trace, ValidScenario, Workload};
use unrack_record::{RecordError, messages, rows_of, trace};
use unrack_sim::scenario::{check_margins, replay_spec};
use unrack_sim::{Need, Setup, SetupError, Work};
use unrack_units::Time;
use unrack_workload::trace::TraceRow;
use unrack_workload::{Message, listed};

/// Largest number of transfers of a captured trace, over all of its copies: a gigabyte of messages.
pub const MOST_TRANSFERS: u64 = 10_000_000;

/// Largest size of a list of messages as CSV, in bytes. The messages of a longer list would not fit in memory.
const MOST_CSV_BYTES: u64 = 16 << 30;
/// Bytes of the shortest line of a list of messages as CSV.
const LEAST_LINE: u64 = 8;

/// Returns the work of a scenario that `setup` accepts, and the memory that the work will need. If the copies of a
/// captured trace would make more than `most` transfers, the trace is cut to its middle part.
///
/// # Errors
/// If the file cannot be read, the work does not fit the network, or there is too little memory.
pub fn checked(scenario: &ValidScenario, setup: &Setup, most: u64) -> Result<(Work, Need), ScenarioRunError> {
    let mut need = Need::from_scenario(scenario);
    let work = match &scenario.workload {
        Workload::Trace(trace) => {
            let rows = rows(&trace.file.path).map_err(|why| scenario.error_at(FILE, why))?;
            let copies = trace.blades.map_or(1, |blades| blades.compute);
            need =
                need.with_rows(rows, copies.min(u32::try_from(most / rows.max(1) + 1).unwrap_or(u32::MAX)));
            MemoryLeft::now().check(&need)?;
            read(trace, scenario, setup, most)?
        }
        Workload::Memory(_) | Workload::Flows(_) | Workload::Collective(_) | Workload::Jobs(_) => {
            Work::drawn(scenario)?.expect("only a trace is not drawn")
        }
    };
    // A run with a time limit of zero ends before any event, but makes all checks that a full run makes at its start.
    let over = Setup { time_limit: Time::ZERO, ..setup.clone() };
    let checked = over.run(&work, |_| {}).and_then(|_| check_margins(scenario, setup, &work));
    checked.map_err(|error| error.in_scenario(scenario))?;
    Ok((work, need))
}

/// Returns an upper bound of the number of rows of a file, without reading them.
fn rows(path: &Path) -> Result<u64, String> {
    if is_parquet(path)? {
        return rows_of(path).map_err(|why| why.to_string());
    }
    let file = unrack_input::open(path, MOST_CSV_BYTES).map_err(|why| why.to_string())?;
    let bytes = file.metadata().map_err(|why| format!("cannot read {}: {why}", path.display()))?.len();
    Ok(bytes / LEAST_LINE)
}

/// Converts the rows of a captured trace for a replay.
pub fn captured_rows(rows: &[trace::Row]) -> Vec<TraceRow> {
    let row = |row: &trace::Row| TraceRow {
        t_ns: row.t_ns,
        thread: row.thread,
        page: row.page,
        write_back: row.kind == trace::Kind::WriteBack,
        bytes: row.bytes,
        wait_ns: row.wait_ns,
        overhead_ns: row.overhead_ns,
    };
    rows.iter().map(row).collect()
}

fn read(trace: &Trace, scenario: &ValidScenario, setup: &Setup, most: u64) -> Result<Work, ScenarioError> {
    let refused = |error: SetupError| error.in_scenario(scenario);
    match TraceContents::read(&trace.file.path).map_err(|why| scenario.error_at(FILE, why))? {
        TraceContents::Captured(meta, rows) => {
            let spec = replay_spec(trace, setup.network.nodes(), scenario.seed);
            let run_time = run_time(&meta).map_err(refused)?;
            // A native run that took at least as long as the captured run gives no information about the pace of the
            // program.
            let native = meta.native_ns.filter(|native| *native < meta.run_ns).map(Time::from_ns);
            let times = (run_time, native);
            Work::captured(&captured_rows(&rows), times, spec, most).map_err(refused)
        }
        TraceContents::Listed(messages) => Ok(Work::listed(messages)),
    }
}

const FILE: &str = "workload.file";

/// Contents of the file of a trace.
enum TraceContents {
    Captured(trace::Meta, Vec<trace::Row>),
    Listed(Vec<(Time, Message)>),
}

impl TraceContents {
    /// Reads a file. Its contents, not its name, decide its kind: a captured trace, the messages of another run, or a
    /// list as CSV.
    fn read(path: &Path) -> Result<TraceContents, String> {
        if !is_parquet(path)? {
            let text = unrack_input::read_text(path, MOST_CSV_BYTES).map_err(|why| why.to_string())?;
            return listed::parse_csv(&text).map(TraceContents::Listed).map_err(|why| why.to_string());
        }
        match trace::read(path) {
            Ok((meta, rows)) => Ok(TraceContents::Captured(meta, rows)),
            Err(RecordError::WrongTable { found, .. }) if found == "messages" => {
                let (_, rows) = messages::read(path).map_err(|why| why.to_string())?;
                Ok(TraceContents::Listed(rows.iter().map(again).collect()))
            }
            Err(why) => {
                Err(format!("{why} (lists of messages are read as CSV: src,dst,bytes,start_ns,kind)"))
            }
        }
    }
}

fn is_parquet(path: &Path) -> Result<bool, String> {
    let mut start = Vec::new();
    let file = unrack_input::open(path, u64::MAX).map_err(|why| why.to_string())?;
    let read = file.take(4).read_to_end(&mut start);
    read.map_err(|why| format!("cannot read {}: {why}", path.display()))?;
    Ok(start == b"PAR1")
}

/// Returns a message of another run, with the time of its submission.
fn again(row: &messages::Row) -> (Time, Message) {
    let make = match row.kind {
        messages::Kind::Read => Message::read,
        messages::Kind::Write => Message::write,
        messages::Kind::Rmw => Message::rmw,
        messages::Kind::Flow => Message::flow,
    };
    (Time::from_ps(row.submitted_ps), make(row.src, row.dst, row.bytes))
}

/// Returns the duration of the captured run. It must be less than 60 days, because picoseconds in 64 bits last 213
/// days.
fn run_time(meta: &trace::Meta) -> Result<Time, SetupError> {
    const LONGEST_NS: u64 = 60 * 24 * 3600 * 1_000_000_000;
    match meta.run_ns {
        ns @ ..=LONGEST_NS => Ok(Time::from_ns(ns)),
        ns => Err(SetupError::new(FILE, "has a run of less than 60 days", format!("{ns} ns"))),
    }
}
