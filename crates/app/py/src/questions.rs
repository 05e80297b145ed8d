//! Questions about a program. They are asked in this process, with progress and Ctrl-C, while the command `unrack` makes the runs.
//!
//! A run takes over signals, the orphans of all descendants and the processor time of all children. An interpreter uses these itself, so a
//! separate command has to make the run ([`RunsPlace::Command`]). Instrumented runs, and expressions that judge an answer, are available
//! only in the command.

use crate::errors::{ErrorClass, raised};
use crate::waiting::{Gauge, interruptible};
use pyo3::prelude::*;
use serde::Serialize;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;
use unrack_compare::{
    ComparedRack, ComparisonQuestion, Error, MapQuestion, QuestionCaller, RunsPlace, StepProgress, TimeLeft,
    compared_fabric, parse_budget,
};
use unrack_rack::Scope;

/// Options by the name of their flag, without dashes. The values of a list are separate elements.
type GivenOptions = BTreeMap<String, Vec<OsString>>;
/// Number of progress steps of the whole work.
const WHOLE: f64 = 1000.0;

/// Compares fabrics by a program's slowdown, and returns the summary as JSON. `unrack` is the path of the command.
#[pyfunction]
#[pyo3(signature = (unrack, command, options, progress = None))]
pub(crate) fn compare(
    py: Python<'_>,
    unrack: PathBuf,
    command: Vec<OsString>,
    options: GivenOptions,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let question = comparison(command, options).map_err(refused)?;
    answered(py, &unrack, progress, |asking| question.ask(asking).map(|answer| text(&answer.found)))
}

/// Maps a program's slowdown over latency, bandwidth and local share, and returns the map as JSON.
#[pyfunction]
#[pyo3(signature = (unrack, command, options, progress = None))]
pub(crate) fn map(
    py: Python<'_>,
    unrack: PathBuf,
    command: Vec<OsString>,
    options: GivenOptions,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let question = mapped(command, options).map_err(refused)?;
    answered(py, &unrack, progress, |asking| {
        let answer = question.ask(asking)?;
        asking.progress.say(&format!("wrote {}", answer.report.display()));
        Ok(text(&answer.map))
    })
}

fn refused(why: String) -> PyErr {
    raised(ErrorClass::Refused, &why)
}

fn text(answer: &impl Serialize) -> String {
    serde_json::to_string_pretty(answer).expect("answers are printed") + "\n"
}

/// Asks a question on another thread, and returns its answer.
fn answered<T: Send>(
    py: Python<'_>,
    unrack: &Path,
    progress: Option<&Bound<'_, PyAny>>,
    ask: impl FnOnce(QuestionCaller) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let found = interruptible(py, progress, |gauge| {
        let shown = GaugeProgress { gauge, began: Instant::now(), left: Cell::new(None) };
        ask(QuestionCaller { progress: &shown, cancel: gauge.stops(), runs: RunsPlace::Command(unrack) })
    })?;
    found.map_err(|error| match error {
        Error::Usage(text) => raised(ErrorClass::Refused, &text),
        Error::Lacking(text) => {
            raised(ErrorClass::Lacking, &format!("{text} (`unrack doctor` checks what every verb needs)"))
        }
        Error::Failed(text) => raised(ErrorClass::Failed, &text),
        Error::Interrupted(_) | Error::Canceled => raised(ErrorClass::Failed, "interrupted"),
    })
}

/// Shows the progress of a question on a gauge: the elapsed part of its predicted time.
struct GaugeProgress<'a> {
    gauge: &'a Gauge,
    began: Instant,
    left: Cell<Option<TimeLeft>>,
}

impl GaugeProgress<'_> {
    fn show(&self) {
        let now = Instant::now();
        let left_s = self.left.get().and_then(|left| left.seconds_from(now));
        let over_s = now.saturating_duration_since(self.began).as_secs_f64();
        let over = left_s.map_or(0.0, |left_s| over_s / (over_s + left_s.max(0.0)).max(f64::MIN_POSITIVE));
        self.gauge.show((WHOLE * over) as u64, WHOLE as u64);
    }
}

impl StepProgress for GaugeProgress<'_> {
    fn begin(&self, _: &str) {
        self.show();
    }

    fn time_left(&self, left: &TimeLeft) {
        self.left.set(Some(*left));
        self.show();
    }

    fn simulated(&self, _: u64, _: u64) {
        self.show();
    }

    fn say(&self, text: &str) {
        // If a message cannot be shown, the work continues.
        let _ = Python::attach(|py| {
            let error = py.import("sys")?.getattr("stderr")?;
            error.call_method1("write", (format!("unrack: {text}\n"),)).map(drop)
        });
    }
}

