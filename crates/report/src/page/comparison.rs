//! The section of `unrack compare`.

use unrack_record::{Comparison, FabricResult};

use super::manifest;
use super::section::{Group, Section, list, table};
use crate::words::{bytes, count, nanoseconds, number, ratio, seconds, share};
use crate::{Compared, Figure, Run, answer, figures};

const COLUMNS: &[Group] = &[
    Group { name: "Fabric", term: "fabric", columns: &[] },
    Group { name: "Completion over ideal", term: "ideal", columns: &["mean", "p99"] },
    Group { name: "Page fetch (µs)", term: "fetch", columns: &["mean", "p99"] },
    Group { name: "Slowdown by injection", term: "slowdown", columns: &["estimate", "95 % interval"] },
    Group { name: "By replay", term: "replay", columns: &[] },
];

pub(crate) fn section(prefix: &str, run: &Run, compared: &Compared) -> Section {
    let c = &compared.comparison;
    let mut section =
        Section::new(prefix, answer::question(&c.command), answer::comparison(c), figures_of(compared));
    section.warnings(&c.warnings);
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

fn figures_of(compared: &Compared) -> Vec<Figure> {
    let c = &compared.comparison;
    let fabrics: Vec<_> = c.fabrics.iter().map(|fabric| fabric.fabric.as_str()).collect();
    let all = [
        figures::by_fabric(c),
        figures::against_latency(c),
        figures::near_fabrics(c),
        figures::completion_cdf(&fabrics, &compared.completions),
        compared.fetch_rate.as_ref().map(figures::fetch_rate),
    ];
    all.into_iter().flatten().collect()
}

fn rows(c: &Comparison) -> Vec<Vec<String>> {
    c.fabrics.iter().map(row).collect()
}

fn row(fabric: &FabricResult) -> Vec<String> {
    let (slowdown, interval) = answer::with_interval(fabric.slowdown, fabric.slowdown_ci95);
    vec![
        fabric.fabric.clone(),
        number(fabric.completion_over_ideal.mean),
        number(fabric.completion_over_ideal.p99),
        number(fabric.fetch_us.mean),
        number(fabric.fetch_us.p99),
        slowdown,
        interval,
        fabric.slowdown_replay.map_or("–".into(), ratio),
    ]
}

fn requirements(section: &mut Section, c: &Comparison) {
    if c.requirements.is_empty() {
        return;
    }
    let lines: Vec<_> =
        c.requirements.iter().map(|r| capital(&answer::requirement(r, &c.injection.fit))).collect();
    section.body.text("h3", &[], "What the program needs");
    list(&mut section.body, &lines);
}

fn facts(section: &mut Section, c: &Comparison) {
    let runs = c.native.seconds.len();
    section.facts(&[
        ("Native run time", format!("{} (median of {runs})", seconds(c.native.median_s))),
        (
            "Local memory",
            format!("{} ({} of {})", share(&c.local), bytes(c.local_bytes), bytes(c.footprint_bytes)),
        ),
        ("Page fetches", count(c.capture.fetches)),
        ("Write-backs", count(c.capture.write_backs)),
        ("Waits on the critical path", count(c.injection.fit.waits.max(0.0).round() as u64)),
        ("Pager's floor", nanoseconds(c.injection.floor_ns)),
    ]);
}

fn fit(section: &mut Section, c: &Comparison) {
    section.figure(
        "slowdown-latency",
        "Dots are real runs with an injected delay per fetch. If they lie on the line, the program waits the same \
         number of times whatever a fetch takes. Where the line meets the left edge is the program with the pager's own \
         work, which is this machine's; the slope is the program's.",
    );
    let text = "The same slope from 1, without the pager: slowdown = 1 + waits × time of a fetch / native run time. \
                Dashed: what a fetch may take for each allowed loss.";
    section.figure("slowdown-fabrics", text);
    section.body.text("p", &[("class", &"fit")], &format!("{}.", capital(&answer::fit(&c.injection.fit))));
    section.body.text("p", &[("class", &"fit")], &format!("The floor: {}.", answer::floor(c)));
}

/// Each fabric's simulation, as it was summed up.
fn simulations(section: &mut Section, c: &Comparison) {
    for fabric in c.fabrics.iter().filter(|fabric| !fabric.simulation.is_null()) {
        let json = serde_json::to_string_pretty(&fabric.simulation).unwrap_or_default();
        manifest::folded(&mut section.body, &format!("Simulation of {}", fabric.fabric), &json);
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
