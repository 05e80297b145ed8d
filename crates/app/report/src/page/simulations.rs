//! Section of one or several `unrack sim` runs, side by side.

use super::manifest;
use super::section::{ColumnGroup, PageSection, list, table};
use super::unlike::Unlike;
use crate::simulation::{JobResult, RequestFigures};
use crate::words::{bytes, count, listed, nanoseconds, number, ratio, short};
use crate::{KindOfMessage, Picture, RecordedRun, SimulatedRun, SimulationSummary, figures};

const COLUMNS: &[ColumnGroup] = &[
    ColumnGroup { name: "Run", term: "fabric", columns: &[] },
    ColumnGroup { name: "Fabric", term: "fabric", columns: &[] },
    ColumnGroup { name: "Messages", term: "message", columns: &["sent", "finished"] },
    ColumnGroup {
        name: "Completion over unloaded",
        term: "unloaded",
        columns: &["mean", "p50", "p99", "max"],
    },
    ColumnGroup { name: "Completion (ns)", term: "message", columns: &["mean", "p99"] },
];

const KIND_COLUMNS: &[ColumnGroup] = &[
    ColumnGroup { name: "Run and kind", term: "message", columns: &[] },
    ColumnGroup { name: "Messages", term: "message", columns: &[] },
    ColumnGroup {
        name: "Completion over unloaded",
        term: "unloaded",
        columns: &["mean", "p50", "p99", "max"],
    },
];

const NETWORK_COLUMNS: &[ColumnGroup] = &[
    ColumnGroup { name: "Run", term: "fabric", columns: &[] },
    ColumnGroup { name: "Nodes", term: "fabric", columns: &[] },
    ColumnGroup { name: "Throughput (Gb/s)", term: "message", columns: &[] },
    ColumnGroup { name: "Packets lost", term: "queue", columns: &[] },
    ColumnGroup { name: "Switch queue (bytes)", term: "queue", columns: &["mean", "p99", "max"] },
    ColumnGroup { name: "Program slowdown", term: "replay", columns: &[] },
];

const JOB_COLUMNS: &[ColumnGroup] = &[
    ColumnGroup { name: "Run and job", term: "message", columns: &[] },
    ColumnGroup { name: "Hosts", term: "fabric", columns: &[] },
    ColumnGroup {
        name: "Time",
        term: "message",
        columns: &["in all", "communicating", "waiting for others", "computing"],
    },
    ColumnGroup { name: "Bytes", term: "message", columns: &[] },
    ColumnGroup { name: "Request", term: "message", columns: &["mean", "p99"] },
];

pub(crate) fn section(prefix: &str, runs: &[(&RecordedRun, &SimulatedRun)]) -> PageSection {
    let named: Vec<_> =
        runs.iter().map(|(run, simulated)| (run.name.clone(), simulated.summary.clone())).collect();
    let unlike = Unlike::new(runs);
    let mut section =
        PageSection::new(prefix, unlike.question(&fabrics(&named)), answer(&named), figures_of(runs));
    let of_runs = named.iter().flat_map(|(name, run)| warnings(name, run));
    section.warnings(&unlike.warnings().into_iter().chain(of_runs).collect::<Vec<_>>());
    section.figure(
        "message-slowdown",
        "1 is the time the message would take alone on the same fabric; left is better.",
    );
    section.figure(
        "slowdown-by-size",
        "From the messages that count and finished. Sizes are grouped where there are many; a 99th percentile is of at \
         least 100 messages.",
    );
    section.figure(
        "slowdown-cdf",
        "Each line climbs from 0 to 100 % of the messages: a long slope to the right is a tail of late ones.",
    );
    for index in 0..runs.len() {
        inside(&mut section, &suffix(runs, index));
    }
    let rows: Vec<_> = named.iter().map(|(name, run)| row(name, run)).collect();
    table(&mut section.body, "Messages, by run", COLUMNS, &rows);
    differing(&mut section, &unlike);
    let kinds: Vec<_> = named.iter().flat_map(|(name, run)| kind_rows(name, run)).collect();
    if !kinds.is_empty() {
        table(&mut section.body, "Messages, by run and kind", KIND_COLUMNS, &kinds);
    }
    let network: Vec<_> = named.iter().map(|(name, run)| network_row(name, run)).collect();
    table(&mut section.body, "Network, by run", NETWORK_COLUMNS, &network);
    let jobs: Vec<_> = named.iter().flat_map(|(name, run)| job_rows(name, run)).collect();
    if !jobs.is_empty() {
        table(&mut section.body, "Jobs, by run", JOB_COLUMNS, &jobs);
    }
    for (run, _) in runs {
        section.body.text("h3", &[], &run.name);
        manifest::draw(&mut section.body, &[], run.manifest.as_ref());
    }
    section
}

/// Places the figures of events within one run, if the run was observed.
fn inside(section: &mut PageSection, suffix: &str) {
    section.figure(
        &format!("link-use{suffix}"),
        "Each row is one direction of a link: node n towards its switch, or out of switch port n. The busiest links are \
         shown, with the share of the time in which they carried bits.",
    );
    section.figure(
        &format!("link-queues{suffix}"),
        "The most bytes that a data packet found ahead of it at those of these ports where any had to wait.",
    );
    section.figure(
        &format!("explain{suffix}"),
        "Bars are the times that the message spent at each place, in the order in which it met them: together they are its \
         completion time. The dashed line is its completion time alone on the same fabric.",
    );
}

