//! Charts of a sweep: slowdown over one of its keys, with a line for each combination of the other keys.

use super::series::{ChartSeries, SeriesAxis, SeriesChart};
use crate::chart::Picture;
use unrack_record::{Figures, Sweep, SweepPoint};

/// Function that returns one figure of a point, if the point has it.
type Of = fn(&Figures) -> Option<f64>;

/// Draws mean and 99th percentile of the slowdown. With several seeds, each line is the mean over the seeds in a band from the minimum to
/// the maximum. Returns an empty list if only the seeds differ, or if no message counted.
pub fn sweep_figures(sweep: &Sweep) -> Vec<Picture> {
    let Some(x) = across(sweep) else { return Vec::new() };
    let mean = figure(sweep, x, ("mean", "mean slowdown"), |figures| figures.slowdown_mean);
    let p99 = ("p99", "99th percentile of the slowdown");
    let p99 = figure(sweep, x, p99, |figures| figures.slowdown_p99);
    mean.into_iter().chain(p99).collect()
}

fn figure(sweep: &Sweep, x: usize, (id, label): (&str, &str), of: Of) -> Option<Picture> {
    let series = series(sweep, x, of);
    let (names, key) = (names(sweep, x), sweep.keys[x].clone());
    let numeric = names.iter().all(|name| name.parse::<f64>().is_ok());
    let (id, title) = (format!("sweep-{id}"), format!("{label} over {key}"));
    let x = if numeric { SeriesAxis::Numbers(key) } else { SeriesAxis::Names(key, names) };
    let y_label = format!("{label} (over unloaded)");
    let has_seeds = series.iter().any(|series| !series.ranges.is_empty());
    let ranges = has_seeds.then(|| format!("{} seeds, least and most", seeds(sweep)));
    (!series.is_empty()).then(|| SeriesChart { id, title, x, y_label, y_log: true, series, ranges }.figure())
}

/// Returns the number of seeds of a sweep.
fn seeds(sweep: &Sweep) -> usize {
    let seed = sweep.keys.iter().position(|key| key == SEED);
    seed.map_or(1, |key| names(sweep, key).len())
}

const SEED: &str = "seed";

/// Returns the index of the key for the x axis: the first key whose values are all numbers; if there is none, the first key. The seed is
/// not used.
fn across(sweep: &Sweep) -> Option<usize> {
    let keys = || (0..sweep.keys.len()).filter(|n| sweep.keys[*n] != SEED);
    let is_number = |n: &usize| sweep.points.iter().all(|point| point.values[*n].parse::<f64>().is_ok());
    keys().find(is_number).or_else(|| keys().next())
}

/// Returns the values of a key, in the order of the grid.
fn names(sweep: &Sweep, key: usize) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for point in &sweep.points {
        if !names.contains(&point.values[key]) {
            names.push(point.values[key].clone());
        }
    }
    names
}

/// Returns a line for each combination of values of the other keys. The combination is the name of the line.
fn series(sweep: &Sweep, x: usize, of: Of) -> Vec<ChartSeries> {
    let places = names(sweep, x);
    let numeric = places.iter().all(|name| name.parse::<f64>().is_ok());
    let mut lines: Vec<Line> = Vec::new();
    for point in &sweep.points {
        let Some(y) = of(&point.figures) else { continue };
        let place = places.iter().position(|name| *name == point.values[x]).expect("it is one of them");
        let at = if numeric { places[place].parse().expect("checked above") } else { place as f64 };
        let name = name(sweep, x, point);
        let n = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
            lines.push(Line { name, points: Vec::new() });
            lines.len() - 1
        });
        lines[n].add(at, y);
    }
    lines.into_iter().map(Line::series).collect()
}

struct Line {
    name: String,
    /// Points: x, and the y of each seed.
    points: Vec<(f64, Vec<f64>)>,
}

impl Line {
    fn add(&mut self, x: f64, y: f64) {
        match self.points.iter_mut().find(|point| point.0 == x) {
            Some((_, seeds)) => seeds.push(y),
            None => self.points.push((x, vec![y])),
        }
    }

    /// Returns the means over the seeds. If there are several seeds, it also returns the minimum and the maximum.
    fn series(self) -> ChartSeries {
        let mean = |seeds: &[f64]| seeds.iter().sum::<f64>() / seeds.len() as f64;
        let ends = |seeds: &[f64]| {
            seeds.iter().fold([f64::INFINITY, 0.0], |[lo, hi]: [f64; 2], y| [lo.min(*y), hi.max(*y)])
        };
        let is_repeated = self.points.iter().any(|(_, seeds)| seeds.len() > 1);
        let ranges = self.points.iter().filter(|_| is_repeated).map(|(_, seeds)| ends(seeds)).collect();
        let points = self.points.iter().map(|(x, seeds)| (*x, mean(seeds))).collect();
        ChartSeries { ranges, ..ChartSeries::new(self.name, points) }
    }
}

fn name(sweep: &Sweep, x: usize, point: &SweepPoint) -> String {
    let others = (0..sweep.keys.len()).filter(|n| *n != x && sweep.keys[*n] != SEED);
    let names: Vec<&str> = others.map(|n| point.values[n].as_str()).collect();
    if names.is_empty() { point.figures.fabric.clone() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(values: [&str; 3], slowdown: f64) -> SweepPoint {
        let figures = Figures {
            fabric: values[0].into(),
            seed: 1,
            nodes: 2,
            messages: 1,
            completed: 1,
            dropped_packets: 0,
            trimmed_packets: 0,
            slowdown_mean: Some(slowdown),
            slowdown_p50: None,
            slowdown_p99: None,
            slowdown_p999: None,
            slowdown_max: None,
            completion_mean_ns: None,
            completion_p99_ns: None,
            throughput_gbps: 0.0,
            queue_mean_bytes: 0.0,
            queue_p99_bytes: 0,
            queue_max_bytes: 0,
            sim_time_ns: 0.0,
            events: 0,
            packet_hops: 0,
        };
        SweepPoint {
            values: values.map(String::from).to_vec(),
            scenario_hash: String::new(),
            figures,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_line_is_a_fabric_and_a_point_the_mean_of_its_seeds() {
        let sweep = Sweep {
            version: String::new(),
            keys: ["fabric.protocol", "workload.load", "seed"].map(String::from).to_vec(),
            points: vec![
                point(["edm", "0.2", "1"], 1.0),
                point(["edm", "0.2", "2"], 2.0),
                point(["edm", "0.4", "1"], 3.0),
                point(["cxl", "0.2", "1"], 4.0),
            ],
        };
        let x = across(&sweep).unwrap();
        assert_eq!(sweep.keys[x], "workload.load");
        let lines = series(&sweep, x, |figures| figures.slowdown_mean);
        let edm = ChartSeries {
            ranges: vec![[1.0, 2.0], [3.0, 3.0]],
            ..ChartSeries::new("edm", vec![(0.2, 1.5), (0.4, 3.0)])
        };
        assert_eq!(lines, [edm, ChartSeries::new("cxl", vec![(0.2, 4.0)])]);
        // If there are no values of the 99th percentile, there is only one chart.
        let figures = sweep_figures(&sweep);
        assert_eq!(figures.len(), 1);
        let svg = figures[0].to_svg();
        assert_eq!(svg.matches("class=\"mark band").count(), 1, "cxl has one seed: {svg}");
        assert!(svg.contains("2 seeds, least and most"), "{svg}");
    }
}
