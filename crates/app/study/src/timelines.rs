//! Charts over time: how much of the NICs of one rack each fabric uses.

use crate::declared::Timeline;
use crate::file::Study;
use crate::run::{Measured, StudyResults};
use serde_json::Value;
use std::collections::BTreeMap;
use unrack_report::{ChartSeries, SeriesAxis, SeriesChart};

impl Timeline {
    pub(crate) fn drawn(&self, study: &Study, results: &StudyResults, id: String) -> SeriesChart {
        let grid = study.grid(&self.grid).expect("the file was checked");
        let of_fabric = |fabric: &String| {
            let labels: BTreeMap<String, String> =
                self.labels.clone().into_iter().chain([("fabric".into(), fabric.clone())]).collect();
            let is_it = |point: &&Measured| point.grid == self.grid && point.labels == labels;
            let points = results.points.iter().find(is_it).and_then(over_time).unwrap_or_default();
            ChartSeries::new(fabric, points)
        };
        SeriesChart {
            id,
            title: self.title.clone(),
            x: SeriesAxis::Numbers("time (ms)".into()),
            y_label: "use of the NICs of the rack that sends most".into(),
            y_log: false,
            series: study.fabrics_of(grid).iter().map(of_fabric).collect(),
            ranges: None,
        }
    }
}

/// Returns the use of NICs in the middle of each step of time, in milliseconds; `None` if it was not observed.
fn over_time(point: &Measured) -> Option<Vec<(f64, f64)>> {
    let rack = point.summary.pointer("/nics/rack")?;
    let step_ms = rack["step_ns"].as_f64()? / 1e6;
    let shares = rack["over_time"].as_array()?.iter().filter_map(Value::as_f64);
    Some(shares.enumerate().map(|(step, share)| ((step as f64 + 0.5) * step_ms, share)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fabric_has_a_line_over_time() {
        let text = r#"
title = "NICs"
source = "a test"
about = ""
fabrics = ["tcp", "mptcp"]
[[grid]]
name = "all"
nics = true
[[timeline]]
title = "Over time"
grid = "all"
"#;
        let study = Study::parse("test", text).unwrap();
        let rack = serde_json::json!({ "step_ns": 2e6, "over_time": [0.5, 1.0] });
        let point = Measured {
            grid: "all".into(),
            labels: BTreeMap::from([("fabric".into(), "tcp".into())]),
            scenario_hash: String::new(),
            summary: serde_json::json!({ "nics": { "rack": rack } }),
            seeds: Vec::new(),
        };
        let results = StudyResults { study: "test".into(), points: vec![point], programs: Vec::new() };
        let chart = study.timelines[0].drawn(&study, &results, "time".into());
        assert_eq!(chart.series[0].points, [(1.0, 0.5), (3.0, 1.0)]);
        assert_eq!((chart.series.len(), chart.series[1].points.len()), (2, 0), "mptcp was not run");
        let unknown = text.replace("grid = \"all\"", "grid = \"al\"");
        assert!(Study::parse("test", &unknown).is_err());
    }
}
