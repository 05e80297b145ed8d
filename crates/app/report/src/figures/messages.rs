//! Slowdowns of simulated messages: by message size, and as a distribution.

use super::lines::{LineDrawing, Series};
use crate::chart::{ChartAxis, Picture, style, value_at};
use crate::run::SimulatedRun;
use crate::words::{bytes, count, number, percent};
use crate::{Cdf, MessageSlowdowns, SizeSlowdown};

/// Draws median and 99th percentile of the slowdown over the message size, for each run that stored its messages. `None` if no run did.
pub(crate) fn slowdown_by_size(runs: &[(&str, &SimulatedRun)]) -> Option<Picture> {
    let mut series = Vec::new();
    for (index, name, slowdowns) in kept(runs) {
        let of = |percentile: &str| match runs.len() {
            1 => percentile.to_string(),
            _ => format!("{name}, {percentile}"),
        };
        // Each run has one colour. With a single run, each percentile has one.
        let (median, tail) = match runs.len() {
            1 => (style::series(0), style::series(1)),
            _ => (format!("{} thin", style::series(index)), style::series(index)),
        };
        series.push(line(of("median"), median, &slowdowns.sizes, |size| Some(size.p50)));
        series.push(line(of("99th percentile"), tail, &slowdowns.sizes, |size| size.p99));
    }
    series.retain(|series| !series.points.is_empty());
    let (lo, hi) = range(series.iter().flat_map(|series| &series.points).map(|point| point.0))?;
    let (least, most) = range(series.iter().flat_map(|series| &series.points).map(|point| point.1))?;
    let lines = LineDrawing {
        x: ChartAxis::sizes("message size (bytes, logarithmic)", lo, hi),
        y: slowdown_axis("completion over unloaded", least, most),
        series: &series,
        level: None,
    };
    let described: Vec<_> = kept(runs).map(|(_, name, slowdowns)| by_size_text(name, slowdowns)).collect();
    let draw = |width| lines.draw(width, |size| at_size(&series, size));
    Some(Picture::new("slowdown-by-size", "Slowdown by message size", &described.join(" "), draw))
}

/// Draws the cumulative distribution of slowdowns, for each run that stored its messages. `None` if no run did.
pub(crate) fn slowdown_cdf(runs: &[(&str, &SimulatedRun)]) -> Option<Picture> {
    let (_, most) = range(kept(runs).map(|(_, _, slowdowns)| slowdowns.all.range().1))?;
    let (least, _) = range(kept(runs).map(|(_, _, slowdowns)| slowdowns.all.range().0))?;
    let line = |(index, name, slowdowns): (usize, &str, &MessageSlowdowns)| Series {
        name: name.into(),
        class: style::series(index),
        points: slowdowns.all.points().iter().map(|(value, share)| (*value, share * 100.0)).collect(),
        ranges: Vec::new(),
        dots: false,
    };
    let series: Vec<Series> = kept(runs).map(line).collect();
    let lines = LineDrawing {
        x: slowdown_axis("completion over unloaded", least, most),
        y: ChartAxis::linear("share of messages (%)", 0.0, 100.0),
        series: &series,
        level: None,
    };
    let described = |(_, name, slowdowns): (usize, &str, &MessageSlowdowns)| {
        let (lo, hi) = slowdowns.all.range();
        format!("{name}: {} messages from {} to {}.", count(slowdowns.all.count), number(lo), number(hi))
    };
    let description = kept(runs).map(described).collect::<Vec<_>>().join(" ");
    let draw = |width| lines.draw(width, |value| at_slowdown(runs, value));
    Some(Picture::new("slowdown-cdf", "How slowdowns are spread", &description, draw))
}

/// Returns the runs that stored their messages, each with its index among all runs.
fn kept<'a>(
    runs: &'a [(&'a str, &'a SimulatedRun)],
) -> impl Iterator<Item = (usize, &'a str, &'a MessageSlowdowns)> {
    let numbered = runs.iter().enumerate();
    numbered.filter_map(|(index, (name, run))| Some((index, *name, run.messages.as_ref()?)))
}

fn line(
    name: String,
    class: String,
    sizes: &[SizeSlowdown],
    of: impl Fn(&SizeSlowdown) -> Option<f64>,
) -> Series {
    let points = sizes.iter().filter_map(|size| Some((size.bytes, of(size)?))).collect();
    Series { name, class, points, ranges: Vec::new(), dots: true }
}

/// Returns an axis for slowdowns, which is logarithmic if they span more than a decade.
fn slowdown_axis(label: &str, least: f64, most: f64) -> ChartAxis {
    match most > 10.0 * least {
        true => ChartAxis::log(&format!("{label} (logarithmic)"), least.min(1.0), most * 1.05),
        false => ChartAxis::linear(label, least.min(1.0), most),
    }
}

fn by_size_text(name: &str, slowdowns: &MessageSlowdowns) -> String {
    let one = |size: &SizeSlowdown| {
        let tail = size.p99.map_or("too few for a percentile".into(), |p99| format!("p99 {}", number(p99)));
        format!("{} median {}, {tail}", bytes(size.bytes.round() as u64), number(size.p50))
    };
    let ends = [slowdowns.sizes.first(), slowdowns.sizes.last()];
    let ends = &ends[..slowdowns.sizes.len().min(2)];
    format!("{name}: {}.", ends.iter().flatten().map(|size| one(size)).collect::<Vec<_>>().join("; "))
}

fn at_size(series: &[Series], size: f64) -> String {
    let one = |s: &Series| Some(format!("\n{}: {}", s.name, number(value_at(&s.points, size)?)));
    format!("{}{}", bytes(size.round() as u64), series.iter().filter_map(one).collect::<String>())
}

fn at_slowdown(runs: &[(&str, &SimulatedRun)], value: f64) -> String {
    let one = |(_, name, slowdowns): (usize, &str, &MessageSlowdowns)| {
        let all: &Cdf = &slowdowns.all;
        format!("\n{name}: {}", percent(all.share_at(value)))
    };
    format!("at most {}{}", number(value), kept(runs).map(one).collect::<String>())
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.map(|v| (v, v)).reduce(|(lo, hi), (v, _)| (lo.min(v), hi.max(v)))
}
