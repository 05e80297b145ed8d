//! Extreme values of every numeric key of every example: a run, or a refusal that names the key; never a panic.
//!
//! An example is explained, so that every key is there with its default; then one value at a time is replaced by the
//! smallest, the largest and absurd ones of its kind. A run that handles more than [`MOST_EVENTS`] events has shown
//! its behaviour and is abandoned. One that does not return to its events for [`PATIENCE`] ends the test with the
//! value's name, because it would hang a user's terminal too. `UNRACK_EXTREMES=all` tries every value; otherwise some are drawn for each key by
//! `PROPTEST_RNG_SEED`.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};
use toml::{Table, Value};
use unrack_basis::mix;
use unrack_rack::{Overrides, Scenario, ScenarioError, ValidScenario, Workload};
use unrack_sim::known;
use unrack_sim::scenario::{check_margins, excluded, replay_spec};
use unrack_sim::{Need, Progress, Setup, SetupError, Work};
use unrack_units::{Bytes, Fraction, Rate, Time};
use unrack_workload::trace::TraceRow;

/// Events handled before a run is abandoned: some tens of milliseconds.
const MOST_EVENTS: u64 = 100_000;
/// Maximum memory of a run in bytes. Larger ones are not run: a smaller machine would refuse them.
const MOST_BYTES: f64 = 1e9;
/// Number of values tried for each key, unless all are.
const SOME: u64 = 2;

/// Time after which an attempt counts as hanging; the longest takes about a second.
const PATIENCE: Duration = Duration::from_secs(120);

/// The attempt that runs now, and when it began.
static ATTEMPT: Mutex<Option<(String, Instant)>> = Mutex::new(None);

/// Overrides that keep the examples small; an override that an example refuses is left out.
const SMALL: &[&str] = &[
    "workload.messages=40",
    "workload.warm_up=0",
    "workload.jobs=[{ hosts = 4, pagerank = { scale = 6, iterations = 2 } }, \
     { hosts = 2, key_value = { servers = 1, requests = 20, keys = 50 } }, \
     { hosts = 3, word_count = { words = 200, vocabulary = 50 } }, \
     { hosts = 2, start = \"1us\", embedding = { batches = 1, batch = 2 } }, \
     { hosts = 2, components = { scale = 5 } }, \
     { on = [1, 2, 3], collective = { operation = \"all-gather\", size = \"1KiB\" } }, \
     { hosts = 4, training = { model = \"resnet-18\", operation = \"parameter-server\", servers = 1 } }]",
];

#[test]
fn no_extreme_value_of_any_key_of_any_example_panics() {
    keep_panics_quiet();
    std::thread::spawn(end_what_hangs);
    // The nightly run tries all values; `make test` tries some of each key.
    let all = std::env::var("UNRACK_EXTREMES").is_ok_and(|value| value == "all");
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut wrong = Vec::new();
    let mut tried = 0u64;
    for (name, table) in scenarios() {
        let mut keys = Vec::new();
        numeric_keys(&Value::Table(table.clone()), &mut Vec::new(), &mut keys);
        assert!(keys.len() >= 8, "{name} has few keys: {keys:?}");
        for (key, extremes) in keys {
            for extreme in some_of(extremes, all, mix(seed ^ mix(tried))) {
                tried += 1;
                let mut changed = table.clone();
                *at(&mut changed, &key) = extreme.clone();
                let what = format!("{name}, {} = {extreme}", key.join("."));
                *ATTEMPT.lock().unwrap() = Some((what.clone(), Instant::now()));
                if let Err(why) = attempt(&changed) {
                    wrong.push(format!("{what}: {why}"));
                }
            }
        }
    }
    *ATTEMPT.lock().unwrap() = None;
    wrong.iter().for_each(|wrong| eprintln!("{wrong}"));
    assert!(tried > 500, "only {tried} values tried");
    assert!(wrong.is_empty(), "{} of {tried} panicked or were refused without a key", wrong.len());
}

/// Ends the process when one attempt hangs, because a thread cannot be ended.
fn end_what_hangs() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        if let Some((what, _)) =
            ATTEMPT.lock().unwrap().as_ref().filter(|(_, since)| since.elapsed() > PATIENCE)
        {
            eprintln!("{what}: hangs");
            std::process::exit(1);
        }
    }
}

