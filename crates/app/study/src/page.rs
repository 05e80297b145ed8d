//! Writes the page of results as Markdown.

use crate::LISTS;
use crate::charts::charts;
use crate::compared::{Compared, PublishedTable, Verdict, number};
use crate::costs::MeasuredCosts;
use crate::file::{Kind, Study};
use crate::overview::overview;
use crate::programs::tables;
use crate::run::StudyResults;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A study with its results.
pub struct StudyOutcome<'a> {
    pub study: &'a Study,
    pub results: &'a StudyResults,
    pub figures: &'a [Compared],
    /// Measured costs, if they were given and the study uses them.
    pub costs: Option<&'a MeasuredCosts>,
}

/// Folder of the charts, relative to the folder of the page.
pub const PICTURES: &str = "pictures/studies";

/// Returns the page of results. The page has no date, so that the same results give the same page. It names `machine` only if all
/// studies measure the machine. If it has all of `studies` that can be simulated, it opens with the table of all figures of the papers.
pub fn markdown(studies: &[Study], done: &[StudyOutcome], machine: &str) -> String {
    let mut text = if done.iter().all(|done| done.study.measured) { measured(machine) } else { simulated() };
    let is_done = |study: &Study| study.measured || done.iter().any(|done| done.study.name == study.name);
    if !studies.is_empty() && studies.iter().all(is_done) {
        text += &overview(studies, done);
    }
    let mut paper = "";
    for done in done {
        let next = done.study.name.split('/').next().unwrap_or_default();
        let list = LISTS.iter().find(|(of, _)| *of == next && next != paper);
        if let Some((of, list)) = list {
            let _ = write!(text, "\n## {}: all figures and tables\n\n{list}", of.to_uppercase());
        }
        paper = next;
        one(&mut text, done);
    }
    text
}

