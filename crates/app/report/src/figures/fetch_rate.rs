//! Rate of page transfers over a captured run.

use super::lines::{LineDrawing, Series};
use crate::FetchRate;
use crate::chart::{ChartAxis, Picture, value_at};
use crate::words::{count, number, seconds};

/// Draws pages fetched and written back per second, over the captured run.
pub(crate) fn fetch_rate(rate: &FetchRate) -> Picture {
    let fetches = rate.per_second(&rate.fetches);
    let write_backs = rate.per_second(&rate.write_backs);
    let peak = fetches.iter().chain(&write_backs).map(|(_, rate)| *rate).fold(0.0, f64::max);
    let end = rate.step_s * rate.fetches.len() as f64;
    let series = [line("fetches", "s0", fetches), line("write-backs", "s1", write_backs)];
    let lines = LineDrawing {
        x: ChartAxis::linear("time since the start of the captured run (s)", 0.0, end),
        y: ChartAxis::linear("pages per second", 0.0, peak),
        series: &series,
        level: None,
    };
    let total = |counts: &[u64]| count(counts.iter().sum());
    let description = format!(
        "{} fetches and {} write-backs over {}; at most {} pages per second in one direction.",
        total(&rate.fetches),
        total(&rate.write_backs),
        seconds(end),
        number(peak)
    );
    let draw = |width| lines.draw(width, |t| explained(&series, t));
    Picture::new("fetch-rate", "When the program moves pages", &description, draw)
}

fn line(name: &str, class: &str, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), class: class.into(), points, ranges: Vec::new(), dots: false }
}

fn explained(series: &[Series], t: f64) -> String {
    let one =
        |s: &Series| format!("\n{}: {} per second", s.name, number(value_at(&s.points, t).unwrap_or(0.0)));
    format!("at {}{}", seconds(t), series.iter().map(one).collect::<String>())
}