fn figures_of(runs: &[(&RecordedRun, &SimulatedRun)]) -> Vec<Picture> {
    let named: Vec<_> = runs.iter().map(|(run, simulated)| (run.name.as_str(), *simulated)).collect();
    let mut all = vec![
        figures::by_simulation(&named),
        figures::slowdown_by_size(&named),
        figures::slowdown_cdf(&named),
    ];
    if let [(name, _)] = named[..] {
        all = all.into_iter().map(|figure| figure.map(|figure| figure.named(name))).collect();
    }
    for (index, (name, run)) in named.iter().enumerate() {
        let suffix = suffix(runs, index);
        if let Some(links) = &run.links {
            all.push(Some(figures::link_use(&suffix, links).named(name)));
            all.push(figures::link_queues(&suffix, links).map(|figure| figure.named(name)));
        }
        let explained = run.explained.as_ref().map(figures::explain_figure);
        all.push(explained.map(|figure| {
            let id = format!("{}{suffix}", figure.id);
            figure.renamed(id)
        }));
    }
    all.into_iter().flatten().collect()
}

/// Returns the suffix for the ids of the figures of one run.
fn suffix(runs: &[(&RecordedRun, &SimulatedRun)], index: usize) -> String {
    if runs.len() > 1 { format!("-{}", index + 1) } else { String::new() }
}

fn fabrics(runs: &[(String, SimulationSummary)]) -> Vec<String> {
    let mut fabrics: Vec<String> = Vec::new();
    for (_, run) in runs {
        if !fabrics.contains(&run.fabric) {
            fabrics.push(run.fabric.clone());
        }
    }
    fabrics
}

fn differing(section: &mut PageSection, unlike: &Unlike) {
    let lines = unlike.lines();
    if !lines.is_empty() {
        section.body.text("h3", &[], "What differs between these runs");
        list(&mut section.body, &lines);
    }
}

fn answer(runs: &[(String, SimulationSummary)]) -> String {
    let one = |(name, run): &(String, SimulationSummary)| {
        format!("{} in {name} ({})", short(run.slowdown.mean), run.fabric)
    };
    let times = listed(&runs.iter().map(one).collect::<Vec<_>>());
    format!("Messages take this many times as long as alone on the same fabric, on average: {times}.")
}

fn row(name: &str, run: &SimulationSummary) -> Vec<String> {
    vec![
        name.into(),
        run.fabric.clone(),
        count(run.messages),
        count(run.completed),
        number(run.slowdown.mean),
        number(run.slowdown.p50),
        number(run.slowdown.p99),
        number(run.slowdown.max),
        number(run.completion_ns.mean),
        number(run.completion_ns.p99),
    ]
}

fn kind_rows(name: &str, run: &SimulationSummary) -> Vec<Vec<String>> {
    let row = |(kind, of): (&String, &KindOfMessage)| {
        let s = of.slowdown;
        let kind = format!("{name}: {kind}");
        vec![kind, count(of.messages), number(s.mean), number(s.p50), number(s.p99), number(s.max)]
    };
    run.by_kind.iter().map(row).collect()
}

fn network_row(name: &str, run: &SimulationSummary) -> Vec<String> {
    vec![
        name.into(),
        count(run.nodes),
        number(run.throughput_gbps),
        count(run.dropped),
        number(run.queue_bytes.mean),
        number(run.queue_bytes.p99),
        number(run.queue_bytes.max),
        run.program.as_ref().map_or("–".into(), |program| ratio(program.slowdown)),
    ]
}

fn job_rows(name: &str, run: &SimulationSummary) -> Vec<Vec<String>> {
    let request = |job: &JobResult, of: fn(&RequestFigures) -> f64| {
        job.request_ns.as_ref().map_or("–".into(), |requests| nanoseconds(of(requests)))
    };
    let row = |(of, job): (&String, &JobResult)| {
        vec![
            format!("{name}: {of}"),
            count(job.hosts.len() as u64),
            job.completion_ns.map_or("–".into(), nanoseconds),
            nanoseconds(job.communication_ns),
            nanoseconds(job.waiting_ns),
            nanoseconds(job.compute_ns),
            bytes(job.bytes),
            request(job, |requests| requests.mean),
            request(job, |requests| requests.p99),
        ]
    };
    run.jobs.iter().map(row).collect()
}

/// Returns the warnings about one run that a reader must consider before relying on its figures.
fn warnings(name: &str, run: &SimulationSummary) -> Vec<String> {
    let told = run.warnings.iter().any(|warning| warning.key == "unfinished");
    let unfinished = unfinished(name, run).filter(|_| !told);
    let others = run.warnings.iter().map(|warning| format!("{name}: {}", warning.text));
    unfinished.into_iter().chain(others).collect()
}

/// Returns a warning about messages that did not finish. It is for runs without such a warning in their summary.
fn unfinished(name: &str, run: &SimulationSummary) -> Option<String> {
    let unfinished = run.unfinished.as_ref()?;
    Some(format!("{name}: {} messages did not finish: {}", count(unfinished.messages), unfinished.why))
}
