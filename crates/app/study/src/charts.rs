//! Charts of a study: one line for each fabric over an axis of the grid, with the points that the paper published; and maps
//! ([`crate::maps`]).

use crate::file::{Chart, Figure, Published, PublishedRelation, Study};
use crate::programs::pictures;
use crate::run::{Measured, StudyResults};
use std::collections::BTreeMap;
use unrack_report::{ChartSeries, Picture, SeriesAxis, SeriesChart};

/// Returns the charts of a study.
pub fn charts(study: &Study, results: &StudyResults) -> Vec<Picture> {
    let name = study.name.replace('/', "-");
    let one =
        |(n, chart): (usize, &Chart)| drawn(study, results, chart, format!("{name}-{}", n + 1)).figure();
    let maps = study.maps.iter().enumerate();
    let maps = maps.map(|(n, map)| map.drawn(study, results, format!("{name}-map-{}", n + 1)).figure());
    let timelines = study.timelines.iter().enumerate();
    let timelines =
        timelines.map(|(n, of)| of.drawn(study, results, format!("{name}-time-{}", n + 1)).figure());
    let programs = pictures(&name, &study.programs, &results.programs);
    study.charts.iter().enumerate().map(one).chain(maps).chain(timelines).chain(programs).collect()
}

fn drawn(study: &Study, results: &StudyResults, chart: &Chart, id: String) -> SeriesChart {
    let grid = study.grid(&chart.grid).expect("the file was checked");
    let axis = grid.axes.iter().find(|axis| axis.name == chart.x).expect("the file was checked");
    let names: Vec<String> = axis.values.iter().map(|value| value.name().to_string()).collect();
    let numbers: Option<Vec<f64>> = names.iter().map(|name| leading_number(name)).collect();
    let x = |name: &str| {
        let place = names.iter().position(|known| known == name)?;
        Some(numbers.as_ref().map_or(place as f64, |numbers| numbers[place]))
    };
    let of_fabric = |fabric: &String| {
        let has = |point: &&Measured| {
            let labels = &point.labels;
            point.grid == chart.grid
                && labels.get("fabric") == Some(fabric)
                && chart.labels.iter().all(|(axis, value)| labels.get(axis) == Some(value))
        };
        let place = |point: &Measured| Some((x(point.labels.get(&chart.x)?)?, point.value(&chart.value)?));
        let points = results.points.iter().filter(has).filter_map(place).collect();
        let published = study.figures.iter().flat_map(|figure| published(figure, chart, fabric, &names));
        let published = published.filter_map(|(name, value)| Some((x(name)?, value))).collect();
        ChartSeries { published, ..ChartSeries::new(fabric, points) }
    };
    SeriesChart {
        id,
        title: chart.title.clone(),
        x: match &numbers {
            Some(_) => SeriesAxis::Numbers(chart.x_label.clone()),
            None => SeriesAxis::Names(chart.x_label.clone(), names.clone()),
        },
        y_label: chart.y_label.clone(),
        y_log: chart.log,
        series: study.fabrics_of(grid).iter().map(of_fabric).collect(),
        ranges: None,
    }
}

/// Returns the published points of a fabric for a chart, each with its name on the axis (one of `names`) and its value. A
/// limit, an order, a ratio, or a value of several points is not a point.
fn published<'a>(
    figure: &'a Figure,
    chart: &Chart,
    fabric: &str,
    names: &'a [String],
) -> Vec<(&'a String, f64)> {
    let select = &figure.select;
    let is_same = select.grid == chart.grid && select.value == chart.value;
    let is_plain = select.over.is_empty() && !select.sorted;
    if !is_same || !is_plain || figure.computed.is_some() {
        return Vec::new();
    }
    // Convert published values to the unit of the results, which the chart uses.
    let scale = select.scale.unwrap_or(1.0);
    match &figure.published {
        Published::Rows(rows) if select.columns == chart.x && select.labels == chart.labels => {
            let row = rows.get(fabric).filter(|row| row.len() == names.len());
            row.into_iter().flat_map(|row| names.iter().zip(row.iter().map(|value| value / scale))).collect()
        }
        Published::Number(value) if figure.relation == PublishedRelation::Equal => {
            let at = select.labels.get(&chart.x).and_then(|at| names.iter().find(|name| *name == at));
            let is_point = at.is_some_and(|at| select.labels == labels(chart, fabric, at));
            at.filter(|_| is_point).map(|at| (at, value / scale)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the labels of one point of a chart.
fn labels(chart: &Chart, fabric: &str, at: &str) -> BTreeMap<String, String> {
    let point = [("fabric".to_string(), fabric.to_string()), (chart.x.clone(), at.to_string())];
    chart.labels.clone().into_iter().chain(point).collect()
}

/// Returns the number at the beginning of a text: 90 for `90%`, 40 for `40Gbps`, and `None` for `hadoop`.
pub(crate) fn leading_number(text: &str) -> Option<f64> {
    text.trim_end_matches(|c: char| c.is_alphabetic() || c == '%').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the published points of each fabric in the charts of a study.
    fn published_in(name: &str) -> BTreeMap<String, Vec<(f64, f64)>> {
        let study = crate::all().unwrap().into_iter().find(|study| study.name == name).unwrap();
        let results = StudyResults { study: name.into(), points: Vec::new(), programs: Vec::new() };
        let charts = study.charts.iter().map(|chart| drawn(&study, &results, chart, "test".into()));
        let mut found: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for series in charts.flat_map(|chart| chart.series) {
            found.entry(series.name).or_default().extend(series.published);
        }
        found
    }

    #[test]
    fn tables_and_single_values_are_points_and_limits_are_not() {
        let artifact = published_in("edm/fig8-artifact");
        assert_eq!(artifact["edm"][..2], [(0.2, 1.01), (0.4, 1.05)]);
        assert_eq!(artifact["edm"].len(), 10, "five loads of writes, and five of reads");
        let queues = published_in("r2c2/fig10");
        assert_eq!(queues.values().map(Vec::len).sum::<usize>(), 1, "{queues:?}");
        assert!(queues["r2c2"][0].1 > 1_000.0, "in bytes, as the chart: {queues:?}");
        assert!(published_in("edm/fig8a").values().all(Vec::is_empty), "the paper's text has limits alone");
    }
}
