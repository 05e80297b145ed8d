//! Section of `unrack map`.

use unrack_record::{Fit, MapLocal, SlowdownMap};

use super::manifest;
use super::section::{ColumnGroup, PageSection, table};
use crate::words::{bytes, count, program, seconds, share};
use crate::{Picture, RecordedRun, answer, figures};

const COLUMNS: &[ColumnGroup] = &[
    ColumnGroup { name: "Local share", term: "local", columns: &[] },
    ColumnGroup { name: "Local memory", term: "local", columns: &[] },
    ColumnGroup { name: "Waits on the critical path", term: "waits", columns: &["fit", "95 % interval"] },
    ColumnGroup { name: "R²", term: "fit", columns: &[] },
];

pub(crate) fn section(prefix: &str, run: &RecordedRun, map: &SlowdownMap) -> PageSection {
    let mut section =
        PageSection::new(prefix, answer::map_question(&map.command), answer::map(map), figures_of(map));
    let warnings = map.warnings.iter().map(|warning| warning.text.clone());
    section.warnings(
        &warnings.chain(answer::disturbance(&map.disturbance, answer::is_rough(map))).collect::<Vec<_>>(),
    );
    section.facts(&[
        ("Native run time", map.native_s.map_or("withheld".into(), seconds)),
        ("Memory in all", bytes(map.footprint_bytes)),
        ("Local shares", map.locals.len().to_string()),
    ]);
    section.figure(
        "map-heat",
        "Each cell is the program's run time over its native run time, its 95 % interval under the pointer; the thick line \
         parts what loses at most 5 %. Shares of which too little is known are withheld.",
    );
    section.figure("map-latency", "As DDC figure 4: does the program suffer from latency?");
    section.figure("map-bandwidth", "As DDC figure 3: does a faster link help?");
    section.figure("map-local", "As DDC figure 5: how much memory must stay local?");
    table(&mut section.body, "What was measured at each local share", COLUMNS, &rows(map));
    manifest::draw(&mut section.body, &map.command, run.manifest.as_ref());
    section
}

fn figures_of(map: &SlowdownMap) -> Vec<Picture> {
    let all = [figures::heat(map)].into_iter().chain(figures::map_lines(map));
    all.map(|figure| figure.named(program(&map.command))).collect()
}

fn rows(map: &SlowdownMap) -> Vec<Vec<String>> {
    map.locals.iter().map(row).collect()
}

fn row(local: &MapLocal) -> Vec<String> {
    let waits = |value: f64| count(value.max(0.0).round() as u64);
    let line = match local.fit.as_ref().filter(|_| local.withheld.is_none()) {
        Some(Fit { waits: estimate, waits_ci95: [lo, hi], r2, .. }) => {
            [waits(*estimate), format!("{} to {}", waits(*lo), waits(*hi)), format!("{r2:.4}")]
        }
        None => ["withheld".into(), "–".into(), "–".into()],
    };
    let roughly = if local.rough.is_some() { "~" } else { "" };
    [format!("{roughly}{}", share(&local.local)), bytes(local.local_bytes)].into_iter().chain(line).collect()
}
