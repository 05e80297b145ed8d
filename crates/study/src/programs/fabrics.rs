//! Programs whose losses come from simulated transports (`unrack compare`): DDC, section 4.3, figure 8. The pages of each compute blade
//! go over the simulated network, closed-loop; their completion times are those by which the program is slowed down.

use super::{Measurement, ProgramFound, StudyProgram};
use crate::computed::Computed;
use std::collections::BTreeMap;
use std::fmt::Write;
use unrack_record::Comparison;

/// Program with its comparison in one setting.
pub struct Compared<'a> {
    program: &'a StudyProgram,
    comparison: Comparison,
}

/// Returns the comparisons of the programs that have one.
pub fn compared<'a>(programs: &'a [StudyProgram], found: &[ProgramFound]) -> Vec<Compared<'a>> {
    let one = |program: &'a StudyProgram| {
        let found = found.iter().find(|found| found.program == program.name)?;
        let comparison = serde_json::from_value(found.answer.clone()).ok()?;
        (program.measure == Measurement::Compare).then_some(Compared { program, comparison })
    };
    programs.iter().filter_map(one).collect()
}

/// Returns the mean, the least and the greatest loss in percent by fabric and setting, the means of the completion of pages over an
/// ideal network's and of fetches in microseconds, and the share of replays that lie in the interval
/// of the loss that is computed from their completion times.
pub fn values(compared: &[Compared]) -> Computed {
    let mut losses: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut means: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut is_within: Vec<bool> = Vec::new();
    for Compared { program, comparison } in compared {
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
    if !is_within.is_empty() {
        let within = is_within.iter().filter(|is_within| **is_within).count();
        values.insert("replays-within".into(), within as f64 / is_within.len() as f64);
    }
    values
}

/// Returns the table of all programs and settings, as Markdown; empty without any.
pub fn table(compared: &[Compared]) -> String {
    let Some(first) = compared.first() else { return String::new() };
    let names = || first.comparison.fabrics.iter().map(|fabric| fabric.fabric.as_str());
    let mut text = String::from("\n| program | setting |");
    names().for_each(|name| _ = write!(text, " {name} |"));
    text.push_str("\n|---|---|");
    names().for_each(|_| text.push_str("--:|"));
    text.push('\n');
    for Compared { program, comparison } in compared {
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
