//! Results for the terminal: plain text, units in the header, no colour.

use unrack_record::{Comparison, FabricResult, SlowdownMap, Sweep, SweepPoint};

use crate::table::Table;
use crate::words::{bytes, command_line, count, nanoseconds, number, rate, ratio, seconds, shortened};
use crate::{Simulation, answer};

/// Where remarks are broken. Tables are as wide as they need to be.
const WIDTH: usize = 100;

/// The table of `unrack compare`, with the fit, what is needed for a given loss, and warnings.
pub fn comparison_text(c: &Comparison) -> String {
    let mut table = Table::default()
        .header(&["", "over ideal", "over ideal", "fetch us", "fetch us", "slowdown", "", "slowdown"])
        .header(&["fabric", "mean", "p99", "mean", "p99", "injected", "95 % interval", "replayed"]);
    for fabric in &c.fabrics {
        table.row(fabric_cells(fabric));
    }
    let mut text =
        format!("{}\n{}\n\n{}\n", shortened(&command_line(&c.command), WIDTH), setting(c), table.text());
    text += &note("fit", &answer::fit(&c.injection.fit));
    text += &note("floor", &answer::floor(c));
    for requirement in &c.requirements {
        text += &note("need", &answer::requirement(requirement, &c.injection.fit));
    }
    for warning in &c.warnings {
        text += &note("warning", warning);
    }
    text
}

fn fabric_cells(fabric: &FabricResult) -> Vec<String> {
    let (slowdown, interval) = answer::with_interval(fabric.slowdown, fabric.slowdown_ci95);
    vec![
        fabric.fabric.clone(),
        number(fabric.completion_over_ideal.mean),
        number(fabric.completion_over_ideal.p99),
        number(fabric.fetch_us.mean),
        number(fabric.fetch_us.p99),
        slowdown,
        interval,
        fabric.slowdown_replay.map_or("-".into(), ratio),
    ]
}

fn setting(c: &Comparison) -> String {
    let text = format!(
        "{} local: {} of {}; native {} (median of {})\n\
         captured {} fetches, {} write-backs, {} threads",
        c.local,
        bytes(c.local_bytes),
        bytes(c.footprint_bytes),
        seconds(c.native.median_s),
        c.native.seconds.len(),
        count(c.capture.fetches),
        count(c.capture.write_backs),
        c.capture.threads
    );
    plain(&text)
}

/// The table of `unrack sim`: one row per run.
pub fn simulation_text(runs: &[(String, Simulation)]) -> String {
    let mut table = Table::default()
        .header(&[
            "",
            "",
            "",
            "over unloaded",
            "over unloaded",
            "over unloaded",
            "completion ns",
            "completion ns",
            "",
        ])
        .header(&["run", "fabric", "messages", "mean", "p99", "max", "mean", "p99", "unfinished"]);
    for (name, run) in runs {
        table.row(vec![
            name.clone(),
            run.fabric.clone(),
            count(run.messages),
            number(run.slowdown.mean),
            number(run.slowdown.p99),
            number(run.slowdown.max),
            number(run.completion_ns.mean),
            number(run.completion_ns.p99),
            count(run.messages.saturating_sub(run.completed)),
        ]);
    }
    table.text()
}

/// The table of `unrack sweep`: one row per point.
pub fn sweep_text(sweep: &Sweep) -> String {
    let blank = vec![""; sweep.keys.len()];
    let keys: Vec<&str> = sweep.keys.iter().map(String::as_str).collect();
    let over =
        ["over unloaded", "over unloaded", "over unloaded", "completion ns", "completion ns", "", "", ""];
    let names = ["mean", "p99", "max", "mean", "p99", "Gbps", "dropped", "unfinished"];
    let mut table = Table::default()
        .header(&[&[""][..], &blank, &over].concat())
        .header(&[&["fabric"][..], &keys, &names].concat());
    for SweepPoint { values, figures } in &sweep.points {
        let some = |value: Option<f64>| value.map_or("-".into(), number);
        let numbers = [
            some(figures.slowdown_mean),
            some(figures.slowdown_p99),
            some(figures.slowdown_max),
            some(figures.completion_mean_ns),
            some(figures.completion_p99_ns),
            number(figures.throughput_gbps),
            count(figures.dropped_packets),
            count(figures.messages.saturating_sub(figures.completed)),
        ];
        table.row([&[figures.fabric.clone()][..], values, &numbers].concat());
    }
    table.text()
}

/// The tables of `unrack map`: one per local share, latency down, bandwidth across.
pub fn map_text(map: &SlowdownMap) -> String {
    let mut text =
        format!("{}\nslowdown; native {}\n", command_line(&map.command), plain(&seconds(map.native_s)));
    for local in &map.locals {
        let rates: Vec<_> = map.bandwidths_bps.iter().map(|bps| plain(&rate(*bps))).collect();
        let title = format!("{} local", local.local);
        let header: Vec<_> = [title.as_str()].into_iter().chain(rates.iter().map(String::as_str)).collect();
        let mut table = Table::default().header(&header);
        for (latency, row) in map.latencies_ns.iter().zip(&local.slowdown) {
            table.row(
                [plain(&nanoseconds(*latency))].into_iter().chain(row.iter().map(|s| ratio(*s))).collect(),
            );
        }
        text += &format!("\n{}", table.text());
        text += &note("fit", &answer::fit(&local.fit));
    }
    map.warnings.iter().fold(text, |text, warning| text + &note("warning", warning))
}

/// A named remark, broken into lines under each other.
fn note(name: &str, text: &str) -> String {
    let mut lines = vec![format!("{name:<8}")];
    for word in plain(text).split_whitespace() {
        let last = lines.len() - 1;
        if lines[last].chars().count() + word.chars().count() >= WIDTH && lines[last].len() > 9 {
            lines.push(format!("{:<8} {word}", ""));
        } else {
            lines[last] += &format!(" {word}");
        }
    }
    lines.join("\n") + "\n"
}

/// ASCII for terminals: `us`, as units are written in scenarios.
fn plain(text: &str) -> String {
    text.replace('µ', "u").replace('×', "x").replace('²', "2").replace('\u{a0}', " ")
}