/// Returns each example, and one of them with each protocol, as a table of all its keys.
fn scenarios() -> Vec<(String, Table)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    // Racks of virtual machines have no network to simulate.
    files.retain(|path| !std::fs::read_to_string(path).unwrap().contains("[[host]]"));
    files.sort();
    let mut all: Vec<(String, Table)> = files.iter().map(|path| explained(path, &[])).collect();
    for protocol in known().protocols {
        let name = match protocol.profile().networks.have_switches() {
            true => "star-edm.toml",
            false => "torus-r2c2.toml",
        };
        all.push(explained(&folder.join(name), &[&format!("fabric.protocol={protocol}")]));
    }
    let r2c2 = "fabric.rules=[{ src = [1, 2], weight = 3, priority = 1, demand = \"2Gbps\", at = \"1us\" }]";
    let selection =
        "fabric.selection={ period = \"5ms\", utility = \"min(rate)\", search = { population = 4 } }";
    all.push(explained(&folder.join("torus-r2c2.toml"), &[r2c2, selection]));
    let collective = "workload={ kind = \"collective\", operation = \"ring-all-reduce\", size = \"1KiB\" }";
    all.push(explained(&folder.join("star-dctcp.toml"), &["network.topology.nodes=4", collective]));
    all
}

fn explained(path: &Path, more: &[&str]) -> (String, Table) {
    let valid =
        |sets: &[&str]| Scenario::load(path, &sets.iter().copied().collect()).and_then(unrack_sim::check);
    let mut sets = more.to_vec();
    for small in SMALL {
        sets.push(small);
        if valid(&sets).is_err() {
            sets.pop();
        }
    }
    let mut scenario = valid(&sets).unwrap();
    Setup::from_scenario(&mut scenario).unwrap();
    let mut table: Table = scenario.explain().parse().unwrap();
    if let Some(Value::String(file)) = table["network"]["topology"].as_table_mut().unwrap().get_mut("file") {
        *file = path.with_file_name(&*file).display().to_string();
    }
    (format!("{} {}", path.file_name().unwrap().display(), more.join(" ")), table)
}

/// Finds every path to a number or quantity, with the values to be tried there.
fn numeric_keys(value: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Vec<Value>)>) {
    let mut enter = |key: String, value: &Value| {
        path.push(key);
        numeric_keys(value, path, found);
        path.pop();
    };
    match value {
        Value::Table(table) => table.iter().for_each(|(key, value)| enter(key.clone(), value)),
        Value::Array(values) => values.iter().enumerate().for_each(|(n, value)| enter(n.to_string(), value)),
        _ => {
            let extremes = extremes(value);
            if !extremes.is_empty() {
                found.push((path.clone(), extremes));
            }
        }
    }
}

/// Returns zero, the smallest, the largest and absurd values of the kind of `value`.
fn extremes(value: &Value) -> Vec<Value> {
    let texts = |all: &[&str]| all.iter().map(|text| Value::String((*text).into())).collect();
    match value {
        Value::Integer(_) => {
            [0, 1, 2, 3, -1, 255, 256, 65_535, 65_536, 1 << 24, 1 << 31, u32::MAX.into(), 1 << 32, i64::MAX]
                .map(Value::Integer)
                .into()
        }
        Value::Float(_) => {
            [0.0, 5e-324, 1e-300, 1e-20, 1e-16, 1e-9, 0.5, 1.0, 1.0 - f64::EPSILON, 3.0, 1e9, 1e308]
                .into_iter()
                .chain([-1.0, f64::INFINITY, f64::NAN])
                .map(Value::Float)
                .collect()
        }
        Value::String(text) if text.parse::<Time>().is_ok() => texts(&[
            "0ps",
            "1ps",
            "999ps",
            "1us",
            "1s",
            "3600s",
            "17280000s",
            "9223372.036854775807s",
            "18446744073709551615ps",
        ]),
        Value::String(text) if text.parse::<Bytes>().is_ok() => texts(&[
            "0B",
            "1B",
            "63B",
            "64B",
            "65B",
            "65536B",
            "4294967295B",
            "4GiB",
            "1TiB",
            "18446744073709551615B",
        ]),
        Value::String(text) if text.parse::<Rate>().is_ok() => {
            texts(&["1bps", "1Mbps", "1000001bps", "7Gbps", "100Tbps", "18446744073709551615bps"])
        }
        Value::String(text) if text.parse::<Fraction>().is_ok() => texts(&[
            "0%",
            "1e-322",
            "1e-300",
            "1e-20",
            "1e-16",
            "1e-9",
            "0.0001%",
            "50%",
            "99.99999999999999%",
            "100%",
        ]),
        _ => Vec::new(),
    }
}

