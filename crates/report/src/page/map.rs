//! The section of `unrack map`.

use unrack_record::SlowdownMap;

use super::manifest;
use super::section::{Group, Section, table};
use crate::words::{bytes, count, seconds, share};
use crate::{Figure, Run, answer, figures};

const COLUMNS: &[Group] = &[
    Group { name: "Local share", term: "local", columns: &[] },
    Group { name: "Local memory", term: "local", columns: &[] },
    Group { name: "Waits on the critical path", term: "waits", columns: &["fit", "95 % interval"] },
    Group { name: "R²", term: "fit", columns: &[] },
];

pub(crate) fn section(prefix: &str, run: &Run, map: &SlowdownMap) -> Section {
    let mut section =
        Section::new(prefix, answer::map_question(&map.command), answer::map(map), figures_of(map));
    section.warnings(&map.warnings);
    section.facts(&[
        ("Native run time", seconds(map.native_s)),
        ("Memory in all", bytes(map.footprint_bytes)),
        ("Local shares", map.locals.len().to_string()),
    ]);
    section.figure(
        "map-heat",
        "Each cell is the program's run time over its native run time; the thick line parts what loses at most 5 %.",
    );
    section.figure("map-latency", "As DDC figure 4: does the program suffer from latency?");
    section.figure("map-bandwidth", "As DDC figure 3: does a faster link help?");
    section.figure("map-local", "As DDC figure 5: how much memory must stay local?");
    table(&mut section.body, "What was measured at each local share", COLUMNS, &rows(map));
    manifest::draw(&mut section.body, &map.command, run.manifest.as_ref());
    section
}

fn figures_of(map: &SlowdownMap) -> Vec<Figure> {
    [figures::heat(map)].into_iter().chain(figures::map_lines(map)).collect()
}

fn rows(map: &SlowdownMap) -> Vec<Vec<String>> {
    let waits = |value: f64| count(value.max(0.0).round() as u64);
    let row = |local: &unrack_record::MapLocal| {
        let [lo, hi] = local.fit.waits_ci95;
        vec![
            share(&local.local),
            bytes(local.local_bytes),
            waits(local.fit.waits),
            format!("{} to {}", waits(lo), waits(hi)),
            format!("{:.4}", local.fit.r2),
        ]
    };
    map.locals.iter().map(row).collect()
}
