//! Slowdown against injected delays.

use unrack_record::{Comparison, Fit, InjectionPoint};

use crate::chart::{ChartAxis, Drawing, Ink, Key, Picture, Plot, WIDE, legend, text_width};
use crate::markup::{Markup, Px};
use crate::words::{count, nanoseconds, ratio};

const FIT: Ink = Ink { class: "ink", name: "fit" };

/// Draws the measured run times at injected delays, and the fitted line. `None` without a native time, runs or a line.
pub(crate) fn against_latency(c: &Comparison) -> Option<Picture> {
    let native_s = c.native.as_ref()?.median_s;
    if c.injection.points.is_empty() || native_s <= 0.0 {
        return None;
    }
    let (fit, floor_ns) = (c.injection.fit.as_ref()?, c.injection.floor_ns);
    let measured = MeasuredLine { points: &c.injection.points, native_s, fit, floor_ns };
    let description = format!(
        "{} injected delays from {} to {}; the line through them has a slope of {} waits and explains {} % of \
         the variance; its band is the 95 % confidence interval of the slope.",
        c.injection.points.len(),
        nanoseconds(c.injection.points.iter().map(|p| p.delay_ns).fold(f64::INFINITY, f64::min)),
        nanoseconds(measured.longest_ns()),
        count(fit.waits.max(0.0).round() as u64),
        crate::words::short(fit.r2 * 100.0),
    );
    let title = "Slowdown against the time of a fetch";
    Some(Picture::new("slowdown-latency", title, &description, |width| measured.draw(width)))
}

/// Content of the figure: the runs, and the fitted line.
struct MeasuredLine<'a> {
    points: &'a [InjectionPoint],
    native_s: f64,
    fit: &'a Fit,
    floor_ns: Option<f64>,
}

impl MeasuredLine<'_> {
    fn draw(&self, width: f64) -> Drawing {
        let height = if width < WIDE { 320.0 } else { 400.0 };
        let mut body = Markup::new();
        let top = keys(&mut body, width);
        let mut plot = Plot::filling(width, height, top, self.x_axis(), self.y_axis());
        plot.frame(&mut body);
        self.floor(&mut plot, &mut body);
        self.model(&mut plot, &mut body);
        for point in self.points {
            self.dot(point, &mut plot, &mut body);
        }
        plot.finish(width, height, body)
    }

    fn longest_ns(&self) -> f64 {
        self.points.iter().map(|p| p.delay_ns).fold(0.0, f64::max)
    }

    fn x_axis(&self) -> ChartAxis {
        ChartAxis::linear("time of one page fetch (µs)", 0.0, self.longest_ns() / 1e3)
    }

    fn y_axis(&self) -> ChartAxis {
        let measured = self.points.iter().flat_map(|p| p.runs.seconds.iter().map(|s| s / self.native_s));
        let ends = self.fit.waits_ci95.into_iter().flat_map(|waits| {
            let line = self.turned(waits);
            [line.at(0.0).1.max(0.0), line.at(self.longest_ns() / 1e3).1]
        });
        let all: Vec<f64> = measured.chain(ends).filter(|v| v.is_finite()).collect();
        let (lo, hi) = (all.iter().copied().fold(1.0, f64::min), all.iter().copied().fold(1.0, f64::max));
        ChartAxis::linear("slowdown (run time over native)", lo, hi)
    }

    /// Marks the delays below the pager's cost, which cannot be injected.
    fn floor(&self, plot: &mut Plot, m: &mut Markup) {
        let Some(floor) = self.floor_ns.map(|ns| ns / 1e3).filter(|us| plot.x.contains(*us) && *us > 0.0)
        else {
            return;
        };
        let text = format!(
            "Floor {}: shorter delays cannot be injected, the line is extended",
            nanoseconds(floor * 1e3)
        );
        let (x, bottom) = (plot.at_x(floor), plot.bottom);
        plot.level(m, Ink { class: "faint thin", name: "pager's floor" }, floor, &text);
        let name = "pager's floor";
        let beside =
            if x + 5.0 + text_width(name) < plot.right { x + 5.0 } else { x - 5.0 - text_width(name) };
        m.text("text", &[("class", &"note"), ("x", &Px(beside)), ("y", &Px(bottom - 7.0))], name);
    }

    /// Draws the fitted line, and the band between the slopes at the ends of its confidence interval. The line turns about its point at the
    /// mean delay.
    fn model(&self, plot: &mut Plot, m: &mut Markup) {
        let [flat, steep] = self.fit.waits_ci95.map(|waits| self.turned(waits));
        let (pivot, end) = (flat.pivot, self.longest_ns() / 1e3);
        let below = [steep.left_half(), vec![pivot, flat.at(end)]].concat();
        plot.band(m, FIT, &below, &[flat.at(0.0), pivot, steep.at(end)]);
        let line = self.turned(self.fit.waits);
        let text = format!(
            "Run time = {:.3} s + {} waits × time of a fetch",
            self.fit.intercept_s,
            count(self.fit.waits.max(0.0) as u64)
        );
        plot.line(m, FIT, &[line.left_half(), vec![line.at(end)]].concat(), &text);
    }

    fn turned(&self, waits: f64) -> Turned {
        let us = self.points.iter().map(|p| p.delay_ns).sum::<f64>() / self.points.len() as f64 / 1e3;
        let run_s = self.fit.intercept_s + self.fit.waits * us / 1e6;
        Turned { pivot: (us, run_s / self.native_s), slope: waits / 1e6 / self.native_s }
    }

    fn dot(&self, point: &InjectionPoint, plot: &mut Plot, m: &mut Markup) {
        let slowdowns = point.runs.seconds.iter().map(|s| s / self.native_s);
        let range = [slowdowns.clone().fold(f64::INFINITY, f64::min), slowdowns.fold(0.0, f64::max)];
        let median = point.runs.median_s / self.native_s;
        let text = format!(
            "Measured with {} per fetch: {} (median of {} runs, {} to {})",
            nanoseconds(point.delay_ns),
            ratio(median),
            point.runs.seconds.len(),
            ratio(range[0]),
            ratio(range[1])
        );
        let range = if range[0].is_finite() { range } else { [median; 2] };
        plot.dot(m, Ink { class: "ink", name: "measured" }, (point.delay_ns / 1e3, median), range, &text);
    }
}

fn keys(m: &mut Markup, width: f64) -> f64 {
    let entries = [(Key::Dot, "ink", "measured: median, least and most"), (Key::Line, "ink", "fit, 95 %")];
    legend(m, 40.0, width - 56.0, &entries)
}

/// A line through a pivot, which gives the slowdown over a delay in microseconds.
struct Turned {
    pivot: (f64, f64),
    slope: f64,
}

impl Turned {
    fn at(&self, us: f64) -> (f64, f64) {
        (us, self.pivot.1 + self.slope * (us - self.pivot.0))
    }

    /// Returns the start of the line, at 0 us. Where the line would be negative, it follows the axis instead.
    fn left_half(&self) -> Vec<(f64, f64)> {
        match self.at(0.0) {
            (_, start) if start < 0.0 => vec![(0.0, 0.0), (self.pivot.0 - self.pivot.1 / self.slope, 0.0)],
            start => vec![start],
        }
    }
}