fn some_of(mut extremes: Vec<Value>, all: bool, mut draw: u64) -> Vec<Value> {
    if all {
        return extremes;
    }
    let mut drawn = Vec::new();
    while (drawn.len() as u64) < SOME && !extremes.is_empty() {
        draw = mix(draw);
        drawn.push(extremes.swap_remove((draw % extremes.len() as u64) as usize));
    }
    drawn
}

fn at<'a>(table: &'a mut Table, path: &[String]) -> &'a mut Value {
    let (first, rest) = path.split_first().unwrap();
    let first = table.get_mut(first).unwrap();
    rest.iter().fold(first, |value, key| match value {
        Value::Array(values) => &mut values[key.parse::<usize>().unwrap()],
        value => value.get_mut(key).unwrap(),
    })
}

/// Payload of the panic by which a run that was long enough is left.
struct LongEnough;

/// Runs a scenario as `unrack sim` does. An error means that it panicked, or that a refusal does not name a key.
fn attempt(table: &Table) -> Result<(), String> {
    let text = toml::to_string(table).unwrap();
    GUARDED.set(true);
    let ran = catch_unwind(AssertUnwindSafe(|| run(&text)));
    GUARDED.set(false);
    match ran {
        Ok(Ok(())) => Ok(()),
        Ok(Err(refusal)) if refusal.messages().all(|message| message.contains(['.', ':'])) => Ok(()),
        Ok(Err(refusal)) => Err(format!("a refusal without a key: {refusal}")),
        Err(left) if left.is::<LongEnough>() => Ok(()),
        Err(_) => Err(LAST_PANIC.take()),
    }
}

fn run(text: &str) -> Result<(), ScenarioError> {
    let mut scenario = Scenario::parse("extreme.toml", text, &Overrides::none())?.check(&known())?;
    if Need::from_scenario(&scenario).bytes() > MOST_BYTES {
        return Ok(());
    }
    let setup = Setup::from_scenario(&mut scenario)?;
    let refused = |why: SetupError| why.in_scenario(&scenario);
    let work = match Work::drawn(&scenario)? {
        Some(work) => work,
        None => captured(&scenario, &setup).map_err(refused)?,
    };
    let over = Setup { time_limit: Time::ZERO, ..setup.clone() };
    over.run(&work, leave).map_err(refused)?;
    check_margins(&scenario, &setup, &work).map_err(refused)?;
    let done = setup.run(&work, leave).map_err(refused)?;
    let summary = done.summary(excluded(&scenario, &done.run));
    serde_json::to_string(&summary).unwrap();
    Ok(())
}

fn leave(progress: Progress) {
    if progress.events > MOST_EVENTS {
        resume_unwind(Box::new(LongEnough));
    }
}

/// Creates some transfers of two threads, for an example that names a captured trace.
fn captured(scenario: &ValidScenario, setup: &Setup) -> Result<Work, SetupError> {
    let Workload::Trace(trace) = &scenario.workload else { unreachable!("only a trace is not drawn") };
    let row = |n: u64| TraceRow {
        t_ns: n * 1_000,
        thread: n as u32 % 2,
        page: n,
        write_back: n.is_multiple_of(3),
        bytes: 4096,
        wait_ns: if n.is_multiple_of(3) { 0 } else { 100 },
        overhead_ns: 10,
    };
    let rows: Vec<TraceRow> = (0..20).map(row).collect();
    let spec = replay_spec(trace, setup.network.nodes(), scenario.seed);
    Work::captured(&rows, (Time::from_us(30), None), spec, 1_000)
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics of this test quiet; they are reported together at the end, with the values that led to them.
fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match std::thread::current().name() {
            Some(name) if name.starts_with("extremes::") => LAST_PANIC.set(info.to_string()),
            _ => before(info),
        }));
    });
}
