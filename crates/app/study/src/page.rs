//! Writes the page of results as Markdown.

use crate::LISTS;
use crate::charts::charts;
use crate::costs::MeasuredCosts;
use crate::figure::{Compared, PublishedTable, Verdict, number};
use crate::file::{Kind, Study};
use crate::programs::tables;
use crate::run::StudyResults;
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
/// studies measure the machine.
pub fn markdown(done: &[StudyOutcome], machine: &str) -> String {
    let mut text = if done.iter().all(|done| done.study.measured) { measured(machine) } else { simulated() };
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
         `exact` must be met to the digit given, `bound` is a limit to keep, `shape` is a ratio or an order that \
         should come out. A verdict in bold is one that did not.\n\n\
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
         `shape` is a ratio, an order or a limit that should come out, `context` what cannot be missed, since conditions differ too much or the \
         paper does not state it. A verdict in bold is one that did not come out. What is simulated only is on \
         [the page of all studies](studies.md).\n",
        env!("CARGO_PKG_VERSION")
    )
}

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
    for figure in *figures {
        if let Some(table) = &figure.table {
            let _ = write!(
                text,
                "\n**{}** ({}; {}): published, ours.\n\n",
                figure.what,
                kind(figure.kind),
                figure.source
            );
            cells(text, table, study);
            let _ = write!(text, "\n{}\n", figure.sentence);
        }
    }
    if !results.programs.is_empty() {
        text.push_str(&tables(&study.programs, &results.programs));
    }
    for figure in charts(study, results) {
        let _ = write!(text, "\n![{}]({PICTURES}/{}.svg)\n", figure.title, figure.id);
    }
    unfinished(text, results);
}

fn row(text: &mut String, figure: &Compared, with_costs: bool) {
    let Compared { what, published, ours, sentence, unit, source, .. } = figure;
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
        "| {what} ({source}) | {} | {published} | {ours} | {} | {sentence} |",
        kind(figure.kind),
        verdict(figure.verdict)
    );
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
        Verdict::Missed => "**missed**",
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
    use std::collections::BTreeMap;

    #[test]
    fn what_did_not_finish_is_said_and_whether_it_was_cut_off() {
        let of = |summary| {
            let labels = BTreeMap::from([("fabric".into(), "tcp".into())]);
            let (grid, scenario_hash) = ("loads".into(), String::new());
            let points = vec![Measured { grid, labels, scenario_hash, summary }];
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
