//! Results of loads and stores for the terminal.

use unrack_record::{LinesResult, LinesSummary};

use crate::lines_answer::{self as answer, stated};
use crate::table::Table;
use crate::text::{WIDTH, note, plain};
use crate::words::{bytes, command_line, nanoseconds, number, ratio, shortened};

/// Returns the tables of `unrack lines run` and `unrack compare --access lines`, with warnings.
pub fn lines_text(summary: &LinesSummary) -> String {
    let lines = &summary.lines;
    let mut text = format!(
        "{}\n{} near, {}: of {}; caches of {}\n",
        shortened(&command_line(&summary.command), WIDTH),
        lines.local,
        lines.placement,
        plain(&bytes(lines.footprint_bytes)),
        lines.processor
    );
    text += &note("native", &answer::native(lines));
    text += &note("run", &answer::counts(&lines.counts));
    text += &note("bound", &answer::bound(lines));
    if !lines.counts.served.is_empty() {
        text += &format!("\n{}", served(lines));
    }
    text += &format!("\n{}", curve(lines));
    if !lines.fabrics.is_empty() {
        text += &format!("\n{}", fabrics(lines));
    }
    for (title, names) in [("misses by mapping", &lines.mappings), ("misses by function", &lines.functions)] {
        if !names.is_empty() {
            text += &format!("\n{}", rows(&[title, "misses", "share"], answer::named(names)));
        }
    }
    let warnings = lines.warnings.iter().map(|warning| &warning.text);
    let said: Vec<String> =
        warnings.chain(&answer::withheld(lines)).map(|text| note("warning", text)).collect();
    text + "\n" + &said.concat()
}

fn served(lines: &LinesResult) -> String {
    rows(&["served by", "accesses", "in 1000 instructions"], answer::served(&lines.counts))
}

fn curve(lines: &LinesResult) -> String {
    let row = |point: &unrack_record::CurvePoint| {
        let [value, interval] = stated(&point.slowdown, ratio);
        [nanoseconds(point.latency_ns), value, interval]
    };
    rows(&["far latency", "slowdown", "95 % interval"], lines.curve.iter().map(row).collect())
}

fn fabrics(lines: &LinesResult) -> String {
    let mut table = Table::default()
        .header(&["", "read ns", "read ns", "by the curve", "", "closed loop", ""])
        .header(&["fabric", "mean", "p99", "slowdown", "95 % interval", "slowdown", "95 % interval"]);
    for fabric in &lines.fabrics {
        let known = |value: Option<f64>| value.map_or("-".into(), number);
        let [mean, p99] = [fabric.read_ns.map(|ns| ns.mean), fabric.read_ns.map(|ns| ns.p99)].map(known);
        let ([one, one_interval], [other, other_interval]) =
            (stated(&fabric.slowdown, ratio), stated(&fabric.slowdown_closed_loop, ratio));
        table.row(vec![fabric.fabric.clone(), mean, p99, one, one_interval, other, other_interval]);
    }
    table.text()
}

fn rows<const N: usize>(header: &[&str; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::default().header(header);
    for row in rows {
        table.row(row.map(|cell| plain(&cell)).into());
    }
    table.text()
}
