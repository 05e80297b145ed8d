//! Slowdown by latency of remote memory, with its interval.

use unrack_record::{CurvePoint, LinesResult};

use crate::chart::{ChartAxis, Drawing, Ink, Picture, Plot, WIDE};
use crate::markup::Markup;
use crate::words::{nanoseconds, ratio};

/// Draws the curve. `None` if fewer than two points are known.
pub(crate) fn line_curve(lines: &LinesResult) -> Option<Picture> {
    let points: Vec<LineCurvePoint> = lines.curve.iter().filter_map(LineCurvePoint::new).collect();
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < 2 {
        return None;
    }
    let description = format!(
        "From {} at {} to {} at {}; the band is the 95 % interval.",
        ratio(first.slowdown),
        nanoseconds(first.latency_ns),
        ratio(last.slowdown),
        nanoseconds(last.latency_ns)
    );
    Some(Picture::new("line-curve", "Slowdown by latency of remote memory", &description, |width| {
        draw(&points, width)
    }))
}

/// Known point of the curve.
struct LineCurvePoint {
    latency_ns: f64,
    slowdown: f64,
    range: [f64; 2],
}

impl LineCurvePoint {
    fn new(point: &CurvePoint) -> Option<LineCurvePoint> {
        let known = point.slowdown.known()?;
        let range = [known.low, known.high?];
        Some(LineCurvePoint { latency_ns: point.latency_ns, slowdown: known.value?, range })
    }
}

fn draw(points: &[LineCurvePoint], width: f64) -> Drawing {
    let height = if width < WIDE { 300.0 } else { 360.0 };
    let most = points.iter().map(|point| point.range[1]).fold(1.0, f64::max);
    let x = ChartAxis::log(
        "latency of remote memory (ns, logarithmic)",
        points[0].latency_ns,
        points[points.len() - 1].latency_ns,
    );
    let mut plot = Plot::filling(
        width,
        height,
        16.0,
        x,
        ChartAxis::linear("slowdown (run time over native)", 1.0, most),
    );
    let mut body = Markup::new();
    plot.frame(&mut body);
    let line =
        |of: fn(&LineCurvePoint) -> f64| points.iter().map(|p| (p.latency_ns, of(p))).collect::<Vec<_>>();
    let ink = Ink { class: "s0", name: "slowdown" };
    plot.band(&mut body, ink, &line(|p| p.range[0]), &line(|p| p.range[1]));
    plot.line(&mut body, ink, &line(|p| p.slowdown), "slowdown by the core model");
    for point in points {
        let text = format!(
            "{} at {} ({} to {})",
            ratio(point.slowdown),
            nanoseconds(point.latency_ns),
            ratio(point.range[0]),
            ratio(point.range[1])
        );
        plot.dot(&mut body, ink, (point.latency_ns, point.slowdown), point.range, &text);
    }
    plot.finish(width, height, body)
}