/// Returns the beginning of a page of simulated results, which are the same on any machine.
fn simulated() -> String {
    format!(
        "# Studies\n\n\
         What papers published, beside what is measured here. Written by `unrack study run all` (`make studies`), \
         unrack {}; the files in [studies/](../../studies) define the runs. Means are over all messages, and each \
         message's time is over that of the same message alone on the same fabric, unless a figure says \
         otherwise.\n\n\
         {VERDICTS}\n\n\
         What depends on the machine is not here, and run by name: DDC's programs (`make studies-programs`, on \
         [a page of their own](studies-measured.md)), R2C2's figs. 7 (a rack of threads beside the simulator) and 8 (what computing \
         rates takes), `unrack study run r2c2/fig7 r2c2/fig8`, and the check of predictions by the kernel's swap, as root \
         `unrack study run trust/kernel-swap`.\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the beginning of a page of results that were measured on one machine.
fn measured(machine: &str) -> String {
    format!(
        "# Measured studies\n\n\
         What papers published, beside what one machine gave: {machine}. Written by `unrack study run` with the names below, unrack {}; \
         the files in [studies/](../../studies) define the runs. Behind a value is its 95 % interval, where there is one.\n\n\
         {VERDICTS} What is simulated only is on \
         [the page of all studies](studies.md).\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Explanation of kinds and verdicts, for both pages.
const VERDICTS: &str = "\
`exact` must be met to the digits given, `bound` is a limit to keep, `shape` is a ratio or an order that should come out within a \
tolerance, and `context` is what cannot be missed, because conditions differ too much or the paper does not state it. A row is *met*, \
or *explained* if a run without the cause that is named removes at least half of the difference, or **open**: missed without a \
demonstrated cause, which makes the run fail. A row that *cannot fail* (arithmetic, or a constant compared with itself) is not counted. \
The rules of each study are below its table.";

fn one(text: &mut String, StudyOutcome { study, results, figures, costs }: &StudyOutcome) {
    let _ = write!(
        text,
        "\n## {}\n\n{}. Source: {}.\n\n{}\n",
        study.name,
        study.title,
        study.source,
        study.about.trim()
    );
    let plain: Vec<&Compared> = figures.iter().filter(|figure| figure.table.is_none()).collect();
    if !plain.is_empty() {
        if let Some(costs) = costs {
            let _ = write!(text, "\n{}\n", costs.words());
        }
        let more = if costs.is_some() { ("with measured costs | measured | ", "---|---|") } else { ("", "") };
        let _ = write!(
            text,
            "\n| figure | kind | published | ours | {}verdict | |\n|---|---|---|---|---|{}---|\n",
            more.0, more.1
        );
        plain.iter().for_each(|figure| row(text, figure, costs.is_some()));
    }
    rules(text, figures);
    for figure in *figures {
        if let Some(table) = &figure.table {
            let _ = write!(
                text,
                "\n**{}** ({}; {}): published, ours; {}.\n\n",
                figure.what,
                kind(figure.kind),
                figure.source,
                verdict(figure.verdict)
            );
            cells(text, table, study);
            let _ = write!(text, "\n{} {}\n", figure.sentence, changed(figure));
        }
    }
    if !results.programs.is_empty() {
        text.push_str(&tables(&study.programs, &results.programs));
    }
    for figure in charts(study, results) {
        let _ = write!(text, "\n![{}]({PICTURES}/{}.svg)\n", figure.title, figure.id);
    }
    unfinished(text, results);
    never_acted(text, results);
}

/// Writes what decides whether the rows of a study are met, each rule with the rows for which it holds, and the number of rows by
/// verdict.
fn rules(text: &mut String, figures: &[Compared]) {
    let mut rules: Vec<(&str, Vec<&str>)> = Vec::new();
    for figure in figures {
        match rules.iter_mut().find(|(rule, _)| *rule == figure.rule) {
            Some((_, rows)) => rows.push(&figure.what),
            None => rules.push((&figure.rule, vec![&figure.what])),
        }
    }
    let count = |of: Verdict| figures.iter().filter(|figure| figure.verdict == of).count();
    let counts = [
        (count(Verdict::Met), "met"),
        (count(Verdict::Explained), "explained by a run"),
        (count(Verdict::Missed), "open"),
        (count(Verdict::CannotFail), "not counted, because they cannot fail"),
    ];
    let said = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let said = said.collect::<Vec<_>>().join(", ");
    if !said.is_empty() {
        let _ = write!(text, "\nRows: {said}.\n");
    }
    text.push('\n');
    let usual = rules.iter().map(|(_, rows)| rows.len()).max();
    for (rule, rows) in &rules {
        // The most frequent rule needs no list of its rows.
        let whole = Some(rows.len()) == usual && usual > Some(3);
        let of = if whole { "most rows".into() } else { rows.join("; ") };
        let _ = writeln!(text, "- {rule} ({of})");
    }
}

fn row(text: &mut String, figure: &Compared, with_costs: bool) {
    let Compared { what, published, ours, unit, source, .. } = figure;
    let sentence = [figure.sentence.as_str(), changed(figure)].join(" ");
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    let shown = |value: &str| if value.is_empty() { "–".to_string() } else { format!("{value}{unit}") };
    let (published, mut ours) = (shown(published), shown(ours));
    if with_costs {
        for more in [&figure.with_costs, &figure.measured] {
            ours += &format!(" | {}", shown(more.as_deref().unwrap_or_default()));
        }
    }
    let _ = writeln!(
        text,
        "| {what} ({source}) | {} | {published} | {ours} | {} | {} |",
        kind(figure.kind),
        verdict(figure.verdict),
        sentence.trim()
    );
}

/// Returns what the page says of a figure whose value is not the stored one.
fn changed(figure: &Compared) -> &'static str {
    match &figure.stored {
        Some(stored) if !stored.held => "**Our value has left its stored band.**",
        _ => "",
    }
}

fn cells(text: &mut String, table: &PublishedTable, study: &Study) {
    let _ = write!(
        text,
        "| fabric | {} |\n|---|{}\n",
        table.columns.join(" | "),
        "---|".repeat(table.columns.len())
    );
    let place = |fabric: &str| study.fabrics.iter().position(|known| known == fabric);
    let mut rows: Vec<_> = table.rows.iter().collect();
    rows.sort_by_key(|row| place(&row.fabric));
    for row in rows {
        let _ = write!(text, "| {} |", row.fabric);
        for column in 0..table.columns.len() {
            // A quick run has fewer columns than the published table, so the index of a column does not identify it.
            let published = (row.published.len() == table.columns.len()).then(|| row.published[column]);
            let cell = |value: Option<f64>| value.map_or("–".into(), number);
            let _ = write!(text, " {}, {} |", cell(published), cell(row.ours[column]));
        }
        text.push('\n');
    }
}

/// Adds the settings that never acted: one line for each kind of note of a fabric, with the number of its points.
fn never_acted(text: &mut String, results: &StudyResults) {
    let mut kinds: BTreeMap<(String, String), (String, usize)> = BTreeMap::new();
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for point in &results.points {
        let fabric = point.labels.get("fabric").cloned().unwrap_or_default();
        *all.entry(fabric.clone()).or_default() += 1;
        for note in point.notes() {
            kinds.entry((fabric.clone(), note.key)).or_insert((note.text, 0)).1 += 1;
        }
    }
    if kinds.is_empty() {
        return;
    }
    text.push_str("\nSettings that never acted, with the note of the first point:\n\n");
    for ((fabric, key), (note, count)) in &kinds {
        let of = all.get(fabric).copied().unwrap_or_default();
        let _ = writeln!(text, "- {fabric}, {count} of {of} points: {note} [{key}]");
    }
}

/// Adds a remark for each point whose figures do not cover all messages.
fn unfinished(text: &mut String, results: &StudyResults) {
    for point in &results.points {
        let count = |key| point.summary.pointer(key).and_then(serde_json::Value::as_u64);
        let (unfinished, all) = (count("/unfinished/messages"), count("/messages").unwrap_or_default());
        let at: Vec<_> = point.labels.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
        let at = format!("{}: {}", point.grid, at.join(", "));
        if let Some(when) = point.summary.get("cut_off").and_then(serde_json::Value::as_str) {
            let unfinished = unfinished.unwrap_or_default();
            let _ = write!(
                text,
                "\nCut off after {when} of simulated time, when {unfinished} of the {all} messages begun by then had not \
                 finished: {at}.\n"
            );
        } else if let Some(unfinished) = unfinished {
            let _ = write!(text, "\n{unfinished} of {all} messages did not finish at {at}.\n");
        }
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Exact => "exact",
        Kind::Bound => "bound",
        Kind::Shape => "shape",
        Kind::Context => "context",
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "met",
        Verdict::CannotFail => "cannot fail",
        Verdict::Missed => "**open**",
        Verdict::Explained => "explained",
        Verdict::Stated => "differs",
        Verdict::Alone => "–",
        Verdict::LeftOut => "not in a quick run",
        Verdict::Withheld => "**withheld**",
        Verdict::NotMeasured => "**not measured**",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Measured;

    #[test]
    fn what_did_not_finish_is_said_and_whether_it_was_cut_off() {
        let of = |summary| {
            let labels = BTreeMap::from([("fabric".into(), "tcp".into())]);
            let (grid, scenario_hash) = ("loads".into(), String::new());
            let points = vec![Measured { grid, labels, scenario_hash, summary, seeds: Vec::new() }];
            let mut text = String::new();
            unfinished(&mut text, &StudyResults { study: "test".into(), points, programs: Vec::new() });
            text
        };
        let (messages, left) = (9, serde_json::json!({ "messages": 2, "why": "" }));
        assert_eq!(of(serde_json::json!({ "messages": messages, "unfinished": null })), "");
        let given_up = serde_json::json!({ "messages": messages, "unfinished": left });
        assert_eq!(of(given_up), "\n2 of 9 messages did not finish at loads: fabric tcp.\n");
        for (unfinished, said) in [(left, "when 2 of the 9"), (serde_json::Value::Null, "when 0 of the 9")] {
            let cut = serde_json::json!({ "messages": messages, "unfinished": unfinished, "cut_off": "1s" });
            let text = of(cut);
            assert!(text.contains("Cut off after 1s of simulated time") && text.contains(said), "{text}");
        }
    }
}
