//! Results by loads and stores, as text for the terminal.

use unrack_record::{LinesResult, LinesSummary};

use crate::lines_answer as answer;
use crate::table::Table;
use crate::text::{WIDTH, note, plain};
use crate::words::{bytes, command_line, shortened};

/// Returns the tables of `unrack lines run` and `unrack compare --access lines`, with warnings.
pub fn lines_text(summary: &LinesSummary) -> String {
    let lines = &summary.lines;
    let mut text = format!(
        "{}\n{} of {}; caches of {}\n",
        shortened(&command_line(&summary.command).replace('\n', " "), WIDTH),
        plain(&answer::placement(lines)),
        plain(&bytes(lines.footprint_bytes)),
        lines.processor
    );
    text += &note("native", &answer::native(lines));
    text += &note("run", &answer::counts(lines));
    text += &note("memory", &answer::memory(&lines.counts));
    text += &note("bound", &answer::bound(lines));
    if !lines.counts.served.is_empty() {
        text += &format!("\n{}", served(lines));
    }
    text += &curve(lines);
    text += &threads(lines);
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
    if lines.curve.is_empty() {
        return String::new();
    }
    let curve = rows(&["remote latency", "slowdown", "95 % interval"], answer::curve(lines));
    let latencies: Vec<String> = answer::latencies(lines).iter().map(|latency| plain(latency)).collect();
    let header: Vec<&str> = ["slowdown at"].into_iter().chain(latencies.iter().map(String::as_str)).collect();
    let mut table = Table::default().header(&header);
    for row in answer::placements(lines) {
        table.row(row.iter().map(|cell| plain(cell)).collect());
    }
    format!("\n{curve}\n{}", table.text())
}

fn threads(lines: &LinesResult) -> String {
    let all = answer::threads(lines);
    if all.is_empty() {
        return String::new();
    }
    let [middle, last] = answer::thread_latencies(lines).map(|latency| format!("at {}", plain(&latency)));
    let header = ["thread", "instructions", "misses", "windows", "all local", &middle, &last];
    format!("\n{}", rows(&header, all))
}

fn fabrics(lines: &LinesResult) -> String {
    let mut table =
        Table::default().header(&["", "read ns", "", "", "by the curve", "", "closed loop", ""]).header(&[
            "fabric",
            "unloaded",
            "mean",
            "p99",
            "slowdown",
            "95 % interval",
            "slowdown",
            "95 % interval",
        ]);
    answer::fabrics(lines).into_iter().for_each(|row| table.row(row));
    table.text()
}

fn rows<const N: usize>(header: &[&str; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::default().header(header);
    for row in rows {
        table.row(row.map(|cell| plain(&cell)).into());
    }
    table.text()
}
