//! Section of `unrack compare`.

use unrack_record::{Comparison, FabricResult};

use super::manifest;
use super::section::{ColumnGroup, PageSection, list, table};
use crate::words::{bytes, count, nanoseconds, number, program, ratio, seconds, share};
use crate::{ComparedRun, Picture, RecordedRun, answer, figures, needs};

const COLUMNS: &[ColumnGroup] = &[
    ColumnGroup { name: "Fabric", term: "fabric", columns: &[] },
    ColumnGroup { name: "Completion over ideal", term: "ideal", columns: &["mean", "p99"] },
    ColumnGroup { name: "Page fetch (µs)", term: "fetch", columns: &["mean", "p99"] },
    ColumnGroup { name: "Slowdown by injection", term: "slowdown", columns: &["estimate", "95 % interval"] },
    ColumnGroup { name: "By replay", term: "replay", columns: &[] },
];

pub(crate) fn section(prefix: &str, run: &RecordedRun, compared: &ComparedRun) -> PageSection {
    let c = &compared.comparison;
    let mut section =
        PageSection::new(prefix, answer::question(&c.command), answer::comparison(c), figures_of(compared));
    section.warnings(&warnings(c));
    section.figure("slowdown-by-fabric", "1.00 is the program's native run time; further left is better.");
    table(&mut section.body, "What each fabric would do to the program", COLUMNS, &rows(c));
    requirements(&mut section, c);
    facts(&mut section, c);
    fit(&mut section, c);
    section.figure(
        "completion-cdf",
        "Each line climbs from 0 to 100 % of the program's page fetches: further left is faster, and a long \
         slope to the right is a tail of late pages.",
    );
    section.figure(
        "fetch-rate",
        "From the captured trace: where the program leans on remote memory, and how hard.",
    );
    manifest::draw(&mut section.body, &c.command, run.manifest.as_ref());
    simulations(&mut section, c);
    section
}

fn figures_of(compared: &ComparedRun) -> Vec<Picture> {
    let c = &compared.comparison;
    let fabrics: Vec<_> = c.fabrics.iter().map(|fabric| fabric.fabric.as_str()).collect();
    let all = [
        figures::by_fabric(c),
        figures::against_latency(c),
        figures::near_fabrics(c),
        figures::completion_cdf(&fabrics, &compared.completions),
        compared.fetch_rate.as_ref().map(figures::fetch_rate),
    ];
    all.into_iter().flatten().map(|figure| figure.named(program(&c.command))).collect()
}

/// Returns the warnings. The reason why the fitted line is withheld is left out, because the page shows that reason in place of the line.
fn warnings(c: &Comparison) -> Vec<String> {
    let others = c.warnings.iter().filter(|warning| Some(*warning) != c.injection.withheld.as_ref());
    others
        .map(|warning| warning.text.clone())
        .chain(answer::disturbance(&c.disturbance, c.rough.is_some()))
        .collect()
}

fn rows(c: &Comparison) -> Vec<Vec<String>> {
    c.fabrics.iter().map(|fabric| row(c, fabric)).collect()
}

fn row(c: &Comparison, fabric: &FabricResult) -> Vec<String> {
    let (slowdown, interval) = answer::with_interval(c, fabric);
    let known = |value: Option<f64>| value.map_or("–".into(), number);
    vec![
        fabric.fabric.clone(),
        known(fabric.completion_over_ideal.map(|spread| spread.mean)),
        known(fabric.completion_over_ideal.map(|spread| spread.p99)),
        known(fabric.fetch_us.map(|spread| spread.mean)),
        known(fabric.fetch_us.map(|spread| spread.p99)),
        slowdown,
        interval,
        fabric.slowdown_replay.map_or("–".into(), ratio),
    ]
}

fn requirements(section: &mut PageSection, c: &Comparison) {
    if c.requirements.is_empty() {
        return;
    }
    let lines: Vec<_> = needs::all(c).iter().map(|need| capital(need)).collect();
    section.body.text("h3", &[], "What the program needs");
    list(&mut section.body, &lines);
}

fn facts(section: &mut PageSection, c: &Comparison) {
    let native = c
        .native
        .as_ref()
        .map(|native| format!("{} (median of {})", seconds(native.median_s), native.seconds.len()));
    let local = format!("{} ({} of {})", share(&c.local), bytes(c.local_bytes), bytes(c.footprint_bytes));
    let line = c.injection.fit.as_ref().filter(|_| c.injection.withheld.is_none());
    let waits = line.map(|fit| count(fit.waits.max(0.0).round() as u64));
    let withheld = || "withheld".to_string();
    let mut facts = vec![("Native run time", native.unwrap_or_else(withheld)), ("Local memory", local)];
    if let Some(capture) = &c.capture {
        facts.extend([("Page fetches", count(capture.fetches)), ("Write-backs", count(capture.write_backs))]);
    }
    facts.push(("Waits on the critical path", waits.unwrap_or_else(withheld)));
    facts.push(("Pager's floor", c.injection.floor_ns.map_or_else(withheld, nanoseconds)));
    section.facts(&facts);
}

fn fit(section: &mut PageSection, c: &Comparison) {
    section.figure(
        "slowdown-latency",
        "Dots are real runs with an injected delay per fetch. If they lie on the line, the program waits the same \
         number of times whatever a fetch takes. Where the line meets the left edge is the program with the pager's own \
         work, which is this machine's; the slope is the program's.",
    );
    let text = "The same slope from 1, without the pager: slowdown = 1 + waits × time of a fetch / native run time. \
                Dashed: what a fetch may take for each allowed loss, with its 95 % interval across the end; what is withheld \
                says so. Left of the grey line no fetch can be: there the bits of a page alone take longer.";
    section.figure("slowdown-fabrics", text);
    section.body.text("p", &[("class", &"fit")], &format!("{}.", capital(&answer::line(&c.injection))));
    section.body.text(
        "p",
        &[("class", &"fit")],
        &format!("The floor: {}.", answer::floor(c.injection.floor_ns)),
    );
}

/// Writes the summary of each fabric's simulation.
fn simulations(section: &mut PageSection, c: &Comparison) {
    for fabric in c.fabrics.iter().filter(|fabric| fabric.fetch_us.is_some() && !fabric.simulation.is_null())
    {
        let json = serde_json::to_string_pretty(&fabric.simulation).unwrap_or_default();
        manifest::folded(&mut section.body, &format!("Simulation of {}", fabric.fabric), &json);
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
