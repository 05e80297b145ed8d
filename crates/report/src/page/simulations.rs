//! The section of one or several `unrack sim` runs, side by side.

use super::manifest;
use super::section::{Column, Section, table};
use crate::words::{count, listed, number, short};
use crate::{Run, Simulation, figures};

const COLUMNS: &[Column] = &[
    Column { name: "Run", unit: "", term: "fabric" },
    Column { name: "Fabric", unit: "", term: "fabric" },
    Column { name: "Nodes", unit: "", term: "fabric" },
    Column { name: "Messages", unit: "", term: "message" },
    Column { name: "Unfinished", unit: "", term: "message" },
    Column { name: "Completion over ideal", unit: "mean", term: "ideal" },
    Column { name: "Completion over ideal", unit: "p50", term: "ideal" },
    Column { name: "Completion over ideal", unit: "p99", term: "ideal" },
    Column { name: "Completion over ideal", unit: "max", term: "ideal" },
    Column { name: "Completion", unit: "ns, mean", term: "message" },
    Column { name: "Completion", unit: "ns, p99", term: "message" },
    Column { name: "Throughput", unit: "Gb/s", term: "message" },
];

const KIND_COLUMNS: &[Column] = &[
    Column { name: "Run and kind", unit: "", term: "message" },
    Column { name: "Messages", unit: "", term: "message" },
    Column { name: "Completion over ideal", unit: "mean", term: "ideal" },
    Column { name: "Completion over ideal", unit: "p50", term: "ideal" },
    Column { name: "Completion over ideal", unit: "p99", term: "ideal" },
    Column { name: "Completion over ideal", unit: "max", term: "ideal" },
];

pub(crate) fn section(prefix: &str, runs: &[(&Run, &Simulation)]) -> Section {
    let named: Vec<_> =
        runs.iter().map(|(run, simulation)| (run.name.clone(), (*simulation).clone())).collect();
    let figures = figures::by_simulation(&named).into_iter().collect();
    let mut section = Section::new(prefix, question(&named), answer(&named), figures);
    section.figure(
        "message-slowdown",
        "1 is the time the message would take alone in the network; left is better.",
    );
    let rows: Vec<_> = named.iter().map(|(name, run)| row(name, run)).collect();
    table(&mut section.body, "Messages, by run", COLUMNS, &rows);
    let kinds: Vec<_> = named.iter().flat_map(|(name, run)| kind_rows(name, run)).collect();
    if !kinds.is_empty() {
        table(&mut section.body, "Messages, by run and kind", KIND_COLUMNS, &kinds);
    }
    for (run, _) in runs {
        section.body.text("h3", &[], &run.name);
        manifest::draw(&mut section.body, &[], run.manifest.as_ref());
    }
    section
}

fn question(runs: &[(String, Simulation)]) -> String {
    let mut fabrics: Vec<_> = runs.iter().map(|(_, run)| run.fabric.clone()).collect();
    fabrics.dedup();
    format!("How {} {} carry this traffic?", if fabrics.len() == 1 { "does" } else { "do" }, listed(&fabrics))
}

fn answer(runs: &[(String, Simulation)]) -> String {
    let one = |(name, run): &(String, Simulation)| {
        format!("{} in {name} ({})", short(run.slowdown.mean), run.fabric)
    };
    let times = listed(&runs.iter().map(one).collect::<Vec<_>>());
    format!("Messages take this many times as long as alone in the network, on average: {times}.")
}

fn row(name: &str, run: &Simulation) -> Vec<String> {
    vec![
        name.into(),
        run.fabric.clone(),
        count(run.nodes),
        count(run.messages),
        count(run.messages.saturating_sub(run.completed)),
        number(run.slowdown.mean),
        number(run.slowdown.p50),
        number(run.slowdown.p99),
        number(run.slowdown.max),
        number(run.completion_ns.mean),
        number(run.completion_ns.p99),
        run.throughput_gbps.map_or("–".into(), number),
    ]
}

fn kind_rows(name: &str, run: &Simulation) -> Vec<Vec<String>> {
    let row = |(kind, s): (&str, unrack_record::Spread)| {
        vec![
            format!("{name}: {kind}"),
            count(s.count),
            number(s.mean),
            number(s.p50),
            number(s.p99),
            number(s.max),
        ]
    };
    run.kinds().map(row).collect()
}
