//! Cuts through the map at [`reference`]: slowdown against latency, bandwidth and local share (DDC fig. 3 to 5).

use unrack_record::{MapLocal, SlowdownMap};

use super::lines::{LineDrawing, Series};
use crate::answer::reference;
use crate::chart::{ChartAxis, Picture, style, value_at};
use crate::words::{nanoseconds, percent, rate, ratio, share};

const LEVEL: Option<(f64, &str)> = Some((1.05, "5 % loss"));

/// Draws the cuts that have lines of at least two points.
pub(crate) fn map_lines(map: &SlowdownMap) -> Vec<Picture> {
    let cuts = [against_latency(map), against_bandwidth(map), against_local(map)];
    cuts.into_iter().flatten().collect()
}

fn against_latency(map: &SlowdownMap) -> Option<Picture> {
    let (_, fixed) = reference(map);
    let us = |index: usize| map.latencies_ns[index] / 1e3;
    let series = per_local(map, map.latencies_ns.len(), |latency| (us(latency), (latency, fixed)));
    let title = format!("Slowdown against latency, at {}", rate(map.bandwidths_bps[fixed]));
    let explain = |value: f64| nanoseconds(value * 1e3);
    figure("map-latency", &title, "latency of a fetch (µs, logarithmic)", true, series, explain)
}

fn against_bandwidth(map: &SlowdownMap) -> Option<Picture> {
    let (fixed, _) = reference(map);
    let gbps = |index: usize| map.bandwidths_bps[index] as f64 / 1e9;
    let series = per_local(map, map.bandwidths_bps.len(), |bandwidth| (gbps(bandwidth), (fixed, bandwidth)));
    let title = format!("Slowdown against bandwidth, at {}", nanoseconds(map.latencies_ns[fixed]));
    let explain = |value: f64| rate((value * 1e9) as u64);
    figure("map-bandwidth", &title, "bandwidth (Gb/s, logarithmic)", true, series, explain)
}

fn against_local(map: &SlowdownMap) -> Option<Picture> {
    let (_, fixed) = reference(map);
    let share = |local: &MapLocal| local.local_bytes as f64 / map.footprint_bytes.max(1) as f64 * 100.0;
    let mut locals: Vec<&MapLocal> = stated(map).collect();
    locals.sort_by_key(|local| local.local_bytes);
    let line = |latency: usize| {
        let points = locals.iter().filter_map(|local| Some((share(local), at(local, (latency, fixed))?)));
        line(&nanoseconds(map.latencies_ns[latency]), points)
    };
    let series = numbered(spread(map.latencies_ns.len(), 4).into_iter().map(line));
    let title = format!("Slowdown against local memory, at {}", rate(map.bandwidths_bps[fixed]));
    figure("map-local", &title, "local share of the footprint (%)", false, series, |v| percent(v / 100.0))
}

/// Slowdown of a cell, and its interval if it is known.
type SlowdownCell = (f64, Option<[f64; 2]>);

/// Returns a line for each local share. The points of a line have the indices below `length`; `place` returns the x of an index, and the
/// indices of its cell.
fn per_local(
    map: &SlowdownMap,
    length: usize,
    place: impl Fn(usize) -> (f64, (usize, usize)),
) -> Vec<Series> {
    let of = |local: &MapLocal| {
        let points = (0..length).map(&place).filter_map(|(x, cell)| Some((x, at(local, cell)?)));
        line(&format!("{} local", share(&local.local)), points)
    };
    numbered(stated(map).map(of))
}

/// Returns the local shares that are not withheld.
fn stated(map: &SlowdownMap) -> impl Iterator<Item = &MapLocal> {
    map.locals.iter().filter(|local| local.slowdown.is_some())
}

/// Returns the cell at a latency and a bandwidth.
fn at(local: &MapLocal, (latency, bandwidth): (usize, usize)) -> Option<SlowdownCell> {
    let slowdown = *local.slowdown.as_ref()?.get(latency)?.get(bandwidth)?;
    let interval = || local.slowdown_ci95.as_ref()?.get(latency)?.get(bandwidth).copied();
    Some((slowdown, interval()))
}

/// Returns a line through cells. The line has a band if each of the cells has an interval.
fn line(name: &str, cells: impl Iterator<Item = (f64, SlowdownCell)>) -> Series {
    let cells: Vec<(f64, SlowdownCell)> = cells.collect();
    let ranges: Option<Vec<_>> = cells.iter().map(|(_, (_, interval))| *interval).collect();
    Series {
        name: name.into(),
        class: String::new(),
        points: cells.iter().map(|(x, (slowdown, _))| (*x, *slowdown)).collect(),
        ranges: ranges.unwrap_or_default(),
        dots: true,
    }
}

/// Colours each line by its position.
fn numbered(lines: impl Iterator<Item = Series>) -> Vec<Series> {
    lines.enumerate().map(|(index, series)| Series { class: style::series(index), ..series }).collect()
}

fn figure(
    id: &str,
    title: &str,
    label: &str,
    log: bool,
    series: Vec<Series>,
    explain: impl Fn(f64) -> String,
) -> Option<Picture> {
    let points = || series.iter().flat_map(|s| s.points.iter().copied());
    if series.iter().all(|s| s.points.len() < 2) {
        return None;
    }
    let (lo, hi) = range(points().map(|point| point.0));
    let x = if log { ChartAxis::log(label, lo, hi) } else { ChartAxis::linear(label, lo, hi) };
    let ends = series.iter().flat_map(|s| s.ranges.iter().flatten().copied());
    let (lo, hi) = range(points().map(|point| point.1).chain(ends));
    let y = ChartAxis::linear("slowdown (run time over native)", lo.min(1.0), hi.max(1.06));
    let lines = LineDrawing { x, y, series: &series, level: LEVEL };
    let at = |v: f64| {
        series.iter().filter_map(move |s| Some(format!("\n{}: {}", s.name, ratio(value_at(&s.points, v)?))))
    };
    let draw = |width| lines.draw(width, |value| explain(value) + &at(value).collect::<String>());
    Some(Picture::new(id, title, &described(&series), draw))
}

fn described(series: &[Series]) -> String {
    let one = |s: &Series| {
        let (first, last) = (s.points.first()?, s.points.last()?);
        Some(format!("{}: from {} to {}.", s.name, ratio(first.1), ratio(last.1)))
    };
    series.iter().filter_map(one).collect::<Vec<_>>().join(" ")
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)))
}

/// Returns at most `limit` indices below `length`, at even distances from the first to the last.
fn spread(length: usize, limit: usize) -> Vec<usize> {
    let picked = length.min(limit);
    (0..picked).map(|i| if picked == 1 { 0 } else { i * (length - 1) / (picked - 1) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lines_are_picked_from_many() {
        assert_eq!((spread(9, 4), spread(2, 4), spread(1, 4)), (vec![0, 2, 5, 8], vec![0, 1], vec![0]));
    }
}
