//! Maps of a study: ratios of results over two axes of a grid, in panels for further axes.

use crate::declared::StudyMap;
use crate::file::{GridAxis, Study, StudyGrid};
use crate::run::StudyResults;
use std::collections::BTreeMap;
use unrack_report::{RatioMap, RatioPanel};

impl StudyMap {
    /// Returns the map with the results of a run.
    pub(crate) fn drawn(&self, study: &Study, results: &StudyResults, id: String) -> RatioMap {
        let grid = study.grid(&self.grid).expect("the file was checked");
        let (columns, rows) = (names(grid, &self.x), names(grid, &self.y));
        let mut panels: Vec<(Vec<String>, BTreeMap<String, String>)> =
            vec![(Vec::new(), self.labels.clone())];
        for axis in &self.panels {
            let with = |(title, labels): &(Vec<String>, BTreeMap<String, String>)| {
                let value = |name: String| {
                    let title = title.iter().cloned().chain([name.clone()]).collect();
                    (title, labels.clone().into_iter().chain([(axis.clone(), name)]).collect())
                };
                names(grid, axis).into_iter().map(value).collect::<Vec<_>>()
            };
            panels = panels.iter().flat_map(with).collect();
        }
        let panel = |(title, labels): (Vec<String>, BTreeMap<String, String>)| {
            let row = |row: &String| {
                let cell = |column: &String| {
                    let place = [(self.x.clone(), column.clone()), (self.y.clone(), row.clone())];
                    self.cell(results, labels.clone().into_iter().chain(place).collect())
                };
                columns.iter().map(cell).collect()
            };
            RatioPanel { title: title.join(", "), cells: rows.iter().map(row).collect() }
        };
        RatioMap {
            id,
            title: self.title.clone(),
            ratio: self.ratio.clone(),
            x_label: self.x_label.clone(),
            y_label: self.y_label.clone(),
            panels: panels.into_iter().map(panel).collect(),
            side_by_side: self.panels.last().map_or(1, |axis| names(grid, axis).len()),
            columns,
            rows,
        }
    }

    /// Returns the ratio at one point; `None` if one of its two runs was not made.
    fn cell(&self, results: &StudyResults, labels: BTreeMap<String, String>) -> Option<f64> {
        let value = |labels: &BTreeMap<String, String>| {
            let is_it = |point: &&crate::run::Measured| point.grid == self.grid && point.labels == *labels;
            results.points.iter().find(is_it)?.value(&self.value)
        };
        let below = labels.clone().into_iter().chain(self.over.clone()).collect();
        Some(value(&labels)? / value(&below)?)
    }
}

/// Returns the names of the values of an axis.
fn names(grid: &StudyGrid, axis: &str) -> Vec<String> {
    let axis = grid.axes.iter().find(|known: &&GridAxis| known.name == axis).expect("the file was checked");
    axis.values.iter().map(|value| value.name().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Measured;

    const STUDY: &str = r#"
title = "A map"
source = "a test"
about = ""
fabrics = ["tcp", "mptcp"]
[[grid]]
name = "all"
[[grid.axis]]
name = "rate"
key = "host.memory.rate"
values = ["1Gbps", "2Gbps"]
[[grid.axis]]
name = "theta"
key = "network.link.rate"
values = ["1Mbps"]
[[grid.axis]]
name = "job"
values = [{ name = "graph", set = [] }, { name = "ring", set = [] }]
[[map]]
title = "Where"
grid = "all"
ratio = "pool over own"
value = "sim_time_ns"
where = { fabric = "mptcp" }
over = { fabric = "tcp" }
x = "rate"
x_label = "memory"
y = "theta"
y_label = "theta"
panels = ["job"]
"#;

    #[test]
    fn a_cell_is_the_ratio_of_its_two_runs() {
        let study = Study::parse("test", STUDY).unwrap();
        let point = |fabric: &str, rate: &str, job: &str, took: f64| Measured {
            grid: "all".into(),
            labels: [("fabric", fabric), ("rate", rate), ("theta", "1Mbps"), ("job", job)]
                .map(|(axis, value)| (axis.to_string(), value.to_string()))
                .into(),
            scenario_hash: String::new(),
            summary: serde_json::json!({ "sim_time_ns": took }),
            seeds: Vec::new(),
        };
        let points = vec![
            point("tcp", "1Gbps", "graph", 10.0),
            point("mptcp", "1Gbps", "graph", 5.0),
            point("tcp", "2Gbps", "graph", 4.0),
            point("mptcp", "2Gbps", "graph", 6.0),
            point("mptcp", "1Gbps", "ring", 7.0),
        ];
        let results = StudyResults { study: "test".into(), points, programs: Vec::new() };
        let map = study.maps[0].drawn(&study, &results, "map".into());
        assert_eq!((map.columns.len(), map.rows.len(), map.side_by_side), (2, 1, 2));
        let panel = |title: &str, cells| RatioPanel { title: title.into(), cells: vec![cells] };
        let graph = panel("graph", vec![Some(0.5), Some(1.5)]);
        assert_eq!(map.panels, [graph, panel("ring", vec![None, None])], "a ratio needs both runs");
    }

    #[test]
    fn a_map_of_an_unknown_axis_is_refused() {
        for (right, wrong, meant) in
            [("x = \"rate\"", "x = \"rte\"", "rate"), ("[\"job\"]", "[\"jobs\"]", "job")]
        {
            let said = Study::parse("test", &STUDY.replace(right, wrong)).unwrap_err().to_string();
            assert!(said.contains("has no axis") && said.contains(&format!("`{meant}`")), "{said}");
        }
    }
}
