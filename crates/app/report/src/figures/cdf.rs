//! Distributions of the completion times of page fetches.

use super::lines::{LineDrawing, Series};
use crate::Cdf;
use crate::chart::{ChartAxis, Picture, style};
use crate::words::{count, nanoseconds, percent};

/// Draws the completion times of page fetches, one line per fabric. `None` if no run stored completion times.
pub(crate) fn completion_cdf(fabrics: &[&str], cdfs: &[(String, Cdf)]) -> Option<Picture> {
    let lo = cdfs.iter().map(|(_, cdf)| cdf.range().0).reduce(f64::min)?;
    let hi = cdfs.iter().map(|(_, cdf)| cdf.range().1).reduce(f64::max)?;
    let series: Vec<_> = cdfs.iter().map(|(name, cdf)| line(fabrics, name, cdf)).collect();
    let lines = LineDrawing {
        x: ChartAxis::log("completion time of a page fetch (µs, logarithmic)", lo, hi),
        y: ChartAxis::linear("share of fetches done (%)", 0.0, 100.0),
        series: &series,
        level: None,
    };
    let description = format!("Cumulative distributions. {}", described(cdfs));
    let draw = |width| lines.draw(width, |us| explained(cdfs, us));
    Some(Picture::new("completion-cdf", "How long page fetches take", &description, draw))
}

fn line(fabrics: &[&str], name: &str, cdf: &Cdf) -> Series {
    let points = cdf.points().iter().map(|(us, share)| (*us, share * 100.0)).collect();
    Series { name: name.into(), class: style::fabric(fabrics, name), points, ranges: Vec::new(), dots: false }
}

fn described(cdfs: &[(String, Cdf)]) -> String {
    let one = |(name, cdf): &(String, Cdf)| {
        let (lo, hi) = cdf.range();
        format!("{name}: {} fetches from {} to {}.", count(cdf.count), us(lo), us(hi))
    };
    cdfs.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn explained(cdfs: &[(String, Cdf)], value: f64) -> String {
    let one = |(name, cdf): &(String, Cdf)| format!("\n{name}: {}", percent(cdf.share_at(value)));
    format!("done within {}{}", us(value), cdfs.iter().map(one).collect::<String>())
}

fn us(value: f64) -> String {
    nanoseconds(value * 1e3)
}