fn comparison(command: Vec<OsString>, mut options: GivenOptions) -> Result<ComparisonQuestion, String> {
    let given = &mut options;
    let usual = ComparisonQuestion::of(program(command)?);
    let fabrics = list(given, "fabric", compared_fabric)?;
    let question = ComparisonQuestion {
        local: one(given, "local", parsed)?.unwrap_or(usual.local),
        placement: one(given, "placement", str::parse)?.unwrap_or(usual.placement.clone()),
        fabrics: fabrics.unwrap_or(usual.fabrics.clone()),
        rack: one(given, "rack", rack)?.unwrap_or(usual.rack),
        scope: one(given, "scope", scope)?.unwrap_or(usual.scope),
        nodes: one(given, "nodes", parsed)?.unwrap_or(usual.nodes),
        rate: one(given, "rate", parsed)?.unwrap_or(usual.rate),
        transfers: one(given, "transfers", parsed)?.unwrap_or(usual.transfers),
        repeat: one(given, "repeat", parsed)?.unwrap_or(usual.repeat),
        budget: one(given, "budget", parse_budget)?,
        seed: one(given, "seed", parsed)?.unwrap_or(usual.seed),
        out: path(given, "out").unwrap_or(usual.out.clone()),
        replace: given.remove("replace").is_some(),
        ..usual
    };
    nothing_else(given).map(|()| question)
}

fn mapped(command: Vec<OsString>, mut options: GivenOptions) -> Result<MapQuestion, String> {
    let given = &mut options;
    let usual = MapQuestion::of(program(command)?);
    let question = MapQuestion {
        locals: list(given, "local", parsed)?.unwrap_or(usual.locals.clone()),
        latencies: list(given, "latency", parsed)?.unwrap_or(usual.latencies.clone()),
        bandwidths: list(given, "bandwidth", parsed)?.unwrap_or(usual.bandwidths.clone()),
        repeat: one(given, "repeat", parsed)?.unwrap_or(usual.repeat),
        budget: one(given, "budget", parse_budget)?,
        out: path(given, "out").unwrap_or(usual.out.clone()),
        replace: given.remove("replace").is_some(),
        ..usual
    };
    nothing_else(given).map(|()| question)
}

fn program(command: Vec<OsString>) -> Result<Vec<OsString>, String> {
    if command.is_empty() { Err("give the program and its arguments".into()) } else { Ok(command) }
}

fn nothing_else(given: &GivenOptions) -> Result<(), String> {
    given.keys().next().map_or(Ok(()), |name| Err(format!("{name} is no option here")))
}

/// Removes an option and returns its parsed value. `None` if the option is not given.
fn one<T>(
    given: &mut GivenOptions,
    name: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let Some(values) = given.remove(name) else { return Ok(None) };
    let value = values.first().map_or(Ok(""), |value| unicode(name, value))?;
    parse(value).map(Some).map_err(|why| format!("{name} is '{value}': {why}"))
}

/// Removes an option with several values, and returns them. The values are separate elements or separated by commas.
fn list<T>(
    given: &mut GivenOptions,
    name: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<Vec<T>>, String> {
    let Some(values) = given.remove(name) else { return Ok(None) };
    let texts = values.iter().map(|value| unicode(name, value)).collect::<Result<Vec<&str>, String>>()?;
    let each = |value: &str| parse(value).map_err(|why| format!("{name} has '{value}': {why}"));
    texts.into_iter().flat_map(|text| text.split(',')).map(each).collect::<Result<_, _>>().map(Some)
}

/// Removes an option that is a path, and returns it.
fn path(given: &mut GivenOptions, name: &str) -> Option<PathBuf> {
    given.remove(name)?.into_iter().next().map(PathBuf::from)
}

fn unicode<'a>(name: &str, value: &'a OsStr) -> Result<&'a str, String> {
    value.to_str().ok_or_else(|| format!("{name} is {value:?}, which is no text"))
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|why: T::Err| why.to_string())
}

fn rack(name: &str) -> Result<ComparedRack, String> {
    match name {
        "star" => Ok(ComparedRack::Star),
        "drack" => Ok(ComparedRack::Drack),
        "leaf-spine" => Ok(ComparedRack::LeafSpine),
        _ => Err("give star, drack or leaf-spine".into()),
    }
}

fn scope(name: &str) -> Result<Scope, String> {
    match name {
        "rack" => Ok(Scope::Rack),
        "datacenter" => Ok(Scope::Datacenter),
        _ => Err("give rack or datacenter".into()),
    }
}
