//! Section of a run by loads and stores.

use unrack_record::LinesResult;

use super::manifest;
use super::section::{ColumnGroup, PageSection, table};
use crate::lines_answer as answer;
use crate::run::LinesRun;
use crate::words::{bytes, nanoseconds, number, program};
use crate::{Picture, RecordedRun, figures};

const FABRICS: &[ColumnGroup] = &[
    ColumnGroup { name: "Fabric", term: "fabric", columns: &[] },
    ColumnGroup { name: "Read of a line (ns)", term: "read", columns: &["unloaded", "mean", "p99"] },
    ColumnGroup {
        name: "Slowdown by the curve",
        term: "closed-loop",
        columns: &["estimate", "95 % interval"],
    },
    ColumnGroup { name: "By closed loop", term: "closed-loop", columns: &["estimate", "95 % interval"] },
];
const SERVED: &[ColumnGroup] = &[
    ColumnGroup { name: "Served by", term: "served", columns: &[] },
    ColumnGroup { name: "Accesses", term: "served", columns: &["all", "in 1000 instructions"] },
];
const NAMED: &[ColumnGroup] = &[
    ColumnGroup { name: "Name", term: "misses", columns: &[] },
    ColumnGroup { name: "Misses to memory", term: "misses", columns: &["all", "share"] },
];

pub(crate) fn section(prefix: &str, run: &RecordedRun, recorded: &LinesRun) -> PageSection {
    let summary = &recorded.summary;
    let lines = &summary.lines;
    let question = answer::question(&summary.command);
    let mut section = PageSection::new(prefix, question, answer::answer(summary), figures_of(recorded));
    let warnings = lines.warnings.iter().map(|warning| warning.text.clone());
    section.warnings(&warnings.chain(answer::withheld(lines)).collect::<Vec<_>>());
    section.figure(
        "line-curve",
        "1.00 is the program's native run time. The band is the 95 % interval of the sample of windows.",
    );
    if !lines.curve.is_empty() {
        curve(&mut section, lines);
    }
    if !lines.fabrics.is_empty() {
        table(
            &mut section.body,
            "What each fabric would do to the program",
            FABRICS,
            &answer::fabrics(lines),
        );
    }
    section.facts(&[
        ("Memory used", bytes(lines.footprint_bytes)),
        ("Local memory's latency", nanoseconds(lines.machine_times.near_ns)),
        ("Frequency", format!("{} GHz", number(lines.machine_times.frequency_ghz))),
    ]);
    for text in [
        answer::native(lines),
        answer::counts(lines),
        format!("Memory: {}", answer::memory(&lines.counts)),
        format!("Time: {}", answer::bound(lines)),
    ] {
        section.body.text("p", &[("class", &"fit")], &text);
    }
    section.figure(
        "line-heat",
        "Misses are loads and stores that memory served, as in the tables. Each row is as many pages, in the order of their addresses. Steps are of equal ratios, from none to the most.",
    );
    named(&mut section, lines);
    manifest::draw(&mut section.body, &summary.command, run.manifest.as_ref());
    section
}

fn figures_of(recorded: &LinesRun) -> Vec<Picture> {
    let heat = recorded.heat.as_ref().and_then(|(meta, rows)| figures::line_heat(meta, rows));
    let all = figures::line_curve(&recorded.summary.lines).into_iter().chain(heat);
    all.map(|figure| figure.named(program(&recorded.summary.command))).collect()
}

fn curve(section: &mut PageSection, lines: &LinesResult) {
    let placement = answer::placement(lines);
    let first = ColumnGroup { name: "Latency of remote memory", term: "line-slowdown", columns: &[] };
    let asked =
        ColumnGroup { name: &placement, term: "line-slowdown", columns: &["estimate", "95 % interval"] };
    let rows: Vec<Vec<String>> = answer::curve(lines).into_iter().map(Vec::from).collect();
    table(&mut section.body, "Slowdown by latency", &[first, asked], &rows);
    let latencies = answer::latencies(lines);
    let first = ColumnGroup { name: "Local memory", term: "placement", columns: &[] };
    let each = |name| ColumnGroup { name, term: "line-slowdown", columns: &["slowdown"] };
    let groups: Vec<ColumnGroup> =
        [first].into_iter().chain(latencies.iter().map(|name| each(name))).collect();
    table(&mut section.body, "Slowdown by placement and latency", &groups, &answer::placements(lines));
    let threads: Vec<Vec<String>> = answer::threads(lines).into_iter().map(Vec::from).collect();
    if !threads.is_empty() {
        let [middle, last] = answer::thread_latencies(lines);
        let caption = format!("Slowdown of each thread, over its own time: at {middle} and at {last}");
        let groups = [
            ColumnGroup { name: "Thread", term: "line-slowdown", columns: &[] },
            ColumnGroup { name: "Recorded", term: "misses", columns: &["instructions", "misses", "windows"] },
            ColumnGroup { name: "All memory local", term: "line-slowdown", columns: &["time"] },
            ColumnGroup { name: "Slowdown", term: "line-slowdown", columns: &["middle", "greatest"] },
        ];
        table(&mut section.body, &caption, &groups, &threads);
    }
}

fn named(section: &mut PageSection, lines: &LinesResult) {
    let rows = |all: Vec<[String; 3]>| all.into_iter().map(Vec::from).collect::<Vec<_>>();
    if !lines.counts.served.is_empty() {
        let levels = rows(answer::served(&lines.counts));
        table(&mut section.body, "Accesses by the level that served them", SERVED, &levels);
    }
    for (caption, names) in [("Misses by mapping", &lines.mappings), ("Misses by function", &lines.functions)]
    {
        if !names.is_empty() {
            table(&mut section.body, caption, NAMED, &rows(answer::named(names)));
        }
    }
}
