//! Programs whose losses come from simulated transports (`unrack compare`): DDC, section 4.3, figure 8.
//!
//! The pages of each compute blade cross the simulated network in a closed loop. Their completion times are the delays by which the
//! program is slowed down.

use super::program::{Measurement, ProgramFound, StudyProgram};
use crate::computed::Computed;
use std::collections::BTreeMap;
use std::fmt::Write;
use unrack_record::Comparison;
use unrack_record::trace::{Kind, Row};

/// A program with its comparison of fabrics in one setting.
pub struct Compared<'a> {
    program: &'a StudyProgram,
    comparison: Comparison,
    /// Burstiness of the program's captured fetches.
    burstiness: Option<f64>,
}

/// Field of an answer that has the burstiness of the captured fetches.
pub const BURSTINESS: &str = "burstiness";

/// Returns the programs that have a comparison, with their comparisons.
pub fn compared<'a>(programs: &'a [StudyProgram], found: &[ProgramFound]) -> Vec<Compared<'a>> {
    let one = |program: &'a StudyProgram| {
        let found = found.iter().find(|found| found.program == program.name)?;
        let comparison = serde_json::from_value(found.answer.clone()).ok()?;
        let burstiness = found.number("/burstiness");
        (program.measure == Measurement::Compare).then_some(Compared { program, comparison, burstiness })
    };
    programs.iter().filter_map(one).collect()
}

/// Returns the burstiness of captured fetches: the standard deviation of the logarithms of the compute times between two fetches of a
/// thread. A compute time below a nanosecond counts as one nanosecond. Returns `None` if there are fewer than two compute times.
pub fn burstiness(rows: &[Row]) -> Option<f64> {
    let mut previous: BTreeMap<u32, &Row> = BTreeMap::new();
    let mut gaps = Vec::new();
    for row in rows.iter().filter(|row| row.kind == Kind::Fetch) {
        if let Some(before) = previous.insert(row.thread, row) {
            let gap = (row.t_ns - before.t_ns).saturating_sub(before.wait_ns + row.overhead_ns);
            gaps.push((gap.max(1) as f64).ln());
        }
    }
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let squares: f64 = gaps.iter().map(|gap| (gap - mean).powi(2)).sum();
    (gaps.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}

/// Returns values by fabric and setting, over all programs: the mean, minimum and maximum loss in percent, the mean completion time of
/// pages relative to an ideal network, and the mean time of a fetch in microseconds. Also returns the share of replays whose loss lies in
/// the interval of the loss that is computed from their completion times.
pub fn values(compared: &[Compared]) -> Computed {
    let mut losses: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut means: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut is_within: Vec<bool> = Vec::new();
    for Compared { program, comparison, .. } in compared {
        for fabric in &comparison.fabrics {
            let name = format!("{}-{}", fabric.fabric, program.setting);
            for (of, found) in [("completion", &fabric.completion_over_ideal), ("fetch-us", &fabric.fetch_us)]
            {
                means
                    .entry(format!("{name}-{of}"))
                    .or_default()
                    .extend(found.as_ref().map(|found| found.mean));
            }
            let loss = fabric.slowdown.map(|slowdown| (slowdown - 1.0) * 100.0);
            losses.entry(name).or_default().extend(loss);
            let within = fabric.slowdown_replay.zip(fabric.slowdown_ci95);
            is_within.extend(within.map(|(replay, [low, high])| (low..=high).contains(&replay)));
        }
    }
    let mut values = Computed::new();
    for (name, losses) in losses.iter().filter(|(_, losses)| !losses.is_empty()) {
        let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = losses.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        values.extend(
            [("loss", mean), ("least-loss", least), ("greatest-loss", greatest)]
                .map(|(of, value)| (format!("{name}-{of}"), value)),
        );
    }
    for (name, means) in means.into_iter().filter(|(_, means)| !means.is_empty()) {
        values.insert(name, means.iter().sum::<f64>() / means.len() as f64);
    }
    let captured = || compared.iter().filter_map(|compared| compared.burstiness);
    if captured().next().is_some() {
        values.insert("captured-burstiness".into(), captured().sum::<f64>() / captured().count() as f64);
        values.insert("captured-burstiness.low".into(), captured().fold(f64::INFINITY, f64::min));
        values.insert("captured-burstiness.high".into(), captured().fold(f64::NEG_INFINITY, f64::max));
    }
    if !is_within.is_empty() {
        let within = is_within.iter().filter(|is_within| **is_within).count();
        values.insert("replays-within".into(), within as f64 / is_within.len() as f64);
    }
    values
}

/// Returns the table of all programs and settings as Markdown, or an empty text if there are none.
pub fn table(compared: &[Compared]) -> String {
    let Some(first) = compared.first() else { return String::new() };
    let names = || first.comparison.fabrics.iter().map(|fabric| fabric.fabric.as_str());
    let mut text = String::from("\n| program | setting |");
    names().for_each(|name| _ = write!(text, " {name} |"));
    text.push_str("\n|---|---|");
    names().for_each(|_| text.push_str("--:|"));
    text.push('\n');
    for Compared { program, comparison, .. } in compared {
        let _ = write!(text, "| {} | {} |", program.of.as_deref().unwrap_or(&program.name), program.setting);
        for name in names() {
            let fabric = comparison.fabrics.iter().find(|fabric| fabric.fabric == name);
            let loss = |slowdown: f64| (slowdown - 1.0) * 100.0;
            let cell = fabric.and_then(|fabric| {
                let [low, high] = fabric.slowdown_ci95?.map(loss);
                Some(format!("{:.0} % ({low:.0} to {high:.0})", loss(fabric.slowdown?)))
            });
            let _ = write!(text, " {} |", cell.unwrap_or_else(|| "–".into()));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_gaps_are_no_burst_and_waits_do_not_count() {
        let row = |t_ns, thread, kind, wait_ns, overhead_ns| Row {
            t_ns,
            thread,
            page: 0,
            kind,
            bytes: 4096,
            wait_ns,
            overhead_ns,
        };
        // Two threads compute for 100 ns between fetches, regardless of their waits. There is one write-back, which does not count.
        let even = [
            row(0, 0, Kind::Fetch, 50, 0),
            row(10, 1, Kind::Fetch, 500, 0),
            row(120, 0, Kind::WriteBack, 0, 0),
            row(150, 0, Kind::Fetch, 70, 0),
            row(350, 0, Kind::Fetch, 0, 30),
            row(610, 1, Kind::Fetch, 0, 0),
        ];
        assert!(burstiness(&even).unwrap() < 1e-9);
        // Gaps of 1 ns and 7 ns (about e^2): the logarithms 0 and 2 have a standard deviation of the square root of two.
        let uneven = [0, 1, 8].map(|t_ns| row(t_ns, 0, Kind::Fetch, 0, 0));
        assert!((burstiness(&uneven).unwrap() - (7f64.ln() / 2f64.sqrt())).abs() < 1e-9);
        assert_eq!(burstiness(&even[..2]), None, "no thread has fetched twice");
    }
}
