//! Results for the terminal: plain text without colours, with units in the header.

use unrack_record::{
    Comparison, Disturbance, FabricResult, MapLocal, SlowdownMap, Sweep, SweepPoint, Warning,
};

use crate::table::Table;
use crate::words::{bytes, command_line, count, nanoseconds, number, rate, ratio, seconds, shortened};
use crate::{SimulationSummary, answer, needs};

/// Column at which remarks are wrapped. Tables are not wrapped at it.
pub(crate) const WIDTH: usize = 100;

/// Returns the table of `unrack compare`, with the fit, the requirements for given losses, and warnings.
pub fn comparison_text(c: &Comparison) -> String {
    let mut table = Table::default()
        .header(&["", "over ideal", "over ideal", "fetch us", "fetch us", "slowdown", "", "slowdown"])
        .header(&["fabric", "mean", "p99", "mean", "p99", "injected", "95 % interval", "replayed"]);
    for fabric in &c.fabrics {
        table.row(fabric_cells(c, fabric));
    }
    let mut text =
        format!("{}\n{}\n\n{}\n", shortened(&command_line(&c.command), WIDTH), setting(c), table.text());
    text += &note("fit", &answer::line(&c.injection));
    text += &note("floor", &answer::floor(c.injection.floor_ns));
    for need in needs::all(c) {
        text += &note("need", &if c.rough.is_some() { format!("roughly: {need}") } else { need });
    }
    text + &remarks(
        &c.disturbance,
        c.rough.is_some(),
        c.warnings.iter().filter(|warning| Some(*warning) != c.injection.withheld.as_ref()),
    )
}

/// Returns the remarks about other work on the machine, and the warnings.
fn remarks<'a>(
    disturbance: &Disturbance,
    is_rough: bool,
    warnings: impl Iterator<Item = &'a Warning>,
) -> String {
    let machine = answer::disturbance(disturbance, is_rough).map(|text| note("machine", &text));
    machine.into_iter().chain(warnings.map(|warning| note("warning", &warning.text))).collect()
}

fn fabric_cells(c: &Comparison, fabric: &FabricResult) -> Vec<String> {
    let (slowdown, interval) = answer::with_interval(c, fabric);
    let known = |value: Option<f64>| value.map_or("-".into(), number);
    vec![
        fabric.fabric.clone(),
        known(fabric.completion_over_ideal.map(|spread| spread.mean)),
        known(fabric.completion_over_ideal.map(|spread| spread.p99)),
        known(fabric.fetch_us.map(|spread| spread.mean)),
        known(fabric.fetch_us.map(|spread| spread.p99)),
        slowdown,
        interval,
        fabric.slowdown_replay.map_or("-".into(), ratio),
    ]
}

fn setting(c: &Comparison) -> String {
    let native = match &c.native {
        Some(native) => format!("{} (median of {})", seconds(native.median_s), native.seconds.len()),
        None => "withheld".into(),
    };
    let mut text = format!(
        "{} local: {} of {}; native {native}",
        c.local,
        bytes(c.local_bytes),
        bytes(c.footprint_bytes)
    );
    if let Some(capture) = &c.capture {
        let (fetches, write_backs) = (count(capture.fetches), count(capture.write_backs));
        text +=
            &format!("\ncaptured {fetches} fetches, {write_backs} write-backs, {} threads", capture.threads);
    }
    plain(&text)
}

/// Returns the table of `unrack sim`: one row per run.
pub fn simulation_text(runs: &[(String, SimulationSummary)]) -> String {
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

/// Returns the table of `unrack sweep`: one row per point.
pub fn sweep_text(sweep: &Sweep) -> String {
    let blank = vec![""; sweep.keys.len()];
    let keys: Vec<&str> = sweep.keys.iter().map(String::as_str).collect();
    let over =
        ["over unloaded", "over unloaded", "over unloaded", "completion ns", "completion ns", "", "", ""];
    let names = ["mean", "p99", "max", "mean", "p99", "Gbps", "dropped", "unfinished"];
    let mut table = Table::default()
        .header(&[&[""][..], &blank, &over].concat())
        .header(&[&["fabric"][..], &keys, &names].concat());
    for SweepPoint { values, figures, .. } in &sweep.points {
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
    table.text() + &notes_text(sweep)
}

/// Returns a line for each kind of note of each fabric: the note of the first point that has it, and the number of such points.
fn notes_text(sweep: &Sweep) -> String {
    let mut kinds: Vec<(&str, &Warning, usize)> = Vec::new();
    for point in &sweep.points {
        for note in &point.notes {
            let is_it = |(fabric, first, _): &&mut (&str, &Warning, usize)| {
                *fabric == point.figures.fabric && first.key == note.key
            };
            match kinds.iter_mut().find(is_it) {
                Some((.., count)) => *count += 1,
                None => kinds.push((&point.figures.fabric, note, 1)),
            }
        }
    }
    let line = |(fabric, note, count): (&str, &Warning, usize)| {
        let of = sweep.points.iter().filter(|point| point.figures.fabric == fabric).count();
        let points = if of == 1 { String::new() } else { format!(" ({count} of {of} points of {fabric})") };
        format!("note       {note} [{}]{points}\n", note.key)
    };
    kinds.into_iter().map(line).collect()
}

/// Returns the tables of `unrack map`, one per local share. Rows are latencies, columns are bandwidths.
pub fn map_text(map: &SlowdownMap) -> String {
    let native = map.native_s.map_or("withheld".into(), |s| plain(&seconds(s)));
    let mut text = format!("{}\nslowdown; native {native}\n", command_line(&map.command));
    for local in &map.locals {
        text += &format!("\n{}", panel(map, local));
        text += &local.fit.as_ref().map_or(String::new(), |fit| note("fit", &answer::fit(fit)));
    }
    text + &remarks(&map.disturbance, answer::is_rough(map), map.warnings.iter())
}

fn panel(map: &SlowdownMap, local: &MapLocal) -> String {
    let title = format!("{} local{}", local.local, if local.rough.is_some() { ", roughly" } else { "" });
    let Some(slowdown) = &local.slowdown else {
        let why = local.withheld.as_ref().map_or("", |why| &why.text);
        return format!("{title}\n{}", note("withheld", why));
    };
    let rates: Vec<_> = map.bandwidths_bps.iter().map(|bps| plain(&rate(*bps))).collect();
    let header: Vec<_> = [title.as_str()].into_iter().chain(rates.iter().map(String::as_str)).collect();
    let mut table = Table::default().header(&header);
    for (latency, row) in map.latencies_ns.iter().zip(slowdown) {
        table.row([plain(&nanoseconds(*latency))].into_iter().chain(row.iter().map(|s| ratio(*s))).collect());
    }
    table.text()
}

/// Formats a named remark, wrapped into indented lines.
pub(crate) fn note(name: &str, text: &str) -> String {
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

/// Converts text to ASCII for terminals. For example, the unit becomes `us`, as scenarios write it.
pub(crate) fn plain(text: &str) -> String {
    text.replace('µ', "u").replace('×', "x").replace('²', "2").replace('\u{a0}', " ")
}
